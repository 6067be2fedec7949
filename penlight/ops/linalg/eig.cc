// eig: eigenvalues and eigenvectors (columns, of length 1) of any square matrix; both are complex, in two parts.
//
// Householder's reflections make a Hessenberg matrix, QR steps with a complex shift an upper triangular one (Schur's form):
// its diagonal has the eigenvalues. All in complex doubles, so there is one kind of step; what real eigenvalues have of
// an imaginary part is rounding, and cut off.
#include "penlight/ops/linalg/matrix.h"

namespace pen {

struct EigParams {
  Batch batch;
  int64_t n;
  bool vectors;  // else the last two outputs are empty
};

struct Complex {
  double re, im;
};
static PEN_INLINE Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
static PEN_INLINE Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
static PEN_INLINE Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
static PEN_INLINE Complex scaled(Complex a, double f) { return {a.re * f, a.im * f}; }
static PEN_INLINE Complex conjugate(Complex a) { return {a.re, -a.im}; }
static PEN_INLINE double length(Complex a) { return hypotenuse(a.re, a.im); }
static inline Complex divided(Complex a, Complex b) {
  double size = length(b);
  Complex unit = {b.re / size, -b.im / size};
  return scaled(a * unit, 1 / size);
}
static inline Complex square_root(Complex a) {
  double size = root(0.5 * (length(a) + absolute(a.re)));
  if (size == 0) return {0, 0};
  double other = a.im / (2 * size);
  if (a.re >= 0) return {size, other};
  return other >= 0 ? Complex{other, size} : Complex{-other, -size};
}

PEN_SHAPE(eig) {
  PEN_TRY(check_squares(s, 0));
  int64_t n = rows_of(s.in(0));
  for (int i = 0; i < 2; ++i) {
    PEN_TRY(s.output(i, DType::f32, matrix_shape(s.in(0), n, -1)));
    PEN_TRY(s.output(2 + i, DType::f32, matrix_shape(s.in(0), n, s.flag("vectors") ? n : 0)));
  }
  return PEN_OK;
}

PEN_BIND(eig) {
  PEN_TRY(dense_matrices(b));
  const Tensor& x = b.in(0);
  EigParams* p = b.params<EigParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->n = rows_of(x);
  p->vectors = b.flag("vectors");
  p->batch = cut_batch(b, x, 40 * p->n * p->n * p->n);
  return b.scratch((6 * p->n * p->n + 3 * p->n + 1) * 8);
}

// a: n x n, becomes a Hessenberg matrix; q: the product of the reflections, a = q h q'. sums: n numbers.
static void hessenberg(Patience& patience, double* a, double* q, int64_t n, double* sums) {
  for (int64_t i = 0; i < n * n; ++i) q[i] = i % (n + 1) == 0 ? 1 : 0;
  for (int64_t k = 0; k + 2 < n && !patience.ends(6 * n * (n - k)); ++k) {
    int64_t left = n - k - 1;
    double* v = a + (k + 1) * n + k;
    double tau = reflector(v, left, n);
    if (tau == 0) continue;
    double beta = *v;
    *v = 1;
    reflect(v, n, tau, left, v + 1, left, n, sums);
    for (int64_t i = 0; i < 2 * n; ++i) {  // from the right: rows of a, then of q
      double* row = (i < n ? a + i * n : q + (i - n) * n) + k + 1;
      double sum = 0;
      for (int64_t j = 0; j < left; ++j) sum += row[j] * v[j * n];
      sum *= tau;
      for (int64_t j = 0; j < left; ++j) row[j] -= sum * v[j * n];
    }
    *v = beta;
    for (int64_t j = 1; j < left; ++j) v[j * n] = 0;
  }
}

// h: upper Hessenberg, becomes triangular; z is multiplied by the same rotations. Without vectors only the diagonal is right,
// which takes a third of the time.
static void schur(Patience& patience, Complex* h, Complex* z, int64_t n, bool vectors) {
  double norm = 0;
  for (int64_t i = 0; i < n * n; ++i) norm += absolute(h[i].re) + absolute(h[i].im);
  int64_t high = n - 1;
  for (int round = 0; high > 0 && round < 100 && !patience.ends(8 * n);) {
    int64_t low = high;
    for (; low > 0; --low) {
      Complex below = h[low * n + low - 1];
      double near = length(h[low * n + low]) + length(h[(low - 1) * n + low - 1]);
      if (length(below) <= 2.3e-16 * (near > 0 ? near : norm)) {
        h[low * n + low - 1] = {0, 0};
        break;
      }
    }
    if (low == high) {
      --high;
      round = 0;
      continue;
    }
    ++round;
    // Wilkinson's shift: the eigenvalue of the last 2 x 2 block that is nearer to its last element
    Complex a = h[(high - 1) * n + high - 1], b = h[(high - 1) * n + high], c = h[high * n + high - 1], d = h[high * n + high];
    Complex half = scaled(a - d, 0.5), r = square_root(half * half + b * c);
    Complex plus = d + half + r, minus = d + half - r;
    Complex shift = length(plus - d) < length(minus - d) ? plus : minus;
    if (round % 10 == 0) shift = shift + Complex{length(c), 0};
    for (int64_t i = low; i <= high; ++i) h[i * n + i] = h[i * n + i] - shift;
    // One QR step: rotations of rows from above, then the same of columns. They are kept where they have made zeros.
    for (int64_t k = low; k < high && !patience.ends(16 * n); ++k) {
      Complex x = h[k * n + k], y = h[(k + 1) * n + k];
      double size = hypotenuse(length(x), length(y));
      Complex cosine = size == 0 ? Complex{1, 0} : scaled(x, 1 / size), sine = size == 0 ? Complex{0, 0} : scaled(y, 1 / size);
      for (int64_t j = k; j < (vectors ? n : high + 1); ++j) {
        Complex p = h[k * n + j], q = h[(k + 1) * n + j];
        h[k * n + j] = conjugate(cosine) * p + conjugate(sine) * q;
        h[(k + 1) * n + j] = cosine * q - sine * p;
      }
      h[(k + 1) * n + k] = sine;
      z[n * n + k] = cosine;  // behind z there is room for n
    }
    for (int64_t k = low; k < high; ++k) {
      Complex cosine = z[n * n + k], sine = h[(k + 1) * n + k];
      h[(k + 1) * n + k] = {0, 0};
      for (int64_t i = vectors ? 0 : low; i < (vectors ? n : 0) + k + 2; ++i) {  // rows up to k + 1 of h, all rows of z
        Complex* row = i < k + 2 ? h + i * n + k : z + (i - k - 2) * n + k;
        Complex p = row[0], q = row[1];
        row[0] = p * cosine + q * sine;
        row[1] = q * conjugate(cosine) - p * conjugate(sine);
      }
    }
    for (int64_t i = low; i <= high; ++i) h[i * n + i] = h[i * n + i] + shift;
  }
}

// An eigenvector of the triangular matrix t for its eigenvalue k, into x[0 .. k].
static void back_substitute(const Complex* t, int64_t n, int64_t k, double least, Complex* x) {
  x[k] = {1, 0};
  for (int64_t i = k - 1; i >= 0; --i) {
    Complex sum = {0, 0};
    for (int64_t j = i + 1; j <= k; ++j) sum = sum + t[i * n + j] * x[j];
    Complex gap = t[i * n + i] - t[k * n + k];
    if (length(gap) < least) gap = {least, 0};
    x[i] = divided({-sum.re, -sum.im}, gap);
  }
}

PEN_KERNEL_ANY(eig, f32) {
  const EigParams& p = r.as<EigParams>();
  int64_t n = p.n;
  double *a = reinterpret_cast<double*>(r.scratch), *q = a + n * n;
  Complex *h = reinterpret_cast<Complex*>(q + n * n), *z = h + n * n;
  double* sums = reinterpret_cast<double*>(z + n * n + n);
  for_matrices(p.batch, r, [&](int64_t matrix, Patience& patience) {
    widen(r.in[0].as<float>() + matrix * n * n, n * n, a);
    hessenberg(patience, a, q, n, sums);
    double norm = 1e-300;
    for (int64_t i = 0; i < n * n; ++i) {
      h[i] = {a[i], 0};
      z[i] = {q[i], 0};
      norm = absolute(a[i]) > norm ? absolute(a[i]) : norm;
    }
    schur(patience, h, z, n, p.vectors);
    Complex *x = reinterpret_cast<Complex*>(a), *v = x + n;  // a and q are done with; v needs a column only
    if (n < 2) v = z + n * n;
    for (int64_t k = 0; k < n && !patience.ends(p.vectors ? 8 * n * k : n); ++k) {
      Complex value = h[k * n + k];
      bool is_real = absolute(value.im) <= 1e-12 * norm;
      r.out[0].as<float>()[matrix * n + k] = static_cast<float>(value.re);
      r.out[1].as<float>()[matrix * n + k] = is_real ? 0.0f : static_cast<float>(value.im);
      if (!p.vectors) continue;
      back_substitute(h, n, k, 1e-16 * norm, x);
      double square = 0, most = 0;
      Complex largest = {1, 0};
      for (int64_t i = 0; i < n; ++i) {
        Complex sum = {0, 0};
        for (int64_t j = 0; j <= k; ++j) sum = sum + z[i * n + j] * x[j];
        v[i] = sum;
        double size = length(sum);
        square += size * size;
        if (size > most * (1 + 1e-12)) {
          most = size;
          largest = sum;
        }
      }
      // Length 1; the largest element is real, as LAPACK has it
      Complex turn = most > 0 ? scaled(conjugate(largest), 1 / (most * root(square))) : Complex{1, 0};
      for (int64_t i = 0; i < n; ++i) {
        Complex y = v[i] * turn;
        r.out[2].as<float>()[(matrix * n + i) * n + k] = static_cast<float>(y.re);
        r.out[3].as<float>()[(matrix * n + i) * n + k] = is_real ? 0.0f : static_cast<float>(y.im);
      }
    }
  });
}

}  // namespace pen
