// Functions on f32 vectors. Each is written once over simd.h and gives the same kind of result on every instruction
// set; the errors stated are the largest seen against f64 over a sweep of all floats (tests/runtime/simd/math_test.cc),
// with fused multiply-add or without. NaN in, NaN out; ±inf as in C; denormal results of exp are kept. Functions with
// no vector form go lane by lane through the C library.
// Scalars in the same words: simd/arithmetic.h.
#pragma once
#include "penlight/runtime/simd/simd.h"

namespace pen {
namespace PEN_ISA {

constexpr float kLn2Hi = 0.693359375f;     // 355/512: its product with an exponent is exact
constexpr float kLn2Lo = -2.12194440e-4f;  // ln 2 - kLn2Hi
constexpr float kLog2E = 1.44269504f;
constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding it leaves round(x) in the low bits

static PEN_INLINE V infinity() { return set1(__builtin_inff()); }
// 2 ** n for n in [-126, 127]
static PEN_INLINE V power_of_two(I n) { return from_bits((n + set1i(127)) << 23); }
static PEN_INLINE V copysign(V magnitude, V sign) {
  return from_bits((bits(magnitude) & set1i(0x7fffffff)) | (bits(sign) & set1i(INT32_MIN)));
}

// y * 2**n for whole n in [-252, 254]; what a float cannot hold becomes inf, or loses bits once.
static PEN_INLINE V times_power_of_two(V y, V n) {
#if defined(__AVX512F__)
  return {_mm512_maskz_scalef_ps(kAll, y.v, n.v)};
#else
  I whole = to_int(n), half = whole >> 1;  // two steps: 2**n itself may be above or below what a float holds
  return y * power_of_two(half) * power_of_two(whole - half);
#endif
}

// e**r - 1 = r + r^2 q(r) for |r| <= ln(2) / 2, relative error 2^-26
static PEN_INLINE V expm1_near_zero(V r) {
  V q = fma(set1(0.00138718786f), r, set1(0.00836687628f));
  q = fma(q, r, set1(0.0416674316f));
  q = fma(q, r, set1(0.16666542f));
  q = fma(q, r, set1(0.49999997f));
  return fma(r * r, q, r);
}
// x = n ln 2 + r; gives e**r - 1.
static PEN_INLINE V expm1_reduced(V x, V* n) {
  V k = fma(x, set1(kLog2E), set1(kRounder)) - set1(kRounder);
  *n = k;
  return expm1_near_zero(fma(k, set1(-kLn2Lo), fma(k, set1(-kLn2Hi), x)));
}

// 1.2 ulp; exact for whole x
static PEN_INLINE V exp2(V x) {
  x = clamp(x, set1(-151.0f), set1(129.0f));
  V n = round(x);
  return times_power_of_two(expm1_near_zero((x - n) * set1(0.693147181f)) + set1(1.0f), n);
}

// 1.1 ulp
static PEN_INLINE V exp(V x) {
  V n;
  V y = expm1_reduced(clamp(x, set1(-104.5f), set1(89.0f)), &n) + set1(1.0f);
  return times_power_of_two(y, n);
}

// 1.7 ulp
static PEN_INLINE V expm1(V x) {
  V n;
  V p = expm1_reduced(clamp(x, set1(-20.0f), set1(89.0f)), &n);
  V half = power_of_two(to_int(n) - set1i(1));  // 2**128 is no float, 2**127 is
  V y = fma(p, half, half - set1(0.5f));
  return y + y;
}

// 2.5 ulp; 0 below -88.7, where the result is denormal
static PEN_INLINE V sigmoid(V x) { return set1(1.0f) / (set1(1.0f) + exp(-x)); }

// 2.6 ulp
static PEN_INLINE V tanh(V x) {
  V e = expm1(clamp(x + x, set1(-20.0f), set1(20.0f)));  // past ±9.01 it is ±1: no inf / inf
  return e / (e + set1(2.0f));
}

// x = 2**e (1 + f) with f in [sqrt(1/2) - 1, sqrt(2) - 1]; gives log(1 + f) = f - f^2/2 + f^3 p(f), relative error
// 2^-27. x is positive and finite.
static PEN_INLINE V log_reduced(V x, V* exponent) {
  M denormal = lt(x, set1(1.17549435e-38f));
  x = select(denormal, x * set1(8388608.0f), x);
  I offset = bits(x) - set1i(0x3f3504f3);  // the bits of sqrt(1/2)
  *exponent = to_float(offset >> 23) - select(denormal, set1(23.0f), zero());
  V f = from_bits((offset & set1i(0x007fffff)) + set1i(0x3f3504f3)) - set1(1.0f);
  V p = fma(set1(-0.0763589442f), f, set1(0.127621144f));
  p = fma(p, f, set1(-0.131597534f));
  p = fma(p, f, set1(0.142016098f));
  p = fma(p, f, set1(-0.166234016f));
  p = fma(p, f, set1(0.200012401f));
  p = fma(p, f, set1(-0.250008196f));
  p = fma(p, f, set1(0.333333313f));
  V ff = f * f;
  return f + fma(f * ff, p, set1(-0.5f) * ff);
}
// What a logarithm gives outside of (0, inf): -inf at 0, NaN below, x itself for inf and NaN.
static PEN_INLINE V log_result(V x, V y) {
  V special = select(eq(x, zero()), -infinity(), select(lt(x, zero()), set1(__builtin_nanf("")), x));
  return select(gt(x, zero()) & lt(x, infinity()), y, special);
}

// 0.9 ulp
static PEN_INLINE V log(V x) {
  V e;
  V y = log_reduced(x, &e);
  return log_result(x, fma(e, set1(kLn2Hi), fma(e, set1(kLn2Lo), y)));
}

// 1.8 ulp; exact for powers of two
static PEN_INLINE V log2(V x) {
  V e;
  V y = log_reduced(x, &e);
  return log_result(x, fma(y, set1(kLog2E), e));
}

// 2.0 ulp
static PEN_INLINE V log10(V x) {
  V e;
  V y = log_reduced(x, &e);
  y = fma(y, set1(0.434294482f), e * set1(4.60503873e-6f));
  return log_result(x, fma(e, set1(0.301025391f), y));  // log10(2) in two parts, the first of 12 bits
}

// 1.5 ulp
static PEN_INLINE V log1p(V x) {
  V u = set1(1.0f) + x;
  V lost = (x - (u - set1(1.0f))) / u;  // what the sum rounded away; log(u + d) = log(u) + d/u
  return select(lt(abs(x), infinity()) & gt(u, zero()), log(u) + lost, log(u));
}

// 1.3 ulp. |x| < 7/8: x + x p(x^2); beyond: 1 - e**g(|x|), g fitted to log(erfc).
static PEN_INLINE V erf(V x) {
  V a = abs(x), s = a * a;
  V p = fma(set1(-0.00060407276f), s, set1(0.00500232354f));
  p = fma(p, s, set1(-0.0267724283f));
  p = fma(p, s, set1(0.112819649f));
  p = fma(p, s, set1(-0.376125067f));
  p = fma(p, s, set1(0.128379151f));
  V near = fma(x, p, x);
  V t = min(set1(4.0f), a);  // erf(4) rounds to 1; NaN comes through
  V g = fma(set1(0.000201959745f), t, set1(-0.00310147461f));
  g = fma(g, t, set1(0.0224557444f));
  g = fma(g, t, set1(-0.104398966f));
  g = fma(g, t, set1(-0.63665837f));
  g = fma(g, t, set1(-1.12798142f));
  g = fma(g, t, set1(-0.000122985424f));
  V n;
  V e = expm1_reduced(g, &n) + set1(1.0f);  // g is in [-17, 0], or NaN: no need of the limits in exp
  V far = copysign(set1(1.0f) - e * power_of_two(to_int(n)), x);
  return select(lt(a, set1(0.875f)), near, far);
}

// torch's maximum and minimum: NaN if either is. max(a, b) alone gives b when one is NaN.
static PEN_INLINE V maximum(V a, V b) { return select(isnan(a), a, max(a, b)); }
static PEN_INLINE V minimum(V a, V b) { return select(isnan(a), a, min(a, b)); }

// The C library, lane by lane.
template <float (*kFunction)(float)>
static PEN_INLINE V each_lane(V x) {
  float lanes[kLanes];
  store(lanes, x);
  for (int i = 0; i < kLanes; ++i) lanes[i] = kFunction(lanes[i]);
  return load(lanes);
}
template <float (*kFunction)(float, float)>
static PEN_INLINE V each_lane(V a, V b) {
  float x[kLanes], y[kLanes];
  store(x, a);
  store(y, b);
  for (int i = 0; i < kLanes; ++i) x[i] = kFunction(x[i], y[i]);
  return load(x);
}
static PEN_INLINE V pow(V a, V b) { return each_lane<powf>(a, b); }

static PEN_INLINE bool any(M m) { return reduce_max(select(m, set1(1.0f), zero())) > 0; }

constexpr float kPi = 3.14159265f, kHalfPi = 1.57079633f;
constexpr float kPiRest = -8.74227766e-8f, kHalfPiRest = -4.37113883e-8f;  // pi - kPi, pi / 2 - kHalfPi
constexpr float kManyTurns = 12000.0f;  // below this, quarter turns have 13 bits and their products below are exact

// x = n pi/2 + r with |r| <= pi/4: sin and cos of r; what is left of a turn is in n.
static PEN_INLINE void sin_cos_reduced(V x, V* n, V* sine, V* cosine) {
  V k = fma(x, set1(0.636619772f), set1(kRounder)) - set1(kRounder);
  *n = k;
  V r = x - k * set1(1.5703125f);  // pi/2 in parts of 9, 11, 11 and 24 bits
  r = r - k * set1(0.00048375129699707f);
  r = r - k * set1(7.54953362e-8f);
  r = r - k * set1(2.56334415e-12f);
  V s = r * r;
  V p = fma(set1(2.71756426e-6f), s, set1(-0.000198392561f));
  p = fma(p, s, set1(0.00833332911f));
  p = fma(p, s, set1(-0.166666672f));
  *sine = r * fma(p, s, set1(1.0f));  // a product: it keeps the sign of -0
  V q = fma(set1(2.44312032e-5f), s, set1(-0.0013887306f));
  q = fma(q, s, set1(0.0416666456f));
  *cosine = fma(s * s, q, fma(s, set1(-0.5f), set1(1.0f)));
}
// sin of `kQuarters` quarter turns past x
template <int kQuarters>
static PEN_INLINE V sine_of(V x) {
  V n, sine, cosine;
  sin_cos_reduced(x, &n, &sine, &cosine);
  I k = to_int(n) + set1i(kQuarters);
  V y = select(ne(to_float(k & set1i(1)), zero()), cosine, sine);
  return from_bits(bits(y) ^ ((k & set1i(2)) << 30));
}

// 2.3 ulp, 1.5 near 0; far from it the C library's
static PEN_INLINE V sin(V x) { return PEN_UNLIKELY(any(ge(abs(x), set1(kManyTurns)))) ? each_lane<sinf>(x) : sine_of<0>(x); }
static PEN_INLINE V cos(V x) { return PEN_UNLIKELY(any(ge(abs(x), set1(kManyTurns)))) ? each_lane<cosf>(x) : sine_of<1>(x); }
// 3.7 ulp
static PEN_INLINE V tan(V x) {
  if (PEN_UNLIKELY(any(ge(abs(x), set1(kManyTurns))))) return each_lane<tanf>(x);
  V n, sine, cosine;
  sin_cos_reduced(x, &n, &sine, &cosine);
  M odd = ne(to_float(to_int(n) & set1i(1)), zero());
  return select(odd, -cosine, sine) / select(odd, sine, cosine);
}

// asin(|x|) for |x| <= 1/2, and asin(sqrt((1 - |x|) / 2)) beyond: the other angle of the triangle, halved.
static PEN_INLINE V asin_reduced(V x, M* beyond) {
  V a = abs(x);
  *beyond = gt(a, set1(0.5f));
  V s = select(*beyond, fma(a, set1(-0.5f), set1(0.5f)), a * a);
  V r = select(*beyond, sqrt(s), a);
  V p = fma(set1(0.037565235f), s, set1(0.0144025842f));
  p = fma(p, s, set1(0.0318176188f));
  p = fma(p, s, set1(0.0445157178f));
  p = fma(p, s, set1(0.0750051066f));
  p = fma(p, s, set1(0.166666597f));
  return fma(r * s, p, r);
}
// 2.4 ulp
static PEN_INLINE V asin(V x) {
  M beyond;
  V y = asin_reduced(x, &beyond);
  return copysign(select(beyond, set1(kHalfPi) - (y + y - set1(kHalfPiRest)), y), x);
}
// 1.1 ulp
static PEN_INLINE V acos(V x) {
  M beyond;
  V y = asin_reduced(x, &beyond);
  V near = set1(kHalfPi) - (copysign(y, x) - set1(kHalfPiRest));
  V far = select(lt(x, zero()), set1(kPi) - (y + y - set1(kPiRest)), y + y);
  return select(beyond, far, near);
}

// atan(t) for t in [0, 1]
static PEN_INLINE V atan_reduced(V t) {
  V s = t * t;
  V p = fma(set1(-0.0018271798f), s, set1(0.0110642947f));
  p = fma(p, s, set1(-0.0314554349f));
  p = fma(p, s, set1(0.0582342893f));
  p = fma(p, s, set1(-0.0841944441f));
  p = fma(p, s, set1(0.109575711f));
  p = fma(p, s, set1(-0.142652452f));
  p = fma(p, s, set1(0.199986383f));
  p = fma(p, s, set1(-0.333333015f));
  return fma(t * s, p, t);
}
// 1.3 ulp
static PEN_INLINE V atan(V x) {
  V a = abs(x);
  M beyond = gt(a, set1(1.0f));
  V y = atan_reduced(select(beyond, set1(1.0f) / a, a));
  return copysign(select(beyond, set1(kHalfPi) - (y - set1(kHalfPiRest)), y), x);
}
// 3 ulp
static PEN_INLINE V atan2(V y, V x) {
  V down = abs(y), along = abs(x), large = max(down, along), small = min(down, along);
  V t = select(eq(large, zero()), zero(), select(eq(small, infinity()), set1(1.0f), small / large));
  V angle = atan_reduced(t);
  angle = select(gt(down, along), set1(kHalfPi) - (angle - set1(kHalfPiRest)), angle);
  angle = select(lt(copysign(set1(1.0f), x), zero()), set1(kPi) - (angle - set1(kPiRest)), angle);
  return select(isnan(x), x, select(isnan(y), y, copysign(angle, y)));
}

// e**a / 2 for a past 20: in two factors, as e**a overflows before its half
static PEN_INLINE V half_exp(V a) {
  V h = exp(a * set1(0.5f));
  return h * set1(0.5f) * h;
}
// 2.7 ulp
static PEN_INLINE V sinh(V x) {
  V a = abs(x), e = expm1(a);
  V near = (e + e / (e + set1(1.0f))) * set1(0.5f);
  return copysign(select(gt(a, set1(20.0f)), half_exp(a), near), x);
}
// 2.7 ulp
static PEN_INLINE V cosh(V x) {
  V a = abs(x), e = exp(a);
  return select(gt(a, set1(20.0f)), half_exp(a), fma(e, set1(0.5f), set1(0.5f) / e));
}

// One is below zero, the other above.
static PEN_INLINE M opposite(V a, V b) { return (lt(a, zero()) & gt(b, zero())) | (gt(a, zero()) & lt(b, zero())); }

// Exact. A quotient below 2**22 is off by one at most, and only upwards; its product with b, unrounded, leaves what C says.
static PEN_INLINE V fmod(V a, V b) {
#if defined(__FMA__) || defined(__AVX512F__) || defined(__aarch64__)
  V q = trunc(a / b);
  if (PEN_UNLIKELY(any(!(lt(abs(q), set1(4194304.0f)) & lt(abs(b), infinity()))))) return each_lane<fmodf>(a, b);
  V r = fma(-q, b, a);
  r = select(opposite(r, a), r + copysign(b, a), r);
  return copysign(r, a);
#else
  return each_lane<fmodf>(a, b);
#endif
}

// Python's and torch's %: the sign of b.
static PEN_INLINE V remainder(V a, V b) {
  V r = fmod(a, b);
  return select(opposite(r, b), r + b, r);
}

// torch's float a // b: from the remainder, so that it agrees with %; a / b where b is 0.
static PEN_INLINE V floor_divide(V a, V b) {
  V r = fmod(a, b);
  V q = (a - r) / b;
  q = select(opposite(r, b), q - set1(1.0f), q);
  V whole = floor(q);
  whole = select(gt(q - whole, set1(0.5f)), whole + set1(1.0f), whole);
  whole = select(eq(q, zero()), copysign(zero(), a / b), whole);
  return select(eq(b, zero()), a / b, whole);
}

}  // namespace PEN_ISA
}  // namespace pen
