// Views by strides: dims repeated, diagonals, windows, any strides.
#include "penlight/ops/shape/views.h"

namespace pen {

// ---- repeated dims ----
static Status expanded(const Call& c, const TensorObject& t, const Shape& shape, Value* made) {
  int64_t strides[kMaxRank];
  if (shape.rank < t.rank()) return c.fail("at least as many sizes as dims", "%d for %d", shape.rank, t.rank());
  Shape to = shape;
  for (int d = shape.rank - 1, own = t.rank() - 1; d >= 0; --d, --own) {
    int64_t size = shape.dims[d];
    if (own < 0) {
      if (size < 0) return c.fail("sizes of 0 or more for new dims", "%lld", static_cast<long long>(size));
      strides[d] = d + 1 < shape.rank ? to.dims[d + 1] * strides[d + 1] : 1;
      strides[d] = size != 1 ? 0 : strides[d];
      continue;
    }
    if (size == -1) to.dims[d] = size = t.dim(own);
    if (size < 0 || (size != t.dim(own) && t.dim(own) != 1))
      return c.fail("sizes that the tensor's expand to", "%lld for %lld in dim %d", static_cast<long long>(size),
                    static_cast<long long>(t.dim(own)), own);
    strides[d] = size == t.dim(own) ? t.shape.strides[own] : 0;
  }
  return make_view(c, t, to, strides, 0, made);
}
PEN_OP(expand, "aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)",
       "aten::broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)") {
  Shape shape;
  shape.rank = c.ints(1, shape.dims, kMaxRank);
  if (shape.rank > kMaxRank) return c.fail("at most 8 dims", "%d", shape.rank);
  return expanded(c, c.tensor(0), shape, &c.results[0]);
}
PEN_OP(expand_as, "aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)") {
  return expanded(c, c.tensor(0), shape_of(c.tensor(1)), &c.results[0]);
}
PEN_OP(broadcast_tensors, "aten::broadcast_tensors(Tensor[] tensors) -> Tensor[]") {
  const ListObject& tensors = c.list(0);
  Shape shape;
  for (int64_t i = 0; i < tensors.count; ++i) PEN_TRY(broadcast_shapes(c, &shape, shape_of(*tensors.items[i].tensor())));
  ListObject* list = list_create(tensors.count);
  PEN_TRY(c.give(list));
  for (int64_t i = 0; i < tensors.count; ++i) {
    Value made;
    PEN_TRY(expanded(c, *tensors.items[i].tensor(), shape, &made));
    if (!list_append(list, made)) return c.out_of_memory();
  }
  return PEN_OK;
}

// ---- any strides ----
static Status strided(const Call& c, Shape* shape, int64_t* strides, int64_t* offset) {
  const TensorObject& t = c.tensor(0);
  PEN_TRY(sizes_of(c, 1, shape));
  if (c.ints(2, strides, kMaxRank) != shape->rank)
    return c.fail("as many strides as sizes", "%lld for %d", static_cast<long long>(c.list(2).count), shape->rank);
  Tensor made;
  made.dtype = t.dtype();
  made.rank = shape->rank;
  for (int d = 0; d < shape->rank; ++d) {
    if (strides[d] < 0 || strides[d] > int64_t{1} << 50)
      return c.fail("strides from 0 to 2**50", "%lld", static_cast<long long>(strides[d]));
    made.dims[d] = shape->dims[d], made.strides[d] = strides[d];
  }
  int64_t size = dtype_size(t.dtype()), at = c.count > 3 && c.given(3) ? c.integer(3) : t.offset / size, bytes;
  if (at < 0 || mul_overflows(at, size, &bytes) || !tensor_fits(*t.storage, made, bytes))
    return c.fail("a shape inside of the tensor's memory", "one that reaches out of it");
  *offset = at - t.offset / size;
  return PEN_OK;
}
PEN_OP(as_strided, "aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
       "aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)") {
  Shape shape;
  int64_t strides[kMaxRank], offset = 0;
  PEN_TRY(strided(c, &shape, strides, &offset));
  return give_view(c, c.tensor(0), shape, strides, offset);
}
PEN_OP(as_strided_in_place, "[direct]",
       "aten::as_strided_(Tensor(a!) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a!)") {
  PEN_TRY(op_as_strided(c));
  return give_itself_as(c);
}

PEN_OP(diagonal, "aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)",
       "aten::linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)") {
  const TensorObject& t = c.tensor(0);
  int first, second;
  PEN_TRY(c.dim(2, t.rank(), &first));
  PEN_TRY(c.dim(3, t.rank(), &second));
  if (first == second || t.rank() < 2) return c.fail("two dims", "one and the same");
  int64_t off = c.integer(1), start = 0, rows = t.dim(first), columns = t.dim(second), length;
  if (off >= 0)
    length = columns - off < rows ? columns - off : rows;
  else
    length = rows + off < columns ? rows + off : columns;
  if (off > columns || off < -rows || length <= 0)
    length = 0;
  else
    start = off >= 0 ? off * t.shape.strides[second] : -off * t.shape.strides[first];
  Shape shape;
  int64_t strides[kMaxRank];
  for (int d = 0; d < t.rank(); ++d) {
    if (d == first || d == second) continue;
    strides[shape.rank] = t.shape.strides[d];
    shape.dims[shape.rank++] = t.dim(d);
  }
  strides[shape.rank] = t.shape.strides[first] + t.shape.strides[second];
  shape.dims[shape.rank++] = length;
  return give_view(c, t, shape, strides, start);
}

PEN_OP(unfold, "aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)") {
  const TensorObject& t = c.tensor(0);
  int dim;
  PEN_TRY(c.dim(1, t.rank(), &dim));
  int64_t size = c.integer(2), step = c.integer(3), whole = t.rank() ? t.dim(dim) : 1;
  if (t.rank() == kMaxRank) return c.fail("at most 8 dims", "9");
  if (size < 0 || size > whole)
    return c.fail("a window that fits", "%lld in %lld", static_cast<long long>(size), static_cast<long long>(whole));
  if (step <= 0) return c.fail("a step above 0", "%lld", static_cast<long long>(step));
  Shape shape = shape_of(t);
  int64_t strides[kMaxRank];
  for (int d = 0; d < t.rank(); ++d) strides[d] = t.shape.strides[d];
  int64_t stride = t.rank() ? strides[dim] : 1;
  if (t.rank()) {
    shape.dims[dim] = (whole - size) / step + 1;
    if (mul_overflows(step, stride, &strides[dim])) strides[dim] = 1;  // of one window
  }
  strides[shape.rank] = stride;
  shape.dims[shape.rank++] = size;
  return give_view(c, t, shape, strides);
}

}  // namespace pen
