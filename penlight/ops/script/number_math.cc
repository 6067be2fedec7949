// The functions of Python's `math` on ints and floats.
#include "penlight/ops/script/script.h"

namespace pen {

// The forms for a Scalar compute like the others and then round to a float32: torch's `float` there is C++'s.
static Status give_float(Call& c, double value) {
  bool of_scalar = c.op->param_count == 1 && c.op->param(0).kind == Kind::number;
  return c.give(of_scalar ? static_cast<double>(static_cast<float>(value)) : value);
}
static Status apply(Call& c, double (*function)(double)) { return give_float(c, function(c.number(0))); }
static Status apply(Call& c, double (*function)(double, double)) { return c.give(function(c.number(0), c.number(1))); }

PEN_OP(exp_number, "aten::exp.int(int a) -> float", "aten::exp.float(float a) -> float", "aten::exp.Scalar(Scalar a) -> Scalar") {
  return apply(c, exp);
}
PEN_OP(expm1_number, "aten::expm1.int(int a) -> float", "aten::expm1.float(float a) -> float", "aten::expm1.Scalar(Scalar a) -> Scalar") {
  return apply(c, expm1);
}
PEN_OP(log_number, "aten::log.int(int a) -> float", "aten::log.float(float a) -> float", "aten::log.Scalar(Scalar a) -> Scalar") {
  return apply(c, log);
}
PEN_OP(log_to_base, "aten::log.int_int(int a, int b) -> float", "aten::log.float_float(float a, float b) -> float",
       "aten::log.int_float(int a, float b) -> float", "aten::log.float_int(float a, int b) -> float",
       "aten::log.Scalar_Scalar(Scalar a, Scalar b) -> float") {
  return c.give(log(c.number(0)) / log(c.number(1)));
}
PEN_OP(log10_number, "aten::log10.int(int a) -> float", "aten::log10.float(float a) -> float", "aten::log10.Scalar(Scalar a) -> Scalar") {
  return apply(c, log10);
}
PEN_OP(log1p_number, "aten::log1p.int(int a) -> float", "aten::log1p.float(float a) -> float", "aten::log1p.Scalar(Scalar a) -> Scalar") {
  return apply(c, log1p);
}
PEN_OP(sqrt_number, "aten::sqrt.int(int a) -> float", "aten::sqrt.float(float a) -> float", "aten::sqrt.Scalar(Scalar a) -> Scalar") {
  return give_float(c, __builtin_sqrt(c.number(0)));
}
PEN_OP(sin_number, "aten::sin.int(int a) -> float", "aten::sin.float(float a) -> float", "aten::sin.Scalar(Scalar a) -> Scalar") {
  return apply(c, sin);
}
PEN_OP(cos_number, "aten::cos.int(int a) -> float", "aten::cos.float(float a) -> float", "aten::cos.Scalar(Scalar a) -> Scalar") {
  return apply(c, cos);
}
PEN_OP(tan_number, "aten::tan.int(int a) -> float", "aten::tan.float(float a) -> float", "aten::tan.Scalar(Scalar a) -> Scalar") {
  return apply(c, tan);
}
PEN_OP(asin_number, "aten::asin.int(int a) -> float", "aten::asin.float(float a) -> float", "aten::asin.Scalar(Scalar a) -> Scalar") {
  return apply(c, asin);
}
PEN_OP(acos_number, "aten::acos.int(int a) -> float", "aten::acos.float(float a) -> float", "aten::acos.Scalar(Scalar a) -> Scalar") {
  return apply(c, acos);
}
PEN_OP(atan_number, "aten::atan.int(int a) -> float", "aten::atan.float(float a) -> float", "aten::atan.Scalar(Scalar a) -> Scalar") {
  return apply(c, atan);
}
PEN_OP(sinh_number, "aten::sinh.int(int a) -> float", "aten::sinh.float(float a) -> float", "aten::sinh.Scalar(Scalar a) -> Scalar") {
  return apply(c, sinh);
}
PEN_OP(cosh_number, "aten::cosh.int(int a) -> float", "aten::cosh.float(float a) -> float", "aten::cosh.Scalar(Scalar a) -> Scalar") {
  return apply(c, cosh);
}
PEN_OP(tanh_number, "aten::tanh.int(int a) -> float", "aten::tanh.float(float a) -> float", "aten::tanh.Scalar(Scalar a) -> Scalar") {
  return apply(c, tanh);
}
PEN_OP(asinh_number, "aten::asinh.int(int a) -> float", "aten::asinh.float(float a) -> float", "aten::asinh.Scalar(Scalar a) -> Scalar") {
  return apply(c, asinh);
}
PEN_OP(acosh_number, "aten::acosh.int(int a) -> float", "aten::acosh.float(float a) -> float", "aten::acosh.Scalar(Scalar a) -> Scalar") {
  return apply(c, acosh);
}
PEN_OP(atanh_number, "aten::atanh.int(int a) -> float", "aten::atanh.float(float a) -> float", "aten::atanh.Scalar(Scalar a) -> Scalar") {
  return apply(c, atanh);
}
PEN_OP(erf_number, "aten::erf.int(int a) -> float", "aten::erf.float(float a) -> float", "aten::erf.Scalar(Scalar a) -> Scalar") {
  return apply(c, erf);
}
PEN_OP(erfc_number, "aten::erfc.int(int a) -> float", "aten::erfc.float(float a) -> float", "aten::erfc.Scalar(Scalar a) -> Scalar") {
  return apply(c, erfc);
}
PEN_OP(gamma_number, "aten::gamma.int(int a) -> float", "aten::gamma.float(float a) -> float", "aten::gamma.Scalar(Scalar a) -> Scalar") {
  return apply(c, tgamma);
}
PEN_OP(lgamma_number, "aten::lgamma.int(int a) -> float", "aten::lgamma.float(float a) -> float",
       "aten::lgamma.Scalar(Scalar a) -> Scalar") {
  int sign;
  return give_float(c, lgamma_r(c.number(0), &sign));
}
PEN_OP(fabs_number, "aten::fabs.int(int a) -> float", "aten::fabs.float(float a) -> float", "aten::fabs.Scalar(Scalar a) -> Scalar") {
  return give_float(c, __builtin_fabs(c.number(0)));
}
constexpr double kPi = 3.14159265358979323846;
PEN_OP(degrees_number, "aten::degrees.int(int a) -> float", "aten::degrees.float(float a) -> float",
       "aten::degrees.Scalar(Scalar a) -> Scalar") {
  return give_float(c, c.number(0) * (180.0 / kPi));
}
PEN_OP(radians_number, "aten::radians.int(int a) -> float", "aten::radians.float(float a) -> float",
       "aten::radians.Scalar(Scalar a) -> Scalar") {
  return give_float(c, c.number(0) * (kPi / 180.0));
}
PEN_OP(angle_number, "aten::angle.int(int a) -> float", "aten::angle.float(float a) -> float", "aten::angle.Scalar(Scalar a) -> Scalar") {
  double x = c.number(0);
  return give_float(c, x == x && __builtin_signbit(x) ? kPi : 0.0);  // of -0.0, too
}

// To whole numbers: ceil and floor give ints, by way of a double even where an int came in; round gives a float, ties to even.
static Status to_whole(Call& c, double (*function)(double)) {
  double whole = function(c.number(0));
  if (c.args[0].tag() == Tag::real && !(whole >= -9223372036854775808.0 && whole < 9223372036854775808.0))
    return c.raise("Cannot convert float %.17g to integer", c.number(0));
  return c.give(script::cut(whole));
}
PEN_OP(ceil_number, "aten::ceil.int(int a) -> int", "aten::ceil.float(float a) -> int", "aten::ceil.Scalar(Scalar a) -> Scalar") {
  return to_whole(c, ceil);
}
PEN_OP(floor_number, "aten::floor.int(int a) -> int", "aten::floor.float(float a) -> int", "aten::floor.Scalar(Scalar a) -> Scalar") {
  return to_whole(c, floor);
}
PEN_OP(round_number, "aten::round.int(int a) -> float", "aten::round.float(float a) -> float", "aten::round.Scalar(Scalar a) -> Scalar") {
  return apply(c, nearbyint);
}

PEN_OP(atan2_number, "aten::atan2.int(int a, int b) -> float", "aten::atan2.float(float a, float b) -> float",
       "aten::atan2.int_float(int a, float b) -> float", "aten::atan2.float_int(float a, int b) -> float",
       "aten::atan2.Scalar_Scalar(Scalar a, Scalar b) -> float") {
  return apply(c, atan2);
}
PEN_OP(fmod_number, "aten::fmod.int(int a, int b) -> float", "aten::fmod.float(float a, float b) -> float",
       "aten::fmod.int_float(int a, float b) -> float", "aten::fmod.float_int(float a, int b) -> float",
       "aten::fmod(Scalar a, Scalar b) -> float") {
  return apply(c, fmod);
}
PEN_OP(copysign_number, "aten::copysign.int(int a, int b) -> float", "aten::copysign.float(float a, float b) -> float",
       "aten::copysign.int_float(int a, float b) -> float", "aten::copysign.float_int(float a, int b) -> float",
       "aten::copysign(Scalar a, Scalar b) -> float") {
  return c.give(__builtin_copysign(c.number(0), c.number(1)));
}
PEN_OP(mathremainder_number, "aten::mathremainder.int(int a, int b) -> float", "aten::mathremainder.float(float a, float b) -> float",
       "aten::mathremainder.int_float(int a, float b) -> float", "aten::mathremainder.float_int(float a, int b) -> float",
       "aten::mathremainder(Scalar a, Scalar b) -> float") {
  return apply(c, remainder);
}
PEN_OP(modf_number, "aten::modf(float a) -> (float, float)") {
  double x = c.number(0), whole = trunc(x);
  PEN_TRY(c.give(__builtin_copysign(x - whole == x - whole ? x - whole : x == x ? 0.0 : x, x)));
  return c.give(Value(whole), 1);
}
PEN_OP(frexp_number, "aten::frexp(float a) -> (float, int)") {
  int exponent = 0;
  double mantissa = frexp(c.number(0), &exponent);
  if (!(mantissa - mantissa == 0)) exponent = 0;  // of inf and nan libraries leave it open
  PEN_TRY(c.give(mantissa));
  return c.give(Value(int64_t{exponent}), 1);
}
PEN_OP(ldexp_number, "aten::ldexp(float x, int i) -> float") {
  int64_t by = c.integer(1);
  return c.give(ldexp(c.number(0), by > 4096 ? 4096 : by < -4096 ? -4096 : static_cast<int>(by)));
}
PEN_OP(gcd_number, "aten::gcd.int(int a, int b) -> int") {
  uint64_t a = static_cast<uint64_t>(c.integer(0)), b = static_cast<uint64_t>(c.integer(1));
  if (c.integer(0) < 0) a = 0 - a;
  if (c.integer(1) < 0) b = 0 - b;
  while (b) {
    uint64_t rest = a % b;
    a = b, b = rest;
  }
  return c.give(static_cast<int64_t>(a));
}
PEN_OP(factorial_number, "aten::factorial.int(int a) -> int") {
  if (c.integer(0) < 0) return c.raise("factorial() not defined for negative values");
  int64_t product = 1;
  for (int64_t i = 2; i <= c.integer(0) && product; ++i) product = script::wrap_mul(product, i);  // 0 from 66! on: nothing changes
  return c.give(product);
}
PEN_OP(isnan_number, "aten::isnan.float(float a) -> bool") { return c.give(c.number(0) != c.number(0)); }
PEN_OP(isinf_number, "aten::isinf.float(float a) -> bool") { return c.give(__builtin_fabs(c.number(0)) == __builtin_inf()); }
PEN_OP(isfinite_number, "aten::isfinite.float(float a) -> bool") { return c.give(c.number(0) - c.number(0) == 0); }

}  // namespace pen
