// One set of words for what elementwise rules compute, on f32 vectors and on plain numbers alike: generated code
// (build/elementwise.py) is a template over the type and calls these. Functions of doubles are the C library's. Integers wrap, as in torch;
// division by zero and of the least number by -1, which trap on x86, give 0 and the least number. Truth values are M for V, bool for
// numbers.
#pragma once
#include "penlight/runtime/cpu/special.h"
#include "penlight/runtime/simd/math.h"

namespace pen {
namespace PEN_ISA {

// --- vectors: the operators of simd.h by name ------------------------------------------------------------------
static PEN_INLINE V add(V a, V b) { return a + b; }
static PEN_INLINE V sub(V a, V b) { return a - b; }
static PEN_INLINE V mul(V a, V b) { return a * b; }
static PEN_INLINE V div(V a, V b) { return a / b; }
static PEN_INLINE V neg(V a) { return -a; }
static PEN_INLINE M both(M a, M b) { return a & b; }
static PEN_INLINE M either(M a, M b) { return a | b; }
static PEN_INLINE M negate(M a) { return !a; }

// Above zero: (z - 2) p(z) for z in [3/2, 4], where z is x, x + 1 or x + 2, and what the steps cost is a logarithm; beyond,
// Stirling's series. Number by number where anything is below.
static PEN_INLINE V lgamma(V x) {
  if (PEN_UNLIKELY(any(!gt(x, zero())))) return each_lane<special::lgamma>(x);
  M tiny = lt(x, set1(0.5f)), small = lt(x, set1(1.5f)), large = ge(x, set1(4.0f));
  V steps = log(select(small | large, select(tiny, x * (x + set1(1.0f)), x), set1(1.0f)));
  V u = select(small, select(tiny, x, x - set1(1.0f)), x - set1(2.0f));  // z - 2
  V t = u - set1(0.75f);
  V p = fma(set1(1.37651978e-6f), t, set1(-3.20833146e-6f));
  p = fma(p, t, set1(3.42879025e-6f));
  p = fma(p, t, set1(-1.48059135e-5f));
  p = fma(p, t, set1(5.79032603e-5f));
  p = fma(p, t, set1(-0.000181040901f));
  p = fma(p, t, set1(0.000600265106f));
  p = fma(p, t, set1(-0.00213859743f));
  p = fma(p, t, set1(0.00829730928f));
  p = fma(p, t, set1(-0.0376752131f));
  p = fma(p, t, set1(0.247041926f));
  p = fma(p, t, set1(0.633619547f));
  V near = fma(u, p, -steps);
  V r = set1(1.0f) / x, rr = r * r;
  V q = fma(fma(set1(0.000742523931f), rr, set1(-0.00277659507f)), rr, set1(0.0833333284f));
  V far = fma(x - set1(0.5f), steps - set1(1.0f), fma(r, q, set1(0.418938533f)));
  return select(large, far, near);
}

// --- numbers ---------------------------------------------------------------------------------------------------
template <class T>
constexpr bool kIsFloat = static_cast<T>(0.5) != static_cast<T>(0);

template <class T>
static PEN_INLINE T add(T a, T b) {
  if constexpr (kIsFloat<T>)
    return a + b;
  else
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
template <class T>
static PEN_INLINE T sub(T a, T b) {
  if constexpr (kIsFloat<T>)
    return a - b;
  else
    return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
template <class T>
static PEN_INLINE T mul(T a, T b) {
  if constexpr (kIsFloat<T>)
    return a * b;
  else
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
template <class T>
static PEN_INLINE T div(T a, T b) {  // floats only
  return a / b;
}
template <class T>
static PEN_INLINE T neg(T a) {
  if constexpr (kIsFloat<T>)
    return -a;
  else
    return sub(T(0), a);
}
template <class T>
static PEN_INLINE T abs(T a) {
  if constexpr (kIsFloat<T>)
    return static_cast<T>(__builtin_fabs(a));
  else
    return a < T(0) ? neg(a) : a;
}
template <class T>
static PEN_INLINE T max(T a, T b) {
  return a > b ? a : b;
}
template <class T>
static PEN_INLINE T min(T a, T b) {
  return a < b ? a : b;
}
template <class T>
static PEN_INLINE T maximum(T a, T b) {
  return a != a ? a : max(a, b);
}
template <class T>
static PEN_INLINE T minimum(T a, T b) {
  return a != a ? a : min(a, b);
}
template <class T>
static PEN_INLINE T clamp(T x, T lo, T hi) {
  return min(hi, max(lo, x));
}
template <class T>
static PEN_INLINE T copysign(T magnitude, T sign) {  // floats only
  return static_cast<T>(__builtin_copysign(magnitude, sign));
}
template <class T>
static PEN_INLINE bool signbit(T a) {
  if constexpr (kIsFloat<T>)
    return __builtin_signbit(a);
  else
    return a < T(0);
}
static PEN_INLINE double nextafter(double a, double b) { return ::nextafter(a, b); }

#define PEN_LIBRARY(name) \
  static PEN_INLINE double name(double x) { return ::name(x); }
PEN_LIBRARY(exp)
PEN_LIBRARY(exp2)
PEN_LIBRARY(expm1)
PEN_LIBRARY(log)
PEN_LIBRARY(log1p)
PEN_LIBRARY(log2)
PEN_LIBRARY(log10)
PEN_LIBRARY(sin)
PEN_LIBRARY(cos)
PEN_LIBRARY(tan)
PEN_LIBRARY(asin)
PEN_LIBRARY(acos)
PEN_LIBRARY(atan)
PEN_LIBRARY(sinh)
PEN_LIBRARY(cosh)
PEN_LIBRARY(tanh)
PEN_LIBRARY(erf)
PEN_LIBRARY(floor)
PEN_LIBRARY(ceil)
PEN_LIBRARY(trunc)
#undef PEN_LIBRARY
static PEN_INLINE double erfc(double x) { return special::erfc(x); }
static PEN_INLINE double erfinv(double x) { return special::erfinv(x); }
static PEN_INLINE double lgamma(double x) { return special::lgamma(x); }
static PEN_INLINE double round(double x) { return nearbyint(x); }
static PEN_INLINE double sqrt(double x) { return __builtin_sqrt(x); }
static PEN_INLINE double sigmoid(double x) { return 1 / (1 + ::exp(-x)); }
static PEN_INLINE double pow(double a, double b) { return ::pow(a, b); }
static PEN_INLINE double atan2(double a, double b) { return ::atan2(a, b); }
static PEN_INLINE double fmod(double a, double b) { return ::fmod(a, b); }
// The same as those of V in math.h.
static PEN_INLINE double remainder(double a, double b) {
  double r = ::fmod(a, b);
  return (r < 0 && b > 0) || (r > 0 && b < 0) ? r + b : r;
}
static PEN_INLINE double floor_divide(double a, double b) {
  if (b == 0) return a / b;
  double r = ::fmod(a, b), q = (a - r) / b;
  if ((r < 0 && b > 0) || (r > 0 && b < 0)) q -= 1;
  if (q == 0) return copysign(0.0, a / b);
  double whole = ::floor(q);
  return q - whole > 0.5 ? whole + 1 : whole;
}

// integers only from here to the comparisons
template <class T>
static PEN_INLINE T trunc_divide(T a, T b) {
  if (b == T(0)) return T(0);
  if (b == T(-1)) return neg(a);
  if (sizeof(T) == 8 && a == static_cast<int32_t>(a) && b == static_cast<int32_t>(b))  // half the bits, half the time
    return static_cast<int32_t>(a) / static_cast<int32_t>(b);
  return static_cast<T>(a / b);
}
template <class T>
static PEN_INLINE T fmod(T a, T b) {
  return sub(a, mul(trunc_divide(a, b), b));
}
// -1 where the remainder r of a division by b is not 0 and has the other sign, else 0. No branches: data decides, and processors
// guess wrong.
template <class T>
static PEN_INLINE T wrong_side(T r, T b) {
  return static_cast<T>(-static_cast<T>((r != T(0)) & ((r ^ b) < T(0))));
}
template <class T>
static PEN_INLINE T remainder(T a, T b) {
  T r = fmod(a, b);
  return add(r, static_cast<T>(b & wrong_side(r, b)));
}
template <class T>
static PEN_INLINE T floor_divide(T a, T b) {
  T q = trunc_divide(a, b), r = sub(a, mul(q, b));
  return add(q, wrong_side(r, b));
}
// Powers by squaring; a negative exponent leaves 1, -1 or 0, as in torch.
template <class T>
static PEN_INLINE T pow(T a, T b) {
  if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b & T(1) ? T(-1) : T(1)) : T(0);
  T result = 1;
  for (; b > T(0); b = static_cast<T>(b >> 1), a = mul(a, a)) {
    if (b & T(1)) result = mul(result, a);
  }
  return result;
}
template <class T>
static PEN_INLINE T gcd(T a, T b) {
  while (b != T(0)) {
    T rest = fmod(a, b);
    a = b;
    b = rest;
  }
  return abs(a);
}
// By more bits than there are, or fewer than none: all of them, as in torch.
template <class T>
static PEN_INLINE T shift_left(T a, T b) {
  return b < T(0) || b >= T(8 * sizeof(T)) ? T(0) : static_cast<T>(static_cast<uint64_t>(a) << b);
}
template <class T>
static PEN_INLINE T shift_right(T a, T b) {
  return static_cast<T>(a >> (b < T(0) || b >= T(8 * sizeof(T)) ? T(8 * sizeof(T) - 1) : b));
}
template <class T>
static PEN_INLINE T bit_and(T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
static PEN_INLINE T bit_or(T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
static PEN_INLINE T bit_xor(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <class T>
static PEN_INLINE T bit_not(T a) {
  return static_cast<T>(~a);
}

template <class T>
static PEN_INLINE bool lt(T a, T b) {
  return a < b;
}
template <class T>
static PEN_INLINE bool le(T a, T b) {
  return a <= b;
}
template <class T>
static PEN_INLINE bool gt(T a, T b) {
  return a > b;
}
template <class T>
static PEN_INLINE bool ge(T a, T b) {
  return a >= b;
}
template <class T>
static PEN_INLINE bool eq(T a, T b) {
  return a == b;
}
template <class T>
static PEN_INLINE bool ne(T a, T b) {
  return a != b;
}
template <class T>
static PEN_INLINE bool isnan(T a) {
  return a != a;
}
template <class T>
static PEN_INLINE T select(bool c, T a, T b) {
  return c ? a : b;
}
static PEN_INLINE bool both(bool a, bool b) { return a && b; }
static PEN_INLINE bool either(bool a, bool b) { return a || b; }
static PEN_INLINE bool negate(bool a) { return !a; }

// A constant or an attribute of a rule, as a T. Attributes come from files: one that is no integer of 64 bits counts as 0.
template <class T>
static PEN_INLINE T splat(double value) {
  if constexpr (__is_same(T, V))
    return set1(static_cast<float>(value));
  else if constexpr (kIsFloat<T>)
    return static_cast<T>(value);
  else
    return static_cast<T>(value > -9.2e18 && value < 9.2e18 ? static_cast<int64_t>(value) : 0);
}

}  // namespace PEN_ISA
}  // namespace pen
