// Special functions from their definitions: convergent series where x is small, asymptotic ones where it is large, an
// integral or a continued fraction between. Formulas: DLMF (dlmf.nist.gov), by number.
#include "penlight/runtime/cpu/special.h"

namespace pen::special {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kEuler = 0.57721566490153286061;
constexpr double kInf = __builtin_inf();
const double kNaN = __builtin_nan("");
constexpr double kTiny = 1e-17;  // a term below this part of its sum changes nothing

bool is_whole(double x) { return floor(x) == x; }
double fabs(double x) { return __builtin_fabs(x); }
double sqrt(double x) { return __builtin_sqrt(x); }

}  // namespace

// ---- gamma and its relatives ----------------------------------------------------------------------------------------
double lgamma(double x) {
  int sign;  // lgamma would write it to a global
  return lgamma_r(x, &sign);
}
float lgamma(float x) {
  int sign;
  return lgammaf_r(x, &sign);
}

// 5.5.2, 5.5.4, 5.11.2
double digamma(double x) {
  if (x == 0) return -__builtin_copysign(kInf, x);
  if (x < 0) {
    if (is_whole(x)) return kNaN;
    return digamma(1 - x) - kPi / tan(kPi * (x - floor(x + 0.5)));
  }
  double y = 0;
  for (; x < 10; x += 1) y -= 1 / x;
  double t = 1 / (x * x);
  double tail = t * (1.0 / 12 - t * (1.0 / 120 - t * (1.0 / 252 - t * (1.0 / 240 - t * (1.0 / 132 - t * (691.0 / 32760 - t / 12))))));
  return y + log(x) - 0.5 / x - tail;
}

// Euler and Maclaurin's sum, 25.11.28. Whole powers of what lies below zero: the sum up to zero, mirrored.
double zeta(double s, double q) {
  if (s == 1) return kInf;
  if (s < 1) return kNaN;
  if (q <= 0) {
    if (is_whole(q)) return kInf;
    if (!is_whole(s)) return kNaN;
    double sign = is_whole(s / 2) ? 1 : -1;  // the terms below zero, from the last one back to q: those from ceil(q) - q on
    return sign * (zeta(s, ceil(q) - q) - zeta(s, 1 - q)) + zeta(s, q - floor(q));
  }
  if (!(s < kInf) || !(q < kInf)) return s != s || q != q ? s + q : q > 1 ? 0 : q == 1 ? 1 : kInf;
  double sum = 0, a = q, least = s + 10;
  for (; a < least; a += 1) {
    double term = pow(a, -s);
    sum += term;
    if (term <= kTiny * sum) return sum;  // both may be 0
  }
  // B(2j) / (2j)!
  static constexpr double kTerms[] = {1.0 / 12,
                                      -1.0 / 720,
                                      1.0 / 30240,
                                      -1.0 / 1209600,
                                      1.0 / 47900160,
                                      -691.0 / 1307674368000.0,
                                      1.0 / 74724249600.0,
                                      -3617.0 / 10670622842880000.0};
  double power = pow(a, -s), factor = s * power / a;
  sum += a * power / (s - 1) + power / 2;
  for (int j = 0; j < 8; ++j) {
    sum += kTerms[j] * factor;
    factor *= (s + 2 * j + 1) * (s + 2 * j + 2) / (a * a);
  }
  return sum;
}

namespace {

// Both regularized incomplete gamma functions: p + q = 1.
struct Parts {
  double p, q;
};

// Temme's uniform expansion for large a and x near it, 8.12.3, two terms of its sum: error a**-2.5.
Parts gamma_parts_near(double a, double x) {
  double mu = (x - a) / a, eta2 = 2 * (mu - log1p(mu));
  double eta = (mu < 0 ? -1 : 1) * sqrt(eta2 < 0 ? 0 : eta2), c0, c1;
  if (fabs(eta) < 0.1) {
    c0 = -1.0 / 3 + eta * (1.0 / 12 + eta * (-2.0 / 135 + eta * (1.0 / 864 + eta * (1.0 / 2835 - eta * (139.0 / 777600)))));
    c1 = -1.0 / 540 + eta * (-1.0 / 288 + eta * (1.0 / 378 - eta * (77.0 / 77760)));
  } else {
    double m = 1 / mu, e = 1 / eta;
    c0 = m - e;
    c1 = e * e * e - m * m * m - m * m - m / 12;
  }
  double rest = exp(-0.5 * a * eta2) / sqrt(2 * kPi * a) * (c0 + c1 / a);
  double side = 0.5 * ::erfc(fabs(eta) * sqrt(a / 2));  // on the side away from a
  return mu < 0 ? Parts{side - rest, 1 - side + rest} : Parts{1 - side - rest, side + rest};
}

Parts gamma_parts(double a, double x) {
  if (a != a || x != x || a < 0 || x < 0) return {kNaN, kNaN};
  bool far_a = a == kInf, far_x = x == kInf;
  if ((a == 0 && x == 0) || (far_a && far_x)) return {kNaN, kNaN};
  if (a == 0 || far_x) return {1, 0};
  if (x == 0 || far_a) return {0, 1};
  if (a > 1e4 && fabs(x - a) < 0.3 * a) return gamma_parts_near(a, x);
  if (x < a + 1) {  // 8.7.1, with a + 1 in place of 1 / a: that may be infinite
    double term = 1, sum = 1;
    for (double n = a + 1; term > kTiny * sum; n += 1) sum += term *= x / n;
    double p = exp(a * log(x) - x - lgamma(a + 1)) * sum;
    return {p, 1 - p};
  }
  double front = exp(a * log(x) - x - lgamma(a));
  // 8.9.2, by Lentz's method
  double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (int i = 1; i < 100000; ++i) {
    double an = i * (a - i);
    b += 2;
    d = an * d + b;
    c = b + an / c;
    d = 1 / (d == 0 ? 1e-300 : d);
    c = c == 0 ? 1e-300 : c;
    double step = c * d;
    h *= step;
    if (fabs(step - 1) < 1e-15) break;
  }
  double q = front * h;
  return {1 - q, q};
}

}  // namespace

double igamma(double a, double x) { return gamma_parts(a, x).p; }
double igammac(double a, double x) { return gamma_parts(a, x).q; }

// ---- the error function's relatives ---------------------------------------------------------------------------------
double erfc(double x) { return ::erfc(x); }

double erfcx(double x) {
  if (x < 26) return exp(x * x) * ::erfc(x);  // the rounding of x * x costs x * x ulps: 7e-14
  double t = 0.5 / (x * x);                   // 7.12.1
  return (1 - t * (1 - 3 * t * (1 - 5 * t * (1 - 7 * t)))) / x / sqrt(kPi);
}

namespace {

// z >= 0 with erf(z) = y and erfc(z) = rest; the smaller of the two is used. Winitzki's guess, then Halley's steps.
double inverse_erf(double y, double rest) {
  double l = log(rest * (1 + y)), h = 2 / (kPi * 0.147) + l / 2;
  double z = sqrt(sqrt(h * h - l / 0.147) - h);
  for (int i = 0; i < 3; ++i) {
    if (z > 25) {  // by logarithms: e**(z*z) may be infinite, and erfc(z) nothing
      z += (log(erfcx(z)) - z * z - log(rest)) * 0.5 * sqrt(kPi) * erfcx(z);
      continue;
    }
    double error = y < 0.5 ? erf(z) - y : rest - ::erfc(z);
    double step = error * 0.5 * sqrt(kPi) * exp(z * z);
    z -= step / (1 + z * step);
  }
  return z;
}

}  // namespace

double erfinv(double y) {
  double a = fabs(y);
  if (!(a < 1)) return a == 1 ? __builtin_copysign(kInf, y) : kNaN;
  if (a < 1e-9) return y * (0.5 * sqrt(kPi));  // the guess takes differences of what is nearly equal
  return __builtin_copysign(inverse_erf(a, 1 - a), y);
}

double ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return kNaN;
  if (p == 0 || p == 1) return p == 0 ? -kInf : kInf;
  double side = p < 0.5 ? p : 1 - p;
  double z = fabs(1 - 2 * p) < 1e-9 ? fabs(1 - 2 * p) * (0.5 * sqrt(kPi)) : inverse_erf(1 - 2 * side, 2 * side);
  return (p < 0.5 ? -1 : 1) * sqrt(2.0) * z;
}

// ---- Bessel functions -----------------------------------------------------------------------------------------------
namespace {

// e**-x I_order(x) for x >= 0, order 0 or 1. 10.25.2, and 10.40.1 past 18, where its least term is 1e-16.
double scaled_i(int order, double x) {
  double sum = 1, term = 1;
  if (x > 18) {
    for (int k = 1; k < 30 && fabs(term) > kTiny; ++k) {
      term *= ((2 * k - 1) * (2 * k - 1) - 4 * order) / (8 * k * x);
      sum += term;
    }
    return sum / (sqrt(2 * kPi) * sqrt(x));  // 2 * kPi * x may be infinite
  }
  for (int k = 1; term > kTiny * sum; ++k) sum += term *= x * x / (4.0 * k * (k + order));
  return sum * (order ? x / 2 : 1) * exp(-x);
}

// e**x K_nu(x), from 10.32.9: the trapezoidal rule is as good as exact where the integrand falls off like this one.
double scaled_k_integral(double nu, double x) {
  double h = x < 9 ? 0.2 : 0.6 / sqrt(x), sum = 0.5;
  for (int k = 1; k < 1000; ++k) {                                                   // about 100 are needed
    double t = k * h, s = sinh(t / 2), term = exp(-2 * (x * s * s)) * cosh(nu * t);  // cosh(t) - 1 = 2 sinh(t/2)**2
    sum += term;
    if (!(term >= kTiny * sum)) break;
  }
  return sum * h;
}

// e**x K_order(x), order 0 or 1. Up to 2: 10.31.2 for K0, and K1 from the Wronskian, 10.28.2.
double scaled_k(int order, double x) {
  if (!(x > 0)) return x == 0 ? kInf : kNaN;
  if (x == kInf) return 0;
  if (x > 2) return scaled_k_integral(order, x);
  double i0 = scaled_i(0, x) * exp(x), term = 1, harmonic = 0, sum = 0;
  for (int k = 1; k < 20; ++k) {
    term *= x * x / (4.0 * k * k);
    harmonic += 1.0 / k;
    sum += term * harmonic;
  }
  double k0 = sum - (log(x / 2) + kEuler) * i0;
  return exp(x) * (order ? (1 / x - scaled_i(1, x) * exp(x) * k0) / i0 : k0);
}

// 0 of a large x is what is left of a number that was scaled; of a small one it is a half of the smallest.
double unscaled(double scaled, double exponent) { return scaled == 0 && exponent > 1 ? kInf : scaled * exp(exponent); }

}  // namespace

double bessel_i0e(double x) { return scaled_i(0, fabs(x)); }
double bessel_i1e(double x) { return __builtin_copysign(scaled_i(1, fabs(x)), x); }
double bessel_i0(double x) { return unscaled(scaled_i(0, fabs(x)), fabs(x)); }
double bessel_i1(double x) { return x == 0 ? x : __builtin_copysign(unscaled(scaled_i(1, fabs(x)), fabs(x)), x); }
double bessel_k0e(double x) { return scaled_k(0, x); }
double bessel_k1e(double x) { return scaled_k(1, x); }
double bessel_k0(double x) { return scaled_k(0, x) * exp(-x); }
double bessel_k1(double x) { return scaled_k(1, x) * exp(-x); }
double bessel_j0(double x) { return j0(x); }
double bessel_j1(double x) { return j1(x); }
double bessel_y0(double x) { return x > 0 ? y0(x) : x == 0 ? -kInf : kNaN; }
double bessel_y1(double x) { return x > 0 ? y1(x) : x == 0 ? -kInf : kNaN; }

// 9.4.1 near zero; 9.6.2 above, 9.7.9 below.
double airy_ai(double x) {
  if (x - x != 0) return kNaN;
  if (x > 2) {
    double zeta = 2.0 / 3 * x * sqrt(x);
    if (zeta > 1e4) return 0;  // e**-zeta is, and zeta may be infinite
    return sqrt(x / 3) / kPi * scaled_k_integral(1.0 / 3, zeta) * exp(-zeta);
  }
  if (x < -7.5) {
    double zeta = 2.0 / 3 * -x * sqrt(-x), u = 1, even = 1, odd = 0;
    for (int k = 1; k < 24; ++k) {
      double next = u * (6 * k - 5) * (6 * k - 1) / (72 * k * zeta);
      if (next > u) break;  // an asymptotic series: its terms grow again
      u = next;
      (k & 1 ? odd : even) += k & 2 ? -u : u;
    }
    double phase = zeta + kPi / 4;  // both from sin: a compiler makes one call of sin and cos of one angle, not every libm's
    return (sin(phase) * even + sin(phase - kPi / 2) * odd) / (sqrt(kPi) * sqrt(sqrt(-x)));
  }
  double cube = x * x * x, f = 1, g = x, f_sum = f, g_sum = g;
  for (int k = 1; k < 60; ++k) {
    f_sum += f *= cube / ((3 * k - 1) * (3 * k));
    g_sum += g *= cube / ((3 * k) * (3 * k + 1));
  }
  return 0.355028053887817239 * f_sum - 0.258819403792806798 * g_sum;
}

// ---- orthogonal polynomials -----------------------------------------------------------------------------------------
namespace {

// A degree as a whole number, -1 for none. Past the last that is computed (a loop takes that many steps), NaN comes out.
double degree(double n) { return n > -1 && n < kInf ? trunc(n) : -1; }

// All four kinds go on by P(k + 1) = 2x P(k) - P(k - 1), 18.9.1; they differ in P(1).
double chebyshev(double x, double n, double first) {
  if (n < 0) return 0;
  if (n == 0) return 1;
  if (n > kMaxDegree) return kNaN;
  double before = 1, now = first;
  for (double k = 1; k < n && now - now == 0; ++k) {
    double next = 2 * x * now - before;
    before = now;
    now = next;
  }
  return now;
}

}  // namespace

// Inside of (-1, 1) high degrees are angles: 18.5.1 to 18.5.4.
double chebyshev_t(double x, double n) {
  n = degree(n);
  return n > 30 && fabs(x) < 1 ? cos(n * acos(x)) : chebyshev(x, n, x);
}
double chebyshev_u(double x, double n) {
  n = degree(n);
  return n > 30 && fabs(x) < 1 ? sin((n + 1) * acos(x)) / sin(acos(x)) : chebyshev(x, n, 2 * x);
}
double chebyshev_v(double x, double n) {
  n = degree(n);
  return n > 30 && fabs(x) < 1 ? cos((n + 0.5) * acos(x)) / cos(0.5 * acos(x)) : chebyshev(x, n, 2 * x - 1);
}
double chebyshev_w(double x, double n) {
  n = degree(n);
  return n > 30 && fabs(x) < 1 ? sin((n + 0.5) * acos(x)) / sin(0.5 * acos(x)) : chebyshev(x, n, 2 * x + 1);
}

namespace {

enum class Family { hermite_h, hermite_he, laguerre_l, legendre_p };

// Table 18.9.1 again: P(k + 1) from P(k) and P(k - 1).
template <Family kFamily>
double polynomial(double x, double n) {
  n = degree(n);
  if (n < 0) return 0;
  if (n > kMaxDegree) return kNaN;
  double before = 0, now = 1;
  for (double k = 0; k < n && now - now == 0; ++k) {
    double next = kFamily == Family::hermite_h    ? 2 * (x * now - k * before)
                  : kFamily == Family::hermite_he ? x * now - k * before
                  : kFamily == Family::laguerre_l ? ((2 * k + 1 - x) * now - k * before) / (k + 1)
                                                  : ((2 * k + 1) * x * now - k * before) / (k + 1);
    before = now;
    now = next;
  }
  return now;
}

}  // namespace

double hermite_h(double x, double n) { return polynomial<Family::hermite_h>(x, n); }
double hermite_he(double x, double n) { return polynomial<Family::hermite_he>(x, n); }
double laguerre_l(double x, double n) { return polynomial<Family::laguerre_l>(x, n); }
double legendre_p(double x, double n) { return polynomial<Family::legendre_p>(x, n); }

double frexp_mantissa(double x) {
  int exponent;
  return frexp(x, &exponent);
}
double frexp_exponent(double x) {
  int exponent;
  frexp(x, &exponent);
  return x - x == 0 ? exponent : 0;
}

}  // namespace pen::special
