#include "penlight/runtime/base/dims.h"
#include "penlight/runtime/exec/kernel.h"

namespace pen {

PEN_SHAPE(expand) {
  const Tensor& x = s.in(0);
  IntList dims = s.ints("shape");
  if (dims.count > kMaxRank || dims.count < x.rank)
    return s.fail(0, "at most the new shape's rank", "rank %d for rank %d", x.rank, dims.count);
  Shape shape;
  shape.rank = dims.count;
  for (int d = 0; d < dims.count; ++d) {
    int own = d - (dims.count - x.rank);
    shape.dims[d] = dims[d];
    if (own >= 0 && x.dims[own] != 1 && dims[d] != x.dims[own]) {
      return s.fail(0, "size 1 in a dim that grows", "%lld in dim %d, for %lld", static_cast<long long>(x.dims[own]), own,
                    static_cast<long long>(dims[d]));
    }
  }
  return s.output(0, x.dtype, shape);
}

PEN_BIND(expand) {
  const Tensor& x = b.in(0);
  Shape shape = shape_of(b.out(0));
  int64_t strides[kMaxRank] = {};
  for (int d = 0; d < shape.rank; ++d) strides[d] = broadcast_stride(shape, d, x, x.rank);
  return b.view(0, 0, strides, 0);
}

PEN_KERNEL_ANY(expand, view) { (void)r; }  // never called: the output is a view

}  // namespace pen
