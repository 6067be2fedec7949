// geqrf: A = Q R by Householder's reflections, as LAPACK has them: R above, the reflections' vectors below the diagonal,
// their factors in tau. reflect: Q c, or Q' c, from these.
#include "penlight/ops/linalg/matrix.h"

namespace pen {

struct QrParams {
  Batch batch;
  int64_t m, n, k, columns;
  bool transposed;
};

PEN_SHAPE(geqrf) {
  PEN_TRY(check_matrices(s, 0));
  const Tensor& x = s.in(0);
  PEN_TRY(s.output(0, DType::f32, shape_of(x)));
  return s.output(1, DType::f32, matrix_shape(x, short_side(x), -1));
}

PEN_BIND(geqrf) {
  PEN_TRY(dense_matrices(b));
  const Tensor& x = b.in(0);
  QrParams* p = b.params<QrParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->m = rows_of(x);
  p->n = columns_of(x);
  p->k = short_side(x);
  p->batch = cut_batch(b, x, 2 * p->m * p->n * p->k);
  return b.scratch((p->m * p->n + p->n + 1) * 8);
}

PEN_KERNEL_ANY(geqrf, f32) {
  const QrParams& p = r.as<QrParams>();
  double *a = reinterpret_cast<double*>(r.scratch), *sums = a + p.m * p.n;
  for_matrices(p.batch, r, [&](int64_t i, Patience& patience) {
    widen(r.in[0].as<float>() + i * p.m * p.n, p.m * p.n, a);
    for (int64_t k = 0; k < p.k && !patience.ends(2 * (p.m - k) * (p.n - k)); ++k) {
      double* at = a + k * p.n + k;
      double tau = reflector(at, p.m - k, p.n);
      r.out[1].as<float>()[i * p.k + k] = static_cast<float>(tau);
      reflect(at, p.n, tau, p.m - k, at + 1, p.n - k - 1, p.n, sums);
    }
    narrow(a, p.m * p.n, r.out[0].as<float>() + i * p.m * p.n);
  });
}

PEN_SHAPE(reflect) {
  PEN_TRY(check_matrices(s, 0));
  PEN_TRY(check_matrices(s, 2));
  PEN_TRY(same_batch(s, 0, 2));
  const Tensor &a = s.in(0), &tau = s.in(1), &c = s.in(2);
  bool fits = tau.dtype == DType::f32 && tau.rank == a.rank - 1;
  for (int i = 0; fits && i < tau.rank - 1; ++i) fits = tau.dims[i] == a.dims[i];
  if (!fits || tau.dims[tau.rank - 1] > short_side(a)) return s.fail(1, "f32, a factor for each vector at most", "another shape or dtype");
  if (rows_of(c) != rows_of(a)) return s.fail(2, "as many rows as the vectors have", "%lld", static_cast<long long>(rows_of(c)));
  return s.output(0, DType::f32, shape_of(c));
}

PEN_BIND(reflect) {
  PEN_TRY(dense_matrices(b));
  const Tensor &a = b.in(0), &tau = b.in(1), &c = b.in(2);
  QrParams* p = b.params<QrParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->m = rows_of(a);
  p->n = columns_of(a);
  p->k = tau.dims[tau.rank - 1];
  p->columns = columns_of(c);
  p->transposed = b.flag("transposed");
  p->batch = cut_batch(b, c, 2 * p->m * p->k * p->columns);
  return b.scratch((p->m * p->n + p->m * p->columns + p->columns + 1) * 8);
}

PEN_KERNEL_ANY(reflect, f32) {
  const QrParams& p = r.as<QrParams>();
  double *a = reinterpret_cast<double*>(r.scratch), *c = a + p.m * p.n, *sums = c + p.m * p.columns;
  for_matrices(p.batch, r, [&](int64_t i, Patience& patience) {
    widen(r.in[0].as<float>() + i * p.m * p.n, p.m * p.n, a);
    widen(r.in[2].as<float>() + i * p.m * p.columns, p.m * p.columns, c);
    for (int64_t at = 0; at < p.k && !patience.ends(2 * p.m * p.columns); ++at) {
      int64_t k = p.transposed ? at : p.k - 1 - at;
      double tau = static_cast<double>(r.in[1].as<float>()[i * p.k + k]);
      reflect(a + k * p.n + k, p.n, tau, p.m - k, c + k * p.columns, p.columns, p.columns, sums);
    }
    narrow(c, p.m * p.columns, r.out[0].as<float>() + i * p.m * p.columns);
  });
}

}  // namespace pen
