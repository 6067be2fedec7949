// Arithmetic of TorchScript on ints and floats: ints wrap around, `//` and `%` round towards minus infinity, an int beside a float
// becomes one. The overloads of an operator differ in what their schemas convert; the code sees ints and floats.
#include "penlight/ops/script/script.h"

namespace pen {

using script::both_integers;
using script::cut;

PEN_OP(add_number, "aten::add.int(int a, int b) -> int", "aten::add.float(float a, float b) -> float",
       "aten::add.int_float(int a, float b) -> float", "aten::add.float_int(float a, int b) -> float",
       "aten::add(Scalar a, Scalar b) -> Scalar") {
  if (both_integers(c.args[0], c.args[1])) return c.give(script::wrap_add(c.integer(0), c.integer(1)));
  return c.give(c.number(0) + c.number(1));
}
PEN_OP(sub_number, "aten::sub.int(int a, int b) -> int", "aten::sub.float(float a, float b) -> float",
       "aten::sub.int_float(int a, float b) -> float", "aten::sub.float_int(float a, int b) -> float",
       "aten::sub(Scalar a, Scalar b) -> Scalar") {
  if (both_integers(c.args[0], c.args[1])) return c.give(script::wrap_sub(c.integer(0), c.integer(1)));
  return c.give(c.number(0) - c.number(1));
}
PEN_OP(mul_number, "aten::mul.int(int a, int b) -> int", "aten::mul.float(float a, float b) -> float",
       "aten::mul.int_float(int a, float b) -> float", "aten::mul.float_int(float a, int b) -> float",
       "aten::mul(Scalar a, Scalar b) -> Scalar") {
  if (both_integers(c.args[0], c.args[1])) return c.give(script::wrap_mul(c.integer(0), c.integer(1)));
  return c.give(c.number(0) * c.number(1));
}
// By zero: inf or nan, unlike in Python.
PEN_OP(div_number, "aten::div.int(int a, int b) -> float", "aten::div.float(float a, float b) -> float",
       "aten::div(Scalar a, Scalar b) -> float") {
  return c.give(c.number(0) / c.number(1));
}

// Of the smallest int and -1: the smallest again, as ints wrap; the processor's own division would stop the program.
static int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == -1) return script::wrap_sub(0, a);
  int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
static int64_t floor_remainder(int64_t a, int64_t b) {
  if (b == -1) return 0;
  int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
static double floor_remainder(double a, double b) { return fmod(b + fmod(a, b), b); }

PEN_OP(floordiv_number, "aten::floordiv.int(int a, int b) -> int", "aten::floordiv.float(float a, float b) -> float",
       "aten::floordiv.int_float(int a, float b) -> float", "aten::floordiv.float_int(float a, int b) -> float",
       "aten::floordiv(Scalar a, Scalar b) -> Scalar") {
  if (!both_integers(c.args[0], c.args[1])) return c.give(floor(c.number(0) / c.number(1)));
  if (c.integer(1) == 0) return c.raise("division by 0");
  return c.give(floor_quotient(c.integer(0), c.integer(1)));
}
PEN_OP(round_to_zero_floordiv, "aten::__round_to_zero_floordiv.int(int a, int b) -> int") {
  if (c.integer(1) == 0) return c.raise("division by 0");
  return c.give(c.integer(1) == -1 ? script::wrap_sub(0, c.integer(0)) : c.integer(0) / c.integer(1));
}
PEN_OP(remainder_number, "aten::remainder.int(int a, int b) -> int", "aten::remainder.float(float a, float b) -> float",
       "aten::remainder.int_float(int a, float b) -> float", "aten::remainder.float_int(float a, int b) -> float",
       "aten::remainder(Scalar a, Scalar b) -> Scalar") {
  if (!both_integers(c.args[0], c.args[1])) return c.give(floor_remainder(c.number(0), c.number(1)));
  if (c.integer(1) == 0) return c.raise("modulo by 0");
  return c.give(floor_remainder(c.integer(0), c.integer(1)));
}
// Of an int and a float torch takes 32 bits each.
static double divmod_number(const Value& v, const Value& other) {
  if (v.tag() == other.tag()) return v.number();
  if (v.tag() == Tag::real) return static_cast<double>(static_cast<float>(v.real()));
  return static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(v.integer()))));
}
PEN_OP(divmod_number, "aten::divmod.int(int x, int y) -> (int, int)", "aten::divmod.float(float x, float y) -> (float, float)",
       "aten::divmod.int_float(int x, float y) -> (float, float)", "aten::divmod.float_int(float x, int y) -> (float, float)") {
  if (both_integers(c.args[0], c.args[1])) {
    if (c.integer(1) == 0) return c.raise("ZeroDivisionError: integer division or modulo by zero");
    PEN_TRY(c.give(floor_quotient(c.integer(0), c.integer(1))));
    return c.give(Value(floor_remainder(c.integer(0), c.integer(1))), 1);
  }
  double a = divmod_number(c.args[0], c.args[1]), b = divmod_number(c.args[1], c.args[0]);
  if (b == 0) return c.raise("ZeroDivisionError: float divmod()");
  if (c.args[0].tag() == c.args[1].tag()) {
    double rest = fmod(a, b);
    if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
    PEN_TRY(c.give((a - rest) / b));
    return c.give(Value(rest), 1);
  }
  double quotient = floor(static_cast<double>(static_cast<float>(a / b)));
  if (!(quotient >= -9223372036854775808.0 && quotient < 9223372036854775808.0))
    return c.raise("Cannot convert float %g to integer", quotient);
  PEN_TRY(c.give(quotient));
  return c.give(Value(a - quotient * b), 1);
}

PEN_OP(pow_of_numbers, "aten::pow.int(int a, int b) -> float", "aten::pow.float(float a, float b) -> float",
       "aten::pow.int_float(int a, float b) -> float", "aten::pow.float_int(float a, int b) -> float",
       "aten::pow.Scalar_Scalar(Scalar a, Scalar b) -> float") {
  bool scalars = c.op->param(0).kind == Kind::number;  // gives inf there
  if (!scalars && c.number(0) == 0 && c.number(1) < 0) return c.raise("0.0 cannot be raised to a negative power");
  return c.give(pow(c.number(0), c.number(1)));
}
PEN_OP(pow_int_to_int, "aten::pow.int_to_int(int a, int b) -> int") {
  if (c.integer(0) == 0 && c.integer(1) < 0) return c.raise("0.0 cannot be raised to a negative power");
  return c.give(cut(pow(c.number(0), c.number(1))));
}

// As a float32 where the argument is a Scalar (number_math.cc).
static Status give_single(Call& c, double value) {
  return c.give(c.op->param(0).kind == Kind::number ? static_cast<double>(static_cast<float>(value)) : value);
}
PEN_OP(neg_number, "aten::neg.int(int a) -> int", "aten::neg.float(float a) -> float", "aten::neg.Scalar(Scalar a) -> Scalar") {
  if (c.args[0].tag() == Tag::real) return give_single(c, -c.number(0));
  return c.give(script::wrap_sub(0, c.integer(0)));
}
PEN_OP(abs_number, "prim::abs.int(int a) -> int", "prim::abs.float(float a) -> float", "prim::abs.Scalar(Scalar a) -> Scalar") {
  if (c.args[0].tag() == Tag::real) return give_single(c, __builtin_fabs(c.number(0)));
  return c.give(c.integer(0) < 0 ? script::wrap_sub(0, c.integer(0)) : c.integer(0));
}
PEN_OP(min_number, "prim::min.int(int a, int b) -> int", "prim::min.float(float a, float b) -> float",
       "prim::min.int_float(int a, float b) -> float", "prim::min.float_int(float a, int b) -> float",
       "prim::min(Scalar a, Scalar b) -> Scalar") {
  if (both_integers(c.args[0], c.args[1])) return c.give(c.integer(0) < c.integer(1) ? c.integer(0) : c.integer(1));
  return c.give(c.number(0) < c.number(1) ? c.number(0) : c.number(1));
}
PEN_OP(max_number, "prim::max.int(int a, int b) -> int", "prim::max.float(float a, float b) -> float",
       "prim::max.int_float(int a, float b) -> float", "prim::max.float_int(float a, int b) -> float",
       "prim::max(Scalar a, Scalar b) -> Scalar") {
  if (both_integers(c.args[0], c.args[1])) return c.give(c.integer(0) > c.integer(1) ? c.integer(0) : c.integer(1));
  return c.give(c.number(0) > c.number(1) ? c.number(0) : c.number(1));
}

// Bits. A shift by 64 or more moves everything out.
PEN_OP(and_number, "aten::__and__.int(int a, int b) -> int") { return c.give(c.integer(0) & c.integer(1)); }
PEN_OP(or_number, "aten::__or__.int(int a, int b) -> int") { return c.give(c.integer(0) | c.integer(1)); }
PEN_OP(xor_number, "aten::__xor__.int(int a, int b) -> int") { return c.give(c.integer(0) ^ c.integer(1)); }
PEN_OP(lshift_number, "aten::__lshift__.int(int a, int b) -> int") {
  int64_t by = c.integer(1);
  if (by < 0) return c.raise("ValueError: negative shift count");
  return c.give(by > 63 ? int64_t{0} : static_cast<int64_t>(static_cast<uint64_t>(c.integer(0)) << by));
}
PEN_OP(rshift_number, "aten::__rshift__.int(int a, int b) -> int") {
  int64_t by = c.integer(1);
  if (by < 0) return c.raise("ValueError: negative shift count");
  return c.give(c.integer(0) >> (by > 63 ? 63 : by));
}
PEN_OP(not_bool, "aten::__not__(bool self) -> bool") { return c.give(!c.flag(0)); }
PEN_OP(and_bool, "aten::__and__.bool(bool a, bool b) -> bool") { return c.give(c.flag(0) && c.flag(1)); }
PEN_OP(or_bool, "aten::__or__.bool(bool a, bool b) -> bool") { return c.give(c.flag(0) || c.flag(1)); }
PEN_OP(xor_bool, "aten::__xor__.bool(bool a, bool b) -> bool") { return c.give(c.flag(0) != c.flag(1)); }

// How many steps a range() has, and the value of a step. torch's loops count from 0 and ask for the latter.
PEN_OP(range_length, "aten::__range_length(int lo, int hi, int step) -> int") {
  int64_t low = c.integer(0), high = c.integer(1), step = c.integer(2);
  if (step == 0) return c.raise("range() arg 3 must not be zero");
  uint64_t distance, stride;
  if (step > 0 && low < high)
    distance = static_cast<uint64_t>(high) - static_cast<uint64_t>(low), stride = static_cast<uint64_t>(step);
  else if (step < 0 && low > high)
    distance = static_cast<uint64_t>(low) - static_cast<uint64_t>(high), stride = 0 - static_cast<uint64_t>(step);
  else
    return c.give(int64_t{0});
  return c.give(static_cast<int64_t>((distance - 1) / stride + 1));
}
PEN_OP(derive_index, "aten::__derive_index(int index, int start, int step) -> int") {
  return c.give(script::wrap_add(c.integer(1), script::wrap_mul(c.integer(0), c.integer(2))));
}

}  // namespace pen
