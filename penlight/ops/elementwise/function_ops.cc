// The operators that are one elementwise rule (op_elementwise), what they share with the others (operands.h), and functions of one
// tensor that are more than a rule.
#include "penlight/ops/elementwise/operands.h"
#include "penlight/runtime/vm/calls.h"
#include "penlight/runtime/vm/images.h"

namespace pen {

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
  return r.give(r.cast(r.node(kernel, carrier, in[0], in[1], in[2]), dtype));
}

Status need_floats(const Call& c, int i) {
  if (is_floating(c.tensor(i).dtype())) return PEN_OK;
  return c.fail("a tensor of floats", "one of dtype %s", dtype_name(c.tensor(i).dtype()));
}

Status need_no_zero(const Call& c, int i) {
  if (c.args[i].tag() != Tag::tensor) return c.args[i].number() == 0 ? c.raise("RuntimeError: ZeroDivisionError") : PEN_OK;
  const Tensor t = memory_of(c.tensor(i));
  const int64_t n = t.numel(), size = dtype_size(t.dtype);
  int64_t index[kMaxRank] = {}, at = 0;
  return in_pieces(c, n, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
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
  });
}

// torch's own conditions on what a rule is given; *dtype becomes the one it is computed for.
static Status check_operands(const Call& c, const OpRule& rule, DType* dtype) {
  auto integral = [&](int i) { return c.args[i].tag() == Tag::tensor && is_integral(c.tensor(i).dtype(), true); };
  switch (rule.takes) {
    case Takes::numbers:
    case Takes::wholes:
      if (*dtype == DType::boolean) return c.fail("tensors of numbers", "bools");
      break;
    case Takes::integers:
      if (!is_integral(*dtype, false)) return c.fail("tensors of integers", "%s", dtype_name(*dtype));
      break;
    case Takes::counts:
      if (*dtype == DType::boolean) *dtype = DType::i64;
      break;
    case Takes::alike:
      for (int i = 0; i < rule.operands; ++i)
        if (c.args[i].tag() == Tag::tensor && c.tensor(i).dtype() != *dtype)
          return c.fail("tensors of one dtype", "%s and %s", dtype_name(*dtype), dtype_name(c.tensor(i).dtype()));
      [[fallthrough]];
    case Takes::quotients:
    case Takes::floats:
      if (!is_floating(*dtype) || (rule.takes == Takes::quotients && integral(1) && integral(2)))
        return c.fail("a tensor of floats", "one of dtype %s", dtype_name(c.tensor(rule.operands > 2).dtype()));
      break;
    case Takes::any:
      if (rule.makes_floats && !is_floating(*dtype)) *dtype = DType::f32;
  }
  if (rule.has_condition && c.tensor(0).dtype() != DType::boolean && c.tensor(0).dtype() != DType::u8)
    return c.fail("a condition of bools", "%s", dtype_name(c.tensor(0).dtype()));
  return rule.divides && !is_floating(*dtype) ? need_no_zero(c, 1) : PEN_OK;
}

// Attributes reach kernels as doubles.
static Status read_attributes(const Call& c, const OpRule& rule, DType dtype, double* to) {
  for (int i = 0; i < rule.attrs; ++i) {
    const Value& v = c.args[rule.operands + i];
    to[i] = v.number();
    if (is_floating(dtype)) continue;
    if (to[i] > 9007199254740992.0 || to[i] < -9007199254740992.0) return c.fail("a number of at most 53 bits", "%.0f", to[i]);
  }
  return PEN_OK;
}

Status op_elementwise(Call& c) {
  const OpRule& rule = *c.op->rule();
  const int first = rule.has_condition, n = rule.operands;
  DType dtype = promoted(c, first, first + 1 < n ? first + 1 : -1, first + 2 < n ? first + 2 : -1), carrier;
  const bool logical = dtype == DType::boolean && *rule.on_bool.text();
  const char* kernel = (logical ? rule.on_bool : rule.kernel).text();
  double attrs[3] = {};
  if (!logical) PEN_TRY(check_operands(c, rule, &dtype));
  PEN_TRY(read_attributes(c, rule, dtype, attrs));
  Rows r(c);
  if (rule.takes == Takes::wholes && !is_floating(dtype)) return r.give(r.input(c.tensor(0)));  // whole already
  PEN_TRY(carrier_for(c, kernel, dtype, &carrier));
  int in[3] = {-1, -1, -1};
  for (int i = 0; i < n; ++i)
    in[i] = i < first ? r.cast(r.input(c.tensor(i)), DType::boolean) : operand(r, c, i, dtype, carrier, rule.exact && is_floating(dtype));
  int y = r.with(r.node(kernel, carrier, in[0], in[1], in[2]), attrs[0], attrs[1], attrs[2]);
  return r.give(r.dtype(y) == carrier ? r.cast(y, dtype) : y);
}

PEN_OP(positive, "aten::positive(Tensor(a) self) -> Tensor(a)") {
  if (c.tensor(0).dtype() == DType::boolean) return c.fail("a tensor of numbers", "one of bools");
  return c.give(Value(c.args[0]));
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
  const double places = static_cast<double>(decimals);
  double tens = pow(10.0, places < 0 ? -places : places);
  int scale = r.number(tens, carrier);
  int scaled = r.node(decimals > 0 ? "mul" : "div", carrier, x, scale);
  return r.give(r.cast(r.node(decimals > 0 ? "div" : "mul", carrier, r.node("round", carrier, scaled), scale), dtype));
}

PEN_OP(logit, "[in_place][out]", "aten::logit(Tensor self, float? eps=None) -> Tensor") {
  DType dtype = promoted_float(c, 0), carrier = dtype == DType::f64 ? DType::f64 : DType::f32;
  Rows r(c);
  int x = operand(r, c, 0, dtype, carrier);
  if (c.given(1)) {
    x = r.node("maximum", carrier, x, r.number(c.number(1), carrier));
    x = r.node("minimum", carrier, x, r.number(1 - c.number(1), carrier));
  }
  return r.give(r.cast(r.node("logit", carrier, x), dtype));
}
PEN_OP(special_logit, "[out]", "aten::special_logit(Tensor self, float? eps=None) -> Tensor") { return op_logit(c); }

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
  DType carrier = dtype == DType::f64 ? DType::f64 : DType::f32;
  return r.give(r.cast(r.with(r.node("nan_to_num", carrier, r.cast(x, carrier)), nan, above, below), dtype));
}

PEN_OP(polygamma, "[out]", "aten::{polygamma,special_polygamma}(int n, Tensor self) -> Tensor",
       "aten::polygamma_(Tensor(a!) self, int n) -> Tensor(a!)") {
  int self = c.form() == 0;
  int64_t n = c.integer(1 - self);
  if (n < 0 || n > 169) return c.fail("an order from 0 to 169", "%lld", static_cast<long long>(n));
  DType dtype = promoted_float(c, self);
  Rows r(c);
  int x = operand(r, c, self, dtype, DType::f64);
  if (n == 0) return r.give(r.cast(r.node("digamma", DType::f64, x), dtype));
  double factor = n % 2 ? 1 : -1;
  for (int64_t k = 2; k <= n; ++k) factor *= static_cast<double>(k);
  int zeta = r.node("zeta", DType::f64, r.number(static_cast<double>(n + 1), DType::f64), x);
  return r.give(r.cast(r.node("mul", DType::f64, zeta, r.number(factor, DType::f64)), dtype));
}

// Of real numbers: pi below zero.
PEN_OP(angle, "[out]", "aten::angle(Tensor self) -> Tensor") {
  DType dtype = promoted_float(c, 0);
  Calls t(c);
  Value below = t("aten::to.dtype", t("aten::lt.Scalar", c.args[0], 0), code_of_dtype(dtype));
  Value made = t("aten::mul.Scalar", below, 3.14159265358979323846);
  if (is_floating(c.tensor(0).dtype())) made = t("aten::where.self", t("aten::isnan", c.args[0]), c.args[0], made);
  return t.give(c, static_cast<Value&&>(made));
}

PEN_OP(frexp, "[out=Tensor_out mantissa exponent]", "aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)") {
  PEN_TRY(need_floats(c, 0));
  if (c.op->outs && c.tensor(2).dtype() != DType::i32) return c.fail("exponents of Int", "%s", dtype_name(c.tensor(2).dtype()));
  DType dtype = c.tensor(0).dtype();
  TensorObject* made;
  Rows mantissas(c), exponents(c);
  PEN_TRY(mantissas.run(mantissas.cast(mantissas.node("frexp_mantissa", DType::f64, operand(mantissas, c, 0, dtype, DType::f64)), dtype),
                        &made));
  PEN_TRY(c.give(made));
  PEN_TRY(exponents.run(exponents.node("frexp_exponent", DType::f64, operand(exponents, c, 0, dtype, DType::f64)), &made));
  return c.give(made, 1);
}

}  // namespace pen
