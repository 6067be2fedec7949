// The primitives of elementwise rules (ops/elementwise/expression.py) on f32, with NaN and infinities as C has them. Devices may take
// numbers below 2**-126 for 0, know NaN badly in their own functions, and have their own sin and atan to 11 bits only: these are ours.
float p_nan() { return uintBitsToFloat(0x7fc00000u); }
float p_inf() { return uintBitsToFloat(0x7f800000u); }
bool p_isnan(float a) { return (floatBitsToUint(a) & 0x7fffffffu) > 0x7f800000u; }
bool p_isinf(float a) { return (floatBitsToUint(a) & 0x7fffffffu) == 0x7f800000u; }
bool p_signbit(float a) { return floatBitsToUint(a) >> 31 != 0; }
float p_add(float a, float b) { return a + b; }
float p_sub(float a, float b) { return a - b; }
float p_mul(float a, float b) { return a * b; }
// a * 0, which drivers take for 0 whatever a is.
float p_none_of(float a) { return p_isnan(a) || p_isinf(a) ? p_nan() : uintBitsToFloat(floatBitsToUint(a) & 0x80000000u); }
float p_div(float a, float b) { return a / b; }
float p_neg(float a) { return uintBitsToFloat(floatBitsToUint(a) ^ 0x80000000u); }
float p_abs(float a) { return uintBitsToFloat(floatBitsToUint(a) & 0x7fffffffu); }
float p_copysign(float a, float b) { return uintBitsToFloat((floatBitsToUint(a) & 0x7fffffffu) | (floatBitsToUint(b) & 0x80000000u)); }
float p_sqrt(float a) { return a < 0.0 || p_isnan(a) ? p_nan() : a == 0.0 || p_isinf(a) ? a : sqrt(a); }
float p_floor(float a) { return floor(a); }
float p_ceil(float a) { return ceil(a); }
float p_round(float a) { return roundEven(a); }
float p_trunc(float a) { return trunc(a); }
float p_exp(float a) { return p_isnan(a) ? a : exp(a); }
float p_exp2(float a) { return p_isnan(a) ? a : exp2(a); }
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
  if (!(abs(a) <= 0.4)) return p_exp(a) - 1.0;
  return a * (1.0 + a * (0.5 + a * (1.0 / 6.0 + a * (1.0 / 24.0 + a * (1.0 / 120.0 + a * (1.0 / 720.0 + a * (1.0 / 5040.0)))))));
}
float p_sigmoid(float a) { return 1.0 / (1.0 + p_exp(-a)); }
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
float p_log(float a) { return a < 0.0 || p_isnan(a) ? p_nan() : a == 0.0 ? -p_inf() : p_isinf(a) ? a : log(a); }
float p_log2(float a) { return a < 0.0 || p_isnan(a) ? p_nan() : a == 0.0 ? -p_inf() : p_isinf(a) ? a : log2(a); }
float p_log10(float a) { return p_log(a) * 0.4342944819; }
// log(1 + a): near 0 by the series of the inverse hyperbolic tangent, as the sum would lose digits.
float p_log1p(float a) {
  if (!(abs(a) <= 0.4)) return p_log(1.0 + a);
  float z = a / (2.0 + a), s = z * z;
  return z * (2.0 + s * (2.0 / 3.0 + s * (0.4 + s * (2.0 / 7.0 + s * (2.0 / 9.0 + s * (2.0 / 11.0))))));
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
// The inverse of erf, by two polynomials of the logarithm (M. Giles, Approximating the erfinv function).
float p_erfinv(float a) {
  if (!(abs(a) <= 1.0)) return p_nan();
  if (abs(a) == 1.0) return p_copysign(p_inf(), a);
  float w = -log((1.0 - a) * (1.0 + a)), p;
  if (w < 5.0) {
    w -= 2.5;
    p = ((2.81022636e-8 * w + 3.43273939e-7) * w - 3.5233877e-6) * w - 4.39150654e-6;
    p = (((p * w + 0.00021858087) * w - 0.00125372503) * w - 0.00417768164) * w + 0.246640727;
    return a * (p * w + 1.50140941);
  }
  w = sqrt(w) - 3.0;
  p = ((-0.000200214257 * w + 0.000100950558) * w + 0.00134934322) * w - 0.00367342844;
  p = (((p * w + 0.00573950773) * w - 0.0076224613) * w + 0.00943887047) * w + 1.00167406;
  return a * (p * w + 2.83297682);
}
float p_erfc(float a) {
  if (p_isnan(a)) return a;
  if (abs(a) < 0.5) return 1.0 - p_erf(a);
  float t = abs(a) > 11.0 ? 0.0 : p_erfc_tail(abs(a));
  return a > 0.0 ? t : 2.0 - t;
}
// |a| = n * pi / 2 + rest, |rest| <= pi / 4: what is left of a turn is in n. Below 12000 quarter turns have 13 bits, so that their products
// with the parts of pi / 2 are exact; beyond, where f16 does not reach with more than a digit, a * 2 / pi in 96 bits, without whole turns.
const uint kTwoOverPi[7] = uint[7](0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu);
float p_quarters(float a, out uint n) {
  a = abs(a);
#ifndef F16
  if (a >= 12000.0) {
    uint word = floatBitsToUint(a), m = (word & 0x7fffffu) | 0x800000u, r[4];  // m * the window of bits, the lowest word first
    int s = int(word >> 23) - 150;
    uint skipped = uint(max(s - 2, 0)), first = skipped >> 5, shift = skipped & 31u;
    r[3] = 0;
    for (uint i = 0; i < 3; ++i) {
      uint high, low, over, window = kTwoOverPi[first + 2 - i] << shift;
      if (shift != 0) window |= kTwoOverPi[first + 3 - i] >> (32 - shift);
      umulExtended(m, window, high, low);
      r[i] = uaddCarry(low, r[3], over);
      r[3] = high + over;
    }
    if (s < 2)
      for (uint i = 0; i < 3; ++i) r[i] = r[i] >> (2 - s) | r[i + 1] << (30 + s);
    n = r[2] >> 30;
    uint high = r[2] << 2 | r[1] >> 30, low = r[1] << 2 | r[0] >> 30, past = high >> 31;  // a half: from the next quarter, downwards
    n += past;
    float rest = (float(high ^ (0u - past)) * exp2(-32.0) + float(low ^ (0u - past)) * exp2(-64.0)) * 1.570796327;
    return past != 0 ? -rest : rest;
  }
#endif
  precise float k = roundEven(a * 0.636619772), rest = a - k * 1.5703125;
  rest = rest - k * 0.00048375129699707;
  rest = rest - k * 7.54953362e-8;
  rest = rest - k * 2.56334415e-12;
  n = uint(k);
  return rest;
}
vec2 p_sin_cos(float r) {
  float s = r * r, p = ((2.71756426e-6 * s - 0.000198392561) * s + 0.00833332911) * s - 0.166666672;
  float q = (2.44312032e-5 * s - 0.0013887306) * s + 0.0416666456;
  return vec2(r * (p * s + 1.0), s * s * q + (s * -0.5 + 1.0));
}
// The sine of a, past so many quarter turns.
float p_wave(float a, uint past) {
  if (p_isnan(a) || p_isinf(a)) return p_nan();
  uint n;
  vec2 v = p_sin_cos(p_quarters(a, n));
  n += past;
  float y = (n & 1u) != 0 ? v.y : v.x;
  return (n & 2u) != 0 ? -y : y;
}
float p_sin(float a) {
  float y = p_wave(a, 0);
  return p_signbit(a) ? p_neg(y) : y;
}
float p_cos(float a) { return p_wave(a, 1); }
float p_tan(float a) {
  if (p_isnan(a) || p_isinf(a)) return p_nan();
  uint n;
  vec2 v = p_sin_cos(p_quarters(a, n));
  float y = (n & 1u) != 0 ? -v.y / v.x : v.x / v.y;
  return p_signbit(a) ? p_neg(y) : y;
}
// of 0 <= t <= 1
float p_atan_reduced(float t) {
  float s = t * t, p = -0.0018271798;
  p = ((p * s + 0.0110642947) * s - 0.0314554349) * s + 0.0582342893;
  p = ((p * s - 0.0841944441) * s + 0.109575711) * s - 0.142652452;
  return t * s * ((p * s + 0.199986383) * s - 0.333333015) + t;
}
float p_atan2(float a, float b) {
  if (p_isnan(a) || p_isnan(b)) return p_nan();
  float down = abs(a), across = abs(b), most = max(down, across), least = min(down, across);
  float angle = p_atan_reduced(most == 0.0 ? 0.0 : p_isinf(least) ? 1.0 : p_isinf(most) ? 0.0 : least / most);
  if (down > across) angle = 1.570796327 - angle;
  if (p_signbit(b)) angle = 3.141592654 - angle;
  return p_copysign(angle, a);
}
float p_atan(float a) { return p_atan2(a, 1.0); }
float p_asin(float a) { return abs(a) <= 1.0 ? p_atan2(a, sqrt((1.0 - a) * (1.0 + a))) : p_nan(); }
float p_acos(float a) { return abs(a) <= 1.0 ? p_atan2(sqrt((1.0 - a) * (1.0 + a)), a) : p_nan(); }
// e**a / 2, in two factors, as e**a overflows before its half.
float p_half_exp(float a) {
  float h = p_exp(0.5 * a);
  return 0.5 * h * h;
}
float p_sinh(float a) {
  return abs(a) < 0.4 ? 0.5 * (p_expm1(a) - p_expm1(-a)) : p_copysign(p_half_exp(abs(a)) - p_half_exp(-abs(a)), a);
}
float p_cosh(float a) { return p_half_exp(abs(a)) + p_half_exp(-abs(a)); }
float p_pow(float a, float b) {
  if (b == 0.0 || a == 1.0) return 1.0;
  if (p_isnan(a) || p_isnan(b)) return p_nan();
  if (b == 2.0) return a * a;
  bool whole = floor(b) == b || p_isinf(b), odd = whole && abs(b) < 16777216.0 && floor(b * 0.5) * 2.0 != b;
  if (p_isinf(b)) {
    float m = abs(a);
    return m == 1.0 ? 1.0 : (m > 1.0) == (b > 0.0) ? p_inf() : 0.0;
  }
  if (a == 0.0 || p_isinf(a)) {
    float limit = (a == 0.0) == (b > 0.0) ? 0.0 : p_inf();
    return odd ? p_copysign(limit, a) : limit;
  }
  if (a < 0.0 && !whole) return p_nan();
  float m = pow(abs(a), b);
  return a < 0.0 && odd ? -m : m;
}
// The rest of a / b, with the sign of a: exact, as it is one of whole numbers, eight bits of a's lead over b at a time.
float p_fmod(float a, float b) {
  if (p_isnan(a) || p_isnan(b) || p_isinf(a) || b == 0.0) return p_nan();
  float x = abs(a), y = abs(b);
  if (p_isinf(b) || x < y) return a;
  uint u = floatBitsToUint(x), v = floatBitsToUint(y), divisor = (v & 0x7fffffu) | 0x800000u;
  uint rest = ((u & 0x7fffffu) | 0x800000u) % divisor;
  for (uint lead = (u >> 23) - (v >> 23); lead > 0 && rest != 0;) {
    uint bits = min(lead, 8u);
    rest = (rest << bits) % divisor;
    lead -= bits;
  }
  return p_copysign(float(rest) * (1.0 / 8388608.0) * uintBitsToFloat(v & 0x7f800000u), a);
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
