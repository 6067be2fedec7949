// Tensors made of nothing but numbers, for sizes that are known only at run time.
#include "penlight/ops/shape/elements.h"
#include "penlight/ops/shape/runs.h"

namespace pen {

struct FullParams {
  uint64_t bits;  // one element
  int64_t elements, tasks;
};

PEN_SHAPE(full) {
  IntList dims = s.ints("shape");
  DType dtype;
  if (dims.count > kMaxRank) return s.fail(-1, "a shape of rank 8 or less", "rank %d", dims.count);
  if (!parse_dtype(s.text("dtype"), &dtype) || !size_fits(s.key(), dtype))
    return s.fail(-1, "a dtype of the kernel's size", "%s", s.text("dtype"));
  Shape shape;
  shape.rank = dims.count;
  for (int d = 0; d < dims.count; ++d) shape.dims[d] = dims[d];
  return s.output(0, dtype, shape);
}

PEN_BIND(full) {
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  FullParams* p = b.params<FullParams>();
  p->bits = element_bits(b.number("value"), b.out(0).dtype);
  p->elements = b.out(0).numel();
  p->tasks = p->elements == 0 ? 0 : task_count(p->elements, 65536);
  b.tasks(p->tasks);
  return PEN_OK;
}

template <class T>
static PEN_INLINE void fill(const Run& r) {
  const FullParams& p = r.as<FullParams>();
  T* out = r.out[0].as<T>();
  int64_t begin = part(p.elements, p.tasks, r.begin).begin, end = part(p.elements, p.tasks, r.end - 1).end;
  fill_row(out + begin, static_cast<T>(p.bits), end - begin);
}

PEN_KERNEL_ANY(full, b8) { fill<uint8_t>(r); }
PEN_KERNEL_ANY(full, b16) { fill<uint16_t>(r); }
PEN_KERNEL_ANY(full, b32) { fill<uint32_t>(r); }
PEN_KERNEL_ANY(full, b64) { fill<uint64_t>(r); }

struct ArangeParams {
  int64_t start, step, elements;
};

PEN_SHAPE(arange) {
  int64_t start = s.integer("start"), end = s.integer("end"), step = s.integer("step"), span;
  DType dtype;
  const char* part = s.key();
  while (*part && *part != '.') ++part;
  if (!parse_dtype(s.text("dtype"), &dtype) || !*part || strcmp(part + 1, s.text("dtype")) != 0)
    return s.fail(-1, "the kernel's dtype", "%s", s.text("dtype"));
  if (step == 0 || step == INT64_MIN) return s.fail(-1, "a step other than 0", "%lld", static_cast<long long>(step));
  if (__builtin_sub_overflow(end, start, &span)) return s.fail(-1, "bounds that 64 bits hold", "more");
  if (step < 0) {
    span = span == INT64_MIN ? INT64_MAX : -span;
    step = -step;
  }
  Shape shape;
  shape.rank = 1;
  shape.dims[0] = span <= 0 ? 0 : span / step + (span % step != 0);
  return s.output(0, dtype, shape);
}

PEN_BIND(arange) {
  PEN_TRY(b.output(0));
  ArangeParams* p = b.params<ArangeParams>();
  p->start = b.integer("start");
  p->step = b.integer("step");
  p->elements = b.out(0).dims[0];
  b.tasks(p->elements > 0);
  return PEN_OK;
}

template <class T>
static PEN_INLINE void count_up(const Run& r) {
  const ArangeParams& p = r.as<ArangeParams>();
  T* out = r.out[0].as<T>();
  for (int64_t i = 0; i < p.elements; ++i) out[i] = static_cast<T>(p.start + i * p.step);
}

PEN_KERNEL_ANY(arange, f32) { count_up<float>(r); }
PEN_KERNEL_ANY(arange, i32) { count_up<int32_t>(r); }
PEN_KERNEL_ANY(arange, i64) { count_up<int64_t>(r); }

}  // namespace pen
