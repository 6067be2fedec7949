#include "penlight/runtime/exec/kernel.h"

namespace pen {

PEN_BIND(expand) {
  const Tensor& x = b.in(0);
  IntList dims = b.ints("shape");
  if (dims.count > kMaxRank || dims.count < x.rank)
    return b.fail(0, "at most the new shape's rank", "rank %d for rank %d", x.rank, dims.count);
  Shape shape;
  int64_t strides[kMaxRank] = {};
  shape.rank = dims.count;
  for (int d = 0; d < dims.count; ++d) {
    int own = d - (dims.count - x.rank);
    shape.dims[d] = dims[d];
    if (own < 0 || (x.dims[own] == 1 && dims[d] != 1)) continue;  // repeated: stride 0
    strides[d] = x.strides[own];
    if (dims[d] != x.dims[own]) {
      return b.fail(0, "size 1 in a dim that grows", "%lld in dim %d, for %lld", static_cast<long long>(x.dims[own]), own,
                    static_cast<long long>(dims[d]));
    }
  }
  return b.view(0, 0, shape, strides, 0);
}

PEN_KERNEL_ANY(expand, view) { (void)r; }  // never called: the output is a view

}  // namespace pen
