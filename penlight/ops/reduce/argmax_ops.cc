// argmax, max.dim, median, kthvalue, mode and cummax of the VM: values along a dim with the places where they are.
#include "penlight/ops/reduce/reduction.h"
#include "penlight/ops/sort/orders.h"

namespace pen {

// A tensor as kernels take it that go along a dim: rank 1 at least.
static Tensor with_dim(const TensorObject& x) {
  Tensor t = x.view();
  if (t.rank == 0) t.rank = 1, t.dims[0] = t.strides[0] = 1;
  return t;
}
static Status need_elements(const Call& c, const TensorObject& x, int dim) {
  if (x.rank() && x.dim(dim) == 0) return c.fail("a dim with elements", "size 0 in dim %d", dim);
  return PEN_OK;
}
static DimSet only(int rank, int dim) {
  DimSet s;
  if (rank) s.add(dim);
  return s;
}
static bool is_nan(double v) { return v != v; }

// Indices of the extreme along `dim`, or over all elements (-1), as a value of the shape wanted.
static Status places(Call& c, const TensorObject& x, int dim, bool keepdim, bool largest, int result) {
  DimSet dims = dim < 0 ? all_dims(x.rank()) : only(x.rank(), dim);
  for (int d = 0; d < x.rank(); ++d)
    if (dims.has[d]) PEN_TRY(need_elements(c, x, d));
  Shape shape = reduced_shape(x, dims, keepdim);
  DType carrier = x.dtype() == DType::f64 ? DType::f64 : is_floating(x.dtype()) ? DType::f32 : DType::i64;
  Graph g(c);
  int value = g.input(with_dim(x), carrier);
  if (dim < 0 && x.rank() > 1) {
    int64_t all = x.numel();
    value = g.node(Key::by_size("reshape", carrier), value);
    g.ints("shape", &all, 1);
  }
  int y = g.node(Key(largest ? "argmax" : "argmin", carrier), value);
  g.integer("dim", dim < 0 ? 0 : dim).flag("keepdim", false);
  PEN_TRY(g.run(y));
  Value made = Value::own(g.take(0));
  return c.give(in_shape(*made.tensor(), shape), result);
}

PEN_OP(argmax, "[out]", "aten::{argmax,argmin}(Tensor self, int? dim=None, bool keepdim=False) -> Tensor") {
  int dim = -1;
  if (c.given(1)) PEN_TRY(c.dim(1, c.tensor(0).rank(), &dim));
  if (c.tensor(0).dtype() == DType::boolean) return c.fail("numbers", "Bool");
  return places(c, c.tensor(0), dim, c.flag(2), c.word() == 0, 0);
}

PEN_OP(max_dim,
       "aten::{max[out=dim_max max max_values],min[out=dim_min min min_indices]}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor "
       "values, Tensor indices)") {
  const TensorObject& x = c.tensor(0);
  int dim;
  PEN_TRY(c.dim(1, x.rank(), &dim));
  PEN_TRY(need_elements(c, x, dim));
  PEN_TRY(places(c, x, dim, c.flag(2), c.word() == 0, 1));
  return give_reduced(c, c.word() == 0 ? "amax" : "amin", x, only(x.rank(), dim), c.flag(2), x.dtype());
}

// ---- the k-th of a row ----
// nan: as in the kernel, "last", "wins" or "left out". k counts from 1; 0: the middle.
static Status kth(Call& c, const TensorObject& x, int dim, int64_t k, bool keepdim, const char* nan) {
  PEN_TRY(need_elements(c, x, dim));
  int64_t n = x.rank() ? x.dim(dim) : 1;
  if (k == 0) k = (n + 1) / 2;
  if (k < 1 || k > n)
    return c.fail("a k from 1 to the size of the dim", "%lld of %lld", static_cast<long long>(k), static_cast<long long>(n));
  Shape shape = reduced_shape(x, only(x.rank(), dim), keepdim);
  DType carrier = order_carrier(x.dtype());
  Graph g(c);
  int values = g.node(Key("kth", carrier), g.input(with_dim(x), carrier)), indices = g.output();
  g.integer("k", k).integer("dim", dim).flag("keepdim", false).text("nan", nan);
  PEN_TRY(g.run(g.cast(values, carrier, x.dtype()), indices));
  Value v = Value::own(g.take(0)), p = Value::own(g.take(1));
  PEN_TRY(c.give(in_shape(*v.tensor(), shape), 0));
  return c.give(in_shape(*p.tensor(), shape), 1);
}

PEN_OP(kthvalue, "[out=values values indices]",
       "aten::kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)") {
  int dim;
  PEN_TRY(c.dim(2, c.tensor(0).rank(), &dim));
  if (c.integer(1) < 1) return c.fail("a k of 1 or more", "%lld", static_cast<long long>(c.integer(1)));
  return kth(c, c.tensor(0), dim, c.integer(1), c.flag(3), "last");
}
PEN_OP(median_dim, "[out=dim_values values indices]",
       "aten::{median,nanmedian}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)") {
  int dim;
  PEN_TRY(c.dim(1, c.tensor(0).rank(), &dim));
  return kth(c, c.tensor(0), dim, 0, c.flag(2), c.word() == 0 ? "wins" : "left out");
}
PEN_OP(median, "[out]", "aten::{median,nanmedian}(Tensor self) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  if (x.numel() == 0) {  // torch's cast of a NaN
    int64_t least = x.dtype() == DType::i32 ? INT32_MIN : INT64_MIN;
    return c.give(tensor_of(is_floating(x.dtype()) ? Value(__builtin_nan("")) : Value(least), x.dtype()));
  }
  Status status;
  Value plain = Value::own(tensor_clone(c, x, &status));
  PEN_TRY(status);
  Shape flat;
  flat.rank = 1;
  flat.dims[0] = x.numel();
  Value row = Value::own(in_shape(*plain.tensor(), flat));
  if (row.is_none()) return c.out_of_memory();
  Value both[2];
  Call pair = c;
  pair.results = both;
  PEN_TRY(kth(pair, *row.tensor(), 0, 0, false, c.word() == 0 ? "wins" : "left out"));
  return c.give(static_cast<Value&&>(both[0]));
}
PEN_OP(mode, "[out=values values indices]", "aten::mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)") {
  const TensorObject& x = c.tensor(0);
  int dim;
  PEN_TRY(c.dim(1, x.rank(), &dim));
  PEN_TRY(need_elements(c, x, dim));
  Shape shape = reduced_shape(x, only(x.rank(), dim), c.flag(2));
  DType carrier = order_carrier(x.dtype());
  Graph g(c);
  int values = g.node(Key("mode", carrier), g.input(with_dim(x), carrier)), indices = g.output();
  g.integer("dim", dim).flag("keepdim", false);
  PEN_TRY(g.run(g.cast(values, carrier, x.dtype()), indices));
  Value v = Value::own(g.take(0)), p = Value::own(g.take(1));
  PEN_TRY(c.give(in_shape(*v.tensor(), shape), 0));
  return c.give(in_shape(*p.tensor(), shape), 1);
}

// ---- quantiles ----
static double between(const double* row, const int64_t* at, int64_t n, double q, const char* how) {
  double place = q * static_cast<double>(n - 1), low = floor(place), part = place - low;
  int64_t i = static_cast<int64_t>(low), j = part > 0 && i + 1 < n ? i + 1 : i;
  double a = row[at[i]], b = row[at[j]];
  if (strcmp(how, "lower") == 0) return a;
  if (strcmp(how, "higher") == 0) return b;
  if (strcmp(how, "midpoint") == 0) return (a + b) / 2;
  if (strcmp(how, "nearest") == 0) return row[at[static_cast<int64_t>(nearbyint(place))]];
  return part < 0.5 ? a + (b - a) * part : b - (b - a) * (1 - part);  // from the nearer end, as torch's lerp
}
PEN_OP(quantile, "[out]",
       "aten::{quantile,nanquantile}(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
       "aten::{quantile,nanquantile}.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> "
       "Tensor") {
  const TensorObject& x = c.tensor(0);
  if (x.dtype() != DType::f32 && x.dtype() != DType::f64) return c.fail("a Float or Double tensor", "%s", dtype_name(x.dtype()));
  if (x.numel() == 0) return c.fail("a tensor with elements", "none");
  bool leave_out = c.word() == 1, many = c.args[1].tag() == Tag::tensor;
  Value q = Value::own(tensor_of(many ? Value(0.0) : c.args[1], DType::f64));
  if (many) {
    if (c.tensor(1).rank() > 1) return c.fail("a q of rank 0 or 1", "rank %d", c.tensor(1).rank());
    PEN_TRY(elements_of(c, c.tensor(1), DType::f64, &q));
  }
  if (q.is_none()) return c.out_of_memory();
  int64_t count = q.tensor()->numel();
  for (int64_t i = 0; i < count; ++i)
    if (!(q.tensor()->as<double>()[i] >= 0 && q.tensor()->as<double>()[i] <= 1))
      return c.fail("quantiles from 0 to 1", "%g", q.tensor()->as<double>()[i]);
  const char* how = c.text(4);
  static const char* const kWays[] = {"linear", "lower", "higher", "midpoint", "nearest"};
  bool known = false;
  for (const char* way : kWays) known |= strcmp(way, how) == 0;
  if (!known) return c.fail("interpolation linear, lower, higher, midpoint or nearest", "\"%s\"", how);
  DimSet dims = all_dims(x.rank());
  if (c.given(2)) PEN_TRY(dims_of(c, 2, x.rank(), true, &dims));
  for (int d = 0; d < x.rank(); ++d)
    if (dims.has[d]) PEN_TRY(need_elements(c, x, d));
  RowArray rows;
  PEN_TRY(rows_of(c, x, dims, DType::f64, &rows));
  Shape inner = reduced_shape(x, dims, c.flag(3)), shape;
  if (many && c.tensor(1).rank() == 1) shape.dims[shape.rank++] = count;
  if (shape.rank + inner.rank > kMaxRank) return c.fail("a result of rank 8 at most", "%d", shape.rank + inner.rank);
  for (int d = 0; d < inner.rank; ++d) shape.dims[shape.rank++] = inner.dims[d];
  int64_t n = rows.inner, twice = 2 * n;
  Value order = Value::own(tensor_create(DType::i64, 1, &twice)), made = Value::own(tensor_create(DType::f64, shape));
  if (order.is_none() || made.is_none()) return c.out_of_memory();
  int64_t* at = order.tensor()->as<int64_t>();
  for (int64_t i = 0; i < rows.outer; ++i) {
    const double* row = rows.row<double>(i);
    for (int64_t k = 0; k < n; ++k) at[k] = k;
    PEN_TRY(c.walk(count));
    PEN_TRY(merge_sort(c, at, at + n, n, 1, [&](int64_t a, int64_t b) { return row[a] < row[b] || (is_nan(row[b]) && !is_nan(row[a])); }));
    int64_t numbers = n;
    while (numbers > 0 && is_nan(row[at[numbers - 1]])) --numbers;
    bool lost = numbers == 0 || (numbers < n && !leave_out);
    for (int64_t k = 0; k < count; ++k)
      made.tensor()->as<double>()[k * rows.outer + i] =
          lost ? __builtin_nan("") : between(row, at, numbers, q.tensor()->as<double>()[k], how);
  }
  return give_as(c, static_cast<Value&&>(made), x.dtype());
}

// ---- running values ----
static Status scan(Call& c, const TensorObject& x, int dim, const char* mode, DType to) {
  if (x.rank() == 0) {
    Status status;
    TensorObject* made = tensor_cast(c, x, to, &status);
    PEN_TRY(status);
    return c.give(made);
  }
  DType carrier = to == DType::f64 ? to : is_floating(to) ? DType::f32 : DType::i64;
  Graph g(c);
  int y = g.node(Key("scan", carrier), g.cast(g.input(x, to), to, carrier));
  g.integer("dim", dim).text("mode", mode);
  PEN_TRY(g.run(g.cast(y, carrier, to)));
  return c.give(g.take(0));
}
PEN_OP(cumsum, "[in_place][out]", "aten::{cumsum,cumprod}(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  int dim;
  DType to, otherwise = is_integral(x.dtype(), true) ? DType::i64 : x.dtype();
  if (c.op->writes == 0) otherwise = x.dtype();
  PEN_TRY(c.dim(1, x.rank(), &dim));
  PEN_TRY(c.dtype(2, otherwise, &to));
  return scan(c, x, dim, c.word() == 0 ? "sum" : "prod", to);
}
PEN_OP(logcumsumexp, "[out]", "aten::logcumsumexp(Tensor self, int dim) -> Tensor") {
  int dim;
  PEN_TRY(need_floats(c, c.tensor(0)));
  PEN_TRY(c.dim(1, c.tensor(0).rank(), &dim));
  return scan(c, c.tensor(0), dim, "logsumexp", c.tensor(0).dtype());
}
PEN_OP(cummax, "[out=out values indices]", "aten::{cummax,cummin}(Tensor self, int dim) -> (Tensor values, Tensor indices)") {
  const TensorObject& x = c.tensor(0);
  int dim;
  bool largest = c.word() == 0;
  PEN_TRY(c.dim(1, x.rank(), &dim));
  DType carrier = x.dtype() == DType::f64 ? DType::f64 : is_floating(x.dtype()) ? DType::f32 : DType::i64;
  Graph g(c);
  int values = g.node(Key("scan_extreme", carrier), g.input(with_dim(x), carrier)), indices = g.output();
  g.integer("dim", dim).flag("largest", largest);
  PEN_TRY(g.run(g.cast(values, carrier, x.dtype()), indices));
  Value v = Value::own(g.take(0)), p = Value::own(g.take(1));
  Shape shape = shape_of(x);
  PEN_TRY(c.give(in_shape(*v.tensor(), shape), 0));
  return c.give(in_shape(*p.tensor(), shape), 1);
}

}  // namespace pen
