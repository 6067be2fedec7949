// The plan of a discrete Fourier transform: its stages and tables, computed at bind, in double.
//
// A transform of length n = r1 * r2 * ... runs one pass per factor, each from one buffer into another in such an order
// that the result is in its natural order (Stockham). Lengths with a large prime factor become a convolution with a
// chirp, by two transforms of a power of two (Bluestein).
#pragma once
#include "penlight/runtime/exec/kernel.h"

namespace pen {

constexpr int kMaxStages = 24, kMaxRadix = 31;

struct FftStage {
  int64_t radix, m, s;  // the length that is left is radix * m; s = length / (radix * m)
  int64_t twiddles;     // m * (radix - 1) pairs: e ** (-2 pi i p k / (radix * m)) for p < m, 1 <= k < radix
  int64_t roots;        // radix pairs: e ** (-2 pi i k / radix)
};

struct FftPlan {
  int64_t n;       // of the transform that is asked for
  int64_t core;    // of the one whose stages these are: n, or a power of two
  int64_t chirp;   // n pairs e ** (-pi i k**2 / n); -1: core == n
  int64_t filter;  // core pairs: the transform of the chirp's conjugate, divided by core
  int64_t count;   // stages
  int64_t floats;  // of the tables, all told; the offsets above count floats
  FftStage stage[kMaxStages];
};

// Fills everything but the numbers. False: a length that no table can be made for.
static inline bool fft_plan(FftPlan& p, int64_t n) {
  p.n = p.core = n;
  p.chirp = p.filter = -1;
  p.count = p.floats = 0;
  int64_t rest = n;
  for (int64_t f = 2; f <= kMaxRadix; ++f) {
    while (rest % f == 0) rest /= f;
  }
  if (rest > 1) {
    p.core = 1;
    while (p.core < 2 * n - 1) p.core *= 2;
    p.chirp = 0;
    p.filter = 2 * n;
    p.floats = 2 * n + 2 * p.core;
  }
  rest = p.core;
  int64_t s = 1;
  while (rest > 1) {
    int64_t radix = rest % 8 == 0 && rest != 16 ? 8 : (rest % 4 == 0 ? 4 : 2);
    while (rest % radix != 0) ++radix;
    if (p.count == kMaxStages) return false;
    FftStage& t = p.stage[p.count++];
    t.radix = radix;
    t.m = rest / radix;
    t.s = s;
    t.twiddles = p.floats;
    p.floats += 2 * t.m * (radix - 1);
    t.roots = p.floats;
    p.floats += 2 * radix;
    s *= radix;
    rest = t.m;
  }
  return true;
}

// e ** (-2 pi i k / n)
static inline void fft_root(int64_t k, int64_t n, double* re, double* im) {
  k %= n;
  double angle = 6.283185307179586476925286766559 * static_cast<double>(k) / static_cast<double>(n);
  volatile double again = angle;  // two calls of one number become one of sincos, which not every platform has
  *re = cos(angle);
  *im = -sin(again);
}

constexpr int64_t kFftAsked = 1 << 14;  // roots between two questions whether to go on: half a millisecond

// In place, n a power of two: for the filter only, once. go_on(): an error where it is to end.
template <class GoOn>
static inline pen_status fft_double(double* re, double* im, int64_t n, const GoOn& go_on) {
  int64_t asked = 0;
  for (int64_t i = 1, j = 0; i < n; ++i) {
    if (i % kFftAsked == 0)
      if (pen_status status = go_on()) return status;
    int64_t bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      double a = re[i], b = im[i];
      re[i] = re[j], im[i] = im[j];
      re[j] = a, im[j] = b;
    }
  }
  for (int64_t half = 1; half < n; half *= 2) {
    for (int64_t k = 0; k < half; ++k) {
      double wr, wi;
      if ((asked += 1 + n / (64 * half)) >= kFftAsked) {
        asked = 0;
        if (pen_status status = go_on()) return status;
      }
      fft_root(k, 2 * half, &wr, &wi);
      for (int64_t i = k; i < n; i += 2 * half) {
        double xr = re[i + half] * wr - im[i + half] * wi, xi = re[i + half] * wi + im[i + half] * wr;
        re[i + half] = re[i] - xr, im[i + half] = im[i] - xi;
        re[i] += xr, im[i] += xi;
      }
    }
  }
  return PEN_OK;
}

// What the making of the tables takes besides them: the filter in double.
static inline int64_t fft_filter_bytes(const FftPlan& p) { return p.chirp < 0 ? 0 : 2 * p.core * static_cast<int64_t>(sizeof(double)); }

// The numbers of the tables, or an error.
template <class GoOn>
static inline pen_status fft_tables(const FftPlan& p, float* tables, const GoOn& go_on) {
  double re, im;
  for (int64_t i = 0; i < p.count; ++i) {
    const FftStage& t = p.stage[i];
    float* to = tables + t.twiddles;
    for (int64_t q = 0; q < t.m; ++q) {
      if (q % kFftAsked == 0)
        if (pen_status status = go_on()) return status;
      for (int64_t k = 1; k < t.radix; ++k) {
        fft_root(q * k, t.radix * t.m, &re, &im);
        *to++ = static_cast<float>(re);
        *to++ = static_cast<float>(im);
      }
    }
    for (int64_t k = 0; k < t.radix; ++k) {
      fft_root(k, t.radix, &re, &im);
      tables[t.roots + 2 * k] = static_cast<float>(re);
      tables[t.roots + 2 * k + 1] = static_cast<float>(im);
    }
  }
  if (p.chirp < 0) return PEN_OK;
  double* filter = static_cast<double*>(calloc(1, static_cast<size_t>(fft_filter_bytes(p))));
  if (!filter) return PEN_ERROR_MEMORY;
  pen_status status = PEN_OK;
  for (int64_t k = 0; k < p.n && !status; ++k) {
    if (k % kFftAsked == 0) status = go_on();
    // k ** 2 modulo 2 n, without overflow for any k below 2 ** 31
    fft_root(k * k % (2 * p.n), 2 * p.n, &re, &im);
    tables[p.chirp + 2 * k] = static_cast<float>(re);
    tables[p.chirp + 2 * k + 1] = static_cast<float>(im);
    int64_t back = k == 0 ? 0 : p.core - k;
    filter[k] = filter[back] = re;
    filter[p.core + k] = filter[p.core + back] = -im;
  }
  if (!status) status = fft_double(filter, filter + p.core, p.core, go_on);
  for (int64_t k = 0; k < p.core && !status; ++k) {
    tables[p.filter + 2 * k] = static_cast<float>(filter[k] / static_cast<double>(p.core));
    tables[p.filter + 2 * k + 1] = static_cast<float>(filter[p.core + k] / static_cast<double>(p.core));
  }
  free(filter);
  return status;
}

}  // namespace pen
