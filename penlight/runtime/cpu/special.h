// Special functions of one and two numbers, in double: what elementwise rules call that no model's time depends on
// (ops/elementwise/special.py). Compiled once. Relative errors are below 1e-10 (igamma past 10,000: 1e-9), near zeros of a
// function absolute ones, so a result rounded to f32 is as good as exact. NaN in, NaN out; edges are torch's.
#pragma once
#include "penlight/runtime/base/platform.h"

namespace pen::special {

double lgamma(double x);
float lgamma(float x);
double digamma(double x);
double zeta(double s, double q);  // Hurwitz: sum of (q + k)**-s
double igamma(double a, double x);
double igammac(double a, double x);
double erfc(double x);
double erfcx(double x);  // e**(x*x) * erfc(x)
double erfinv(double y);
double ndtri(double p);  // inverse of the normal distribution's integral

double bessel_i0(double x);
double bessel_i1(double x);
double bessel_i0e(double x);  // times e**-|x|
double bessel_i1e(double x);
double bessel_j0(double x);
double bessel_j1(double x);
double bessel_y0(double x);
double bessel_y1(double x);
double bessel_k0(double x);
double bessel_k1(double x);
double bessel_k0e(double x);  // times e**x
double bessel_k1e(double x);
double airy_ai(double x);

// Polynomials of degree n (cut towards zero; 0 below zero, NaN above kMaxDegree), in at most n steps.
constexpr double kMaxDegree = 1e7;
static PEN_INLINE int64_t steps_of(double degree) { return degree > 0 && degree <= kMaxDegree ? static_cast<int64_t>(degree) : 0; }
double chebyshev_t(double x, double n);
double chebyshev_u(double x, double n);
double chebyshev_v(double x, double n);
double chebyshev_w(double x, double n);
double hermite_h(double x, double n);
double hermite_he(double x, double n);
double laguerre_l(double x, double n);
double legendre_p(double x, double n);

// x = mantissa * 2**exponent, mantissa in [1/2, 1); 0, inf and NaN are their own mantissas.
double frexp_mantissa(double x);
double frexp_exponent(double x);

}  // namespace pen::special
