#include "penlight/runtime/base/dims.h"
#include "penlight/runtime/exec/kernel.h"

namespace pen {

// Python's rule for a slice's bounds: negative ones count from the end, all are moved into [0, size].
static int64_t slice_bound(int64_t at, int64_t size) {
  if (at < 0) at = at < -size ? 0 : at + size;
  return at > size ? size : at;
}

PEN_SHAPE(slice) {
  const Tensor& x = s.in(0);
  int64_t dim = from_end(s.integer("dim"), x.rank), step = s.integer("step");
  if (dim < 0 || dim >= x.rank) return s.fail(0, "a rank above `dim`", "rank %d", x.rank);
  if (step < 1) return s.fail(-1, "a step of 1 or more", "%lld", static_cast<long long>(step));
  int64_t start = slice_bound(s.integer("start"), x.dims[dim]), end = slice_bound(s.integer("end"), x.dims[dim]);
  int64_t span = end > start ? end - start : 0;
  Shape shape = shape_of(x);
  shape.dims[dim] = span / step + (span % step != 0);
  return s.output(0, x.dtype, shape);
}

PEN_BIND(slice) {
  const Tensor& x = b.in(0);
  int64_t dim = from_end(b.integer("dim"), x.rank), size = b.out(0).dims[dim], strides[kMaxRank] = {};
  for (int d = 0; d < x.rank; ++d) strides[d] = x.strides[d];
  if (size > 1) strides[dim] *= b.integer("step");  // the product stays within the tensor
  return b.view(0, 0, strides, size > 0 ? slice_bound(b.integer("start"), x.dims[dim]) * x.strides[dim] : 0);
}

PEN_KERNEL_ANY(slice, view) { (void)r; }  // never called: the output is a view

}  // namespace pen
