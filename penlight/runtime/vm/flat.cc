#include "penlight/runtime/vm/flat.h"

namespace pen {

Status dims_of(const Call& c, int arg, int rank, bool empty_is_all, DimSet* to) {
  *to = {};
  int64_t given[kMaxRank];
  bool one = c.given(arg) && c.args[arg].tag() == Tag::integer;
  int count = one ? 1 : c.ints(arg, given, kMaxRank);
  if (one) given[0] = c.integer(arg);
  if (!c.given(arg) || (count == 0 && empty_is_all)) {
    *to = all_dims(rank);
    return PEN_OK;
  }
  if (count > kMaxRank) return c.fail("at most 8 dims", "%d", count);
  for (int i = 0; i < count; ++i) {
    int d;
    PEN_TRY(c.dim(given[i], rank, &d));
    if (to->has[d]) return c.fail("each dim once", "dim %d twice", d);
    to->add(d);
  }
  if (rank == 0) *to = {};
  return PEN_OK;
}
DimSet all_dims(int rank) {
  DimSet all;
  for (int d = 0; d < rank; ++d) all.add(d);
  return all;
}
Shape reduced_shape(const TensorObject& t, const DimSet& dims, bool keepdim) {
  Shape s;
  for (int d = 0; d < t.rank(); ++d)
    if (!dims.has[d])
      s.dims[s.rank++] = t.dim(d);
    else if (keepdim)
      s.dims[s.rank++] = 1;
  return s;
}
TensorObject* tensor_create(DType dtype, const Shape& shape) { return tensor_create(dtype, shape.rank, shape.dims); }

// The tensor itself where it is row-major and of this dtype, else a copy. Integers are places or sizes: proven, then used.
static Status as_dtype(const Call& c, TensorObject* t, DType dtype, Value* to) {
  if (t->dtype() == dtype && tensor_is_contiguous(*t)) {
    if (!is_floating(dtype)) return hold_still(c, *t, to);
    *to = Value::share(t);
    return PEN_OK;
  }
  Status status;
  *to = Value::own(tensor_cast(c, *t, dtype, &status));
  return status;
}

Status rows_of(const Call& c, const TensorObject& t, const DimSet& dims, DType dtype, RowArray* to) {
  int64_t sizes[kMaxRank], strides[kMaxRank];
  int n = 0;
  to->outer = to->inner = 1;
  for (int pass = 0; pass < 2; ++pass)
    for (int d = 0; d < t.rank(); ++d) {
      if (dims.has[d] != (pass == 1)) continue;
      sizes[n] = t.dim(d);
      strides[n++] = t.shape.strides[d];
      int64_t& product = pass ? to->inner : to->outer;
      if (mul_overflows(product, t.dim(d), &product)) return c.fail("a tensor that memory can hold", "more");
    }
  Value view = Value::own(tensor_view(t, n, sizes, strides, t.offset));
  if (view.is_none()) return c.out_of_memory();
  return as_dtype(c, view.tensor(), dtype, &to->hold);
}
Status elements_of(const Call& c, const TensorObject& t, DType dtype, Value* to) {
  return as_dtype(c, const_cast<TensorObject*>(&t), dtype, to);
}
TensorObject* in_shape(const TensorObject& t, const Shape& shape) {
  int64_t strides[kMaxRank];
  row_major_strides(shape.rank, shape.dims, strides);
  return tensor_view(t, shape.rank, shape.dims, strides, t.offset);
}
Status give_as(Call& c, Value&& tensor, DType dtype, int result) {
  if (tensor.is_none()) return c.out_of_memory();
  Value made;
  PEN_TRY(as_dtype(c, tensor.tensor(), dtype, &made));
  return c.give(static_cast<Value&&>(made), result);
}

}  // namespace pen
