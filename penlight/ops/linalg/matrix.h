// What the kernels of linear algebra share: batches of f32 matrices [..., rows, columns], each computed by one task, in
// double, in scratch memory. The result is rounded once, at the end.
#pragma once
#include "penlight/ops/shape/runs.h"

namespace pen {

static inline Status check_matrices(const Given& g, int input) {
  const Tensor& x = g.in(input);
  if (x.dtype == DType::f32 && x.rank >= 2) return PEN_OK;
  return g.fail(input, "f32 matrices", "%s of rank %d", kDTypeNames[static_cast<int>(x.dtype)], x.rank);
}
static inline int64_t rows_of(const Tensor& x) { return x.dims[x.rank - 2]; }
static inline int64_t columns_of(const Tensor& x) { return x.dims[x.rank - 1]; }
static inline int64_t short_side(const Tensor& x) { return rows_of(x) < columns_of(x) ? rows_of(x) : columns_of(x); }

static inline Status check_squares(const Given& g, int input) {
  PEN_TRY(check_matrices(g, input));
  const Tensor& x = g.in(input);
  if (rows_of(x) != columns_of(x))
    return g.fail(input, "square matrices", "%lld x %lld", static_cast<long long>(rows_of(x)), static_cast<long long>(columns_of(x)));
  return PEN_OK;
}

// The leading dims of `like`, then those given (-1: none).
static inline Shape matrix_shape(const Tensor& like, int64_t rows, int64_t columns) {
  Shape s;
  s.rank = like.rank - 2;
  for (int i = 0; i < s.rank; ++i) s.dims[i] = like.dims[i];
  if (rows >= 0) s.dims[s.rank++] = rows;
  if (columns >= 0) s.dims[s.rank++] = columns;
  return s;
}

// All inputs and outputs in their plain order.
static inline Status dense_matrices(Bind& b) {
  for (int i = 0; i < b.input_count(); ++i) PEN_TRY(b.need(i, Need::dense));
  for (int i = 0; i < b.output_count(); ++i) {
    PEN_TRY(b.output(i));
    PEN_TRY(b.need_out(i, Need::dense));
  }
  return PEN_OK;
}

// Whether input `other` has the leading dims of input `first`.
static inline Status same_batch(const Given& g, int first, int other) {
  const Tensor &x = g.in(first), &y = g.in(other);
  bool same = x.rank == y.rank;
  for (int i = 0; same && i < x.rank - 2; ++i) same = x.dims[i] == y.dims[i];
  return same ? PEN_OK : g.fail(other, "as many matrices as the first input has", "other leading dims");
}

// Of operators that solve for input `right` with the square matrices of input 0, and where there is an input in between, its pivots.
static inline Status solution_shape(Shapes& s, int right) {
  PEN_TRY(check_squares(s, 0));
  PEN_TRY(check_matrices(s, right));
  PEN_TRY(same_batch(s, 0, right));
  const Tensor &a = s.in(0), &pivots = s.in(1), &x = s.in(right);
  bool fits = right == 1 || (pivots.dtype == DType::i32 && pivots.rank == a.rank - 1);
  for (int i = 0; right > 1 && fits && i < pivots.rank; ++i) fits = pivots.dims[i] == a.dims[i];
  if (!fits) return s.fail(1, "an i32 pivot for each row", "another shape or dtype");
  if (rows_of(x) != rows_of(a)) return s.fail(right, "as many rows as the matrix has", "%lld", static_cast<long long>(rows_of(x)));
  return s.output(0, DType::f32, shape_of(x));
}

struct Batch {
  int64_t count, tasks;
};
// One matrix is `work` multiply-adds.
static inline Batch cut_batch(Bind& b, const Tensor& x, int64_t work) {
  int64_t count = 1;
  for (int i = 0; i < x.rank - 2; ++i) count *= x.dims[i];
  Batch batch = {count, task_count(count, 1 + 32768 / (work + 1))};
  if (count > 0) b.tasks(batch.tasks);
  return batch;
}

template <class Work>
static PEN_INLINE void for_matrices(const Batch& batch, const Run& r, const Work& work) {
  Patience patience(r);
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(batch.count, batch.tasks, task);
    for (int64_t i = range.begin; i < range.end && !patience.ends(0); ++i) work(i, patience);
  }
}

static inline void widen(const float* from, int64_t count, double* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(from[i]);
}
static inline void narrow(const double* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}
static PEN_INLINE double absolute(double x) { return __builtin_fabs(x); }
static PEN_INLINE double root(double x) { return __builtin_sqrt(x); }
static inline double hypotenuse(double a, double b) {
  a = absolute(a);
  b = absolute(b);
  double large = a > b ? a : b, ratio = a > b ? b / a : a / b;
  return large == 0 ? 0 : large * root(1 + ratio * ratio);
}

// Two doubles at a time, in the registers that every 64-bit target has.
typedef double Doubles __attribute__((vector_size(16)));
static PEN_INLINE Doubles load_doubles(const double* p) {
  Doubles v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
static PEN_INLINE void store_doubles(double* p, Doubles v) { __builtin_memcpy(p, &v, sizeof v); }

// x -= factor * y
static inline void subtract_row(double* PEN_RESTRICT x, const double* PEN_RESTRICT y, double factor, int64_t n) {
  Doubles f = {factor, factor};
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) {
    Doubles a = load_doubles(x + j) - f * load_doubles(y + j), b = load_doubles(x + j + 2) - f * load_doubles(y + j + 2);
    store_doubles(x + j, a);
    store_doubles(x + j + 2, b);
  }
  for (; j < n; ++j) x[j] -= factor * y[j];
}

// The sum of x[i] * y[i], in an order that depends on n alone.
static inline double dot_product(const double* PEN_RESTRICT x, const double* PEN_RESTRICT y, int64_t n) {
  Doubles a = {}, b = {}, c = {}, d = {};
  int64_t j = 0;
  for (; j + 8 <= n; j += 8) {
    a += load_doubles(x + j) * load_doubles(y + j);
    b += load_doubles(x + j + 2) * load_doubles(y + j + 2);
    c += load_doubles(x + j + 4) * load_doubles(y + j + 4);
    d += load_doubles(x + j + 6) * load_doubles(y + j + 6);
  }
  a = (a + b) + (c + d);
  double sum = a[0] + a[1];
  for (; j < n; ++j) sum += x[j] * y[j];
  return sum;
}

// Householder's reflection H = 1 - tau v v', v[0] = 1, that makes x[1:] zero, as LAPACK has it. x[0] becomes what is
// left, x[1:] becomes v[1:]. `step`: between elements.
static inline double reflector(double* x, int64_t n, int64_t step) {
  double square = 0;
  for (int64_t i = 1; i < n; ++i) square += x[i * step] * x[i * step];
  if (square == 0) return 0;
  double alpha = x[0], beta = root(alpha * alpha + square);
  if (alpha >= 0) beta = -beta;
  for (int64_t i = 1; i < n; ++i) x[i * step] /= alpha - beta;
  x[0] = beta;
  return (beta - alpha) / beta;
}

// c = H c, for c of n rows and `columns` columns, row_stride apart. sums: `columns` numbers.
static inline void reflect(const double* v, int64_t step, double tau, int64_t n, double* c, int64_t columns, int64_t row_stride,
                           double* sums) {
  if (tau == 0) return;
  for (int64_t j = 0; j < columns; ++j) sums[j] = c[j];
  for (int64_t i = 1; i < n; ++i) subtract_row(sums, c + i * row_stride, -v[i * step], columns);
  subtract_row(c, sums, tau, columns);
  for (int64_t i = 1; i < n; ++i) subtract_row(c + i * row_stride, sums, tau * v[i * step], columns);
}

// Solves op(a) x = b in place of b (n x k). op: a itself, or its transpose; only one triangle of it is read.
static inline void substitute(Patience& patience, const double* a, int64_t n, bool upper, bool transposed, bool unit, double* b,
                              int64_t k) {
  bool backwards = upper != transposed;
  for (int64_t at = 0; at < n; ++at) {
    if (patience.ends((n - at) * k)) return;
    int64_t i = backwards ? n - 1 - at : at;
    if (!unit) {
      double d = a[i * n + i];
      for (int64_t j = 0; j < k; ++j) b[i * k + j] /= d;
    }
    for (int64_t next = at + 1; next < n; ++next) {
      int64_t l = backwards ? n - 1 - next : next;
      double factor = transposed ? a[i * n + l] : a[l * n + i];
      if (factor != 0) subtract_row(b + l * k, b + i * k, factor, k);
    }
  }
}

}  // namespace pen
