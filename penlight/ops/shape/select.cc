#include "penlight/runtime/exec/kernel.h"

namespace pen {

PEN_BIND(select) {
  const Tensor& x = b.in(0);
  int64_t dim = b.integer("dim"), index = b.integer("index");
  if (dim < 0) dim += x.rank;
  if (dim < 0 || dim >= x.rank) return b.fail(0, "a rank above `dim`", "rank %d", x.rank);
  int64_t size = x.dims[dim];
  if (index < -size || index >= size)
    return b.fail(0, "an index inside the dim", "%lld for size %lld", static_cast<long long>(index), static_cast<long long>(size));
  if (index < 0) index += size;
  Shape shape;
  int64_t strides[kMaxRank] = {};
  bool empty = false;  // then there is nothing to point at
  for (int d = 0; d < x.rank; ++d) {
    empty |= x.dims[d] == 0;
    if (d == dim) continue;
    shape.dims[shape.rank] = x.dims[d];
    strides[shape.rank++] = x.strides[d];
  }
  return b.view(0, 0, shape, strides, empty ? 0 : index * x.strides[dim]);
}

PEN_KERNEL_ANY(select, view) { (void)r; }  // never called: the output is a view

}  // namespace pen
