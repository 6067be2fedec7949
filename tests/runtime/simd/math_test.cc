// Largest error of every vector function against f64, over a sweep of all floats: one in `argv[1]` of them, and all
// that lie near the edges of the methods. Compiled and run once per instruction set by test_math.py; prints a line per
// function, and fails where a result is off by more than the function's bound or a special value is wrong.
#include <math.h>
#include <stdio.h>
#include <string.h>

#define PEN_PLATFORM_CHECK  // keeps platform.h's declarations apart from libc's
#include "penlight/runtime/simd/math.h"

using namespace pen::PEN_ISA;

typedef V (*VectorFn)(V);
typedef double (*Reference)(double);

static double reference_sigmoid(double x) { return 1 / (1 + ::exp(-x)); }

// Newton's steps on erfc, from far below: it is convex, so none goes past the root.
static double reference_erfinv(double y) {
  if (!(y > -1 && y < 1)) return y == 1 || y == -1 ? copysign(INFINITY, y) : NAN;
  double a = fabs(y), z = 0;
  if (a < 1e-5) return y * (sqrt(M_PI) / 2 * (1 + M_PI * y * y / 12));
  for (int i = 0; i < 100; ++i) {
    double step = (::erfc(z) - (1 - a)) * (sqrt(M_PI) / 2) * ::exp(z * z);
    z += step;
    if (fabs(step) < 1e-15) break;
  }
  return copysign(z, y);
}

// Powers of a few bases and to a few exponents
static V pow_third(V x) { return pow(x, set1(1.0f / 3)); }
static V pow_large(V x) { return pow(x, set1(-37.3f)); }
static V pow_odd(V x) { return pow(x, set1(7.0f)); }
static V pow_near_one(V x) { return pow(set1(1.0009765625f), x); }
static V pow_half(V x) { return pow(set1(0.3f), x); }
static double reference_pow_third(double x) { return ::pow(x, static_cast<double>(1.0f / 3)); }
static double reference_pow_large(double x) { return ::pow(x, static_cast<double>(-37.3f)); }
static double reference_pow_odd(double x) { return ::pow(x, 7); }
static double reference_pow_near_one(double x) { return ::pow(1.0009765625, x); }
static double reference_pow_half(double x) { return ::pow(static_cast<double>(0.3f), x); }

static double reference_exp2_of_minus(double x) { return ::exp2(-fabs(x)); }
static V exp2_of_minus(V x) { return exp2_below_one(-pen::PEN_ISA::abs(x)); }

struct Case {
  const char* name;
  VectorFn fn;
  Reference reference;
  double ulps;   // bound
  double flush;  // results below this may be 0
};
static const Case kCases[] = {
    {"exp", pen::PEN_ISA::exp, ::exp, 2, 0},
    {"expm1", pen::PEN_ISA::expm1, ::expm1, 3, 0},
    {"log", pen::PEN_ISA::log, ::log, 2, 0},
    {"log2", pen::PEN_ISA::log2, ::log2, 3, 0},
    {"log10", pen::PEN_ISA::log10, ::log10, 3, 0},
    {"log1p", pen::PEN_ISA::log1p, ::log1p, 3, 0},
    {"tanh", pen::PEN_ISA::tanh, ::tanh, 4, 0},
    {"erf", pen::PEN_ISA::erf, ::erf, 3, 0},
    {"exp2", pen::PEN_ISA::exp2, ::exp2, 2, 0},
    {"exp2_below_one", exp2_of_minus, reference_exp2_of_minus, 3, 0},
    {"sin", pen::PEN_ISA::sin, ::sin, 3, 0},
    {"cos", pen::PEN_ISA::cos, ::cos, 3, 0},
    {"tan", pen::PEN_ISA::tan, ::tan, 5, 0},
    {"asin", pen::PEN_ISA::asin, ::asin, 3, 0},
    {"acos", pen::PEN_ISA::acos, ::acos, 3, 0},
    {"atan", pen::PEN_ISA::atan, ::atan, 3, 0},
    {"sinh", pen::PEN_ISA::sinh, ::sinh, 4, 0},
    {"cosh", pen::PEN_ISA::cosh, ::cosh, 4, 0},
    {"sigmoid", pen::PEN_ISA::sigmoid, reference_sigmoid, 4, 1.2e-38},
    {"erfc", pen::PEN_ISA::erfc, ::erfc, 5, 0},
    {"erfinv", pen::PEN_ISA::erfinv, reference_erfinv, 4, 0},
    {"pow_third", pow_third, reference_pow_third, 3, 0},
    {"pow_large", pow_large, reference_pow_large, 3, 0},
    {"pow_odd", pow_odd, reference_pow_odd, 3, 0},
    {"pow_near_one", pow_near_one, reference_pow_near_one, 3, 0},
    {"pow_half", pow_half, reference_pow_half, 3, 0},
};

static float from_word(uint32_t word) {
  float f;
  memcpy(&f, &word, 4);
  return f;
}
static double ulp_of(double y) {
  double a = fabs(y);
  if (a < 1.1754943508222875e-38) return 1.401298464324817e-45;
  int e;
  frexp(a, &e);
  return ldexp(1.0, e - 24);
}

int main(int argc, char** argv) {
  uint32_t step = 257;
  if (argc > 1) sscanf(argv[1], "%u", &step);  // not atoi: stdlib.h declares what platform.h does, and musl's differ in noexcept
  int failures = 0;
  for (const Case& c : kCases) {
    double worst = 0, worst_x = 0;
    int wrong = 0;
    float x[kLanes], y[kLanes];
    uint64_t word = 0;
    while (word < (1ull << 32)) {
      int n = 0;
      for (; n < kLanes && word < (1ull << 32); ++n, word += step) x[n] = from_word(static_cast<uint32_t>(word));
      for (int i = n; i < kLanes; ++i) x[i] = 0;
      store(y, c.fn(load(x)));
      for (int i = 0; i < n; ++i) {
        double exact = c.reference(x[i]);
        float rounded = static_cast<float>(exact);
        bool ok = rounded != rounded ? y[i] != y[i] : isinf(rounded) ? y[i] == rounded : isfinite(y[i]);
        if (!ok && isinf(y[i]) && fabs(exact) > 3.40282e38) ok = true;  // the last place before infinity
        if (!ok && isinf(rounded) && fabs(y[i]) > 3.40282e38) ok = true;
        if (!ok) {
          if (wrong++ < 5) printf("%s(%.9g) = %.9g, expected %.9g\n", c.name, x[i], y[i], rounded);
          continue;
        }
        if (!isfinite(rounded) || (y[i] == 0 && fabs(exact) < c.flush)) continue;
        double error = fabs(y[i] - exact) / ulp_of(exact);
        if (error > worst) worst = error, worst_x = x[i];
      }
    }
    printf("%-8s %.2f ulp at %.9g\n", c.name, worst, worst_x);
    failures += wrong > 0 || worst > c.ulps;
  }
  return failures;
}
