// svd: A = U diag(S) V', S in descending order.
//
// V has the eigenvectors of A'A. In double that is exact enough: what the squares lose lies below 1e-8 of the largest
// singular value, and f32 has 6e-8. U and S come from the QR factorization of A V, whose R is all but diagonal: so U is
// orthogonal whatever the rank, and has as many columns as wanted.
#include "penlight/ops/linalg/symmetric.h"

namespace pen {

struct SvdParams {
  Batch batch;
  int64_t rows, columns;
  int64_t m, n;  // as computed: m >= n, A or its transpose
  int64_t u_columns, v_rows, wide;
};

PEN_SHAPE(svd) {
  PEN_TRY(check_matrices(s, 0));
  const Tensor& x = s.in(0);
  bool full = s.flag("full");
  int64_t rows = rows_of(x), columns = columns_of(x), n = short_side(x);
  PEN_TRY(s.output(0, DType::f32, matrix_shape(x, rows, full ? rows : n)));
  PEN_TRY(s.output(1, DType::f32, matrix_shape(x, n, -1)));
  return s.output(2, DType::f32, matrix_shape(x, full ? columns : n, columns));
}

PEN_BIND(svd) {
  PEN_TRY(dense_matrices(b));
  const Tensor& x = b.in(0);
  SvdParams* p = b.params<SvdParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->rows = rows_of(x);
  p->columns = columns_of(x);
  p->m = p->rows > p->columns ? p->rows : p->columns;
  p->n = short_side(x);
  p->u_columns = columns_of(b.out(0));
  p->v_rows = rows_of(b.out(2));
  p->wide = b.flag("full") ? p->m : p->n;
  p->batch = cut_batch(b, x, 2 * p->m * p->n * p->n + 8 * p->n * p->n * p->n);
  // `sums` is used for the columns of either matrix
  int64_t numbers = 2 * p->m * p->n + 2 * p->n * p->n + p->m * p->wide + 6 * p->n + p->wide + 1;
  return b.scratch(numbers * 8);
}

PEN_KERNEL_ANY(svd, f32) {
  const SvdParams& p = r.as<SvdParams>();
  int64_t m = p.m, n = p.n, wide = p.wide;
  double* a = reinterpret_cast<double*>(r.scratch);  // m x n
  double *product = a + m * n, *square = product + m * n, *v = square + n * n, *q = v + n * n;
  double *d = q + m * wide, *work = d + n, *tau = work + 4 * n, *sums = tau + n;
  bool turned = p.rows < p.columns;
  for_matrices(p.batch, r, [&](int64_t matrix, Patience& patience) {
    const float* x = r.in[0].as<float>() + matrix * m * n;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) a[i * n + j] = static_cast<double>(turned ? x[j * m + i] : x[i * n + j]);
    }
    for (int64_t i = 0; i < n * n; ++i) square[i] = 0;
    for (int64_t i = 0; i < m && !patience.ends(n * n); ++i) {
      for (int64_t j = 0; j < n; ++j) subtract_row(square + j * n, a + i * n, -a[i * n + j], n);
    }
    symmetric_eigen(patience, square, n, d, v, work);
    for (int64_t i = 0; i < n / 2; ++i) {  // descending
      for (int64_t j = 0; j < n; ++j) {
        double t = v[i * n + j];
        v[i * n + j] = v[(n - 1 - i) * n + j];
        v[(n - 1 - i) * n + j] = t;
      }
    }
    for (int64_t i = 0; i < m && !patience.ends(n * n); ++i) {
      for (int64_t k = 0; k < n; ++k) product[i * n + k] = dot_product(a + i * n, v + k * n, n);
    }
    for (int64_t k = 0; k < n && !patience.ends(2 * (m - k) * (n - k)); ++k) {
      double* at = product + k * n + k;
      tau[k] = reflector(at, m - k, n);
      reflect(at, n, tau[k], m - k, at + 1, n - k - 1, n, sums);
      d[k] = *at;
    }
    for (int64_t i = 0; i < m && !patience.ends(wide); ++i)
      for (int64_t j = 0; j < wide; ++j) q[i * wide + j] = i == j ? 1 : 0;
    for (int64_t k = n - 1; k >= 0 && !patience.ends(2 * (m - k) * wide); --k)
      reflect(product + k * n + k, n, tau[k], m - k, q + k * wide, wide, wide, sums);
    for (int64_t k = 0; k < n && !patience.ends(m); ++k) {
      if (d[k] >= 0 || d[k] != d[k]) continue;
      d[k] = -d[k];
      for (int64_t i = 0; i < m; ++i) q[i * wide + k] = -q[i * wide + k];
    }
    for (int64_t i = 0; i < n && !patience.ends(m + n); ++i) {  // those near zero may have changed places
      int64_t most = i;
      for (int64_t j = i + 1; j < n; ++j) most = d[j] > d[most] ? j : most;
      if (most == i) continue;
      auto exchange = [](double& s, double& t) {
        double u = s;
        s = t;
        t = u;
      };
      exchange(d[i], d[most]);
      for (int64_t j = 0; j < n; ++j) exchange(v[i * n + j], v[most * n + j]);
      for (int64_t j = 0; j < m; ++j) exchange(q[j * wide + i], q[j * wide + most]);
    }
    if (patience.ends(0)) return;
    narrow(d, n, r.out[1].as<float>() + matrix * n);
    float* u = r.out[0].as<float>() + matrix * p.rows * p.u_columns;
    float* vh = r.out[2].as<float>() + matrix * p.v_rows * p.columns;
    if (!turned) {
      narrow(q, m * wide, u);
      narrow(v, n * n, vh);
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) u[j * n + i] = static_cast<float>(v[i * n + j]);
    }
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < wide; ++j) vh[j * m + i] = static_cast<float>(q[i * wide + j]);
    }
  });
}

}  // namespace pen
