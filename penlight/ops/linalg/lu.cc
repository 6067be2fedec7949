// lu: P A = L U with the largest element of each column as its pivot; L and U in one matrix, pivots as LAPACK counts them
// (from 1: row k was exchanged with row pivots[k]). info: the first zero on U's diagonal, from 1; 0: none.
// lu_solve: A x = b, or A' x = b, from these.
#include "penlight/ops/linalg/matrix.h"

namespace pen {

struct LuParams {
  Batch batch;
  int64_t m, n, k;
  bool check, adjoint;
};

PEN_SHAPE(lu) {
  PEN_TRY(check_matrices(s, 0));
  const Tensor& x = s.in(0);
  PEN_TRY(s.output(0, DType::f32, shape_of(x)));
  PEN_TRY(s.output(1, DType::i32, matrix_shape(x, short_side(x), -1)));
  return s.output(2, DType::i32, matrix_shape(x, -1, -1));
}

PEN_BIND(lu) {
  PEN_TRY(dense_matrices(b));
  const Tensor& x = b.in(0);
  LuParams* p = b.params<LuParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->m = rows_of(x);
  p->n = columns_of(x);
  p->k = short_side(x);
  p->check = b.flag("check");
  p->batch = cut_batch(b, x, p->m * p->n * p->k);
  return b.scratch((p->m * p->n + 1) * 8);
}

static int64_t factor(Patience& patience, double* a, int64_t m, int64_t n, int32_t* pivots) {
  int64_t info = 0;
  for (int64_t k = 0; k < (m < n ? m : n) && !patience.ends((m - k) * (n - k)); ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < m; ++i) {
      if (absolute(a[i * n + k]) > absolute(a[pivot * n + k])) pivot = i;
    }
    pivots[k] = static_cast<int32_t>(pivot + 1);
    if (a[pivot * n + k] == 0) {
      if (!info) info = k + 1;
      continue;
    }
    for (int64_t j = 0; pivot != k && j < n; ++j) {
      double t = a[k * n + j];
      a[k * n + j] = a[pivot * n + j];
      a[pivot * n + j] = t;
    }
    for (int64_t i = k + 1; i < m; ++i) {
      double f = a[i * n + k] /= a[k * n + k];
      if (f != 0) subtract_row(a + i * n + k + 1, a + k * n + k + 1, f, n - k - 1);
    }
  }
  return info;
}

PEN_KERNEL_ANY(lu, f32) {
  const LuParams& p = r.as<LuParams>();
  double* a = reinterpret_cast<double*>(r.scratch);
  for_matrices(p.batch, r, [&](int64_t i, Patience& patience) {
    widen(r.in[0].as<float>() + i * p.m * p.n, p.m * p.n, a);
    int64_t info = factor(patience, a, p.m, p.n, r.out[1].as<int32_t>() + i * p.k);
    narrow(a, p.m * p.n, r.out[0].as<float>() + i * p.m * p.n);
    r.out[2].as<int32_t>()[i] = static_cast<int32_t>(info);
    if (p.check && info) r.fail_value(0, "an invertible matrix", "a singular one: zero is the pivot number ", info);
  });
}

PEN_SHAPE(lu_solve) { return solution_shape(s, 2); }

PEN_BIND(lu_solve) {
  PEN_TRY(dense_matrices(b));
  const Tensor& x = b.in(2);
  LuParams* p = b.params<LuParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->n = rows_of(x);
  p->k = columns_of(x);
  p->adjoint = b.flag("adjoint");
  p->batch = cut_batch(b, x, p->n * p->n * p->k);
  return b.scratch((p->n * p->n + p->n * p->k + 1) * 8);
}

PEN_KERNEL_ANY(lu_solve, f32) {
  const LuParams& p = r.as<LuParams>();
  double *a = reinterpret_cast<double*>(r.scratch), *x = a + p.n * p.n;
  for_matrices(p.batch, r, [&](int64_t i, Patience& patience) {
    widen(r.in[0].as<float>() + i * p.n * p.n, p.n * p.n, a);
    widen(r.in[2].as<float>() + i * p.n * p.k, p.n * p.k, x);
    const int32_t* pivots = r.in[1].as<int32_t>() + i * p.n;
    auto exchange = [&](int64_t row) {
      int64_t other = int64_t{pivots[row]} - 1;
      if (other < 0 || other >= p.n) return r.fail_index(1, pivots[row], 1, p.n + 1);
      for (int64_t j = 0; other != row && j < p.k; ++j) {
        double t = x[row * p.k + j];
        x[row * p.k + j] = x[other * p.k + j];
        x[other * p.k + j] = t;
      }
    };
    if (p.adjoint) {
      substitute(patience, a, p.n, true, true, false, x, p.k);
      substitute(patience, a, p.n, false, true, true, x, p.k);
      for (int64_t row = p.n - 1; row >= 0; --row) exchange(row);
    } else {
      for (int64_t row = 0; row < p.n; ++row) exchange(row);
      substitute(patience, a, p.n, false, false, true, x, p.k);
      substitute(patience, a, p.n, true, false, false, x, p.k);
    }
    narrow(x, p.n * p.k, r.out[0].as<float>() + i * p.n * p.k);
  });
}

}  // namespace pen
