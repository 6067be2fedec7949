// Views: the same storage in another shape, with torch's strides.
#include "penlight/ops/shape/views.h"

namespace pen {

// Sizes whose product, empty dims aside, no tensor of any memory has: they would overflow somewhere else.
static Status check_sizes(const Call& c, const Shape& shape) {
  int64_t product = 1;
  for (int d = 0; d < shape.rank; ++d)
    if (mul_overflows(product, shape.dims[d] > 1 ? shape.dims[d] : 1, &product) || product > (int64_t{1} << 50))
      return c.fail("sizes that a tensor can have", "a product of more than 2**50");
  return PEN_OK;
}

Status numel_of(const Call& c, const Shape& shape, int64_t* numel) {
  PEN_TRY(check_sizes(c, shape));
  *numel = 1;
  for (int d = 0; d < shape.rank; ++d)
    if (shape.dims[d] == 0) {
      *numel = 0;
      return PEN_OK;
    }
  for (int d = 0; d < shape.rank; ++d) *numel *= shape.dims[d];
  return PEN_OK;
}

Status sizes_of(const Call& c, int i, Shape* shape) {
  shape->rank = c.ints(i, shape->dims, kMaxRank);
  if (shape->rank > kMaxRank) return c.fail("at most 8 dims", "%d", shape->rank);
  for (int d = 0; d < shape->rank; ++d)
    if (shape->dims[d] < 0) return c.fail("sizes of 0 or more", "%lld", static_cast<long long>(shape->dims[d]));
  return check_sizes(c, *shape);
}

static Status fill_in(const Call& c, int64_t numel, Shape* shape) {
  int open = -1;
  int64_t known = 1;
  for (int d = 0; d < shape->rank; ++d) {
    int64_t size = shape->dims[d];
    if (size < -1 || (size == -1 && open >= 0)) return c.fail("sizes of 0 or more, and one -1", "%lld", static_cast<long long>(size));
    if (size == -1)
      open = d;
    else if (mul_overflows(known, size, &known))
      return c.fail("a shape of as many elements", "more than memory has");
  }
  if (open >= 0) {
    if (known == 0) return c.fail("a -1 that can be told", "no elements in the other dims");
    if (numel % known != 0)
      return c.fail("a shape of as many elements", "%lld, not divisible by %lld", static_cast<long long>(numel),
                    static_cast<long long>(known));
    shape->dims[open] = numel / known;
    return PEN_OK;
  }
  if (known != numel)
    return c.fail("a shape of as many elements", "%lld for %lld", static_cast<long long>(known), static_cast<long long>(numel));
  return PEN_OK;
}
Status sizes_of(const Call& c, int i, int64_t numel, Shape* shape) {
  shape->rank = c.ints(i, shape->dims, kMaxRank);
  if (shape->rank > kMaxRank) return c.fail("at most 8 dims", "%d", shape->rank);
  return fill_in(c, numel, shape);
}

bool view_strides(const TensorObject& t, const Shape& shape, int64_t* strides) {
  const int old = t.rank();
  bool same = old == shape.rank, empty = false;
  for (int d = 0; d < old; ++d) {
    same = same && t.dim(d) == shape.dims[d];
    empty |= t.dim(d) == 0;
  }
  if (empty || old == 0) {
    row_major_strides(shape.rank, shape.dims, strides);
    for (int d = 0; d < shape.rank && same; ++d) strides[d] = t.shape.strides[d];
    return true;
  }
  // Runs of old dims that lie without a gap, from the last: each must be filled exactly by new dims.
  int at = shape.rank - 1;
  int64_t base = t.shape.strides[old - 1], run = 1, filled = 1;
  for (int d = old - 1; d >= 0; --d) {
    run *= t.dim(d);
    if (d > 0 && (t.dim(d - 1) == 1 || t.shape.strides[d - 1] == run * base)) continue;
    for (; at >= 0 && (filled < run || shape.dims[at] == 1); --at) {
      strides[at] = filled * base;
      filled *= shape.dims[at];
    }
    if (filled != run) return false;
    if (d > 0) {
      base = t.shape.strides[d - 1];
      run = filled = 1;
    }
  }
  return at < 0;
}

Status make_view(const Call& c, const TensorObject& t, const Shape& shape, const int64_t* strides, int64_t offset, Value* made) {
  PEN_TRY(check_sizes(c, shape));
  if (t.quantizer && t.quantizer->axis >= 0) {
    bool same = shape.rank == t.rank();
    for (int d = 0; same && d < shape.rank; ++d) same = shape.dims[d] == t.dim(d) && strides[d] == t.shape.strides[d];
    if (!same) return c.fail("a tensor that is not quantized per channel", "one, of which a view is taken");
  }
  TensorObject* view = tensor_view(t, shape.rank, shape.dims, strides, t.offset + offset * dtype_size(t.dtype()));
  if (!view) return c.out_of_memory();
  *made = Value::own(view);
  // A step of a single element can be any number (x[::2**62]): one that cannot overflow later.
  for (int d = 0; d < shape.rank; ++d)
    if (view->shape.strides[d] < 0 || view->shape.strides[d] > int64_t{1} << 50) view->shape.strides[d] = 1;
  return PEN_OK;
}
Status give_view(Call& c, const TensorObject& t, const Shape& shape, const int64_t* strides, int64_t offset) {
  return make_view(c, t, shape, strides, offset, &c.results[0]);
}
Status reshaped(const Call& c, const TensorObject& t, const Shape& shape, Value* made) {
  int64_t strides[kMaxRank];
  if (view_strides(t, shape, strides)) return make_view(c, t, shape, strides, 0, made);
  Value copy;
  PEN_TRY(make_copy(c, t, t.dtype(), Format::contiguous, &copy));
  row_major_strides(shape.rank, shape.dims, strides);
  return make_view(c, *copy.tensor(), shape, strides, 0, made);
}

static Status give_viewed(Call& c, const Shape& shape) {
  int64_t strides[kMaxRank];
  if (!view_strides(c.tensor(0), shape, strides))
    return c.fail("a shape that can be seen without a copy", "strides over which it would stretch: use reshape, or contiguous before view");
  return give_view(c, c.tensor(0), shape, strides);
}
PEN_OP(view, "[quantized]", "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)") {
  Shape shape;
  PEN_TRY(sizes_of(c, 1, c.tensor(0).numel(), &shape));
  return give_viewed(c, shape);
}
PEN_OP(reshape, "[quantized]", "aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)",
       "[out]aten::_unsafe_view(Tensor self, SymInt[] size) -> Tensor") {
  Shape shape;
  PEN_TRY(sizes_of(c, 1, c.tensor(0).numel(), &shape));
  return reshaped(c, c.tensor(0), shape, &c.results[0]);
}
PEN_OP(view_as, "[quantized]", "aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)") {
  Shape shape = shape_of(c.tensor(1));
  PEN_TRY(fill_in(c, c.tensor(0).numel(), &shape));
  return give_viewed(c, shape);
}
PEN_OP(reshape_as, "[quantized]", "aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)") {
  Shape shape = shape_of(c.tensor(1));
  PEN_TRY(fill_in(c, c.tensor(0).numel(), &shape));
  return reshaped(c, c.tensor(0), shape, &c.results[0]);
}
PEN_OP(flatten, "[quantized]", "aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)") {
  const TensorObject& t = c.tensor(0);
  int start, end;
  PEN_TRY(c.dim(1, t.rank(), &start));
  PEN_TRY(c.dim(2, t.rank(), &end));
  if (start > end) return c.fail("a start_dim before the end_dim", "%d and %d", start, end);
  if (t.rank() && start == end) return c.give(Value(c.args[0]));
  Shape shape;
  for (int d = 0; d < t.rank(); ++d) {
    if (d <= start || d > end) shape.dims[shape.rank++] = 1;
    shape.dims[shape.rank - 1] *= t.dim(d);
  }
  if (t.rank() == 0) shape.rank = 1, shape.dims[0] = 1;
  return reshaped(c, t, shape, &c.results[0]);
}
PEN_OP(ravel, "[quantized]", "aten::ravel(Tensor(a) self) -> Tensor(a)") {
  Shape shape;
  shape.rank = 1;
  shape.dims[0] = c.tensor(0).numel();
  return reshaped(c, c.tensor(0), shape, &c.results[0]);
}
PEN_OP(unflatten, "aten::unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)") {
  const TensorObject& t = c.tensor(0);
  int dim;
  Shape parts, shape;
  PEN_TRY(c.dim(1, t.rank(), &dim));
  if (t.rank() == 0) return c.fail("a tensor with dims", "rank 0");
  PEN_TRY(sizes_of(c, 2, t.dim(dim), &parts));
  if (parts.rank == 0) return c.fail("sizes", "none");
  if (t.rank() - 1 + parts.rank > kMaxRank) return c.fail("at most 8 dims", "%d", t.rank() - 1 + parts.rank);
  for (int d = 0; d < t.rank(); ++d) {
    if (d != dim) shape.dims[shape.rank++] = t.dim(d);
    for (int k = 0; d == dim && k < parts.rank; ++k) shape.dims[shape.rank++] = parts.dims[k];
  }
  return give_viewed(c, shape);
}
PEN_OP(view_dtype, "aten::view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)") {
  const TensorObject& t = c.tensor(0);
  DType dtype;
  PEN_TRY(c.dtype(1, t.dtype(), &dtype));
  int64_t from = dtype_size(t.dtype()), to = dtype_size(dtype);
  Tensor shape = t.shape;
  shape.dtype = dtype;
  int last = t.rank() - 1;
  if (from != to) {
    if (t.rank() == 0 || t.shape.strides[last] != 1) return c.fail("a dense last dim, to see it in another size", "rank %d", t.rank());
    for (int d = 0; d < last; ++d) {
      if (t.shape.strides[d] * from % to)
        return c.fail("strides that the new size divides", "%lld", static_cast<long long>(t.shape.strides[d]));
      shape.strides[d] = t.shape.strides[d] * from / to;
    }
    if (shape.dims[last] * from % to || t.offset % to)
      return c.fail("a last dim that the new size divides", "%lld", static_cast<long long>(t.dim(last)));
    shape.dims[last] = shape.dims[last] * from / to;
  }
  return c.give(tensor_on(t.storage, shape, t.offset));
}

// ---- order of dims ----
static Status give_permuted(Call& c, const TensorObject& t, const int* order) {
  Shape shape;
  int64_t strides[kMaxRank];
  shape.rank = t.rank();
  for (int d = 0; d < t.rank(); ++d) {
    shape.dims[d] = t.dim(order[d]);
    strides[d] = t.shape.strides[order[d]];
  }
  return give_view(c, t, shape, strides);
}
PEN_OP(permute, "[quantized]", "aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)") {
  const TensorObject& t = c.tensor(0);
  int64_t dims[kMaxRank];
  int order[kMaxRank], n = c.ints(1, dims, kMaxRank);
  bool seen[kMaxRank] = {};
  if (n != t.rank()) return c.fail("as many dims as the tensor has", "%d for %d", n, t.rank());
  for (int d = 0; d < n; ++d) {
    PEN_TRY(c.dim(dims[d], n, &order[d]));
    if (seen[order[d]]) return c.fail("each dim once", "dim %d again", order[d]);
    seen[order[d]] = true;
  }
  return give_permuted(c, t, order);
}
static Status swapped(const Call& c, int64_t a, int64_t b, int* order) {
  int rank = c.tensor(0).rank(), first, second;
  PEN_TRY(c.dim(a, rank, &first));
  PEN_TRY(c.dim(b, rank, &second));
  for (int d = 0; d < rank; ++d) order[d] = d;
  if (rank) order[first] = second, order[second] = first;
  return PEN_OK;
}
PEN_OP(transpose, "[quantized]", "aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)",
       "aten::swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)",
       "aten::swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)") {
  int order[kMaxRank];
  PEN_TRY(swapped(c, c.integer(1), c.integer(2), order));
  return give_permuted(c, c.tensor(0), order);
}
PEN_OP(t, "[quantized]", "aten::t(Tensor(a) self) -> Tensor(a)") {
  if (c.tensor(0).rank() > 2) return c.fail("at most two dims", "%d", c.tensor(0).rank());
  int order[kMaxRank];
  PEN_TRY(swapped(c, 0, c.tensor(0).rank() == 2 ? 1 : 0, order));
  return give_permuted(c, c.tensor(0), order);
}
PEN_OP(numpy_T, "aten::{numpy_T,numpy_T.a}(Tensor(a) self) -> Tensor(a)") {
  int order[kMaxRank], rank = c.tensor(0).rank();
  for (int d = 0; d < rank; ++d) order[d] = rank - 1 - d;
  return give_permuted(c, c.tensor(0), order);
}
PEN_OP(matrix_T, "aten::{mT,mH,adjoint,mT.a,mH.a}(Tensor(a) self) -> Tensor(a)") {
  if (c.tensor(0).rank() < 2) return c.fail("at least two dims", "%d", c.tensor(0).rank());
  int order[kMaxRank];
  PEN_TRY(swapped(c, -1, -2, order));
  return give_permuted(c, c.tensor(0), order);
}
static Status give_moved(Call& c, const int64_t* from, const int64_t* to, int count) {
  const int rank = c.tensor(0).rank();
  int order[kMaxRank], source[kMaxRank], target[kMaxRank];
  bool taken[kMaxRank] = {};
  if (rank == 0) return c.give(Value(c.args[0]));
  for (int d = 0; d < rank; ++d) order[d] = -1;
  for (int k = 0; k < count; ++k) {
    PEN_TRY(c.dim(from[k], rank, &source[k]));
    PEN_TRY(c.dim(to[k], rank, &target[k]));
    if (taken[source[k]] || order[target[k]] >= 0) return c.fail("each dim once", "one again");
    taken[source[k]] = true;
    order[target[k]] = source[k];
  }
  for (int d = 0, next = 0; d < rank; ++d) {
    if (order[d] >= 0) continue;
    while (taken[next]) ++next;
    order[d] = next++;
  }
  return give_permuted(c, c.tensor(0), order);
}
PEN_OP(movedim, "aten::{movedim,moveaxis}.int(Tensor(a) self, int source, int destination) -> Tensor(a)") {
  int64_t from = c.integer(1), to = c.integer(2);
  return give_moved(c, &from, &to, 1);
}
PEN_OP(movedims, "aten::{movedim,moveaxis}.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)") {
  int64_t from[kMaxRank], to[kMaxRank];
  int count = c.ints(1, from, kMaxRank);
  if (count != c.ints(2, to, kMaxRank) || count > c.tensor(0).rank()) return c.fail("as many sources as destinations", "%d", count);
  return give_moved(c, from, to, count);
}

Status give_itself_as(Call& c) {
  TensorObject& self = c.tensor(0);
  const TensorObject& view = *c.results[0].tensor();
  self.shape = view.shape;
  self.offset = view.offset;
  return c.give(Value(c.args[0]));
}
PEN_OP(transpose_in_place, "[direct]", "aten::transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)",
       "aten::swapaxes_(Tensor(a!) self, int axis0, int axis1) -> Tensor(a!)",
       "aten::swapdims_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)") {
  PEN_TRY(op_transpose(c));
  return give_itself_as(c);
}
PEN_OP(t_in_place, "[direct]", "aten::t_(Tensor(a!) self) -> Tensor(a!)") {
  PEN_TRY(op_t(c));
  return give_itself_as(c);
}

// ---- dims of one ----
Status with_dim(const Call& c, const TensorObject& t, int at, Value* made) {
  if (t.rank() == kMaxRank) return c.fail("at most 8 dims", "9");
  Shape shape;
  int64_t strides[kMaxRank];
  shape.rank = t.rank() + 1;
  for (int d = 0; d < shape.rank; ++d) {
    int own = d > at ? d - 1 : d;
    shape.dims[d] = d == at ? 1 : t.dim(own);
    strides[d] = d != at ? t.shape.strides[own] : own < t.rank() ? t.dim(own) * t.shape.strides[own] : 1;
  }
  return make_view(c, t, shape, strides, 0, made);
}
PEN_OP(unsqueeze, "[quantized]", "aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)") {
  const TensorObject& t = c.tensor(0);
  int at;
  PEN_TRY(c.dim(1, t.rank() + 1, &at));
  return with_dim(c, t, at, &c.results[0]);
}
static Status give_squeezed(Call& c, const bool* drop) {
  const TensorObject& t = c.tensor(0);
  Shape shape;
  int64_t strides[kMaxRank];
  for (int d = 0; d < t.rank(); ++d) {
    if (drop[d] && t.dim(d) == 1) continue;
    strides[shape.rank] = t.shape.strides[d];
    shape.dims[shape.rank++] = t.dim(d);
  }
  return give_view(c, t, shape, strides);
}
PEN_OP(squeeze, "[quantized]", "aten::squeeze(Tensor(a) self) -> Tensor(a)") {
  bool drop[kMaxRank];
  for (bool& d : drop) d = true;
  return give_squeezed(c, drop);
}
PEN_OP(squeeze_dim, "[quantized]", "aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)") {
  bool drop[kMaxRank] = {};
  int dim;
  PEN_TRY(c.dim(1, c.tensor(0).rank(), &dim));
  drop[dim] = true;
  return give_squeezed(c, drop);
}
PEN_OP(squeeze_dims, "[quantized]", "aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)") {
  bool drop[kMaxRank] = {};
  int64_t dims[kMaxRank];
  int n = c.ints(1, dims, kMaxRank), dim;
  if (n > kMaxRank) return c.fail("at most 8 dims", "%d", n);
  for (int k = 0; k < n; ++k) {
    PEN_TRY(c.dim(dims[k], c.tensor(0).rank(), &dim));
    drop[dim] = true;
  }
  return give_squeezed(c, drop);
}
PEN_OP(unsqueeze_in_place, "[direct]", "aten::unsqueeze_(Tensor(a!) self, int dim) -> Tensor(a!)") {
  PEN_TRY(op_unsqueeze(c));
  return give_itself_as(c);
}
PEN_OP(squeeze_in_place, "[direct]", "aten::squeeze_(Tensor(a!) self) -> Tensor(a!)") {
  PEN_TRY(op_squeeze(c));
  return give_itself_as(c);
}
PEN_OP(squeeze_dim_in_place, "[direct]", "aten::squeeze_.dim(Tensor(a!) self, int dim) -> Tensor(a!)") {
  PEN_TRY(op_squeeze_dim(c));
  return give_itself_as(c);
}
PEN_OP(squeeze_dims_in_place, "[direct]", "aten::squeeze_.dims(Tensor(a!) self, int[] dim) -> Tensor(a!)") {
  PEN_TRY(op_squeeze_dims(c));
  return give_itself_as(c);
}

}  // namespace pen
