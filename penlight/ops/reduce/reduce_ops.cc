// sum, mean, prod, amax, any, var, norm and their relatives of the VM.
#include "penlight/ops/reduce/reduction.h"

#include "penlight/runtime/vm/calls.h"
#include "penlight/runtime/vm/machine.h"

namespace pen {

Status need_floats(const Call& c, const TensorObject& t) {
  return is_floating(t.dtype()) ? PEN_OK : c.fail("a tensor of floats", "%s", dtype_name(t.dtype()));
}

bool reduction_carrier(const char* kernel, DType dtype, DType* carrier) {
  const DType wider = dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : DType::i64;
  if (find_kernel(Key(kernel, dtype))) {
    *carrier = dtype;
    return true;
  }
  *carrier = wider;
  return dtype != DType::f64 && dtype != DType::f32 && find_kernel(Key(kernel, wider));
}

int add_reduced(Graph* g, const char* kernel, const TensorObject& x, DType carrier, const DimSet& dims, bool keepdim, const char* p_name,
                double p) {
  Tensor t = x.view();
  int64_t list[kMaxRank] = {0};
  int n = 0;
  for (int d = 0; d < t.rank; ++d)
    if (dims.has[d]) list[n++] = d;
  if (t.rank == 0) {  // kernels reduce a dim at least
    t.rank = n = 1;
    t.dims[0] = t.strides[0] = 1;
    keepdim = false;
  }
  int y = g->node(Key(kernel, carrier), g->input(t, carrier));
  g->ints("dims", list, n).flag("keepdim", keepdim);
  if (p_name) g->number(p_name, p);
  return y;
}

static double or_zero(double v) { return v == v ? v : 0; }

Status give_reduced(Call& c, const char* kernel, const TensorObject& x, const DimSet& dims, bool keepdim, DType to, int result) {
  if (dims.count == 0 && x.rank() > 0) return give_as(c, Value::share(const_cast<TensorObject*>(&x)), to, result);
  bool sum = strcmp(kernel, "sum") == 0;
  DType carrier;
  if (sum && x.dtype() == DType::boolean && to == DType::i64) {  // counts them
    Graph g(c);
    PEN_TRY(g.run(add_reduced(&g, kernel, x, DType::boolean, dims, keepdim)));
    return c.give(g.take(0), result);
  }
  DType from = sum && to == DType::boolean ? DType::i64 : to;
  if (!reduction_carrier(kernel, from, &carrier)) {
    auto product = [&](const double* row, int64_t n, double* made) {
      *made = 1;
      return in_pieces(c, n, [=](int64_t begin, int64_t end) {
        double p = *made;
        for (int64_t i = begin; i < end; ++i) p *= row[i];
        *made = p;
      });
    };
    auto sum_of_numbers = [&](const double* row, int64_t n, double* made) { return add_up(c, row, n, made, or_zero); };
    if (strcmp(kernel, "prod") == 0) return give_by_rows(c, x, dims, keepdim, to, product, result);
    if (strcmp(kernel, "nansum") == 0) return give_by_rows(c, x, dims, keepdim, to, sum_of_numbers, result);
    return c.fail("numbers of a dtype that it is computed in", "%s", dtype_name(to));
  }
  Value cast;
  const TensorObject* source = &x;
  // What the wanted dtype cannot hold is cut off before.
  if (x.dtype() != to && to != carrier && from == to) {
    Status status;
    cast = Value::own(tensor_cast(c, x, to, &status));
    PEN_TRY(status);
    source = cast.tensor();
  }
  Graph g(c);
  PEN_TRY(g.run(g.cast(add_reduced(&g, kernel, *source, carrier, dims, keepdim), carrier, to)));
  return c.give(g.take(0), result);
}

// The dtype asked for, or torch's of sums: integers become i64.
static Status sum_dtype(const Call& c, int arg, const TensorObject& x, DType* to) {
  return c.dtype(arg, is_integral(x.dtype(), true) ? DType::i64 : x.dtype(), to);
}

PEN_OP(sum_all, "aten::{sum,prod}(Tensor self, *, ScalarType? dtype=None) -> Tensor",
       "aten::{sum,prod}.out(Tensor self, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)") {
  DType to;
  PEN_TRY(sum_dtype(c, 1, c.tensor(0), &to));
  return give_reduced(c, c.word() == 0 ? "sum" : "prod", c.tensor(0), all_dims(c.tensor(0).rank()), false, to);
}
PEN_OP(sum_dims, "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
       "aten::sum.IntList_out(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)",
       "aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
       "aten::prod.int_out(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)",
       "[out]aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  DType to;
  DimSet dims;
  PEN_TRY(sum_dtype(c, 3, x, &to));
  PEN_TRY(dims_of(c, 1, x.rank(), true, &dims));
  static const char* const kKernels[] = {"sum", "sum", "prod", "prod", "nansum"};
  return give_reduced(c, c.form() == 4 && !is_floating(to) ? "sum" : kKernels[c.form()], x, dims, c.flag(2), to);
}

static Status mean_over(Call& c, const DimSet& dims, bool keepdim, int dtype) {
  DType to;
  PEN_TRY(c.dtype(dtype, c.tensor(0).dtype(), &to));
  if (!is_floating(to)) return c.fail("floats, or a dtype of floats for the mean", "%s", dtype_name(to));
  return give_reduced(c, "mean", c.tensor(0), dims, keepdim, to);
}
PEN_OP(mean_all, "aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
       "aten::mean.dtype_out(Tensor self, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)") {
  return mean_over(c, all_dims(c.tensor(0).rank()), false, 1);
}
PEN_OP(mean_dims, "aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
       "aten::mean.out(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)") {
  DimSet dims;
  PEN_TRY(dims_of(c, 1, c.tensor(0).rank(), true, &dims));
  return mean_over(c, dims, c.flag(2), 3);
}
PEN_OP(nanmean, "[out]", "aten::nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  DType to;
  DimSet dims;
  PEN_TRY(need_floats(c, x));
  PEN_TRY(c.dtype(3, x.dtype(), &to));
  PEN_TRY(dims_of(c, 1, x.rank(), true, &dims));
  return give_by_rows(c, x, dims, c.flag(2), to, [&](const double* row, int64_t n, double* mean) {
    double count;
    PEN_TRY(add_up(c, row, n, mean, or_zero));
    PEN_TRY(add_up(c, row, n, &count, [](double v) { return v == v ? 1.0 : 0.0; }));
    *mean /= count;
    return PEN_OK;
  });
}

// ---- extremes ----
static Status need_some(const Call& c, const TensorObject& x, const DimSet& dims) {
  for (int d = 0; d < x.rank(); ++d)
    if (dims.has[d] && x.dim(d) == 0) return c.fail("at least one element to choose from", "size 0 in dim %d", d);
  return PEN_OK;
}
static Status extreme_over(Call& c, const char* kernel, const DimSet& dims, bool keepdim, int result = 0) {
  PEN_TRY(need_some(c, c.tensor(0), dims));
  return give_reduced(c, kernel, c.tensor(0), dims, keepdim, c.tensor(0).dtype(), result);
}
PEN_OP(extreme_dims, "[out]", "aten::{amax,amin}(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor") {
  DimSet dims;
  PEN_TRY(dims_of(c, 1, c.tensor(0).rank(), true, &dims));
  return extreme_over(c, c.word() == 0 ? "amax" : "amin", dims, c.flag(2));
}
PEN_OP(extreme_all, "aten::{max,min}(Tensor self) -> Tensor", "aten::{max,min}.unary_out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)") {
  return extreme_over(c, c.word() == 0 ? "amax" : "amin", all_dims(c.tensor(0).rank()), false);
}
PEN_OP(aminmax, "[out=out min max]aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
       "[out]aten::_aminmax(Tensor self) -> (Tensor, Tensor)",
       "[out]aten::_aminmax.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)") {
  DimSet dims = all_dims(c.tensor(0).rank());
  if (c.inputs() > 1) PEN_TRY(dims_of(c, 1, c.tensor(0).rank(), true, &dims));
  bool keepdim = c.inputs() > 2 && c.flag(2);
  PEN_TRY(extreme_over(c, "amin", dims, keepdim, 0));
  return extreme_over(c, "amax", dims, keepdim, 1);
}

// any, all: of nothing, False and True.
static Status truth_over(Call& c, const DimSet& dims, bool keepdim) {
  const TensorObject& x = c.tensor(0);
  DType to = x.dtype() == DType::u8 ? DType::u8 : DType::boolean;
  bool any = c.word() == 0;
  if (x.numel() == 0) {
    Value made = Value::own(tensor_create(to, reduced_shape(x, dims, keepdim)));
    if (made.is_none()) return c.out_of_memory();
    memset(made.tensor()->data(), any ? 0 : 1, static_cast<size_t>(made.tensor()->numel()));
    return c.give(static_cast<Value&&>(made));
  }
  if (dims.count == 0 && x.rank() > 0) {
    Status status;
    Value truth = Value::own(tensor_cast(c, x, DType::boolean, &status));
    PEN_TRY(status);
    return give_as(c, static_cast<Value&&>(truth), to);
  }
  Graph g(c);
  int y = add_reduced(&g, any ? "amax" : "amin", x, DType::boolean, dims, keepdim);
  PEN_TRY(g.run(g.cast(y, DType::boolean, to)));
  return c.give(g.take(0));
}
PEN_OP(truth_all, "aten::{any,all}(Tensor self) -> Tensor", "aten::{any,all}.all_out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)") {
  return truth_over(c, all_dims(c.tensor(0).rank()), false);
}
PEN_OP(truth_dims, "aten::{any,all}.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
       "aten::{any,all}.out(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)",
       "[out]aten::{any,all}.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor") {
  DimSet dims;
  PEN_TRY(dims_of(c, 1, c.tensor(0).rank(), false, &dims));
  return truth_over(c, dims, c.flag(2));
}
PEN_OP(count_nonzero, "[out]", "aten::count_nonzero(Tensor self, int? dim=None) -> Tensor",
       "aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor") {
  DimSet dims;
  PEN_TRY(dims_of(c, 1, c.tensor(0).rank(), true, &dims));
  Graph g(c);
  PEN_TRY(g.run(add_reduced(&g, "sum", c.tensor(0), DType::boolean, dims, false)));
  return c.give(g.take(0));
}

// ---- variance ----
static Status variance_over(Call& c, const DimSet& dims, double correction, bool keepdim) {
  const TensorObject& x = c.tensor(0);
  PEN_TRY(need_floats(c, x));
  bool root = c.word() == 1, both = c.op->result_count == 2;
  if (x.dtype() == DType::f64) {
    auto mean = [&](const double* row, int64_t n, double* made) {
      PEN_TRY(add_up(c, row, n, made, [](double v) { return v; }));
      *made /= static_cast<double>(n);
      return PEN_OK;
    };
    auto spread = [&](const double* row, int64_t n, double* made) {
      double m, squares, over = static_cast<double>(n) - correction;
      PEN_TRY(mean(row, n, &m));
      PEN_TRY(add_up(c, row, n, &squares, [=](double v) { return (v - m) * (v - m); }));
      squares /= over > 0 ? over : 0;
      *made = root ? __builtin_sqrt(squares) : squares;
      return PEN_OK;
    };
    if (both) PEN_TRY(give_by_rows(c, x, dims, keepdim, DType::f64, mean, 1));
    return give_by_rows(c, x, dims, keepdim, DType::f64, spread);
  }
  Graph g(c);
  int var = add_reduced(&g, "var_mean", x, DType::f32, dims, keepdim, "correction", correction), mean = -1;
  // The second output belongs to the node before any other.
  mean = g.output();
  if (root) var = g.node("sqrt.f32", var);
  int wanted[] = {g.cast(var, DType::f32, x.dtype()), both ? g.cast(mean, DType::f32, x.dtype()) : 0};
  PEN_TRY(g.run_all(wanted, both ? 2 : 1));
  for (int i = 0; i < c.op->result_count; ++i) PEN_TRY(c.give(g.take(i), i));
  return PEN_OK;
}
PEN_OP(variance, "aten::{var,std}(Tensor self, bool unbiased=True) -> Tensor",
       "aten::{var_mean,std_mean}(Tensor self, bool unbiased=True) -> (Tensor, Tensor)") {
  return variance_over(c, all_dims(c.tensor(0).rank()), c.flag(1), false);
}
PEN_OP(variance_dims, "aten::{var,std}.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
       "aten::{var,std}.out(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)",
       "aten::{var_mean,std_mean}.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)") {
  DimSet dims;
  PEN_TRY(dims_of(c, 1, c.tensor(0).rank(), true, &dims));
  return variance_over(c, dims, c.flag(2), c.flag(3));
}
PEN_OP(variance_correction,
       "aten::{var,std}.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
       "aten::{var,std}.correction_out(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False, Tensor(a!) out) -> "
       "Tensor(a!)",
       "[out]aten::{var_mean,std_mean}.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> "
       "(Tensor, Tensor)") {
  DimSet dims;
  PEN_TRY(dims_of(c, 1, c.tensor(0).rank(), true, &dims));
  return variance_over(c, dims, c.given(2) ? c.number(2) : 1, c.flag(3));
}

// ---- norms ----
// The p-norm of numbers, any p.
static Status norm_of(const Call& c, const double* x, int64_t n, double p, double* norm) {
  double low = __builtin_inf(), high = 0, sum = 0;
  bool nan = false;
  PEN_TRY(in_pieces(c, n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double a = x[i] < 0 ? -x[i] : x[i];
      nan |= a != a;
      low = a < low ? a : low;
      high = a > high ? a : high;
      sum += p == 2 ? a * a : p == 1 ? a : p == 0 ? (a != 0) : p == __builtin_inf() || p == -__builtin_inf() ? 0 : pow(a, p);
    }
  }));
  *norm = p == 2 ? __builtin_sqrt(sum) : p == 1 || p == 0 ? sum : pow(sum, 1 / p);
  if (p == __builtin_inf() || p == -__builtin_inf()) *norm = nan ? __builtin_nan("") : p > 0 ? high : low;
  return PEN_OK;
}
static Status norm_over(Call& c, double p, const DimSet& dims, bool keepdim, int dtype) {
  const TensorObject& x = c.tensor(0);
  DType to = x.dtype();
  if (dtype >= 0) PEN_TRY(c.dtype(dtype, to, &to));
  PEN_TRY(need_floats(c, x));
  if (!is_floating(to)) return c.fail("a dtype of floats", "%s", dtype_name(to));
  bool direct = p == 0 || p == 1 || p == 2 || p == __builtin_inf() || p == -__builtin_inf();
  if (p < 0 || p == __builtin_inf()) PEN_TRY(need_some(c, x, dims));
  bool single = to != DType::f64 && x.dtype() != DType::f64 && direct && x.numel() > 0 && (dims.count > 0 || x.rank() == 0);
  if (!single)
    return give_by_rows(c, x, dims, keepdim, to, [&](const double* row, int64_t n, double* norm) { return norm_of(c, row, n, p, norm); });
  Graph g(c);
  PEN_TRY(g.run(g.cast(add_reduced(&g, "norm", x, DType::f32, dims, keepdim, "p", p), DType::f32, to)));
  return c.give(g.take(0));
}
static double order(const Call& c, int arg) { return c.given(arg) ? c.number(arg) : 2; }

PEN_OP(norm_all, "[out]", "aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor",
       "aten::norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor") {
  return norm_over(c, order(c, 1), all_dims(c.tensor(0).rank()), false, c.form() == 1 ? 2 : -1);
}
PEN_OP(
    norm_dims, "aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
    "aten::norm.out(Tensor self, Scalar? p, int[1] dim, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)",
    "[out=dtype_out]aten::norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor",
    "[out]aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor") {
  DimSet dims;
  PEN_TRY(dims_of(c, 2, c.tensor(0).rank(), true, &dims));
  return norm_over(c, order(c, 1), dims, c.flag(3), c.form() >= 2 ? 4 : -1);
}
PEN_OP(frobenius_norm, "aten::frobenius_norm(Tensor self) -> Tensor",
       "aten::frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
       "aten::frobenius_norm.out(Tensor self, int[1] dim, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)") {
  DimSet dims = all_dims(c.tensor(0).rank());
  if (c.inputs() > 1) PEN_TRY(dims_of(c, 1, c.tensor(0).rank(), true, &dims));
  return norm_over(c, 2, dims, c.inputs() > 1 && c.flag(2), -1);
}

PEN_OP(logsumexp, "[out]", "aten::{logsumexp,special_logsumexp}(Tensor self, int[1] dim, bool keepdim=False) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  DimSet dims;
  PEN_TRY(dims_of(c, 1, x.rank(), true, &dims));
  DType to = is_floating(x.dtype()) ? x.dtype() : DType::f32;
  if (to != DType::f64 && x.numel() >= 1024 && dims.count > 0) {
    Calls t(c);
    Value wide = x.dtype() == DType::f32 ? Value(c.args[0]) : t("aten::to.dtype", x, code_of_dtype(DType::f32));
    // The largest, or 0 where it is no number to subtract.
    Value high = t("aten::amax", wide, c.args[1], true);
    high = t("aten::masked_fill.Scalar", high, t("aten::isinf", high), 0);
    Value sum = t("aten::sum.dim_IntList", t("aten::exp", t("aten::sub.Tensor", wide, high)), c.args[1], true);
    Value made = t("aten::add.Tensor", t("aten::log", sum), high);
    PEN_TRY(t.status);
    return give_as(c, Value::own(in_shape(*made.tensor(), reduced_shape(x, dims, c.flag(2)))), to);
  }
  return give_by_rows(c, x, dims, c.flag(2), to, [&](const double* row, int64_t n, double* made) {
    double high = -__builtin_inf(), sum;
    PEN_TRY(in_pieces(c, n, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) high = row[i] > high || row[i] != row[i] ? row[i] : high;
    }));
    if (high == __builtin_inf() || high == -__builtin_inf()) high = 0;
    PEN_TRY(add_up(c, row, n, &sum, [=](double v) { return exp(v - high); }));
    *made = log(sum) + high;
    return PEN_OK;
  });
}

}  // namespace pen
