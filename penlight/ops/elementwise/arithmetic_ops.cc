// Arithmetic of two operands: tensors or numbers, with torch's promotion, alpha and rounding modes.
#include "penlight/ops/elementwise/operands.h"

namespace pen {

// The dtype in which sums, products and choices are computed.
static DType wide_of(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : is_integral(dtype, true) && dtype != DType::i64 ? DType::i32 : dtype;
}

// a + alpha * b, a - alpha * b; the arguments at these places. `above`: nothing below 0 is left.
static Status give_sum(Call& c, bool minus, int a, int b, int alpha, bool above = false) {
  DType dtype = promoted(c, a, b), wide = wide_of(dtype);
  const Value& factor = c.args[alpha];
  if (!is_floating(dtype) && factor.tag() == Tag::real) return c.fail("an integer alpha for integer tensors", "a float");
  if (dtype != DType::boolean && factor.tag() == Tag::boolean) return c.fail("a bool alpha for bool tensors only", "a bool");
  auto is_bool = [&](int i) {
    return c.args[i].tag() == Tag::boolean || (c.args[i].tag() == Tag::tensor && c.tensor(i).dtype() == DType::boolean);
  };
  if (minus && (is_bool(a) || is_bool(b))) return c.fail("tensors of numbers (for bools use ^ or logical_xor)", "a difference of bools");
  Rows r(c);
  if (dtype == DType::boolean) {
    int x = operand(r, c, a, dtype, dtype), y = operand(r, c, b, dtype, dtype);
    return r.give(
        r.node("logical_or", dtype, x, factor.number() != 0 ? y : r.node("logical_and", dtype, y, r.number(Value(false), dtype))));
  }
  int x = operand(r, c, a, dtype, wide, true), y = operand(r, c, b, dtype, wide, true);
  if (factor.number() != 1) y = r.node("mul", wide, y, r.number(factor, wide));
  int sum = minus ? r.node("sub", wide, x, y) : r.sum(r.node("add", wide, x, y));
  if (above) sum = r.node("maximum", wide, sum, r.number(Value(int64_t{0}), wide));
  return r.give(r.cast(sum, dtype));
}

PEN_OP(add, "[in_place][nhwc]", "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
       "aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
       "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
       "aten::add.Scalar_out(Tensor self, Scalar other, Scalar alpha=1, *, Tensor(a!) out) -> Tensor(a!)") {
  return give_sum(c, false, 0, 1, 2);
}
// What optimize_for_mobile makes of a sum and the relu after it.
PEN_OP(add_relu, "[in_place][nhwc]", "[out=out]aten::_add_relu.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
       "[out]aten::_add_relu.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor") {
  if (promoted(c, 0, 1) == DType::boolean) return c.fail("tensors of numbers", "bools");
  return give_sum(c, false, 0, 1, 2, true);
}
PEN_OP(sub, "[in_place][nhwc]", "aten::{sub,subtract}.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
       "aten::{sub,subtract}.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
       "aten::{sub,subtract}.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
       "aten::sub.Scalar_out(Tensor self, Scalar other, Scalar alpha=1, *, Tensor(a!) out) -> Tensor(a!)") {
  return give_sum(c, true, 0, 1, 2);
}
PEN_OP(rsub, "[out][nhwc]", "aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
       "aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor") {
  return give_sum(c, true, 1, 0, 2);
}

// Quotients rounded down or towards zero: integers of integers.
static Status give_rounded_quotient(Call& c, bool down) {
  DType dtype = promoted(c, 0, 1);
  if (!is_floating(dtype)) {
    if (dtype == DType::boolean) return c.fail("tensors of numbers", "bools");
    PEN_TRY(need_no_zero(c, 1));
    return give_kernel(c, down ? "floor_divide" : "trunc_divide", dtype, 2);
  }
  if (down) return give_kernel(c, "floor_divide", dtype, 2, true);
  DType wide = wide_of(dtype);
  Rows r(c);
  int q = r.node("div", wide, operand(r, c, 0, dtype, wide, true), operand(r, c, 1, dtype, wide, true));
  q = r.cast(r.cast(q, dtype), wide);  // halves are rounded twice, as in torch
  return r.give(r.cast(r.node("trunc", wide, q), dtype));
}
PEN_OP(divide_by_mode, "[in_place]", "aten::{div,divide}.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
       "aten::{div,divide}.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor",
       "aten::{div,divide}.out_mode(Tensor self, Tensor other, *, str? rounding_mode, Tensor(a!) out) -> Tensor(a!)",
       "aten::div.Scalar_mode_out(Tensor self, Scalar other, *, str? rounding_mode, Tensor(a!) out) -> Tensor(a!)") {
  if (!c.given(2)) return give_kernel(c, "div", promoted_float(c, 0, 1), 2, true);
  bool down = strcmp(c.text(2), "floor") == 0;
  if (!down && strcmp(c.text(2), "trunc") != 0) return c.fail("a rounding_mode of None, 'trunc' or 'floor'", "'%s'", c.text(2));
  return give_rounded_quotient(c, down);
}
// Files of operator version 3 and before: integers are divided towards zero.
PEN_OP(divide_old, "upgrade::div_0_3.Tensor(Tensor self, Tensor other) -> Tensor",
       "upgrade::div_0_3.Scalar(Tensor self, Scalar other) -> Tensor",
       "upgrade::div_0_3.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
       "upgrade::div__0_3.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
       "upgrade::div__0_3.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)") {
  bool floats = is_floating(c.tensor(0).dtype()) || c.args[1].tag() == Tag::real ||
                (c.args[1].tag() == Tag::tensor && is_floating(c.tensor(1).dtype()));
  if (floats || (c.op->param_count > 2 && is_floating(c.tensor(2).dtype()))) return give_kernel(c, "div", promoted_float(c, 0, 1), 2, true);
  return give_rounded_quotient(c, false);
}

// The powers that models use, without the general function.
static int power(Rows& r, DType dtype, int x, const Value& number) {
  double exponent = number.number();
  if (exponent == 1) return x;
  if (exponent == 2) return r.node("square", dtype, x);
  if (exponent == 3) return r.node("cube", dtype, x);
  if (is_floating(dtype) && exponent == 0.5) return r.node("sqrt", dtype, x);
  if (is_floating(dtype) && exponent == -0.5) return r.node("rsqrt", dtype, x);
  if (is_floating(dtype) && exponent == -1) return r.node("reciprocal", dtype, x);
  return r.node("pow", dtype, x, r.number(number, dtype));
}
PEN_OP(pow_number, "[out]", "aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
       "aten::pow_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)") {
  DType dtype = promoted(c, 0, 1), wide = wide_of(dtype);
  if (!is_floating(dtype) && c.number(1) < 0) return c.raise("RuntimeError: Integers to negative integer powers are not allowed.");
  Rows r(c);
  return r.give(r.cast(power(r, wide, operand(r, c, 0, dtype, wide), c.args[1]), dtype));
}
PEN_OP(pow_of_number, "[out]", "aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor") {
  DType dtype = promoted(c, 0, 1);
  if (dtype == DType::boolean) return c.fail("tensors of numbers", "bools");
  return give_kernel(c, "pow", dtype, 2);
}
PEN_OP(float_power, "[out]", "aten::float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
       "aten::float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
       "aten::float_power.Scalar(Scalar self, Tensor exponent) -> Tensor",
       "aten::float_power_.Tensor(Tensor(a!) self, Tensor exponent) -> Tensor(a!)",
       "aten::float_power_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)") {
  if (c.op->writes >= 0 && c.tensor(c.op->writes).dtype() != DType::f64)
    return c.fail("a tensor of doubles to write into", "%s", dtype_name(c.tensor(c.op->writes).dtype()));
  return give_kernel(c, "pow", DType::f64, 2);
}

PEN_OP(ldexp, "aten::ldexp.Tensor(Tensor self, Tensor other) -> Tensor",
       "aten::ldexp.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
       "aten::ldexp_(Tensor(a!) self, Tensor other) -> Tensor(a!)") {
  DType dtype = promoted_float(c, 0, 1), wide = wide_of(dtype);
  Rows r(c);
  int two = r.node("exp2", wide, operand(r, c, 1, dtype, wide));
  return r.give(r.cast(r.node("mul", wide, operand(r, c, 0, dtype, wide), two), dtype));
}

PEN_OP(heaviside, "[in_place][out]", "aten::heaviside(Tensor self, Tensor values) -> Tensor") {
  DType dtype = c.tensor(0).dtype(), wide = wide_of(dtype);
  if (dtype != c.tensor(1).dtype())
    return c.fail("two tensors of one dtype", "%s and %s", dtype_name(dtype), dtype_name(c.tensor(1).dtype()));
  Rows r(c);
  int x = operand(r, c, 0, dtype, wide), zero = r.number(0.0, wide);
  int above = r.node("where", wide, r.node("gt", wide, x, zero), r.number(1.0, wide), zero);
  return r.give(r.cast(r.node("where", wide, r.node("eq", wide, x, zero), operand(r, c, 1, dtype, wide), above), dtype));
}

}  // namespace pen
