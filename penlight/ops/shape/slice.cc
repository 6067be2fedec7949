#include "penlight/runtime/exec/kernel.h"

namespace pen {

// Python's rule for a slice's bounds: negative ones count from the end, all are moved into [0, size].
static int64_t slice_bound(int64_t at, int64_t size) {
  if (at < 0) at = at < -size ? 0 : at + size;
  return at > size ? size : at;
}

PEN_BIND(slice) {
  const Tensor& x = b.in(0);
  int64_t dim = b.integer("dim"), step = b.integer("step");
  if (dim < 0) dim += x.rank;
  if (dim < 0 || dim >= x.rank) return b.fail(0, "a rank above `dim`", "rank %d", x.rank);
  if (step < 1) return b.fail(-1, "a step of 1 or more", "%lld", static_cast<long long>(step));
  int64_t start = slice_bound(b.integer("start"), x.dims[dim]), end = slice_bound(b.integer("end"), x.dims[dim]);
  Shape shape;
  int64_t strides[kMaxRank] = {};
  shape.rank = x.rank;
  for (int d = 0; d < x.rank; ++d) {
    shape.dims[d] = x.dims[d];
    strides[d] = x.strides[d];
  }
  int64_t span = end > start ? end - start : 0, offset = 0;
  shape.dims[dim] = span / step + (span % step != 0);
  if (shape.dims[dim] > 1) strides[dim] *= step;  // the product stays within the tensor
  if (shape.dims[dim] > 0) offset = start * x.strides[dim];
  return b.view(0, 0, shape, strides, offset);
}

PEN_KERNEL_ANY(slice, view) { (void)r; }  // never called: the output is a view

}  // namespace pen
