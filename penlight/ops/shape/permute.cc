#include "penlight/runtime/exec/kernel.h"

namespace pen {

PEN_SHAPE(permute) {
  const Tensor& x = s.in(0);
  IntList dims = s.ints("dims");
  bool seen[kMaxRank] = {}, wrong = dims.count != x.rank;
  Shape shape;
  shape.rank = x.rank;
  for (int d = 0; d < x.rank && !wrong; ++d) {
    int64_t from = dims[d] < 0 ? dims[d] + x.rank : dims[d];
    wrong = from < 0 || from >= x.rank || seen[from];
    if (wrong) break;
    seen[from] = true;
    shape.dims[d] = x.dims[from];
  }
  if (wrong) return s.fail(0, "each of its dims once in `dims`", "rank %d", x.rank);
  return s.output(0, x.dtype, shape);
}

PEN_BIND(permute) {
  const Tensor& x = b.in(0);
  IntList dims = b.ints("dims");
  int64_t strides[kMaxRank] = {};
  for (int d = 0; d < x.rank; ++d) strides[d] = x.strides[dims[d] < 0 ? dims[d] + x.rank : dims[d]];
  return b.view(0, 0, strides, 0);
}

PEN_KERNEL_ANY(permute, view) { (void)r; }  // never called: the output is a view

}  // namespace pen
