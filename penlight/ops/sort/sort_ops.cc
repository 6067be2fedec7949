// Orders: sort, topk; places in sorted rows: searchsorted, bucketize; counts: bincount, histc.
#include "penlight/ops/sort/orders.h"
#include "penlight/runtime/vm/graph.h"

namespace pen {

DType order_carrier(DType d) {
  if (d == DType::f64) return d;
  if (d == DType::f16 || d == DType::bf16 || d == DType::f32) return DType::f32;
  return d == DType::i64 ? DType::i64 : DType::i32;
}

// One kernel of two outputs over a row-major tensor with dims.
static Status run_order(Graph& g, const TensorObject& t, int values, int places, Value* made, Value* made_places) {
  PEN_TRY(g.run(g.cast(values, order_carrier(t.dtype()), t.dtype()), places));
  *made = Value::own(g.take(0));
  *made_places = Value::own(g.take(1));
  return PEN_OK;
}
Status sorted(const Call& c, const TensorObject& t, int dim, bool descending, Value* values, Value* places) {
  if (t.rank() == 0) {
    PEN_TRY(make_copy(c, t, t.dtype(), Format::contiguous, values));
    PEN_TRY(make_fresh(c, DType::i64, Shape(), Format::contiguous, nullptr, places));
    return fill(c, places->tensor(), Value(int64_t{0}));
  }
  Graph g(c);
  DType carrier = order_carrier(t.dtype());
  int v = g.node(Key("sort", carrier), g.input(t, carrier)), p = g.output();
  g.integer("dim", dim).flag("descending", descending);
  return run_order(g, t, v, p, values, places);
}

// As the tensor lies, in its order of dims.
static Status laid_like(const Call& c, const TensorObject& like, Value* t) {
  if (tensor_is_contiguous(like)) return PEN_OK;
  Value made;
  PEN_TRY(make_fresh(c, t->tensor()->dtype(), shape_of(*t->tensor()), Format::preserve, &like, &made));
  PEN_TRY(copy_into(c, made.tensor(), *t->tensor()));
  *t = made;
  return PEN_OK;
}
static Status sorted_like(const Call& c, int dim_at, int descending, Value* values, Value* places) {
  int dim;
  PEN_TRY(c.dim(dim_at, c.tensor(0).rank(), &dim));
  PEN_TRY(sorted(c, c.tensor(0), dim, c.flag(descending), values, places));
  PEN_TRY(laid_like(c, c.tensor(0), values));
  return laid_like(c, c.tensor(0), places);
}
PEN_OP(sort, "[out=values values indices]",
       "aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)") {
  return sorted_like(c, 1, 2, &c.results[0], &c.results[1]);
}
PEN_OP(sort_stable, "[out=values_stable values indices]",
       "aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)") {
  return sorted_like(c, 2, 3, &c.results[0], &c.results[1]);
}
PEN_OP(argsort, "aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor") {
  Value values;
  return sorted_like(c, 1, 2, &values, &c.results[0]);
}
PEN_OP(argsort_stable, "[out]", "aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor") {
  Value values;
  return sorted_like(c, 2, 3, &values, &c.results[0]);
}
PEN_OP(msort, "[out]", "aten::msort(Tensor self) -> Tensor") {
  Value places;
  PEN_TRY(sorted(c, c.tensor(0), 0, false, &c.results[0], &places));
  return laid_like(c, c.tensor(0), &c.results[0]);
}

// The first `k` along a dim of a row-major tensor, as a fresh one.
static Status first_of(const Call& c, const TensorObject& t, int dim, int64_t k, Value* made) {
  Shape shape = shape_of(t);
  shape.dims[dim] = k;
  Value view;
  PEN_TRY(make_view(c, t, shape, t.shape.strides, 0, &view));
  return make_copy(c, *view.tensor(), t.dtype(), Format::contiguous, made);
}
PEN_OP(topk, "[out=values values indices]",
       "aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)") {
  const TensorObject& t = c.tensor(0);
  int64_t k = c.integer(1);
  int dim;
  PEN_TRY(c.dim(2, t.rank(), &dim));
  int64_t size = t.rank() ? t.dim(dim) : 1;
  if (k < 0 || k > size)
    return c.fail("a k from 0 to the size of the dim", "%lld of %lld", static_cast<long long>(k), static_cast<long long>(size));
  if (t.dtype() == DType::boolean) return c.fail("a tensor of numbers", "one of bools");
  if (t.rank() == 0 || k == 0 || t.numel() == 0) {
    Value values, places;
    PEN_TRY(sorted(c, t, dim, c.flag(3), &values, &places));
    if (t.rank() == 0) {
      PEN_TRY(c.give(static_cast<Value&&>(values), 0));
      return c.give(static_cast<Value&&>(places), 1);
    }
    PEN_TRY(first_of(c, *values.tensor(), dim, k, &c.results[0]));
    return first_of(c, *places.tensor(), dim, k, &c.results[1]);
  }
  Graph g(c);
  DType carrier = order_carrier(t.dtype());
  int v = g.node(Key("topk", carrier), g.input(t, carrier)), p = g.output();
  g.integer("k", k).integer("dim", dim).flag("largest", c.flag(3));
  return run_order(g, t, v, p, &c.results[0], &c.results[1]);
}
// ---- places in sorted rows ----
// Elements of any dtype as doubles, or, of integers alone, as they are.
struct Reader {
  explicit Reader(const TensorObject& t) : tensor(t.view()), size(dtype_size(t.dtype())) {}
  double real(int64_t i) const { return number_at(tensor.dtype, tensor.data + i * size).number(); }
  int64_t integer(int64_t i) const { return number_at(tensor.dtype, tensor.data + i * size).integer(); }
  Tensor tensor;
  int64_t size;
};
// The first of n places whose element is not below v (right: is above v).
template <class T, class At>
static int64_t first_place(T v, int64_t n, bool right, At at) {
  int64_t low = 0, high = n;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    T m = at(middle);
    bool before = right ? !(m > v) : !(m >= v);
    if (before)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}
// rows: sorted along the last dim; values: a tensor, as row-major as rows.
static Status give_places(Call& c, const TensorObject& given_rows, const TensorObject& given_values, const TensorObject* sorter, bool right,
                          bool out_int32) {
  if (given_rows.rank() == 0) return c.fail("a sorted row or more", "rank 0");
  bool one_row = given_rows.rank() == 1;
  const int last = given_rows.rank() - 1;
  if (!one_row) {
    bool same = given_rows.rank() == given_values.rank();
    for (int d = 0; same && d < last; ++d) same = given_rows.dim(d) == given_values.dim(d);
    if (!same) return c.fail("one sorted row, or one for each row of the values", "rank %d for %d", given_rows.rank(), given_values.rank());
  }
  if (sorter) {
    bool same = sorter->rank() == given_rows.rank() && sorter->dtype() == DType::i64;
    for (int d = 0; same && d <= last; ++d) same = sorter->dim(d) == given_rows.dim(d);
    if (!same) return c.fail("a sorter of dtype Long and of the rows' shape", "another");
  }
  Value rows, values, order;
  PEN_TRY(make_copy(c, given_rows, given_rows.dtype(), Format::contiguous, &rows));
  PEN_TRY(make_copy(c, given_values, given_values.dtype(), Format::contiguous, &values));
  const int64_t n = given_rows.dim(last), numel = given_values.numel(), per_row = one_row ? numel : given_values.dim(last);
  if (sorter) {
    PEN_TRY(make_copy(c, *sorter, DType::i64, Format::contiguous, &order));
    for (int64_t i = 0; i < sorter->numel(); ++i) {
      PEN_TRY(c.walk(1));
      if (order.tensor()->as<int64_t>()[i] < 0 || order.tensor()->as<int64_t>()[i] >= n)
        return c.fail("a sorter of places in the row", "%lld", static_cast<long long>(order.tensor()->as<int64_t>()[i]));
    }
  }
  const int64_t* turn = sorter ? order.tensor()->as<int64_t>() : nullptr;
  PEN_TRY(make_fresh(c, out_int32 ? DType::i32 : DType::i64, shape_of(given_values), Format::contiguous, nullptr, &c.results[0]));
  TensorObject& y = *c.results[0].tensor();
  Reader row(*rows.tensor()), value(*values.tensor());
  bool whole = !is_floating(given_rows.dtype()) && !is_floating(given_values.dtype());
  for (int64_t i = 0; i < numel; ++i) {
    PEN_TRY(c.walk(1));
    int64_t start = one_row || per_row == 0 ? 0 : i / per_row * n;
    auto at = [&](int64_t k) { return start + (turn ? turn[start + k] : k); };
    int64_t place = whole ? first_place(value.integer(i), n, right, [&](int64_t k) { return row.integer(at(k)); })
                          : first_place(value.real(i), n, right, [&](int64_t k) { return row.real(at(k)); });
    if (out_int32)
      y.as<int32_t>()[i] = static_cast<int32_t>(place);
    else
      y.as<int64_t>()[i] = place;
  }
  return PEN_OK;
}
static Status right_of(const Call& c, bool flag, int side, bool* right) {
  *right = flag;
  if (!c.given(side)) return PEN_OK;
  *right = strcmp(c.text(side), "right") == 0;
  if (!*right && strcmp(c.text(side), "left") != 0) return c.fail("side 'left' or 'right'", "'%s'", c.text(side));
  if (flag && !*right) return c.fail("side and right that agree", "right=True and side 'left'");
  return PEN_OK;
}
PEN_OP(searchsorted, "[out]",
       "aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? "
       "sorter=None) -> Tensor") {
  bool right;
  PEN_TRY(right_of(c, c.flag(3), 4, &right));
  return give_places(c, c.tensor(0), c.tensor(1), c.given(5) ? &c.tensor(5) : nullptr, right, c.flag(2));
}
static Status give_place_of_number(Call& c, const TensorObject& row, const Value& number, const TensorObject* sorter, bool right,
                                   bool out_int32) {
  if (row.rank() != 1) return c.fail("one sorted row for a number", "rank %d", row.rank());
  DType dtype = number.tag() == Tag::real ? DType::f64 : DType::i64;
  TensorObject* value = tensor_of(number, dtype);
  if (!value) return c.out_of_memory();
  Value kept = Value::own(value);
  return give_places(c, row, *value, sorter, right, out_int32);
}
PEN_OP(searchsorted_number, "[out]",
       "aten::searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? "
       "sorter=None) -> Tensor") {
  bool right;
  PEN_TRY(right_of(c, c.flag(3), 4, &right));
  return give_place_of_number(c, c.tensor(0), c.args[1], c.given(5) ? &c.tensor(5) : nullptr, right, c.flag(2));
}
PEN_OP(bucketize, "[out]", "aten::bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor") {
  if (c.tensor(1).rank() != 1) return c.fail("one row of boundaries", "rank %d", c.tensor(1).rank());
  return give_places(c, c.tensor(1), c.tensor(0), nullptr, c.flag(3), c.flag(2));
}
PEN_OP(bucketize_number, "[out]",
       "aten::bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor") {
  return give_place_of_number(c, c.tensor(1), c.args[0], nullptr, c.flag(3), c.flag(2));
}

// Which of `elements` (a tensor or a number) are among `test`.
static Status give_members(Call& c, const Value& elements, const Value& test, bool invert) {
  Value values = elements, among = test;
  if (values.tag() != Tag::tensor) values = Value::own(tensor_of(elements, elements.tag() == Tag::real ? DType::f64 : DType::i64));
  if (among.tag() != Tag::tensor) among = Value::own(tensor_of(test, test.tag() == Tag::real ? DType::f64 : DType::i64));
  if (values.is_none() || among.is_none()) return c.out_of_memory();
  Shape flat;
  flat.rank = 1;
  flat.dims[0] = among.tensor()->numel();
  Value row, order, places, row_major;
  PEN_TRY(reshaped(c, *among.tensor(), flat, &row));
  PEN_TRY(sorted(c, *row.tensor(), 0, false, &order, &places));
  PEN_TRY(make_copy(c, *values.tensor(), values.tensor()->dtype(), Format::contiguous, &row_major));
  PEN_TRY(make_fresh(c, DType::boolean, shape_of(*values.tensor()), Format::contiguous, nullptr, &c.results[0]));
  Reader in(*order.tensor()), value(*row_major.tensor());
  bool whole = !is_floating(in.tensor.dtype) && !is_floating(value.tensor.dtype);
  for (int64_t i = 0, n = flat.dims[0], numel = values.tensor()->numel(); i < numel; ++i) {
    bool found;
    PEN_TRY(c.walk(1));
    if (whole) {
      int64_t v = value.integer(i), at = first_place(v, n, false, [&](int64_t k) { return in.integer(k); });
      found = at < n && in.integer(at) == v;
    } else {
      double v = value.real(i);
      int64_t at = first_place(v, n, false, [&](int64_t k) { return in.real(k); });
      found = at < n && in.real(at) == v;
    }
    c.results[0].tensor()->as<uint8_t>()[i] = found != invert;
  }
  return PEN_OK;
}
PEN_OP(isin, "[out]",
       "aten::isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
       "aten::isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) -> Tensor",
       "aten::isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor") {
  return give_members(c, c.args[0], c.args[1], c.flag(3));
}

// ---- counts ----
PEN_OP(bincount, "[out]", "aten::bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor") {
  const TensorObject& t = c.tensor(0);
  int64_t least = c.integer(2), most = -1, n = t.numel();
  if (least < 0) return c.fail("a minlength of 0 or more", "%lld", static_cast<long long>(least));
  if (t.rank() != 1 || !is_integral(t.dtype(), false)) return c.fail("a row of integers", "%s of rank %d", dtype_name(t.dtype()), t.rank());
  bool weighted = c.given(1);
  if (weighted && (c.tensor(1).rank() != 1 || c.tensor(1).numel() != n))
    return c.fail("a weight for each", "%lld for %lld", static_cast<long long>(c.tensor(1).numel()), static_cast<long long>(n));
  Value rows, weights;
  PEN_TRY(make_copy(c, t, DType::i64, Format::contiguous, &rows));
  const int64_t* at = rows.tensor()->as<int64_t>();
  int64_t low = 0;
  PEN_TRY(in_pieces(c, n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      low = at[i] < low ? at[i] : low;
      most = at[i] > most ? at[i] : most;
    }
  }));
  if (low < 0) return c.fail("values of 0 or more", "%lld", static_cast<long long>(low));
  if (most == INT64_MAX) return c.out_of_memory();
  int64_t bins = most + 1 > least ? most + 1 : least;
  DType dtype = n == 0 || !weighted ? DType::i64 : c.tensor(1).dtype() == DType::f32 ? DType::f32 : DType::f64;
  TensorObject* y = tensor_create(dtype, 1, &bins);
  PEN_TRY(c.give(y));
  PEN_TRY(fill(c, y, Value(int64_t{0})));
  if (weighted) PEN_TRY(make_copy(c, c.tensor(1), dtype, Format::contiguous, &weights));
  return in_pieces(c, n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (!weighted)
        ++y->as<int64_t>()[at[i]];
      else if (dtype == DType::f32)
        y->as<float>()[at[i]] += weights.tensor()->as<float>()[i];
      else
        y->as<double>()[at[i]] += weights.tensor()->as<double>()[i];
    }
  });
}
// As torch computes it, in T; where that overflows (a range of more than T has), by halves. Never outside of the bins.
template <class T>
static void count_bins(const T* x, int64_t n, T low, T high, int64_t bins, T* counts) {
  const bool wide = high - low - (high - low) != 0;
  const T scale = wide ? static_cast<T>(0.5) : 1, span = high * scale - low * scale;
  for (int64_t i = 0; i < n; ++i) {
    if (!(x[i] >= low && x[i] <= high)) continue;
    T place = (x[i] * scale - low * scale) * static_cast<T>(bins) / span;
    if (!(place >= 0)) place = 0;
    if (!(place < static_cast<T>(bins))) place = static_cast<T>(bins - 1);  // the last edge, and infinity
    const int64_t at = static_cast<int64_t>(place);
    counts[at < bins ? at : bins - 1] += 1;
  }
}
template <class T>
static Status histogram(Call& c, const T* x, int64_t n, TensorObject* y) {
  T low = static_cast<T>(c.number(2)), high = static_cast<T>(c.number(3));
  if (low == high && n > 0) {
    low = high = x[0];
    PEN_TRY(in_pieces(c, n, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end && low == low; ++i) {  // one NaN is all: the range is none
        low = x[i] >= low ? low : x[i];
        high = x[i] <= high ? high : x[i];
      }
    }));
  }
  if (low == high) low -= 1, high += 1;
  if (!(low < high) || low - low != 0 || high - high != 0)
    return c.fail("a finite range with max above min", "%g to %g", static_cast<double>(low), static_cast<double>(high));
  return in_pieces(c, n, [&](int64_t begin, int64_t end) { count_bins(x + begin, end - begin, low, high, y->dim(0), y->as<T>()); });
}
PEN_OP(histc, "[out]", "aten::histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor") {
  const TensorObject& t = c.tensor(0);
  if (!is_floating(t.dtype())) return c.fail("a tensor of floats", "%s", dtype_name(t.dtype()));
  DType wide = t.dtype() == DType::f64 ? DType::f64 : DType::f32;
  int64_t bins = c.integer(1), n = t.numel();
  if (bins <= 0) return c.fail("bins above 0", "%lld", static_cast<long long>(bins));
  Value rows;
  PEN_TRY(make_copy(c, t, wide, Format::contiguous, &rows));
  TensorObject* y = tensor_create(wide, 1, &bins);
  PEN_TRY(c.give(y));
  PEN_TRY(fill(c, y, Value(int64_t{0})));
  PEN_TRY(wide == DType::f32 ? histogram(c, rows.tensor()->as<float>(), n, y) : histogram(c, rows.tensor()->as<double>(), n, y));
  if (wide == t.dtype()) return PEN_OK;
  Value counts = c.results[0];
  return make_copy(c, *counts.tensor(), t.dtype(), Format::contiguous, &c.results[0]);
}

}  // namespace pen
