// Choices that are more than a rule, masked_fill and clamp with its kin, and comparisons of whole tensors.
#include "penlight/ops/elementwise/operands.h"

namespace pen {

PEN_OP(masked_fill, "[in_place][out]", "aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
       "aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor") {
  DType dtype = c.tensor(0).dtype(), mask = c.tensor(1).dtype(), carrier;
  if (mask != DType::boolean && mask != DType::u8) return c.fail("a mask of bools", "%s", dtype_name(mask));
  if (c.args[2].tag() == Tag::tensor && c.tensor(2).rank() != 0) return c.fail("a value of rank 0", "rank %d", c.tensor(2).rank());
  PEN_TRY(carrier_for(c, "where", dtype, &carrier));
  Rows r(c);
  int x = operand(r, c, 0, dtype, carrier), where = r.cast(r.input(c.tensor(1)), DType::boolean);
  TensorObject* made;
  PEN_TRY(r.run(r.cast(r.node("where", carrier, where, operand(r, c, 2, dtype, carrier), x), dtype), &made, true));
  return c.give(made);
}

// Floats cut to numbers, arguments `low` and `high`; -1: none. Bounds are rounded to the result's dtype first, as the tensor's numbers are.
static Status give_between(Call& c, DType dtype, DType carrier, int low, int high) {
  constexpr double kInf = __builtin_huge_val();
  auto bound = [&](int i, double none) {
    if (i < 0) return none;
    alignas(8) char rounded[8];
    number_into(c.args[i], dtype, rounded);
    return number_at(dtype, rounded).number();
  };
  Rows r(c);
  int x = operand(r, c, 0, dtype, carrier);
  return r.give(r.cast(r.with(r.node("clamp", carrier, x), bound(low, -kInf), bound(high, kInf)), dtype));
}

// The bounds are arguments `low` and `high`; -1: none.
static Status give_clamped(Call& c, int low, int high) {
  if (low >= 0 && !c.given(low)) low = -1;
  if (high >= 0 && !c.given(high)) high = -1;
  if (low < 0 && high < 0) return c.fail("at least one of min and max", "none");
  DType dtype = promoted(c, 0, low, high), carrier;
  PEN_TRY(carrier_for(c, "maximum", dtype, &carrier));
  auto is_number = [&](int i) { return i < 0 || (c.args[i].tag() != Tag::tensor && c.number(i) == c.number(i)); };
  if (is_floating(carrier) && is_number(low) && is_number(high)) return give_between(c, dtype, carrier, low, high);
  Rows r(c);
  int x = operand(r, c, 0, dtype, carrier);
  if (low >= 0) x = r.node("maximum", carrier, x, operand(r, c, low, dtype, carrier));
  if (high >= 0) x = r.node("minimum", carrier, x, operand(r, c, high, dtype, carrier));
  return r.give(r.cast(x, dtype));
}
PEN_OP(clamp, "[in_place][out][nhwc]", "aten::{clamp,clip}(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
       "aten::{clamp,clip}.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor") {
  return give_clamped(c, 1, 2);
}
PEN_OP(clamp_min, "[in_place][out][nhwc]", "aten::clamp_min(Tensor self, Scalar min) -> Tensor",
       "aten::clamp_min.Tensor(Tensor self, Tensor min) -> Tensor") {
  return give_clamped(c, 1, -1);
}
PEN_OP(clamp_max, "[in_place][out][nhwc]", "aten::clamp_max(Tensor self, Scalar max) -> Tensor",
       "aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor") {
  return give_clamped(c, -1, 1);
}
PEN_OP(hardtanh, "[in_place][out][nhwc]", "aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor") {
  if (c.tensor(0).dtype() == DType::boolean) return c.fail("a tensor of numbers", "one of bools");
  DType dtype = c.tensor(0).dtype(), carrier;  // of the tensor: bounds are converted
  if (dtype == DType::u8 && c.number(1) < 0) return c.fail("no negative min_val for tensors without a sign", "%g", c.number(1));
  PEN_TRY(carrier_for(c, "maximum", dtype, &carrier));
  if (is_floating(carrier) && c.number(1) == c.number(1) && c.number(2) == c.number(2)) return give_between(c, dtype, carrier, 1, 2);
  Rows r(c);
  int x = operand(r, c, 0, dtype, carrier);
  x = r.node("maximum", carrier, x, operand(r, c, 1, dtype, carrier));
  return r.give(r.cast(r.node("minimum", carrier, x, operand(r, c, 2, dtype, carrier)), dtype));
}
PEN_OP(relu6, "[nhwc]", "aten::relu6(Tensor self) -> Tensor", "aten::relu6_(Tensor(a!) self) -> Tensor(a!)") {
  DType dtype = c.tensor(0).dtype(), carrier;
  if (dtype == DType::boolean) return c.fail("a tensor of numbers", "one of bools");
  PEN_TRY(carrier_for(c, "maximum", dtype, &carrier));
  Rows r(c);
  if (is_floating(carrier)) return r.give(r.cast(r.with(r.node("clamp", carrier, operand(r, c, 0, dtype, carrier)), 0, 6), dtype));
  int x = r.node("maximum", carrier, operand(r, c, 0, dtype, carrier), r.number(0.0, carrier));
  return r.give(r.cast(r.node("minimum", carrier, x, r.number(6.0, carrier)), dtype));
}

// |a - b| <= atol + rtol * |b|, or both the same infinity.
static int near(Rows& r, Call& c) {
  DType f64 = DType::f64;
  int a = r.cast(r.input(c.tensor(0)), f64), b = r.cast(r.input(c.tensor(1)), f64);
  int limit = r.node("add", f64, r.number(c.number(3), f64), r.node("mul", f64, r.number(c.number(2), f64), r.node("abs", f64, b)));
  int distance = r.node("abs", f64, r.node("sub", f64, a, b));
  int within = r.node("logical_and", DType::boolean, r.node("le", f64, distance, limit), r.node("isfinite", f64, distance));
  int same = r.node("logical_or", DType::boolean, r.node("eq", f64, a, b), within);
  if (!c.flag(4)) return same;
  int nans = r.node("logical_and", DType::boolean, r.node("isnan", f64, a), r.node("isnan", f64, b));
  return r.node("logical_or", DType::boolean, same, nans);
}
PEN_OP(isclose, "aten::isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor") {
  if (c.tensor(0).dtype() != c.tensor(1).dtype())
    return c.fail("tensors of one dtype", "%s and %s", dtype_name(c.tensor(0).dtype()), dtype_name(c.tensor(1).dtype()));
  Rows r(c);
  return r.give(near(r, c));
}
static bool all_true(const TensorObject& fresh) {
  for (int64_t i = 0, n = fresh.numel(); i < n; ++i)
    if (!fresh.as<uint8_t>()[i]) return false;
  return true;
}
PEN_OP(allclose, "aten::allclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool") {
  Rows r(c);
  TensorObject* made;
  PEN_TRY(r.run(near(r, c), &made));
  bool all = all_true(*made);
  heap_release(made);
  return c.give(all);
}
PEN_OP(equal, "aten::equal(Tensor self, Tensor other) -> bool") {
  const TensorObject &a = c.tensor(0), &b = c.tensor(1);
  if (a.dtype() != b.dtype()) return c.fail("tensors of one dtype", "%s and %s", dtype_name(a.dtype()), dtype_name(b.dtype()));
  bool same = a.rank() == b.rank();
  for (int d = 0; same && d < a.rank(); ++d) same = a.dim(d) == b.dim(d);
  if (!same) return c.give(false);
  DType carrier;
  PEN_TRY(carrier_for(c, "eq", a.dtype(), &carrier));
  Rows r(c);
  TensorObject* made;
  PEN_TRY(r.run(r.node("eq", carrier, operand(r, c, 0, a.dtype(), carrier), operand(r, c, 1, a.dtype(), carrier)), &made));
  same = all_true(*made);
  heap_release(made);
  return c.give(same);
}

}  // namespace pen
