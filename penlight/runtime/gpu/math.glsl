// The primitives of elementwise rules (ops/elementwise/expression.py) on f32, with NaN and infinities as C has them.
float p_nan() { return uintBitsToFloat(0x7fc00000u); }
bool p_isnan(float a) { return (floatBitsToUint(a) & 0x7fffffffu) > 0x7f800000u; }
bool p_isinf(float a) { return (floatBitsToUint(a) & 0x7fffffffu) == 0x7f800000u; }
bool p_signbit(float a) { return floatBitsToUint(a) >> 31 != 0; }
float p_add(float a, float b) { return a + b; }
float p_sub(float a, float b) { return a - b; }
float p_mul(float a, float b) { return a * b; }
float p_div(float a, float b) { return a / b; }
float p_neg(float a) { return uintBitsToFloat(floatBitsToUint(a) ^ 0x80000000u); }
float p_abs(float a) { return uintBitsToFloat(floatBitsToUint(a) & 0x7fffffffu); }
float p_copysign(float a, float b) { return uintBitsToFloat((floatBitsToUint(a) & 0x7fffffffu) | (floatBitsToUint(b) & 0x80000000u)); }
float p_sqrt(float a) { return a < 0.0 ? p_nan() : sqrt(a); }
float p_floor(float a) { return floor(a); }
float p_ceil(float a) { return ceil(a); }
float p_round(float a) { return roundEven(a); }
float p_trunc(float a) { return trunc(a); }
float p_exp(float a) { return exp(a); }
float p_exp2(float a) { return exp2(a); }
bool p_lt(float a, float b) { return a < b; }
bool p_le(float a, float b) { return a <= b; }
bool p_gt(float a, float b) { return a > b; }
bool p_ge(float a, float b) { return a >= b; }
bool p_eq(float a, float b) { return a == b; }
bool p_ne(float a, float b) { return a != b; }
bool p_both(bool a, bool b) { return a && b; }
bool p_either(bool a, bool b) { return a || b; }
bool p_negate(bool a) { return !a; }
float p_select(bool m, float a, float b) { return m ? a : b; }
float p_maximum(float a, float b) { return a > b || p_isnan(a) ? a : b; }
float p_minimum(float a, float b) { return a < b || p_isnan(a) ? a : b; }
float p_clamp(float a, float lo, float hi) { return p_isnan(a) ? a : min(max(a, lo), hi); }
// e**a - 1, by Horner's rule where the difference would lose digits.
float p_expm1(float a) {
  if (abs(a) > 0.4) return exp(a) - 1.0;
  return a * (1.0 + a * (0.5 + a * (1.0 / 6.0 + a * (1.0 / 24.0 + a * (1.0 / 120.0 + a * (1.0 / 720.0 + a * (1.0 / 5040.0)))))));
}
float p_sigmoid(float a) { return 1.0 / (1.0 + exp(-a)); }
float p_tanh(float a) {
  float x = abs(a);
  if (p_isnan(a)) return a;
  if (x < 0.3) {
    float s = x * x;
    return a * (1.0 + s * (-1.0 / 3.0 + s * (2.0 / 15.0 + s * (-17.0 / 315.0 + s * (62.0 / 2835.0 - s * (1382.0 / 155925.0))))));
  }
  float e = exp(-2.0 * x);
  return p_copysign((1.0 - e) / (1.0 + e), a);
}
float p_log(float a) { return a < 0.0 ? p_nan() : log(a); }
float p_log2(float a) { return a < 0.0 ? p_nan() : log2(a); }
float p_log10(float a) { return p_log(a) * 0.4342944819; }
// log(1 + a) without the loss of the sum: what the sum lost is put back.
float p_log1p(float a) {
  float u = 1.0 + a;
  if (p_isinf(u) || u <= 0.0 || p_isnan(u)) return p_log(u);
  return log(u) + (a - (u - 1.0)) / u;
}
// The error function: a series near 0, else e**(-a*a) times a rational of t (Numerical analysis' erfc, 1.2e-7).
float p_erfc_tail(float x) {
  float t = 1.0 / (1.0 + 0.5 * x);
  float p = -1.26551223 + t * (1.00002368 + t * (0.37409196 + t * (0.09678418 + t * (-0.18628806 + t * (0.27886807 + t * (-1.13520398 +
            t * (1.48851587 + t * (-0.82215223 + t * 0.17087277))))))));
  return t * exp(-x * x + p);
}
float p_erf(float a) {
  float x = abs(a);
  if (p_isnan(a)) return a;
  if (x < 0.5) {
    float s = a * a;
    return a * 1.128379167 * (1.0 + s * (-1.0 / 3.0 + s * (0.1 + s * (-1.0 / 42.0 + s * (1.0 / 216.0 - s * (1.0 / 1320.0))))));
  }
  return x > 4.0 ? p_copysign(1.0, a) : p_copysign(1.0 - p_erfc_tail(x), a);
}
float p_erfc(float a) {
  if (p_isnan(a)) return a;
  if (abs(a) < 0.5) return 1.0 - p_erf(a);
  float t = abs(a) > 11.0 ? 0.0 : p_erfc_tail(abs(a));
  return a > 0.0 ? t : 2.0 - t;
}
float p_sin(float a) { return sin(a); }
float p_cos(float a) { return cos(a); }
float p_tan(float a) { return tan(a); }
float p_asin(float a) { return abs(a) > 1.0 ? p_nan() : atan(a, sqrt((1.0 - a) * (1.0 + a))); }
float p_acos(float a) { return abs(a) > 1.0 ? p_nan() : atan(sqrt((1.0 - a) * (1.0 + a)), a); }
float p_atan(float a) { return p_isinf(a) ? p_copysign(1.570796327, a) : atan(a); }
float p_sinh(float a) { return abs(a) < 0.4 ? 0.5 * (p_expm1(a) - p_expm1(-a)) : p_copysign(0.5 * exp(abs(a)) - 0.5 * exp(-abs(a)), a); }
float p_cosh(float a) { return 0.5 * exp(abs(a)) + 0.5 * exp(-abs(a)); }
float p_atan2(float a, float b) {
  if (p_isnan(a) || p_isnan(b)) return p_nan();
  if (a == 0.0) return p_signbit(b) ? p_copysign(3.141592654, a) : a;
  if (p_isinf(a) && p_isinf(b)) return p_copysign(p_signbit(b) ? 2.356194490 : 0.785398163, a);
  if (p_isinf(b)) return p_copysign(p_signbit(b) ? 3.141592654 : 0.0, a);
  if (p_isinf(a)) return p_copysign(1.570796327, a);
  return atan(a, b);
}
float p_pow(float a, float b) {
  if (b == 0.0 || a == 1.0) return 1.0;
  if (p_isnan(a) || p_isnan(b)) return p_nan();
  if (b == 2.0) return a * a;
  bool whole = floor(b) == b || p_isinf(b), odd = whole && abs(b) < 16777216.0 && floor(b * 0.5) * 2.0 != b;
  if (p_isinf(b)) {
    float m = abs(a);
    return m == 1.0 ? 1.0 : (m > 1.0) == (b > 0.0) ? uintBitsToFloat(0x7f800000u) : 0.0;
  }
  if (a == 0.0) return b > 0.0 ? (odd ? a : 0.0) : odd ? p_copysign(uintBitsToFloat(0x7f800000u), a) : uintBitsToFloat(0x7f800000u);
  if (a < 0.0 && !whole) return p_nan();
  float m = pow(abs(a), b);
  return a < 0.0 && odd ? -m : m;
}
// The rest of a / b, with the sign of a: exact, as each step takes away a multiple of b that loses nothing.
float p_fmod(float a, float b) {
  if (p_isnan(a) || p_isnan(b) || p_isinf(a) || b == 0.0) return p_nan();
  float x = abs(a), y = abs(b);
  if (p_isinf(b) || x < y) return a;
  for (int i = 0; i < 64 && x >= y; ++i) {
    float q = floor(x / y), step = min(q, 8388608.0) * y;
    precise float rest = fma(-min(q, 8388608.0), y, x);
    x = rest < 0.0 ? rest + y : rest;
  }
  return p_copysign(x, a);
}
float p_remainder(float a, float b) {
  float r = p_fmod(a, b);
  return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r == 0.0 ? p_copysign(0.0, b) : r;
}
float p_floor_divide(float a, float b) {
  if (b == 0.0) return a / b;
  float m = p_fmod(a, b), d = (a - m) / b;
  if (m != 0.0 && (b < 0.0) != (m < 0.0)) d -= 1.0;
  if (d == 0.0) return p_copysign(0.0, a / b);
  float f = floor(d);
  return d - f > 0.5 ? f + 1.0 : f;
}
float p_trunc_divide(float a, float b) { return trunc(a / b); }
