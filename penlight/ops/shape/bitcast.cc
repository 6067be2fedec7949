// bitcast: the same bytes, row-major, as elements of another dtype.
#include "penlight/ops/shape/elements.h"

namespace pen {

struct BitcastParams {
  int64_t bytes, tasks;
};

PEN_SHAPE(bitcast) {
  const Tensor& x = s.in(0);
  DType dtype;
  if (!parse_dtype(s.text("to"), &dtype)) return s.fail(-1, "a dtype", "%s", s.text("to"));
  int64_t from = dtype_size(x.dtype), to = dtype_size(dtype);
  Shape shape = shape_of(x);
  if (from != to) {
    int64_t bytes;
    if (x.rank == 0 || __builtin_mul_overflow(x.dims[x.rank - 1], from, &bytes) || bytes % to != 0)
      return s.fail(0, "a last dim that divides into elements of the new size", "another");
    shape.dims[x.rank - 1] = bytes / to;
  }
  return s.output(0, dtype, shape);
}

PEN_BIND(bitcast) {
  PEN_TRY(b.need(0, Need::dense));
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  BitcastParams* p = b.params<BitcastParams>();
  p->bytes = b.out(0).numel() * dtype_size(b.out(0).dtype);
  p->tasks = p->bytes == 0 ? 0 : task_count(p->bytes, 1 << 16);
  b.tasks(p->tasks);
  return PEN_OK;
}

PEN_KERNEL_ANY(bitcast, any) {
  const BitcastParams& p = r.as<BitcastParams>();
  int64_t begin = part(p.bytes, p.tasks, r.begin).begin, end = part(p.bytes, p.tasks, r.end - 1).end;
  memcpy(r.out[0].data + begin, r.in[0].data + begin, static_cast<size_t>(end - begin));
}

}  // namespace pen
