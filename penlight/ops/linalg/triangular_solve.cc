// triangular_solve: A x = b for a triangle of A, or its transpose.
#include "penlight/ops/linalg/matrix.h"

namespace pen {

struct TriangularParams {
  Batch batch;
  int64_t n, k;
  bool upper, transposed, unit;
};

PEN_BIND(triangular_solve) {
  PEN_TRY(square_bind(b, 0));
  PEN_TRY(matrix_bind(b, 1));
  PEN_TRY(same_batch(b, 0, 1));
  const Tensor &a = b.in(0), &x = b.in(1);
  TriangularParams* p = b.params<TriangularParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->n = rows_of(a);
  p->k = columns_of(x);
  if (rows_of(x) != p->n) return b.fail(1, "as many rows as the matrix has", "%lld", static_cast<long long>(rows_of(x)));
  p->upper = b.flag("upper");
  p->transposed = b.flag("transposed");
  p->unit = b.flag("unit");
  PEN_TRY(dense_output(b, 0, DType::f32, matrix_shape(x, p->n, p->k)));
  p->batch = cut_batch(b, x, p->n * p->n * p->k / 2);
  return b.scratch((p->n * p->n + p->n * p->k + 1) * 8);
}

PEN_KERNEL_ANY(triangular_solve, f32) {
  const TriangularParams& p = r.as<TriangularParams>();
  double *a = reinterpret_cast<double*>(r.scratch), *x = a + p.n * p.n;
  for_matrices(p.batch, r, [&](int64_t i) {
    widen(r.in[0].as<float>() + i * p.n * p.n, p.n * p.n, a);
    widen(r.in[1].as<float>() + i * p.n * p.k, p.n * p.k, x);
    substitute(a, p.n, p.upper, p.transposed, p.unit, x, p.k);
    narrow(x, p.n * p.k, r.out[0].as<float>() + i * p.n * p.k);
  });
}

}  // namespace pen
