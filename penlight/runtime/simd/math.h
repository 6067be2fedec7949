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

// e**r - 1 = r + r^2 q(r) for |r| <= ln(2) / 2, relative error 2^-26. Polynomials of what is computed by millions go by pairs: in one
// chain, each step waits for the one before, and the processor holds only so many steps that wait.
static PEN_INLINE V expm1_near_zero(V r) {
  V s = r * r, low = fma(set1(0.16666542f), r, set1(0.49999997f)), high = fma(set1(0.00836687628f), r, set1(0.0416674316f));
  return fma(s, fma(fma(set1(0.00138718786f), s, high), s, low), r);
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

// 2**x for x <= 0, in as few steps as it takes: attention raises millions of scores. 2.1 ulp; exact for whole x
static PEN_INLINE V exp2_below_one(V x) {
  x = max(set1(-151.0f), x);
  V n = (x + set1(kRounder)) - set1(kRounder), f = x - n;
  V y = fma(set1(0.0013264727f), f, set1(0.009671513f));
  y = fma(y, f, set1(0.055507336f));
  y = fma(y, f, set1(0.24022242f));
  y = fma(y, f, set1(0.693147f));
  return times_power_of_two(fma(y, f, set1(1.0f)), n);
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
  V u = t * t, g = fma(set1(0.000201959745f), u, fma(set1(-0.00310147461f), t, set1(0.0224557444f)));
  g = fma(g, u, fma(set1(-0.104398966f), t, set1(-0.63665837f)));
  g = fma(g, u, fma(set1(-1.12798142f), t, set1(-0.000122985424f)));
  V n;
  V e = expm1_reduced(g, &n) + set1(1.0f);  // g is in [-17, 0], or NaN: no need of the limits in exp
  V far = copysign(set1(1.0f) - e * power_of_two(to_int(n)), x);
  return select(lt(a, set1(0.875f)), near, far);
}

// Vectors of armv7 take denormals for zeros: what promises them goes lane by lane there.
#if defined(__ARM_NEON) && !defined(__aarch64__)
constexpr bool kHasDenormals = false;
#else
constexpr bool kHasDenormals = true;
#endif

// What rounding took from p = a * b. Where nothing multiplies and adds in one step, from products of 12 bits each.
static PEN_INLINE V product_rest(V a, V b, V p) {
#if defined(__FMA__) || defined(__AVX512F__) || defined(__aarch64__)
  return fma(a, b, -p);
#else
  V a_high = from_bits(bits(a) & set1i(-4096)), b_high = from_bits(bits(b) & set1i(-4096));
  V a_low = a - a_high, b_low = b - b_high;
  return ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low;
#endif
}

// 4.3 ulp. Up to 1/2: 1 - erf; beyond: e**(-x^2) t q(t) with t = 1 / (x + 3/2), x^2 in two parts, and 2 minus that below zero.
static PEN_INLINE V erfc(V x) {
  V a = min(set1(10.25f), abs(x));  // there it is 0; NaN comes through
  V t = set1(1.0f) / (a + set1(1.5f));
  V q = fma(set1(9.81442833f), t, set1(-23.8648167f));
  q = fma(q, t, set1(19.9949875f));
  q = fma(q, t, set1(-3.5545249f));
  q = fma(q, t, set1(-3.00561666f));
  q = fma(q, t, set1(-0.108046077f));
  q = fma(q, t, set1(0.555804908f));
  q = fma(q, t, set1(0.995357275f));
  q = fma(q, t, set1(0.845853508f));
  q = fma(q, t, set1(0.56419915f));
  V s = a * a, rest = product_rest(a, a, s);
  V n = fma(s, set1(-kLog2E), set1(kRounder)) - set1(kRounder);
  V r = fma(n, set1(-kLn2Lo), fma(n, set1(-kLn2Hi), -s)) - rest;
  V far = times_power_of_two((expm1_near_zero(r) + set1(1.0f)) * (q * t), n);
  far = select(lt(x, zero()), set1(2.0f) - far, far);
  return select(lt(a, set1(0.5f)), set1(1.0f) - erf(x), far);
}

// 3.1 ulp. x p(w) with w = -log(1 - x^2), and past w = 5 x p(sqrt(w)).
static PEN_INLINE V erfinv(V x) {
  V w = -log((set1(1.0f) - x) * (set1(1.0f) + x));  // NaN outside of [-1, 1], inf at its ends
  V t = w - set1(2.5f);
  V p = fma(set1(-8.79101769e-9f), t, set1(2.32326247e-8f));
  p = fma(p, t, set1(4.66170121e-7f));
  p = fma(p, t, set1(-3.4627044e-6f));
  p = fma(p, t, set1(-4.96334542e-6f));
  p = fma(p, t, set1(0.000218344445f));
  p = fma(p, t, set1(-0.0012527419f));
  p = fma(p, t, set1(-0.00417738687f));
  p = fma(p, t, set1(0.24664028f));
  p = fma(p, t, set1(1.50140941f));
  t = sqrt(w) - set1(3.0f);
  V far = fma(set1(0.000115703733f), t, set1(-0.000309572293f));
  far = fma(far, t, set1(-5.67767165e-5f));
  far = fma(far, t, set1(0.00148509163f));
  far = fma(far, t, set1(-0.00359740504f));
  far = fma(far, t, set1(0.00568697369f));
  far = fma(far, t, set1(-0.00763728889f));
  far = fma(far, t, set1(0.00944528636f));
  far = fma(far, t, set1(1.00167501f));
  far = fma(far, t, set1(2.83297682f));
  V y = x * select(lt(w, set1(5.0f)), p, far);
  return select(eq(w, infinity()), copysign(infinity(), x), y);
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

// 1.4 ulp: 2**(b log2|a|), the logarithm and its product with b in two floats each. C's rules for what is special.
static PEN_INLINE V pow(V a, V b) {
  if constexpr (!kHasDenormals) return each_lane<powf>(a, b);
  V x = abs(a);
  M denormal = lt(x, set1(1.17549435e-38f));
  V scaled = select(denormal, x * set1(8388608.0f), x);
  I offset = bits(scaled) - set1i(0x3f3504f3);  // as in log_reduced
  V e = to_float(offset >> 23) - select(denormal, set1(23.0f), zero());
  V m = from_bits((offset & set1i(0x007fffff)) + set1i(0x3f3504f3));
  // log2(m) = s (2 / ln 2 + s^2 q(s^2)) with s = (m - 1) / (m + 1)
  V f = m - set1(1.0f), sum = m + set1(1.0f), sum_rest = m - (sum - set1(1.0f));
  V s = f / sum, product = s * sum;
  V s_rest = ((f - product) - product_rest(s, sum, product) - s * sum_rest) / sum;
  V ss = s * s;
  V q = fma(set1(0.336650193f), ss, set1(0.411898106f));
  q = fma(q, ss, set1(0.577079833f));
  q = fma(q, ss, set1(0.961796701f));
  V k = set1(2.88539004f), near = s * k;
  V rest = product_rest(s, k, near) + (s * set1(3.85192607e-8f) + (s_rest * k + s * ss * q));
  V high = e + near;  // e is 0, or larger
  rest = (near - (high - e)) + rest;
  V log = high + rest;
  rest = rest - (log - high);
  log = select(eq(x, zero()), -infinity(), select(eq(x, infinity()), x, log));
  V y = b * log;
  rest = product_rest(b, log, y) + b * rest;
  M far = !lt(abs(y), set1(200.0f));
  y = clamp(y, set1(-200.0f), set1(200.0f));
  V n = round(y);
  V r = (y - n) + select(far, zero(), rest);
  V result = times_power_of_two(expm1_near_zero(r * set1(0.693147181f)) + set1(1.0f), n);
  result = select(eq(x, set1(1.0f)), set1(1.0f), result);
  V half = b * set1(0.5f);
  M whole = eq(round(b), b), odd = whole & ne(round(half), half);
  result = select(odd, copysign(result, a), result);
  result = select(lt(a, zero()) & gt(a, -infinity()) & !whole, set1(__builtin_nanf("")), result);
  result = select(isnan(a), a, select(isnan(b), b, result));
  return select(eq(b, zero()) | eq(a, set1(1.0f)), set1(1.0f), result);
}

// One step of the bits, away from zero or back.
static PEN_INLINE V nextafter(V a, V b) {
  if constexpr (!kHasDenormals) return each_lane<nextafterf>(a, b);
  M away = (gt(b, a) & gt(a, zero())) | (lt(b, a) & lt(a, zero()));
  I step = bits(select(away, from_bits(set1i(1)), from_bits(set1i(-1))));
  V y = select(eq(a, zero()), copysign(from_bits(set1i(1)), b), from_bits(bits(a) + step));
  y = select(eq(a, b), b, y);
  return select(isnan(a), a, select(isnan(b), b, y));
}

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
