// as_strided, diagonal, unfold: the same memory with other strides.
#include "penlight/runtime/exec/kernel.h"

namespace pen {

PEN_SHAPE(as_strided) {
  IntList size = s.ints("size"), stride = s.ints("stride");
  if (size.count > kMaxRank || size.count != stride.count)
    return s.fail(-1, "as many strides as sizes, 8 at most", "%d and %d", stride.count, size.count);
  Shape shape;
  shape.rank = size.count;
  for (int d = 0; d < size.count; ++d) shape.dims[d] = size[d];
  return s.output(0, s.in(0).dtype, shape);
}

PEN_BIND(as_strided) {
  PEN_TRY(b.need(0, Need::dense));
  return b.view(0, 0, b.ints("stride").data, b.integer("offset"));
}

PEN_SHAPE(diagonal) {
  const Tensor& x = s.in(0);
  int64_t shift = s.integer("offset"), row = s.integer("dim1"), column = s.integer("dim2");
  if (row < 0 || column < 0 || row >= x.rank || column >= x.rank || row == column)
    return s.fail(0, "two dims that it has", "dims %lld and %lld of rank %d", static_cast<long long>(row), static_cast<long long>(column),
                  x.rank);
  Shape shape;
  int64_t rows = x.dims[row], columns = x.dims[column];
  for (int d = 0; d < x.rank; ++d) {
    if (d != row && d != column) shape.dims[shape.rank++] = x.dims[d];
  }
  if (shift >= columns || shift <= -rows) {
    rows = 0;
  } else if (shift >= 0) {
    columns -= shift;
  } else {
    rows += shift;
  }
  shape.dims[shape.rank++] = rows < columns ? rows : columns;
  return s.output(0, x.dtype, shape);
}

PEN_BIND(diagonal) {
  const Tensor& x = b.in(0);
  int64_t shift = b.integer("offset"), row = b.integer("dim1"), column = b.integer("dim2"), strides[kMaxRank] = {};
  int rank = 0;
  for (int d = 0; d < x.rank; ++d) {
    if (d != row && d != column) strides[rank++] = x.strides[d];
  }
  strides[rank] = x.strides[row] + x.strides[column];
  bool empty = false;
  for (int d = 0; d <= rank; ++d) empty |= b.out(0).dims[d] == 0;
  return b.view(0, 0, strides, empty ? 0 : shift >= 0 ? shift * x.strides[column] : -shift * x.strides[row]);
}

PEN_SHAPE(unfold) {
  const Tensor& x = s.in(0);
  int64_t dim = s.integer("dim"), size = s.integer("size"), step = s.integer("step");
  if (dim < 0 || dim >= x.rank || x.rank == kMaxRank) return s.fail(0, "a rank above `dim`, 7 at most", "rank %d", x.rank);
  if (size < 0 || step < 1 || size > x.dims[dim])
    return s.fail(0, "a dim as long as a window, and a step of 1 or more", "%lld, windows of %lld, step %lld",
                  static_cast<long long>(x.dims[dim]), static_cast<long long>(size), static_cast<long long>(step));
  Shape shape = shape_of(x);
  shape.dims[dim] = (x.dims[dim] - size) / step + 1;
  shape.dims[shape.rank++] = size;
  return s.output(0, x.dtype, shape);
}

PEN_BIND(unfold) {
  const Tensor& x = b.in(0);
  int64_t dim = b.integer("dim"), strides[kMaxRank] = {};
  for (int d = 0; d < x.rank; ++d) strides[d] = x.strides[d];
  if (b.out(0).dims[dim] > 1) strides[dim] *= b.integer("step");  // the product stays within the tensor
  strides[x.rank] = x.strides[dim];
  return b.view(0, 0, strides, 0);
}

// never called: the outputs are views
PEN_KERNEL_ANY(as_strided, view) { (void)r; }
PEN_KERNEL_ANY(diagonal, view) { (void)r; }
PEN_KERNEL_ANY(unfold, view) { (void)r; }

}  // namespace pen
