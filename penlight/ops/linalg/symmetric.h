// Eigenvalues and eigenvectors of a symmetric matrix, in double: to a tridiagonal matrix by reflections, then by QL steps
// with implicit shifts.
#pragma once
#include "penlight/ops/linalg/matrix.h"

namespace pen {

static inline void rotate_rows(double* PEN_RESTRICT x, double* PEN_RESTRICT y, double c, double s, int64_t n) {
  Doubles cs = {c, c}, ss = {s, s};
  int64_t j = 0;
  for (; j + 2 <= n; j += 2) {
    Doubles a = load_doubles(x + j), b = load_doubles(y + j);
    store_doubles(x + j, cs * a - ss * b);
    store_doubles(y + j, ss * a + cs * b);
  }
  for (; j < n; ++j) {
    double a = x[j], b = y[j];
    x[j] = c * a - s * b;
    y[j] = s * a + c * b;
  }
}

// a: n x n, both triangles; destroyed. z: the eigenvectors, one a row, or null. d: eigenvalues in ascending order.
// work: 4 n numbers.
static inline void symmetric_eigen(Patience& patience, double* a, int64_t n, double* d, double* z, double* work) {
  double *e = work, *tau = work + n, *p = work + 2 * n, *u = work + 3 * n;
  for (int64_t k = 0; k + 1 < n; ++k) {
    int64_t left = n - k - 1;
    if (patience.ends(3 * left * left)) return;
    double* v = a + (k + 1) * n + k;
    tau[k] = reflector(v, left, n);
    e[k] = *v;
    if (tau[k] == 0) continue;
    *v = 1;
    double* rest = a + (k + 1) * n + k + 1;
    for (int64_t i = 0; i < left; ++i) u[i] = v[i * n];
    for (int64_t i = 0; i < left; ++i) p[i] = tau[k] * dot_product(rest + i * n, u, left);
    subtract_row(p, u, 0.5 * tau[k] * dot_product(p, u, left), left);
    for (int64_t i = 0; i < left; ++i) {
      subtract_row(rest + i * n, p, u[i], left);
      subtract_row(rest + i * n, u, p[i], left);
    }
  }
  for (int64_t i = 0; i < n; ++i) d[i] = a[i * n + i];
  if (n > 0) e[n - 1] = 0;
  if (z) {
    // Q = H0 H1 ..., its transpose's rows being what later become the eigenvectors: row i is Q's column i.
    for (int64_t i = 0; i < n * n; ++i) z[i] = i % (n + 1) == 0 ? 1 : 0;
    for (int64_t k = n - 2; k >= 0; --k) {
      if (patience.ends(2 * n * (n - k))) return;
      if (tau[k] == 0) continue;
      int64_t left = n - k - 1;
      for (int64_t j = 0; j < left; ++j) u[j] = a[(k + 1 + j) * n + k];
      for (int64_t i = k + 1; i < n; ++i) {
        double* row = z + i * n + k + 1;
        subtract_row(row, u, tau[k] * dot_product(row, u, left), left);
      }
    }
  }
  for (int64_t l = 0; l < n; ++l) {
    for (int round = 0; round < 80; ++round) {
      int64_t m = l;
      while (m + 1 < n && absolute(e[m]) > 1e-16 * (absolute(d[m]) + absolute(d[m + 1]))) ++m;
      if (m == l) break;
      if (patience.ends((m - l) * (z ? 2 * n : 16))) return;
      double g = (d[l + 1] - d[l]) / (2 * e[l]), r = hypotenuse(g, 1);
      g = d[m] - d[l] + e[l] / (g + (g < 0 ? -r : r));
      double s = 1, c = 1, shift = 0;
      int64_t i = m - 1;
      for (; i >= l; --i) {
        double f = s * e[i], b = c * e[i];
        e[i + 1] = r = hypotenuse(f, g);
        if (r == 0) {
          d[i + 1] -= shift;
          e[m] = 0;
          break;
        }
        s = f / r;
        c = g / r;
        g = d[i + 1] - shift;
        r = (d[i] - g) * s + 2 * c * b;
        shift = s * r;
        d[i + 1] = g + shift;
        g = c * r - b;
        if (z) rotate_rows(z + i * n, z + (i + 1) * n, c, s, n);
      }
      if (r == 0 && i >= l) continue;
      d[l] -= shift;
      e[l] = g;
      e[m] = 0;
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    int64_t least = i;
    if (patience.ends(2 * n)) return;
    for (int64_t j = i + 1; j < n; ++j) least = d[j] < d[least] ? j : least;
    if (least == i) continue;
    double t = d[i];
    d[i] = d[least];
    d[least] = t;
    for (int64_t j = 0; z && j < n; ++j) {
      t = z[i * n + j];
      z[i * n + j] = z[least * n + j];
      z[least * n + j] = t;
    }
  }
}

}  // namespace pen
