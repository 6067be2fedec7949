// triangular_solve: A x = b for a triangle of A, or its transpose.
#include "penlight/ops/linalg/matrix.h"

namespace pen {

struct TriangularParams {
  Batch batch;
  int64_t n, k;
  bool upper, transposed, unit;
};

PEN_SHAPE(triangular_solve) { return solution_shape(s, 1); }

PEN_BIND(triangular_solve) {
  PEN_TRY(dense_matrices(b));
  const Tensor& x = b.in(1);
  TriangularParams* p = b.params<TriangularParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->n = rows_of(x);
  p->k = columns_of(x);
  p->upper = b.flag("upper");
  p->transposed = b.flag("transposed");
  p->unit = b.flag("unit");
  p->batch = cut_batch(b, x, p->n * p->n * p->k / 2);
  return b.scratch((p->n * p->n + p->n * p->k + 1) * 8);
}

PEN_KERNEL_ANY(triangular_solve, f32) {
  const TriangularParams& p = r.as<TriangularParams>();
  double *a = reinterpret_cast<double*>(r.scratch), *x = a + p.n * p.n;
  for_matrices(p.batch, r, [&](int64_t i, Patience& patience) {
    widen(r.in[0].as<float>() + i * p.n * p.n, p.n * p.n, a);
    widen(r.in[1].as<float>() + i * p.n * p.k, p.n * p.k, x);
    substitute(patience, a, p.n, p.upper, p.transposed, p.unit, x, p.k);
    narrow(x, p.n * p.k, r.out[0].as<float>() + i * p.n * p.k);
  });
}

}  // namespace pen
