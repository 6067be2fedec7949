// Functions of one tensor, and what all elementwise operators of the VM share (operands.h).
#include "penlight/ops/elementwise/operands.h"

namespace pen {

static const struct {
  const char *name, *kernel;
} kOtherNames[] = {{"absolute", "abs"},
                   {"arccos", "acos"},
                   {"arccosh", "acosh"},
                   {"arcsin", "asin"},
                   {"arcsinh", "asinh"},
                   {"arctan", "atan"},
                   {"arctan2", "atan2"},
                   {"arctanh", "atanh"},
                   {"clip", "clamp"},
                   {"divide", "div"},
                   {"fix", "trunc"},
                   {"greater", "gt"},
                   {"greater_equal", "ge"},
                   {"i0", "bessel_i0"},
                   {"less", "lt"},
                   {"less_equal", "le"},
                   {"max", "maximum"},
                   {"min", "minimum"},
                   {"multiply", "mul"},
                   {"negative", "neg"},
                   {"not_equal", "ne"},
                   {"sgn", "sign"},
                   {"special_digamma", "digamma"},
                   {"special_entr", "entr"},
                   {"special_erf", "erf"},
                   {"special_erfc", "erfc"},
                   {"special_erfcx", "erfcx"},
                   {"special_erfinv", "erfinv"},
                   {"special_exp2", "exp2"},
                   {"special_expit", "sigmoid"},
                   {"special_expm1", "expm1"},
                   {"special_gammaln", "lgamma"},
                   {"special_i0", "bessel_i0"},
                   {"special_i0e", "bessel_i0e"},
                   {"special_i1", "bessel_i1"},
                   {"special_i1e", "bessel_i1e"},
                   {"special_log1p", "log1p"},
                   {"special_log_ndtr", "log_ndtr"},
                   {"special_ndtr", "ndtr"},
                   {"special_ndtri", "ndtri"},
                   {"special_psi", "digamma"},
                   {"special_round", "round"},
                   {"special_sinc", "sinc"},
                   {"special_xlog1py", "xlog1py"},
                   {"special_xlogy", "xlogy"},
                   {"subtract", "sub"},
                   {"true_divide", "div"}};

KernelName::KernelName(const Call& c) {
  const char* name = c.op->name + 6;  // after "aten::"
  size_t n = 0;
  while (name[n] && name[n] != '.' && n + 1 < sizeof text) {
    text[n] = name[n];
    ++n;
  }
  if (n > 1 && text[n - 1] == '_' && text[0] != '_') --n;
  text[n] = 0;
  for (const auto& row : kOtherNames)
    if (strcmp(text, row.name) == 0) set_text(text, sizeof text, "%s", row.kernel);
}

DType promoted(const Call& c, int first, int second, int third) {
  Promotion p;
  const int places[] = {first, second, third};
  for (int i : places) {
    if (i < 0 || !c.given(i)) continue;
    if (c.args[i].tag() == Tag::tensor)
      p.add(c.tensor(i));
    else
      p.add(c.args[i]);
  }
  return p.result();
}
DType promoted_float(const Call& c, int first, int second, int third) {
  DType d = promoted(c, first, second, third);
  return is_floating(d) ? d : DType::f32;
}

int operand(Rows& r, const Call& c, int i, DType dtype, DType carrier, bool exact) {
  if (c.args[i].tag() != Tag::tensor) return exact ? r.number(c.args[i], carrier) : r.cast(r.number(c.args[i], dtype), carrier);
  int x = r.input(c.tensor(i));
  return exact && c.tensor(i).rank() == 0 ? r.cast(x, carrier) : r.cast(r.cast(x, dtype), carrier);
}

Status carrier_for(const Call& c, const char* kernel, DType dtype, DType* carrier) {
  if (carrier_of(kernel, dtype, carrier)) return PEN_OK;
  return c.fail("a dtype that this operator is defined for", "%s", dtype_name(dtype));
}

Status give_kernel(Call& c, const char* kernel, DType dtype, int arity, bool exact) {
  DType carrier;
  PEN_TRY(carrier_for(c, kernel, dtype, &carrier));
  Rows r(c);
  int in[3] = {-1, -1, -1};
  for (int i = 0; i < arity; ++i) in[i] = operand(r, c, i, dtype, carrier, exact);
  int y = r.node(kernel, carrier, in[0], in[1], in[2]);
  return r.give(r.dtype(y) == carrier ? r.cast(y, dtype) : y);
}

Status need_floats(const Call& c, int i) {
  if (is_floating(c.tensor(i).dtype())) return PEN_OK;
  return c.fail("a tensor of floats", "one of dtype %s", dtype_name(c.tensor(i).dtype()));
}

Status need_no_zero(const Call& c, int i) {
  if (c.args[i].tag() != Tag::tensor) return c.args[i].number() == 0 ? c.raise("RuntimeError: ZeroDivisionError") : PEN_OK;
  const Tensor t = c.tensor(i).view();
  const int64_t n = t.numel(), size = dtype_size(t.dtype);
  int64_t index[kMaxRank] = {}, at = 0;
  for (int64_t k = 0; k < n; ++k) {
    bool zero = true;
    for (int64_t b = 0; b < size; ++b) zero &= t.data[at * size + b] == 0;
    if (zero) return c.raise("RuntimeError: ZeroDivisionError");
    for (int d = t.rank - 1; d >= 0; --d) {
      at += t.strides[d];
      if (++index[d] < t.dims[d]) break;
      at -= t.strides[d] * t.dims[d];
      index[d] = 0;
    }
  }
  return PEN_OK;
}

PEN_OP(float_function, "[in_place][out]",
       "aten::{exp,exp2,expm1,log,log1p,log2,log10,sqrt,rsqrt,sin,cos,tan,asin,acos,atan,sinh,cosh,tanh,asinh,acosh,atanh,erf,erfc,"
       "erfinv,sigmoid,lgamma,digamma,sinc,reciprocal,arcsin,arccos,arctan,arcsinh,arccosh,arctanh,i0}(Tensor self) -> Tensor") {
  return give_kernel(c, KernelName(c), promoted_float(c, 0), 1);
}

PEN_OP(special_function, "[out]",
       "aten::special_{digamma,entr,erf,erfc,erfcx,erfinv,exp2,expit,expm1,gammaln,i0,i0e,i1,i1e,log1p,log_ndtr,ndtr,ndtri,psi,"
       "sinc}(Tensor self) -> Tensor") {
  return give_kernel(c, KernelName(c), promoted_float(c, 0), 1);
}

PEN_OP(same_function, "[in_place][out]", "aten::{neg,negative,abs,absolute,sign,sgn}(Tensor self) -> Tensor") {
  KernelName kernel(c);
  if (!kernel.is("sign") && c.tensor(0).dtype() == DType::boolean) return c.fail("a tensor of numbers", "one of bools");
  return give_kernel(c, kernel, c.tensor(0).dtype(), 1);
}

PEN_OP(square, "[in_place][out]", "aten::square(Tensor self) -> Tensor") {
  DType dtype = c.tensor(0).dtype();
  return give_kernel(c, "square", dtype == DType::boolean ? DType::i64 : dtype, 1);
}

PEN_OP(positive, "aten::positive(Tensor(a) self) -> Tensor(a)") {
  if (c.tensor(0).dtype() == DType::boolean) return c.fail("a tensor of numbers", "one of bools");
  return c.give(Value(c.args[0]));
}

PEN_OP(rounding, "[in_place][out]", "aten::{floor,ceil,trunc,fix,round}(Tensor self) -> Tensor") {
  if (is_floating(c.tensor(0).dtype())) return give_kernel(c, KernelName(c), c.tensor(0).dtype(), 1);
  if (c.tensor(0).dtype() == DType::boolean) return c.fail("a tensor of numbers", "one of bools");
  Rows r(c);  // integers are whole already
  return r.give(r.input(c.tensor(0)));
}

PEN_OP(frac, "[in_place][out]", "aten::frac(Tensor self) -> Tensor") {
  PEN_TRY(need_floats(c, 0));
  return give_kernel(c, "frac", c.tensor(0).dtype(), 1);
}

PEN_OP(round_decimals, "[in_place][out]", "aten::round.decimals(Tensor self, *, int decimals) -> Tensor") {
  DType dtype = c.tensor(0).dtype();
  int64_t decimals = c.integer(1);
  Rows r(c);
  int x = r.input(c.tensor(0));
  PEN_TRY(need_floats(c, 0));
  DType carrier = dtype == DType::f64 ? DType::f64 : DType::f32;
  x = r.cast(x, carrier);
  if (decimals == 0) return r.give(r.cast(r.node("round", carrier, x), dtype));
  double tens = pow(10.0, static_cast<double>(decimals < 0 ? -decimals : decimals));
  int scale = r.number(tens, carrier);
  int scaled = r.node(decimals > 0 ? "mul" : "div", carrier, x, scale);
  return r.give(r.cast(r.node(decimals > 0 ? "div" : "mul", carrier, r.node("round", carrier, scaled), scale), dtype));
}

PEN_OP(angle_unit, "[in_place][out]", "aten::{rad2deg,deg2rad}(Tensor self) -> Tensor") {
  constexpr double kDegrees = 57.295779513082320876798154814105170332405472466564;
  DType dtype = promoted_float(c, 0), carrier = dtype == DType::f64 ? DType::f64 : DType::f32;
  Rows r(c);
  int factor = r.number(KernelName(c).is("rad2deg") ? kDegrees : 1 / kDegrees, carrier);
  return r.give(r.cast(r.node("mul", carrier, operand(r, c, 0, dtype, carrier), factor), dtype));
}

PEN_OP(float_test, "[out]", "aten::{isnan,isinf,isposinf,isneginf}(Tensor self) -> Tensor") {
  return give_kernel(c, KernelName(c), c.tensor(0).dtype(), 1);
}
PEN_OP(isfinite, "aten::isfinite(Tensor self) -> Tensor") { return give_kernel(c, "isfinite", c.tensor(0).dtype(), 1); }

PEN_OP(signbit, "[out]", "aten::signbit(Tensor self) -> Tensor") { return give_kernel(c, "signbit", c.tensor(0).dtype(), 1); }

static Status give_logit(Call& c) {
  DType dtype = promoted_float(c, 0), carrier = dtype == DType::f64 ? DType::f64 : DType::f32;
  Rows r(c);
  int x = operand(r, c, 0, dtype, carrier);
  if (c.given(1)) {
    x = r.node("maximum", carrier, x, r.number(c.number(1), carrier));
    x = r.node("minimum", carrier, x, r.number(1 - c.number(1), carrier));
  }
  return r.give(r.cast(r.node("logit", carrier, x), dtype));
}
PEN_OP(logit, "[in_place][out]", "aten::logit(Tensor self, float? eps=None) -> Tensor") { return give_logit(c); }
PEN_OP(special_logit, "[out]", "aten::special_logit(Tensor self, float? eps=None) -> Tensor") { return give_logit(c); }

PEN_OP(nan_to_num, "[in_place][out]", "aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor") {
  DType dtype = c.tensor(0).dtype();
  Rows r(c);
  int x = r.input(c.tensor(0));
  if (!is_floating(dtype)) return r.give(x);
  double largest = dtype == DType::f64    ? 1.79769313486231570814527423731704357e+308
                   : dtype == DType::f16  ? 65504.0
                   : dtype == DType::bf16 ? 3.3895313892515355e38
                                          : 3.4028234663852886e38;
  double nan = c.given(1) ? c.number(1) : 0, above = c.given(2) ? c.number(2) : largest, below = c.given(3) ? c.number(3) : -largest;
  if (dtype != DType::f64) return r.give(r.cast(r.with(r.node("nan_to_num", DType::f32, r.cast(x, DType::f32)), nan, above, below), dtype));
  constexpr double kInf = __builtin_huge_val();
  int y = r.node("where", dtype, r.node("isnan", dtype, x), r.number(nan, dtype), x);
  y = r.node("where", dtype, r.node("eq", dtype, x, r.number(kInf, dtype)), r.number(above, dtype), y);
  return r.give(r.node("where", dtype, r.node("eq", dtype, x, r.number(-kInf, dtype)), r.number(below, dtype), y));
}

PEN_OP(polygamma, "aten::polygamma(int n, Tensor self) -> Tensor", "aten::special_polygamma(int n, Tensor self) -> Tensor") {
  int64_t n = c.integer(0);
  if (n < 0 || n > 169) return c.fail("an order from 0 to 169", "%lld", static_cast<long long>(n));
  DType dtype = promoted_float(c, 1);
  Rows r(c);
  int x = operand(r, c, 1, dtype, DType::f64);
  if (n == 0) return r.give(r.cast(r.node("digamma", DType::f64, x), dtype));
  double factor = n % 2 ? 1 : -1;
  for (int64_t k = 2; k <= n; ++k) factor *= static_cast<double>(k);
  int zeta = r.node("zeta", DType::f64, r.number(static_cast<double>(n + 1), DType::f64), x);
  return r.give(r.cast(r.node("mul", DType::f64, zeta, r.number(factor, DType::f64)), dtype));
}

}  // namespace pen
