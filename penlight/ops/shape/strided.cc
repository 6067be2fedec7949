// as_strided, diagonal, unfold: the same memory with other strides.
#include "penlight/runtime/exec/kernel.h"

namespace pen {

PEN_BIND(as_strided) {
  PEN_TRY(b.need(0, Need::dense));
  IntList size = b.ints("size"), stride = b.ints("stride");
  if (size.count > kMaxRank || size.count != stride.count)
    return b.fail(-1, "as many strides as sizes, 8 at most", "%d and %d", stride.count, size.count);
  Shape shape;
  shape.rank = size.count;
  int64_t strides[kMaxRank] = {};
  for (int d = 0; d < size.count; ++d) {
    shape.dims[d] = size[d];
    strides[d] = stride[d];
  }
  return b.view(0, 0, shape, strides, b.integer("offset"));
}

PEN_BIND(diagonal) {
  const Tensor& x = b.in(0);
  int64_t shift = b.integer("offset"), row = b.integer("dim1"), column = b.integer("dim2");
  if (row < 0 || column < 0 || row >= x.rank || column >= x.rank || row == column)
    return b.fail(0, "two dims that it has", "dims %lld and %lld of rank %d", static_cast<long long>(row), static_cast<long long>(column),
                  x.rank);
  Shape shape;
  int64_t strides[kMaxRank] = {}, rows = x.dims[row], columns = x.dims[column];
  bool empty = false;
  for (int d = 0; d < x.rank; ++d) {
    empty |= x.dims[d] == 0;
    if (d == row || d == column) continue;
    shape.dims[shape.rank] = x.dims[d];
    strides[shape.rank++] = x.strides[d];
  }
  int64_t offset = 0;
  if (shift >= columns || shift <= -rows) {
    rows = 0;
  } else if (shift >= 0) {
    columns -= shift;
    offset = shift * x.strides[column];
  } else {
    rows += shift;
    offset = -shift * x.strides[row];
  }
  shape.dims[shape.rank] = rows < columns ? rows : columns;
  strides[shape.rank] = x.strides[row] + x.strides[column];
  empty |= shape.dims[shape.rank++] == 0;
  return b.view(0, 0, shape, strides, empty ? 0 : offset);
}

PEN_BIND(unfold) {
  const Tensor& x = b.in(0);
  int64_t dim = b.integer("dim"), size = b.integer("size"), step = b.integer("step");
  if (dim < 0 || dim >= x.rank || x.rank == kMaxRank) return b.fail(0, "a rank above `dim`, 7 at most", "rank %d", x.rank);
  if (size < 0 || step < 1 || size > x.dims[dim])
    return b.fail(0, "a dim as long as a window, and a step of 1 or more", "%lld, windows of %lld, step %lld",
                  static_cast<long long>(x.dims[dim]), static_cast<long long>(size), static_cast<long long>(step));
  Shape shape;
  int64_t strides[kMaxRank] = {};
  shape.rank = x.rank + 1;
  for (int d = 0; d < x.rank; ++d) {
    shape.dims[d] = d == dim ? (x.dims[d] - size) / step + 1 : x.dims[d];
    strides[d] = x.strides[d];
  }
  if (shape.dims[dim] > 1) strides[dim] *= step;  // the product stays within the tensor
  shape.dims[x.rank] = size;
  strides[x.rank] = x.strides[dim];
  return b.view(0, 0, shape, strides, 0);
}

// never called: the outputs are views
PEN_KERNEL_ANY(as_strided, view) { (void)r; }
PEN_KERNEL_ANY(diagonal, view) { (void)r; }
PEN_KERNEL_ANY(unfold, view) { (void)r; }

}  // namespace pen
