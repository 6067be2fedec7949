// An index for each element: gather, scatter, take and their kin.
#include "penlight/ops/index/positions.h"

namespace pen {

// Strides of a tensor along `rank` dims; rank 0 counts as one dim.
static void strides_along(const Tensor& t, int rank, int64_t* strides) {
  for (int d = 0; d < rank; ++d) strides[d] = t.rank ? t.strides[d] : 0;
}
// Walks an index tensor together with x and another: place(element of x, element of the other).
template <class Place>
static Status for_indices(const Call& c, const TensorObject& index, int dim, const TensorObject& x, const Tensor& other, Place place) {
  const int rank = index.rank();
  const int64_t size = x.rank() ? x.dim(dim) : 1, stride = x.rank() ? x.shape.strides[dim] : 0;
  int64_t along_x[kMaxRank], along_other[kMaxRank];
  strides_along(x.shape, rank, along_x);
  strides_along(other, rank, along_other);
  if (rank) along_x[dim] = 0;
  Walk w = {};
  for (int d = 0; d < rank; ++d) {
    if (index.dim(d) == 0) return PEN_OK;
    w.add(index.dim(d), index.shape.strides[d], along_x[d], along_other[d]);
  }
  w.close();
  const int inner = w.rank - 1;
  const bool is_long = index.dtype() == DType::i64;
  int64_t wrong = 0;
  bool failed = false;
  auto row = [&](int64_t n, const int64_t* offsets) {
    for (int64_t k = 0; k < n && !failed; ++k) {
      int64_t from = offsets[0] + k * w.steps[0][inner], at = is_long ? index.as<int64_t>()[from] : index.as<int32_t>()[from];
      if (at < 0 || at >= size) {
        failed = true;
        wrong = at;
        return;
      }
      place(offsets[1] + k * w.steps[1][inner] + at * stride, offsets[2] + k * w.steps[2][inner]);
    }
  };
  return in_pieces(c, w.numel(), [&](int64_t begin, int64_t end) {
    w.rows(begin, end, row);
    return failed ? out_of_range(c, wrong, dim, size) : PEN_OK;
  });
}
// index (argument 2) has x's rank and, but along dim, is nowhere larger than `bound` is.
static Status check_index(const Call& c, const TensorObject& index, const TensorObject& x, const TensorObject* bound, int dim,
                          bool free_dim) {
  if (index.dtype() != DType::i64 && index.dtype() != DType::i32)
    return c.fail("indices of dtype Long or Int", "%s", dtype_name(index.dtype()));
  int rank = index.rank() ? index.rank() : 1, own = x.rank() ? x.rank() : 1;
  if (index.numel() == 0) return PEN_OK;
  if (rank != own) return c.fail("an index of the tensor's rank", "rank %d for %d", index.rank(), x.rank());
  if (bound && (bound->rank() ? bound->rank() : 1) != own)
    return c.fail("a source of the tensor's rank", "rank %d for %d", bound->rank(), x.rank());
  for (int d = 0; d < index.rank(); ++d) {
    int64_t most = x.rank() ? x.dim(d) : 1, given = bound && bound->rank() ? bound->dim(d) : bound ? 1 : INT64_MAX;
    if ((index.dim(d) > most && !(free_dim && d == dim)) || index.dim(d) > given)
      return c.fail("an index that is nowhere larger than the tensors", "%lld in dim %d", static_cast<long long>(index.dim(d)), d);
  }
  return PEN_OK;
}
template <class T>
static Status gather_by(const Call& c, const TensorObject& x, const TensorObject& index, int dim, const TensorObject& y) {
  const T* in = x.as<T>();
  T* out = y.as<T>();
  return for_indices(c, index, dim, x, y.view(), [&](int64_t from, int64_t to) { out[to] = in[from]; });
}
static Status gathered(const Call& c, const TensorObject& x, const TensorObject& index, int dim, Value* made) {
  PEN_TRY(check_index(c, index, x, nullptr, dim, true));
  PEN_TRY(make_fresh(c, x.dtype(), shape_of(index), Format::contiguous, nullptr, made));
  const TensorObject& y = *made->tensor();
  int64_t size = dtype_size(x.dtype());
  return size == 4   ? gather_by<uint32_t>(c, x, index, dim, y)
         : size == 8 ? gather_by<uint64_t>(c, x, index, dim, y)
         : size == 2 ? gather_by<uint16_t>(c, x, index, dim, y)
                     : gather_by<uint8_t>(c, x, index, dim, y);
}
PEN_OP(gather, "[out]", "aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor") {
  int dim;
  PEN_TRY(c.dim(1, c.tensor(0).rank(), &dim));
  return gathered(c, c.tensor(0), c.tensor(2), dim, &c.results[0]);
}
PEN_OP(take_along_dim, "[out]", "aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor") {
  const TensorObject &x = c.tensor(0), &index = c.tensor(1);
  if (index.dtype() != DType::i64) return c.fail("indices of dtype Long", "%s", dtype_name(index.dtype()));
  Shape flat;
  flat.rank = 1;
  if (!c.given(2)) {
    Value row, places;
    flat.dims[0] = x.numel();
    PEN_TRY(reshaped(c, x, flat, &row));
    flat.dims[0] = index.numel();
    PEN_TRY(reshaped(c, index, flat, &places));
    return gathered(c, *row.tensor(), *places.tensor(), 0, &c.results[0]);
  }
  int dim;
  if (x.rank() != index.rank()) return c.fail("indices of the tensor's rank", "rank %d for %d", index.rank(), x.rank());
  PEN_TRY(c.dim(2, x.rank(), &dim));
  Shape a = shape_of(x), b = shape_of(index);
  if (x.rank()) a.dims[dim] = b.dims[dim] = 1;
  PEN_TRY(broadcast_shapes(c, &a, b));
  b = a;
  int64_t along[kMaxRank], places[kMaxRank];
  if (x.rank()) a.dims[dim] = x.dim(dim), b.dims[dim] = index.dim(dim);
  for (int d = 0; d < x.rank(); ++d) {
    along[d] = x.dim(d) == a.dims[d] ? x.shape.strides[d] : 0;
    places[d] = index.dim(d) == b.dims[d] ? index.shape.strides[d] : 0;
  }
  Value wide, wide_index;
  PEN_TRY(make_view(c, x, a, along, 0, &wide));
  PEN_TRY(make_view(c, index, b, places, 0, &wide_index));
  return gathered(c, *wide.tensor(), *wide_index.tensor(), dim, &c.results[0]);
}

// x with `source` (a tensor, or one number for all) put where the index (argument 2) says.
static Status scatter(Call& c, TensorObject* x, int dim, const Value& source, Combine how) {
  const TensorObject& index = c.tensor(2);
  bool number = source.tag() != Tag::tensor;
  if (!number && source.tensor()->dtype() != x->dtype())
    return c.fail("a source of the tensor's dtype", "%s for %s", dtype_name(source.tensor()->dtype()), dtype_name(x->dtype()));
  PEN_TRY(check_index(c, index, *x, number ? nullptr : source.tensor(), dim, true));
  for (int d = 0; d < index.rank() && index.numel(); ++d)
    if (d != dim && x->rank() && index.dim(d) > x->dim(d))
      return c.fail("an index that is nowhere larger than the tensor", "%lld in dim %d", static_cast<long long>(index.dim(d)), d);
  if (!tensor_make_writable(x)) return c.out_of_memory();
  alignas(8) char element[8] = {};
  Tensor from = x->shape;
  Value kept = source;
  if (number) {
    if (!number_fits(source, x->dtype()))
      return c.raise("RuntimeError: value cannot be converted to type %s without overflow", dtype_name(x->dtype()));
    number_into(source, x->dtype(), element);
    from.data = element;
    for (int d = 0; d < from.rank; ++d) from.strides[d] = 0;
  } else {
    if (source.tensor()->storage == x->storage) PEN_TRY(make_copy(c, *source.tensor(), x->dtype(), Format::contiguous, &kept));
    from = kept.tensor()->view();
  }
  const int64_t size = dtype_size(x->dtype());
  char* out = x->data();
  CombineFn into = combine_function(how, x->dtype());
  return for_indices(c, index, dim, *x, from, [&](int64_t to, int64_t at) { into(out + to * size, from.data + at * size); });
}
static Status begin_scatter(Call& c, bool in_place, int* dim) {
  PEN_TRY(c.dim(1, c.tensor(0).rank(), dim));
  if (in_place) return c.give(Value(c.args[0]));
  return make_copy(c, c.tensor(0), c.tensor(0).dtype(), Format::contiguous, &c.results[0]);
}
static Status give_scattered(Call& c, bool in_place, const char* reduce) {
  int dim;
  Combine how = Combine::set;
  if (reduce && strcmp(reduce, "add") != 0 && strcmp(reduce, "multiply") != 0) return c.fail("reduce 'add' or 'multiply'", "'%s'", reduce);
  if (reduce) how = reduce[0] == 'a' ? Combine::add : Combine::mul;
  PEN_TRY(begin_scatter(c, in_place, &dim));
  return scatter(c, c.results[0].tensor(), dim, c.args[3], how);
}
PEN_OP(scatter, "[out]", "aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
       "aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor") {
  return give_scattered(c, false, nullptr);
}
PEN_OP(scatter_in_place, "[direct]", "aten::scatter_.src(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)",
       "aten::scatter_.value(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!)") {
  return give_scattered(c, true, nullptr);
}
PEN_OP(scatter_reduced, "[out]", "aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
       "aten::scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor") {
  return give_scattered(c, false, c.text(4));
}
PEN_OP(scatter_reduced_in_place, "[direct]",
       "aten::scatter_.reduce(Tensor(a!) self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor(a!)",
       "aten::scatter_.value_reduce(Tensor(a!) self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor(a!)") {
  return give_scattered(c, true, c.text(4));
}
PEN_OP(scatter_add, "[out]", "aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor") {
  return give_scattered(c, false, "add");
}
PEN_OP(scatter_add_in_place, "[direct]", "aten::scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)") {
  return give_scattered(c, true, "add");
}

// scatter_reduce: sums, products, extremes and means, with or without what was there.
static Status give_scatter_reduced(Call& c, bool in_place) {
  const char* reduce = c.text(4);
  bool mean = strcmp(reduce, "mean") == 0, include = c.flag(5);
  static const struct {
    const char* name;
    Combine how;
    double start;
  } kKinds[] = {{"sum", Combine::add, 0},  {"mean", Combine::add, 0}, {"prod", Combine::mul, 1}, {"amax", Combine::max, 0},
                {"amin", Combine::min, 0}, {"max", Combine::max, 0},  {"min", Combine::min, 0}};
  const auto* kind = kKinds;
  for (; kind < kKinds + 7 && strcmp(kind->name, reduce) != 0; ++kind) {
  }
  if (kind == kKinds + 7) return c.fail("reduce 'sum', 'prod', 'mean', 'amax' or 'amin'", "'%s'", reduce);
  int dim;
  PEN_TRY(begin_scatter(c, in_place, &dim));
  TensorObject* x = c.results[0].tensor();
  const DType dtype = x->dtype();
  const int64_t size = dtype_size(dtype);
  PEN_TRY(check_index(c, c.tensor(2), *x, &c.tensor(3), dim, true));
  if (c.tensor(3).dtype() != dtype)
    return c.fail("a source of the tensor's dtype", "%s for %s", dtype_name(c.tensor(3).dtype()), dtype_name(dtype));
  Value source = c.args[3];
  if (c.tensor(3).storage == x->storage) PEN_TRY(make_copy(c, c.tensor(3), dtype, Format::contiguous, &source));
  if (!tensor_make_writable(x)) return c.out_of_memory();
  if (!include) {  // places that something comes to start from nothing; those keep the first that comes
    bool by_first = kind->how == Combine::max || kind->how == Combine::min;
    char* out = x->data();
    const char* from = source.tensor()->data();
    PEN_TRY(for_indices(c, c.tensor(2), dim, *x, source.tensor()->view(), [&](int64_t to, int64_t at) {
      if (by_first)
        memcpy(out + to * size, from + at * size, static_cast<size_t>(size));
      else
        number_into(Value(kind->start), dtype, out + to * size);
    }));
  }
  PEN_TRY(scatter(c, x, dim, source, kind->how));
  if (!mean) return PEN_OK;
  Value counts, whole;
  PEN_TRY(make_fresh(c, DType::i64, shape_of(*x), Format::contiguous, nullptr, &counts));
  PEN_TRY(fill(c, counts.tensor(), Value(int64_t{include})));
  int64_t* count = counts.tensor()->as<int64_t>();
  Tensor nothing = x->shape;
  PEN_TRY(for_indices(c, c.tensor(2), dim, *counts.tensor(), nothing, [&](int64_t to, int64_t) { ++count[to]; }));
  Walk w = {};
  for (int d = 0; d < x->rank(); ++d) w.add(x->dim(d), x->shape.strides[d], counts.tensor()->shape.strides[d], 0);
  w.close();
  if (x->numel() == 0) return PEN_OK;
  auto divide = [&](int64_t n, const int64_t* offsets) {
    for (int64_t k = 0; k < n; ++k) {
      void* at = x->data() + (offsets[0] + k * w.steps[0][w.rank - 1]) * size;
      int64_t by = count[offsets[1] + k * w.steps[1][w.rank - 1]];
      if (by <= 1) continue;
      Value sum = number_at(dtype, at);
      if (sum.tag() == Tag::real) {
        number_into(Value(sum.real() / static_cast<double>(by)), dtype, at);
      } else {
        int64_t whole_part = sum.integer() / by;
        number_into(Value(whole_part - (sum.integer() % by < 0)), dtype, at);
      }
    }
  };
  return in_pieces(c, w.numel(), [&](int64_t begin, int64_t end) { w.rows(begin, end, divide); });
}
PEN_OP(scatter_reduce, "[out]",
       "aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor") {
  return give_scatter_reduced(c, false);
}
PEN_OP(
    scatter_reduce_in_place, "[direct]",
    "aten::scatter_reduce_.two(Tensor(a!) self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor(a!)") {
  return give_scatter_reduced(c, true);
}

// ---- places in all of a tensor, counted row by row ----
static int64_t offset_of(const Tensor& t, int64_t place) {
  int64_t offset = 0;
  for (int d = t.rank - 1; d >= 0; --d) {
    offset += place % t.dims[d] * t.strides[d];
    place /= t.dims[d];
  }
  return offset;
}
template <class Place>
static Status for_places(const Call& c, const TensorObject& x, const TensorObject& index, Place place) {
  if (index.dtype() != DType::i64) return c.fail("indices of dtype Long", "%s", dtype_name(index.dtype()));
  const int64_t numel = x.numel(), count = index.numel();
  Value row_major;
  PEN_TRY(long_index(c, index, &row_major));
  const int64_t* at = row_major.tensor()->as<int64_t>();
  const Tensor t = x.view();
  for (int64_t i = 0; i < count; ++i) {
    PEN_TRY(c.walk(1));
    if (at[i] < -numel || at[i] >= numel)
      return c.raise("IndexError: out of range: tried to access index %lld on a tensor of %lld elements.", static_cast<long long>(at[i]),
                     static_cast<long long>(numel));
    place(i, offset_of(t, at[i] < 0 ? at[i] + numel : at[i]));
  }
  return PEN_OK;
}
PEN_OP(take, "[out]", "aten::take(Tensor self, Tensor index) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  PEN_TRY(make_fresh(c, x.dtype(), shape_of(c.tensor(1)), Format::contiguous, nullptr, &c.results[0]));
  const int64_t size = dtype_size(x.dtype());
  char* out = c.results[0].tensor()->data();
  return for_places(c, x, c.tensor(1),
                    [&](int64_t i, int64_t offset) { memcpy(out + i * size, x.data() + offset * size, static_cast<size_t>(size)); });
}
static Status give_put(Call& c, bool in_place) {
  const TensorObject &index = c.tensor(1), &source = c.tensor(2);
  if (source.dtype() != c.tensor(0).dtype())
    return c.fail("a source of the tensor's dtype", "%s for %s", dtype_name(source.dtype()), dtype_name(c.tensor(0).dtype()));
  if (source.numel() != index.numel())
    return c.fail("as many elements in the source as indices", "%lld for %lld", static_cast<long long>(source.numel()),
                  static_cast<long long>(index.numel()));
  if (in_place)
    PEN_TRY(c.give(Value(c.args[0])));
  else
    PEN_TRY(make_copy(c, c.tensor(0), c.tensor(0).dtype(), Format::preserve, &c.results[0]));
  TensorObject* x = c.results[0].tensor();
  if (!tensor_make_writable(x)) return c.out_of_memory();
  Value values;
  PEN_TRY(make_copy(c, source, source.dtype(), Format::contiguous, &values));
  const int64_t size = dtype_size(x->dtype());
  CombineFn into = combine_function(c.flag(3) ? Combine::add : Combine::set, x->dtype());
  return for_places(c, *x, index, [&](int64_t i, int64_t offset) { into(x->data() + offset * size, values.tensor()->data() + i * size); });
}
PEN_OP(put, "[out]", "aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor") { return give_put(c, false); }
PEN_OP(put_in_place, "[direct]", "aten::put_(Tensor(a!) self, Tensor index, Tensor source, bool accumulate=False) -> Tensor(a!)") {
  return give_put(c, true);
}

}  // namespace pen
