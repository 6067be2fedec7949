// eigh: eigenvalues, in ascending order, and eigenvectors (columns) of a symmetric matrix, of which one triangle is read.
#include "penlight/ops/linalg/symmetric.h"

namespace pen {

struct EighParams {
  Batch batch;
  int64_t n;
  bool upper, vectors;  // without vectors the second output is empty
};

PEN_SHAPE(eigh) {
  PEN_TRY(check_squares(s, 0));
  int64_t n = rows_of(s.in(0));
  PEN_TRY(s.output(0, DType::f32, matrix_shape(s.in(0), n, -1)));
  return s.output(1, DType::f32, matrix_shape(s.in(0), n, s.flag("vectors") ? n : 0));
}

PEN_BIND(eigh) {
  PEN_TRY(dense_matrices(b));
  const Tensor& x = b.in(0);
  EighParams* p = b.params<EighParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->n = rows_of(x);
  p->upper = b.flag("upper");
  p->vectors = b.flag("vectors");
  p->batch = cut_batch(b, x, 8 * p->n * p->n * p->n);
  return b.scratch((2 * p->n * p->n + 5 * p->n + 1) * 8);
}

PEN_KERNEL_ANY(eigh, f32) {
  const EighParams& p = r.as<EighParams>();
  int64_t n = p.n;
  double *a = reinterpret_cast<double*>(r.scratch), *z = a + n * n, *d = z + n * n, *work = d + n;
  for_matrices(p.batch, r, [&](int64_t matrix, Patience& patience) {
    const float* x = r.in[0].as<float>() + matrix * n * n;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j) a[i * n + j] = a[j * n + i] = static_cast<double>(p.upper ? x[j * n + i] : x[i * n + j]);
    }
    symmetric_eigen(patience, a, n, d, p.vectors ? z : nullptr, work);
    narrow(d, n, r.out[0].as<float>() + matrix * n);
    float* y = r.out[1].as<float>() + matrix * n * n;
    for (int64_t i = 0; p.vectors && i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) y[j * n + i] = static_cast<float>(z[i * n + j]);
    }
  });
}

}  // namespace pen
