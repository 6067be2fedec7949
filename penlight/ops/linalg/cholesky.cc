// cholesky: A = L L', or U' U: of one triangle of A, which is the other one's mirror image. info: the order of the first
// minor that is not positive, from 1; 0: all are.
#include "penlight/ops/linalg/matrix.h"

namespace pen {

struct CholeskyParams {
  Batch batch;
  int64_t n;
  bool upper, check;
};

PEN_SHAPE(cholesky) {
  PEN_TRY(check_squares(s, 0));
  PEN_TRY(s.output(0, DType::f32, shape_of(s.in(0))));
  return s.output(1, DType::i32, matrix_shape(s.in(0), -1, -1));
}

PEN_BIND(cholesky) {
  PEN_TRY(dense_matrices(b));
  const Tensor& x = b.in(0);
  CholeskyParams* p = b.params<CholeskyParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->n = rows_of(x);
  p->upper = b.flag("upper");
  p->check = b.flag("check");
  p->batch = cut_batch(b, x, p->n * p->n * p->n / 3);
  return b.scratch((p->n * p->n + 1) * 8);
}

PEN_KERNEL_ANY(cholesky, f32) {
  const CholeskyParams& p = r.as<CholeskyParams>();
  int64_t n = p.n;
  double* a = reinterpret_cast<double*>(r.scratch);
  for_matrices(p.batch, r, [&](int64_t matrix, Patience& patience) {
    const float* x = r.in[0].as<float>() + matrix * n * n;
    float* y = r.out[0].as<float>() + matrix * n * n;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j) a[i * n + j] = static_cast<double>(p.upper ? x[j * n + i] : x[i * n + j]);
    }
    int64_t info = 0;
    for (int64_t i = 0; i < n && !patience.ends(i * i / 2 + i); ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        double sum = a[i * n + j] - dot_product(a + i * n, a + j * n, j);
        if (i == j && !(sum > 0) && !info) info = i + 1;
        a[i * n + j] = i == j ? root(sum) : sum / a[j * n + j];
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        int64_t row = p.upper ? j : i, column = p.upper ? i : j;
        y[i * n + j] = column <= row ? static_cast<float>(a[row * n + column]) : 0.0f;
      }
    }
    r.out[1].as<int32_t>()[matrix] = static_cast<int32_t>(info);
    if (p.check && info) r.fail_value(0, "a positive-definite matrix", "one whose leading minor is not, of order ", info);
  });
}

}  // namespace pen
