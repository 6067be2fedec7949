// ldl: P A P' = L D L' for a symmetric matrix (its lower triangle), D of blocks of one and two (Bunch and Kaufman's choice),
// in LAPACK's form: pivots count from 1, and a negative pair marks a block of two. ldl_solve: A x = b from these.
#include "penlight/ops/linalg/matrix.h"

namespace pen {

struct LdlParams {
  Batch batch;
  int64_t n, k;
  bool check;
};

PEN_SHAPE(ldl) {
  PEN_TRY(check_squares(s, 0));
  const Tensor& x = s.in(0);
  PEN_TRY(s.output(0, DType::f32, shape_of(x)));
  PEN_TRY(s.output(1, DType::i32, matrix_shape(x, rows_of(x), -1)));
  return s.output(2, DType::i32, matrix_shape(x, -1, -1));
}

PEN_BIND(ldl) {
  PEN_TRY(dense_matrices(b));
  const Tensor& x = b.in(0);
  LdlParams* p = b.params<LdlParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->n = rows_of(x);
  p->check = b.flag("check");
  p->batch = cut_batch(b, x, p->n * p->n * p->n / 3);
  return b.scratch((p->n * p->n + 1) * 8);
}

static void exchange(double& s, double& t) {
  double u = s;
  s = t;
  t = u;
}

static int64_t factor(Patience& patience, double* a, int64_t n, int32_t* pivots) {
  const double alpha = (1 + root(17)) / 8;
  int64_t info = 0;
  for (int64_t k = 0; k < n && !patience.ends((n - k) * (n - k));) {
    int64_t step = 1, pivot = k, most = k;
    double own = absolute(a[k * n + k]), column = 0;
    for (int64_t i = k + 1; i < n; ++i) {
      if (absolute(a[i * n + k]) > column) {
        column = absolute(a[i * n + k]);
        most = i;
      }
    }
    if (own == 0 && column == 0) {
      if (!info) info = k + 1;
    } else if (own < alpha * column) {
      double row = 0;
      for (int64_t j = k; j < most; ++j) row = absolute(a[most * n + j]) > row ? absolute(a[most * n + j]) : row;
      for (int64_t i = most + 1; i < n; ++i) row = absolute(a[i * n + most]) > row ? absolute(a[i * n + most]) : row;
      if (own < alpha * column * (column / row)) {
        pivot = most;
        step = absolute(a[most * n + most]) >= alpha * row ? 1 : 2;
      }
    }
    int64_t at = k + step - 1;
    if (pivot != at) {
      for (int64_t i = pivot + 1; i < n; ++i) exchange(a[i * n + at], a[i * n + pivot]);
      for (int64_t j = at + 1; j < pivot; ++j) exchange(a[j * n + at], a[pivot * n + j]);
      exchange(a[at * n + at], a[pivot * n + pivot]);
      if (step == 2) exchange(a[(k + 1) * n + k], a[pivot * n + k]);
    }
    if (step == 1) {
      double d = a[k * n + k];
      for (int64_t i = k + 1; d != 0 && i < n; ++i) {
        double f = a[i * n + k] / d;
        for (int64_t j = k + 1; j <= i; ++j) a[i * n + j] -= f * a[j * n + k];
      }
      for (int64_t i = k + 1; d != 0 && i < n; ++i) a[i * n + k] /= d;
    }
    if (step == 2) {
      double d21 = a[(k + 1) * n + k], d11 = a[(k + 1) * n + k + 1] / d21, d22 = a[k * n + k] / d21;
      double f = 1 / (d11 * d22 - 1) / d21;
      for (int64_t j = k + 2; j < n; ++j) {
        double first = f * (d11 * a[j * n + k] - a[j * n + k + 1]), second = f * (d22 * a[j * n + k + 1] - a[j * n + k]);
        for (int64_t i = j; i < n; ++i) a[i * n + j] -= a[i * n + k] * first + a[i * n + k + 1] * second;
        a[j * n + k] = first;
        a[j * n + k + 1] = second;
      }
    }
    int32_t number = static_cast<int32_t>(pivot + 1);
    pivots[k] = step == 1 ? number : -number;
    if (step == 2) pivots[k + 1] = -number;
    k += step;
  }
  return info;
}

PEN_KERNEL_ANY(ldl, f32) {
  const LdlParams& p = r.as<LdlParams>();
  int64_t n = p.n;
  double* a = reinterpret_cast<double*>(r.scratch);
  for_matrices(p.batch, r, [&](int64_t matrix, Patience& patience) {
    widen(r.in[0].as<float>() + matrix * n * n, n * n, a);
    int64_t info = factor(patience, a, n, r.out[1].as<int32_t>() + matrix * n);
    float* y = r.out[0].as<float>() + matrix * n * n;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) y[i * n + j] = j <= i ? static_cast<float>(a[i * n + j]) : 0.0f;
    }
    r.out[2].as<int32_t>()[matrix] = static_cast<int32_t>(info);
    if (p.check && info) r.fail_value(0, "a nonsingular matrix", "a singular one: zero is the block number ", info);
  });
}

PEN_SHAPE(ldl_solve) { return solution_shape(s, 2); }

PEN_BIND(ldl_solve) {
  PEN_TRY(dense_matrices(b));
  const Tensor& x = b.in(2);
  LdlParams* p = b.params<LdlParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->n = rows_of(x);
  p->k = columns_of(x);
  p->batch = cut_batch(b, x, p->n * p->n * p->k);
  return b.scratch((p->n * p->n + p->n * p->k + 1) * 8);
}

PEN_KERNEL_ANY(ldl_solve, f32) {
  const LdlParams& p = r.as<LdlParams>();
  int64_t n = p.n, columns = p.k;
  double *a = reinterpret_cast<double*>(r.scratch), *x = a + n * n;
  for_matrices(p.batch, r, [&](int64_t matrix, Patience& patience) {
    widen(r.in[0].as<float>() + matrix * n * n, n * n, a);
    widen(r.in[2].as<float>() + matrix * n * columns, n * columns, x);
    const int32_t* pivots = r.in[1].as<int32_t>() + matrix * n;
    auto swap_rows = [&](int64_t row, int64_t pivot) {
      int64_t other = (pivot < 0 ? -pivot : pivot) - 1;
      if (other < 0 || other >= n) return r.fail_index(1, pivot, 1, n + 1);
      for (int64_t j = 0; other != row && j < columns; ++j) exchange(x[row * columns + j], x[other * columns + j]);
    };
    auto spread = [&](int64_t k, int64_t from) {  // rows from `from` on, less L's column k times row k
      for (int64_t i = from; i < n; ++i) subtract_row(x + i * columns, x + k * columns, a[i * n + k], columns);
    };
    auto gather = [&](int64_t k, int64_t from) {  // the same for L'
      for (int64_t i = from; i < n; ++i) subtract_row(x + k * columns, x + i * columns, a[i * n + k], columns);
    };
    for (int64_t k = 0; k < n && !patience.ends(2 * (n - k) * columns);) {
      if (pivots[k] > 0 || k + 1 == n) {
        swap_rows(k, pivots[k]);
        spread(k, k + 1);
        for (int64_t j = 0; j < columns; ++j) x[k * columns + j] /= a[k * n + k];
        ++k;
        continue;
      }
      swap_rows(k + 1, pivots[k]);
      spread(k, k + 2);
      spread(k + 1, k + 2);
      double off = a[(k + 1) * n + k], first = a[k * n + k] / off, second = a[(k + 1) * n + k + 1] / off, size = first * second - 1;
      for (int64_t j = 0; j < columns; ++j) {
        double u = x[k * columns + j] / off, v = x[(k + 1) * columns + j] / off;
        x[k * columns + j] = (second * u - v) / size;
        x[(k + 1) * columns + j] = (first * v - u) / size;
      }
      k += 2;
    }
    for (int64_t k = n - 1; k >= 0 && !patience.ends(2 * (n - k) * columns);) {
      gather(k, k + 1);
      if (pivots[k] > 0 || k == 0) {
        swap_rows(k, pivots[k]);
        --k;
        continue;
      }
      gather(k - 1, k + 1);
      swap_rows(k, pivots[k]);
      k -= 2;
    }
    narrow(x, n * columns, r.out[0].as<float>() + matrix * n * columns);
  });
}

}  // namespace pen
