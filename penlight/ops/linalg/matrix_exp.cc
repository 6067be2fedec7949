// matrix_exp: e ** A, by halving A until it is small, Taylor's series, and squaring as often as was halved.
#include "penlight/ops/linalg/matrix.h"

namespace pen {

struct MatrixExpParams {
  Batch batch;
  int64_t n;
};

PEN_SHAPE(matrix_exp) {
  PEN_TRY(check_squares(s, 0));
  return s.output(0, DType::f32, shape_of(s.in(0)));
}

PEN_BIND(matrix_exp) {
  PEN_TRY(dense_matrices(b));
  const Tensor& x = b.in(0);
  MatrixExpParams* p = b.params<MatrixExpParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->n = rows_of(x);
  p->batch = cut_batch(b, x, 16 * p->n * p->n * p->n);
  return b.scratch((3 * p->n * p->n + 1) * 8);
}

static void multiply(Patience& patience, const double* a, const double* b, double* to, int64_t n) {
  for (int64_t i = 0; i < n && !patience.ends(n * n); ++i) {
    for (int64_t j = 0; j < n; ++j) to[i * n + j] = 0;
    for (int64_t k = 0; k < n; ++k) subtract_row(to + i * n, b + k * n, -a[i * n + k], n);
  }
}

PEN_KERNEL_ANY(matrix_exp, f32) {
  const MatrixExpParams& p = r.as<MatrixExpParams>();
  int64_t n = p.n, size = n * n;
  double *a = reinterpret_cast<double*>(r.scratch), *y = a + size, *t = y + size;
  for_matrices(p.batch, r, [&](int64_t matrix, Patience& patience) {
    widen(r.in[0].as<float>() + matrix * size, size, a);
    double norm = 0;
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += absolute(a[i * n + j]);
      norm = sum > norm ? sum : norm;
    }
    int halvings = 0;
    double factor = 1;
    for (; norm * factor > 0.5 && halvings < 200; ++halvings) factor *= 0.5;
    for (int64_t i = 0; i < size; ++i) {
      a[i] *= factor;
      y[i] = i % (n + 1) == 0 ? 1 : 0;
    }
    for (int k = 14; k >= 1; --k) {  // 1 + a (1 + a/2 (1 + a/3 ...)): the rest is below 1e-17
      multiply(patience, a, y, t, n);
      for (int64_t i = 0; i < size; ++i) y[i] = t[i] / k + (i % (n + 1) == 0 ? 1 : 0);
    }
    for (int k = 0; k < halvings; ++k) {
      multiply(patience, y, y, t, n);
      double* other = y;
      y = t;
      t = other;
    }
    narrow(y, size, r.out[0].as<float>() + matrix * size);
  });
}

}  // namespace pen
