// max_unpool: a task is some planes, each zeroed and then filled in the order of its values. Indices are checked.
#include "penlight/runtime/exec/kernel.h"

namespace pen {

struct UnpoolParams {
  int64_t planes, count, size, tasks;
};

PEN_SHAPE(max_unpool) {
  const Tensor &x = s.in(0), &indices = s.in(1);
  if (x.rank != 2) return s.fail(0, "planes as rows", "rank %d", x.rank);
  if (indices.dtype != DType::i64) return s.fail(1, "an i64 tensor", "dtype code %d", static_cast<int>(indices.dtype));
  if (indices.rank != 2 || indices.dims[0] != x.dims[0] || indices.dims[1] != x.dims[1])
    return s.fail(1, "an index for each value", "another shape");
  Shape out = shape_of(x);
  out.dims[1] = s.integer("size");
  return s.output(0, x.dtype, out);
}

PEN_BIND(max_unpool) {
  PEN_TRY(b.need(0, Need::dense));
  PEN_TRY(b.need(1, Need::dense));
  PEN_TRY(b.output(0));
  UnpoolParams* p = b.params<UnpoolParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->planes = b.in(0).dims[0];
  p->count = b.in(0).dims[1];
  p->size = b.out(0).dims[1];
  p->tasks = task_count(p->planes, 32768 / (p->size + p->count + 1) + 1);
  if (p->planes > 0) b.tasks(p->tasks);
  return PEN_OK;
}

template <class T>
static void unpool(const Run& r) {
  const UnpoolParams& p = r.as<UnpoolParams>();
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.planes, p.tasks, task);
    for (int64_t plane = range.begin; plane < range.end; ++plane) {
      const T* x = r.in[0].as<T>() + plane * p.count;
      const int64_t* indices = r.in[1].as<int64_t>() + plane * p.count;
      T* y = r.out[0].as<T>() + plane * p.size;
      memset(y, 0, static_cast<size_t>(p.size) * sizeof(T));
      for (int64_t i = 0; i < p.count; ++i) {
        if (indices[i] < 0 || indices[i] >= p.size) {
          r.fail_index(1, indices[i], 0, p.size);
          continue;
        }
        y[indices[i]] = x[i];
      }
    }
  }
}

PEN_KERNEL_ANY(max_unpool, b8) { unpool<uint8_t>(r); }
PEN_KERNEL_ANY(max_unpool, b16) { unpool<uint16_t>(r); }
PEN_KERNEL_ANY(max_unpool, b32) { unpool<uint32_t>(r); }
PEN_KERNEL_ANY(max_unpool, b64) { unpool<uint64_t>(r); }

}  // namespace pen
