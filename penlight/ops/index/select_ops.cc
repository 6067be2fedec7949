// One row of indices along one dim: index_select, embedding, and slices written: index_fill, index_add, index_copy.
#include "penlight/ops/index/positions.h"
#include "penlight/runtime/vm/rows.h"

namespace pen {

Status out_of_range(const Call& c, int64_t index, int dim, int64_t size) {
  return c.raise("RuntimeError: index %lld is out of bounds for dimension %d with size %lld", static_cast<long long>(index), dim,
                 static_cast<long long>(size));
}
// A row of indices for one dim, each from 0 to size - 1. A copy: what is written by them may be where they lie.
static Status row_of_indices(const Call& c, const TensorObject& index, int dim, int64_t size, Value* made) {
  if (index.rank() > 1) return c.fail("a row of indices", "rank %d", index.rank());
  if (index.dtype() != DType::i64 && index.dtype() != DType::i32)
    return c.fail("indices of dtype Long or Int", "%s", dtype_name(index.dtype()));
  PEN_TRY(make_copy(c, index, DType::i64, Format::contiguous, made));
  const int64_t *at = made->tensor()->as<int64_t>(), count = made->tensor()->numel();
  return in_pieces(c, count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      if (at[i] < 0 || at[i] >= size) return out_of_range(c, at[i], dim, size);
    return PEN_OK;
  });
}
// Slice i of a dim; of rank 0: the element.
static Tensor slice_at(const Tensor& t, int dim, int64_t i) {
  Tensor s = t;
  if (t.rank == 0) return s;
  s.data += i * t.strides[dim] * dtype_size(t.dtype);
  s.dims[dim] = 1;
  return s;
}

// Slices along dim 0 that lie densely are rows; others go through slices of the tensor.
static Status select_slices(const Call& c, const TensorObject& x, int dim, const int64_t* at, int64_t count, const TensorObject& y) {
  int64_t size = dtype_size(x.dtype()), inner = 1, outer = 1;
  for (int d = dim + 1; d < x.rank(); ++d) inner *= x.dim(d);
  for (int d = 0; d < dim; ++d) outer *= x.dim(d);
  if (y.numel() == 0) return PEN_OK;
  bool rows = true;
  int64_t step = 1;
  for (int d = x.rank() - 1; d > dim && rows; --d) {
    rows = x.dim(d) == 1 || x.shape.strides[d] == step;
    step *= x.dim(d);
  }
  if (rows) {
    const int64_t n = x.rank() ? x.dim(dim) : 1, stride = x.rank() ? x.shape.strides[dim] : 0;
    (void)n;
    int64_t index[kMaxRank] = {}, from = 0;
    char* to = y.data();
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < count; ++i, to += inner * size) {
        PEN_TRY(c.walk(1 + inner / 16));
        copy_run(to, x.data() + (from + at[i] * stride) * size, inner, 1, 1, size);
      }
      for (int d = dim - 1; d >= 0; --d) {
        from += x.shape.strides[d];
        if (++index[d] < x.dim(d)) break;
        from -= x.shape.strides[d] * x.dim(d);
        index[d] = 0;
      }
    }
    return PEN_OK;
  }
  for (int64_t i = 0; i < count; ++i) PEN_TRY(move_elements(c, slice_at(y.view(), dim, i), slice_at(x.view(), dim, at[i])));
  return PEN_OK;
}
PEN_OP(index_select, "[out]", "aten::index_select(Tensor self, int dim, Tensor index) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  int dim;
  PEN_TRY(c.dim(1, x.rank(), &dim));
  Value index;
  PEN_TRY(row_of_indices(c, c.tensor(2), dim, x.rank() ? x.dim(dim) : 1, &index));
  int64_t count = index.tensor()->numel();
  if (x.rank() == 0 && count != 1) return c.fail("one index for a tensor of rank 0", "%lld", static_cast<long long>(count));
  Shape shape = shape_of(x);
  if (x.rank()) shape.dims[dim] = count;
  PEN_TRY(make_fresh(c, x.dtype(), shape, Format::contiguous, nullptr, &c.results[0]));
  return select_slices(c, x, dim, index.tensor()->as<int64_t>(), count, *c.results[0].tensor());
}

PEN_OP(
    embedding, "[out]",
    "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor") {
  const TensorObject &w = c.tensor(0), &indices = c.tensor(1);
  if (w.rank() != 2) return c.fail("weights of rank 2", "rank %d", w.rank());
  if (indices.dtype() != DType::i64 && indices.dtype() != DType::i32)
    return c.fail("indices of dtype Long or Int", "%s", dtype_name(indices.dtype()));
  if (indices.rank() == kMaxRank) return c.fail("at most 7 dims", "8");
  Value index;
  PEN_TRY(long_index(c, indices, &index));
  const int64_t *at = index.tensor()->as<int64_t>(), count = index.tensor()->numel();
  PEN_TRY(in_pieces(c, count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      if (at[i] < 0 || at[i] >= w.dim(0))
        return c.raise("IndexError: index out of range in self: %lld of %lld", static_cast<long long>(at[i]),
                       static_cast<long long>(w.dim(0)));
    return PEN_OK;
  }));
  Shape rows, shape = shape_of(indices);
  rows.rank = 2, rows.dims[0] = count, rows.dims[1] = w.dim(1);
  shape.dims[shape.rank++] = w.dim(1);
  Value made;
  PEN_TRY(make_fresh(c, w.dtype(), rows, Format::contiguous, nullptr, &made));
  PEN_TRY(select_slices(c, w, 0, at, count, *made.tensor()));
  return reshaped(c, *made.tensor(), shape, &c.results[0]);
}

// ---- slices written ----
// Slices of a source into slices of x; a source of rank 0 or with strides of 0 serves for all.
static Status write_slices(const Call& c, TensorObject* x, int dim, const Value& index, const Tensor& source, Combine how) {
  const int64_t *at = index.tensor()->as<int64_t>(), count = index.tensor()->numel(), size = dtype_size(x->dtype());
  if (!tensor_make_writable(x)) return c.out_of_memory();
  CombineFn into = combine_function(how, x->dtype());
  for (int64_t i = 0; i < count; ++i) {
    Tensor to = slice_at(x->view(), dim, at[i]), from = slice_at(source, dim, i);
    if (to.numel() == 0) return PEN_OK;
    if (how == Combine::set) {
      PEN_TRY(c.walk(to.numel()));
      PEN_TRY(move_elements(c, to, from));
      continue;
    }
    Walk w = {};
    for (int d = 0; d < to.rank; ++d) w.add(to.dims[d], to.strides[d], from.strides[d], 0);
    w.close();
    int inner = w.rank - 1;
    PEN_TRY(in_pieces(c, w.numel(), [&](int64_t begin, int64_t end) {
      w.rows(begin, end, [&](int64_t n, const int64_t* offsets) {
        for (int64_t k = 0; k < n; ++k)
          into(to.data + (offsets[0] + k * w.steps[0][inner]) * size, from.data + (offsets[1] + k * w.steps[1][inner]) * size);
      });
    }));
  }
  return PEN_OK;
}
// What index_fill, index_add and index_copy begin with: the dim, the indices, and x or a copy of it as the result.
static Status begin_write(Call& c, int* dim, Value* index, bool in_place) {
  const TensorObject& x = c.tensor(0);
  PEN_TRY(c.dim(1, x.rank(), dim));
  PEN_TRY(row_of_indices(c, c.tensor(2), *dim, x.rank() ? x.dim(*dim) : 1, index));
  if (in_place) return c.give(Value(c.args[0]));
  return make_copy(c, x, x.dtype(), Format::contiguous, &c.results[0]);
}
// The source of index_add and index_copy: a slice for each index. As x: of its dtype and rank.
static Status source_of(Call& c, int dim, const Value& index, Value* kept, Tensor* made) {
  const TensorObject &x = c.tensor(0), &source = c.tensor(3);
  if (x.dtype() != source.dtype())
    return c.fail("a source of the tensor's dtype", "%s for %s", dtype_name(source.dtype()), dtype_name(x.dtype()));
  bool fits = x.rank() == source.rank() || (x.rank() == 0 && source.rank() == 1);
  int64_t slices = source.rank() ? source.dim(dim < source.rank() ? dim : 0) : 1;
  for (int d = 0; fits && d < source.rank() && x.rank() == source.rank(); ++d) fits = d == dim || x.dim(d) == source.dim(d);
  if (!fits || slices != index.tensor()->numel()) return c.fail("a slice for each index, of the tensor's other sizes", "another shape");
  *kept = c.args[3];
  if (source.storage == x.storage) PEN_TRY(make_copy(c, source, source.dtype(), Format::contiguous, kept));
  *made = kept->tensor()->view();
  return PEN_OK;
}
static Status give_index_fill(Call& c, bool in_place) {
  int dim;
  Value index, number = c.args[3];
  if (number.tag() == Tag::tensor) {
    if (number.tensor()->rank() != 0) return c.fail("a value of rank 0", "rank %d", number.tensor()->rank());
    PEN_TRY(number_in(c, *c.args[3].tensor(), &number));
  }
  DType dtype = c.tensor(0).dtype();
  if (c.tensor(2).dtype() != DType::i64) return c.fail("indices of dtype Long", "%s", dtype_name(c.tensor(2).dtype()));
  // Here, unlike elsewhere, negative ones count from the end.
  Value positive;
  PEN_TRY(make_copy(c, c.tensor(2), DType::i64, Format::contiguous, &positive));
  PEN_TRY(c.dim(1, c.tensor(0).rank(), &dim));
  int64_t size = c.tensor(0).rank() ? c.tensor(0).dim(dim) : 1, *at = positive.tensor()->as<int64_t>();
  if (c.tensor(2).rank() > 1) return c.fail("a row of indices", "rank %d", c.tensor(2).rank());
  for (int64_t i = 0; i < positive.tensor()->numel(); ++i) {
    PEN_TRY(c.walk(1));
    if (at[i] < -size || at[i] >= size) return out_of_range(c, at[i], dim, size);
    at[i] += at[i] < 0 ? size : 0;
  }
  if (!number_fits(number, dtype)) return c.raise("RuntimeError: value cannot be converted to type %s without overflow", dtype_name(dtype));
  if (in_place)
    PEN_TRY(c.give(Value(c.args[0])));
  else
    PEN_TRY(make_copy(c, c.tensor(0), dtype, Format::preserve, &c.results[0]));
  alignas(8) char element[8] = {};
  number_into(number, dtype, element);
  Tensor source = c.tensor(0).view();
  source.data = element;
  for (int d = 0; d < source.rank; ++d) source.strides[d] = 0;
  return write_slices(c, c.results[0].tensor(), dim, positive, source, Combine::set);
}
PEN_OP(index_fill, "[out]", "aten::index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
       "aten::index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor") {
  return give_index_fill(c, false);
}
PEN_OP(index_fill_in_place, "[direct]", "aten::index_fill_.int_Scalar(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!)",
       "aten::index_fill_.int_Tensor(Tensor(a!) self, int dim, Tensor index, Tensor value) -> Tensor(a!)") {
  return give_index_fill(c, true);
}
static Status give_index_copy(Call& c, bool in_place) {
  int dim;
  Value index, kept;
  Tensor source;
  if (c.tensor(2).dtype() != DType::i64) return c.fail("indices of dtype Long", "%s", dtype_name(c.tensor(2).dtype()));
  PEN_TRY(begin_write(c, &dim, &index, in_place));
  PEN_TRY(source_of(c, dim, index, &kept, &source));
  return write_slices(c, c.results[0].tensor(), dim, index, source, Combine::set);
}
PEN_OP(index_copy, "[out]", "aten::index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor") {
  return give_index_copy(c, false);
}
PEN_OP(index_copy_in_place, "[direct]", "aten::index_copy_(Tensor(a!) self, int dim, Tensor index, Tensor source) -> Tensor(a!)") {
  return give_index_copy(c, true);
}
static Status give_index_add(Call& c, bool in_place) {
  int dim;
  Value index, kept, scaled;
  Tensor source;
  PEN_TRY(begin_write(c, &dim, &index, in_place));
  PEN_TRY(source_of(c, dim, index, &kept, &source));
  const Value& alpha = c.args[4];
  DType dtype = c.tensor(0).dtype(), carrier;
  if (!is_floating(dtype) && alpha.tag() == Tag::real) return c.fail("an integer alpha for integer tensors", "a float");
  if (alpha.number() != 1) {
    Rows r(c);
    TensorObject* made;
    if (!carrier_of("mul", dtype, &carrier)) return c.fail("tensors of numbers", "%s", dtype_name(dtype));
    PEN_TRY(r.run(r.cast(r.node("mul", carrier, r.cast(r.input(source), carrier), r.number(alpha, carrier)), dtype), &made, true));
    scaled = Value::own(made);
    source = made->view();
  }
  return write_slices(c, c.results[0].tensor(), dim, index, source, Combine::add);
}
PEN_OP(index_add, "[out]", "aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor") {
  return give_index_add(c, false);
}
PEN_OP(index_add_in_place, "[direct]",
       "aten::index_add_(Tensor(a!) self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor(a!)") {
  return give_index_add(c, true);
}

}  // namespace pen
