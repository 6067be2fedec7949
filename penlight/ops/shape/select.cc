#include "penlight/runtime/base/dims.h"
#include "penlight/runtime/exec/kernel.h"

namespace pen {

PEN_SHAPE(select) {
  const Tensor& x = s.in(0);
  int64_t dim = from_end(s.integer("dim"), x.rank), index = s.integer("index");
  if (dim < 0 || dim >= x.rank) return s.fail(0, "a rank above `dim`", "rank %d", x.rank);
  int64_t size = x.dims[dim];
  if (index < -size || index >= size)
    return s.fail(0, "an index inside the dim", "%lld for size %lld", static_cast<long long>(index), static_cast<long long>(size));
  Shape shape;
  for (int d = 0; d < x.rank; ++d) {
    if (d != dim) shape.dims[shape.rank++] = x.dims[d];
  }
  return s.output(0, x.dtype, shape);
}

PEN_BIND(select) {
  const Tensor& x = b.in(0);
  int64_t dim = from_end(b.integer("dim"), x.rank), index = from_end(b.integer("index"), x.dims[dim]);
  int64_t strides[kMaxRank] = {};
  int rank = 0;
  bool empty = false;  // then there is nothing to point at
  for (int d = 0; d < x.rank; ++d) {
    empty |= x.dims[d] == 0;
    if (d != dim) strides[rank++] = x.strides[d];
  }
  return b.view(0, 0, strides, empty ? 0 : index * x.strides[dim]);
}

PEN_KERNEL_ANY(select, view) { (void)r; }  // never called: the output is a view

}  // namespace pen
