// Linear algebra of the VM, over the kernels of this folder (f32; they compute in double precision inside). Matrices are the last
// two dims, the dims before count them.
#include "penlight/runtime/vm/calls.h"
#include "penlight/runtime/vm/flat.h"

namespace pen {

namespace {

Status need_matrices(const Call& c, const TensorObject& a, bool square) {
  if (a.dtype() != DType::f32) return c.fail("a Float tensor", "%s", dtype_name(a.dtype()));
  if (a.rank() < 2) return c.fail("matrices", "rank %d", a.rank());
  int64_t m = a.dim(a.rank() - 2), n = a.dim(a.rank() - 1);
  if (square && m != n) return c.fail("square matrices", "%lld x %lld", static_cast<long long>(m), static_cast<long long>(n));
  return PEN_OK;
}
int64_t rows(const Value& a) { return a.tensor()->dim(a.tensor()->rank() - 2); }
int64_t columns(const Value& a) { return a.tensor()->dim(a.tensor()->rank() - 1); }
Value turned(Calls& t, const Value& a) { return t("aten::transpose.int", a, -2, -1); }

struct Factors {
  Value lu, pivots, info;
};
Status factor(const Call& c, const TensorObject& a, bool check, Factors* to) {
  Graph g(c);
  int out[3] = {g.node("lu.f32", a), g.output(), g.output()};
  g.flag("check", check);
  PEN_TRY(g.run_all(out, 3));
  to->lu = Value::own(g.take(0));
  to->pivots = Value::own(g.take(1));
  to->info = Value::own(g.take(2));
  return PEN_OK;
}

// Both sides with the leading dims that they broadcast to.
Status spread(Calls& t, const Call& c, Value* a, Value* b, Value* pivots) {
  Shape lead, x, y;
  const TensorObject &p = *a->tensor(), &q = *b->tensor();
  PEN_TRY(broadcast_batches(c, p.shape, q.shape, &lead));
  x = y = lead;
  x.dims[x.rank++] = rows(*a), x.dims[x.rank++] = columns(*a);
  y.dims[y.rank++] = rows(*b), y.dims[y.rank++] = columns(*b);
  *b = t("aten::expand", *b, t.ints_of(y.dims, y.rank));
  if (pivots) *pivots = t("aten::expand", *pivots, t.ints_of(x.dims, x.rank - 1));
  *a = t("aten::expand", *a, t.ints_of(x.dims, x.rank));
  return t.status;
}

Status solve_factored(const Call& c, Calls& t, const Factors& f, Value b, bool adjoint, Value* x) {
  Value lu = f.lu, pivots = f.pivots;
  PEN_TRY(spread(t, c, &lu, &b, &pivots));
  Graph g(c);
  int y = g.node("lu_solve.f32", *lu.tensor(), *pivots.tensor(), *b.tensor());
  g.flag("adjoint", adjoint);
  PEN_TRY(g.run(y));
  *x = Value::own(g.take(0));
  return PEN_OK;
}
Status solve_triangle(const Call& c, Calls& t, Value a, Value b, bool upper, bool transposed, bool unit, Value* x) {
  PEN_TRY(spread(t, c, &a, &b, nullptr));
  Graph g(c);
  int y = g.node("triangular_solve.f32", *a.tensor(), *b.tensor());
  g.flag("upper", upper).flag("transposed", transposed).flag("unit", unit);
  PEN_TRY(g.run(y));
  *x = Value::own(g.take(0));
  return PEN_OK;
}
Value identity(Calls& t, int64_t n, int64_t m) { return t("aten::eye.m", n, m, code_of_dtype(DType::f32)); }

// x of a x = b; of x a = b where not left. A b of rank 1, or of one vector for each matrix, is columns.
Status solve(Call& c, const Value& a, const Value& b, bool left, bool check, int info) {
  const TensorObject &p = *a.tensor(), &q = *b.tensor();
  PEN_TRY(need_matrices(c, p, true));
  if (q.dtype() != DType::f32 || q.rank() < 1) return c.fail("a Float tensor with dims", "%s, rank %d", dtype_name(q.dtype()), q.rank());
  bool vector = q.rank() == 1;
  if (!vector && q.rank() == p.rank() - 1) {
    vector = true;
    for (int d = 0; d < q.rank(); ++d) vector &= q.dim(d) == p.dim(d);
  }
  if (!vector && q.rank() < 2) return c.fail("a right side of rank 2 or more", "rank %d", q.rank());
  Calls t(c);
  Factors f;
  PEN_TRY(factor(c, p, check, &f));
  Value x, side = vector ? t("aten::unsqueeze", b, -1) : b;
  PEN_TRY(t.status);
  if (left || vector) {
    PEN_TRY(solve_factored(c, t, f, side, false, &x));
  } else {
    PEN_TRY(solve_factored(c, t, f, turned(t, side), true, &x));
    x = turned(t, x);
  }
  if (vector) x = t("aten::squeeze.dim", x, -1);
  if (info >= 0) PEN_TRY(c.give(static_cast<Value&&>(f.info), info));
  return t.give(c, static_cast<Value&&>(x));
}

Status inverse(Call& c, bool check, int info) {
  const TensorObject& a = c.tensor(0);
  PEN_TRY(need_matrices(c, a, true));
  Calls t(c);
  Factors f;
  Value x;
  PEN_TRY(factor(c, a, check, &f));
  PEN_TRY(solve_factored(c, t, f, identity(t, a.dim(a.rank() - 1), a.dim(a.rank() - 1)), false, &x));
  if (info >= 0) PEN_TRY(c.give(static_cast<Value&&>(f.info), info));
  return c.give(static_cast<Value&&>(x));
}

// The sign of the row exchanges, and U's diagonal.
Status diagonal_of(const Call& c, Calls& t, Value* parity, Value* diagonal) {
  PEN_TRY(need_matrices(c, c.tensor(0), true));
  Factors f;
  PEN_TRY(factor(c, c.tensor(0), false, &f));
  int64_t n = c.tensor(0).dim(c.tensor(0).rank() - 1);
  Value places = t("aten::arange.start", 1, n + 1, code_of_dtype(DType::i32));
  Value moved = t("aten::sum.dim_IntList", t("aten::ne.Tensor", f.pivots, places), t.ints(-1));
  Value odd = t("aten::to.dtype", t("aten::remainder.Scalar", moved, 2), code_of_dtype(DType::f32));
  *parity = t("aten::add.Scalar", t("aten::mul.Scalar", odd, -2.0), 1.0);
  *diagonal = t("aten::diagonal", f.lu, 0, -2, -1);
  return t.status;
}

Status cholesky(Call& c, const TensorObject& a, bool upper, bool check, int info) {
  PEN_TRY(need_matrices(c, a, true));
  Graph g(c);
  int out[2] = {g.node("cholesky.f32", a), g.output()};
  g.flag("upper", upper).flag("check", check);
  PEN_TRY(g.run_all(out, 2));
  if (info >= 0) PEN_TRY(c.give(g.take(1), info));
  return c.give(g.take(0));
}

Status svd_of(const Call& c, const TensorObject& a, bool full, Value* made) {
  PEN_TRY(need_matrices(c, a, false));
  Graph g(c);
  int out[3] = {g.node("svd.f32", a), g.output(), g.output()};
  g.flag("full", full);
  PEN_TRY(g.run_all(out, 3));
  for (int i = 0; i < 3; ++i) made[i] = Value::own(g.take(i));
  return PEN_OK;
}
Status eigh_of(const Call& c, const TensorObject& a, bool upper, bool vectors, Value* made) {
  PEN_TRY(need_matrices(c, a, true));
  Graph g(c);
  int out[2] = {g.node("eigh.f32", a), g.output()};
  g.flag("upper", upper).flag("vectors", vectors);
  PEN_TRY(g.run_all(out, 2));
  for (int i = 0; i < 2; ++i) made[i] = Value::own(g.take(i));
  return PEN_OK;
}
Status qr_of(Call& c, const TensorObject& a, bool complete, bool only_r) {
  PEN_TRY(need_matrices(c, a, false));
  int64_t m = a.dim(a.rank() - 2), n = a.dim(a.rank() - 1), k = m < n ? m : n, size = complete ? m : k;
  Graph g(c);
  int out[2] = {g.node("geqrf.f32", a), g.output()};
  PEN_TRY(g.run_all(out, 2));
  Value factors = Value::own(g.take(0)), tau = Value::own(g.take(1)), eye, q;
  Calls t(c);
  Shape shape = shape_of(a);
  shape.dims[shape.rank - 1] = size;
  eye = t("aten::expand", identity(t, m, size), t.ints_of(shape.dims, shape.rank));
  PEN_TRY(t.status);
  if (only_r) {
    int64_t none = 0;
    PEN_TRY(c.give(tensor_create(DType::f32, 1, &none)));
  } else {
    Graph h(c);
    int y = h.node("reflect.f32", *factors.tensor(), *tau.tensor(), *eye.tensor());
    h.flag("transposed", false);
    PEN_TRY(h.run(y));
    PEN_TRY(c.give(h.take(0)));
  }
  return t.give(c, t("aten::triu", t("aten::narrow", factors, -2, 0, size)), 1);
}

}  // namespace

PEN_OP(linalg_solve, "[out]", "aten::linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor") {
  return solve(c, c.args[0], c.args[1], c.flag(2), true, -1);
}
PEN_OP(linalg_solve_ex, "[out=out result info]",
       "aten::linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)") {
  return solve(c, c.args[0], c.args[1], c.flag(2), c.flag(3), 1);
}
// As torch had it until 2021: the right side first, and the factors with the result.
PEN_OP(solve, "aten::solve(Tensor self, Tensor A) -> (Tensor solution, Tensor LU)") {
  PEN_TRY(need_matrices(c, c.tensor(1), true));
  Factors f;
  PEN_TRY(factor(c, c.tensor(1), true, &f));
  PEN_TRY(c.give(static_cast<Value&&>(f.lu), 1));
  return solve(c, c.args[1], c.args[0], true, true, -1);
}
PEN_OP(inverse, "[out]", "aten::{inverse,linalg_inv}(Tensor self) -> Tensor") { return inverse(c, true, -1); }
PEN_OP(linalg_inv_ex, "[out=inverse inverse info]",
       "aten::linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)") {
  return inverse(c, c.flag(1), 1);
}
PEN_OP(linalg_lu_factor, "[out=out LU pivots]", "aten::linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)") {
  if (!c.flag(1)) return c.fail("a factorization with pivots", "pivot=False");
  PEN_TRY(need_matrices(c, c.tensor(0), false));
  Factors f;
  PEN_TRY(factor(c, c.tensor(0), true, &f));
  PEN_TRY(c.give(static_cast<Value&&>(f.lu)));
  return c.give(static_cast<Value&&>(f.pivots), 1);
}
PEN_OP(lu_solve, "[out]", "aten::lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor") {
  PEN_TRY(need_matrices(c, c.tensor(0), false));
  PEN_TRY(need_matrices(c, c.tensor(1), true));
  if (c.tensor(2).dtype() != DType::i32 || c.tensor(2).rank() != c.tensor(1).rank() - 1)
    return c.fail("pivots of Int, a row for each matrix", "%s, rank %d", dtype_name(c.tensor(2).dtype()), c.tensor(2).rank());
  Calls t(c);
  Value x;
  PEN_TRY(solve_factored(c, t, {c.args[1], c.args[2], Value()}, c.args[0], false, &x));
  return c.give(static_cast<Value&&>(x));
}

PEN_OP(det, "[out]", "aten::{det,linalg_det}(Tensor self) -> Tensor") {
  Calls t(c);
  Value parity, diagonal;
  PEN_TRY(diagonal_of(c, t, &parity, &diagonal));
  return t.give(c, t("aten::mul.Tensor", t("aten::prod.dim_int", diagonal, -1), parity));
}
static Status log_determinant(Call& c, Calls& t, Value* sign, Value* total) {
  Value parity, diagonal;
  PEN_TRY(diagonal_of(c, t, &parity, &diagonal));
  *sign = t("aten::mul.Tensor", t("aten::prod.dim_int", t("aten::sign", diagonal), -1), parity);
  *total = t("aten::sum.dim_IntList", t("aten::log", t("aten::abs", diagonal)), t.ints(-1));
  return t.status;
}
PEN_OP(slogdet, "[out=out sign logabsdet]", "aten::{slogdet,linalg_slogdet}(Tensor self) -> (Tensor sign, Tensor logabsdet)") {
  Calls t(c);
  Value sign, total;
  PEN_TRY(log_determinant(c, t, &sign, &total));
  PEN_TRY(c.give(static_cast<Value&&>(sign)));
  return c.give(static_cast<Value&&>(total), 1);
}
PEN_OP(logdet, "aten::logdet(Tensor self) -> Tensor") {
  Calls t(c);
  Value sign, total;
  PEN_TRY(log_determinant(c, t, &sign, &total));
  return t.give(c, t("aten::masked_fill.Scalar", total, t("aten::lt.Scalar", sign, 0), __builtin_nan("")));
}

PEN_OP(cholesky, "[out]", "aten::cholesky(Tensor self, bool upper=False) -> Tensor",
       "aten::linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor") {
  return cholesky(c, c.tensor(0), c.flag(1), true, -1);
}
PEN_OP(linalg_cholesky_ex, "[out=L L info]",
       "aten::linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)") {
  return cholesky(c, c.tensor(0), c.flag(1), c.flag(2), 1);
}
// L L' x = b: one triangle, then the other.
static Status solve_cholesky(Call& c, const Value& b, const Value& factor, bool upper) {
  PEN_TRY(need_matrices(c, *b.tensor(), false));
  PEN_TRY(need_matrices(c, *factor.tensor(), true));
  Calls t(c);
  Value half, x;
  PEN_TRY(solve_triangle(c, t, factor, b, upper, upper, false, &half));
  PEN_TRY(solve_triangle(c, t, factor, half, upper, !upper, false, &x));
  return c.give(static_cast<Value&&>(x));
}
PEN_OP(cholesky_solve, "[out]", "aten::cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor") {
  return solve_cholesky(c, c.args[0], c.args[1], c.flag(2));
}
PEN_OP(cholesky_inverse, "[out]", "aten::cholesky_inverse(Tensor self, bool upper=False) -> Tensor") {
  PEN_TRY(need_matrices(c, c.tensor(0), true));
  Calls t(c);
  Value eye = identity(t, rows(c.args[0]), rows(c.args[0]));
  PEN_TRY(t.status);
  return solve_cholesky(c, eye, c.args[0], c.flag(1));
}
PEN_OP(linalg_solve_triangular, "[out]",
       "aten::linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor") {
  PEN_TRY(need_matrices(c, c.tensor(0), true));
  PEN_TRY(need_matrices(c, c.tensor(1), false));
  Calls t(c);
  Value x;
  if (c.flag(3)) {
    PEN_TRY(solve_triangle(c, t, c.args[0], c.args[1], c.flag(2), false, c.flag(4), &x));
    return c.give(static_cast<Value&&>(x));
  }
  PEN_TRY(solve_triangle(c, t, c.args[0], turned(t, c.args[1]), c.flag(2), true, c.flag(4), &x));
  return t.give(c, turned(t, x));
}
PEN_OP(triangular_solve, "[out=X X M]",
       "aten::triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor "
       "solution, Tensor cloned_coefficient)") {
  PEN_TRY(need_matrices(c, c.tensor(0), false));
  PEN_TRY(need_matrices(c, c.tensor(1), true));
  Calls t(c);
  Value x, a = c.args[1], b = c.args[0];
  PEN_TRY(solve_triangle(c, t, a, b, c.flag(2), c.flag(3), c.flag(4), &x));
  PEN_TRY(spread(t, c, &a, &b, nullptr));
  PEN_TRY(t.give(c, t("aten::clone", a), 1));
  return c.give(static_cast<Value&&>(x));
}

PEN_OP(linalg_qr, "[out=out Q R]", "aten::linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)") {
  const char* mode = c.text(1);
  bool complete = strcmp(mode, "complete") == 0, only_r = strcmp(mode, "r") == 0;
  if (!complete && !only_r && strcmp(mode, "reduced") != 0) return c.fail("mode reduced, complete or r", "\"%s\"", mode);
  return qr_of(c, c.tensor(0), complete, only_r);
}
PEN_OP(qr, "[out=Q Q R]", "aten::qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)") {
  return qr_of(c, c.tensor(0), !c.flag(1), false);
}

PEN_OP(linalg_eigh, "[out=eigvals eigvals eigvecs]",
       "aten::linalg_eigh(Tensor self, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)") {
  Value made[2];
  PEN_TRY(eigh_of(c, c.tensor(0), (c.text(1)[0] | 32) == 'u', true, made));
  PEN_TRY(c.give(static_cast<Value&&>(made[1]), 1));
  return c.give(static_cast<Value&&>(made[0]));
}
PEN_OP(linalg_eigvalsh, "[out]", "aten::linalg_eigvalsh(Tensor self, str UPLO='L') -> Tensor") {
  Value made[2];
  PEN_TRY(eigh_of(c, c.tensor(0), (c.text(1)[0] | 32) == 'u', false, made));
  return c.give(static_cast<Value&&>(made[0]));
}
PEN_OP(symeig, "aten::symeig(Tensor self, bool eigenvectors=False, bool upper=True) -> (Tensor eigenvalues, Tensor eigenvectors)") {
  Value made[2];
  PEN_TRY(eigh_of(c, c.tensor(0), c.flag(2), c.flag(1), made));
  PEN_TRY(c.give(static_cast<Value&&>(made[1]), 1));
  return c.give(static_cast<Value&&>(made[0]));
}

PEN_OP(linalg_svd, "[out=U U S Vh]",
       "aten::linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)") {
  Value made[3];
  PEN_TRY(svd_of(c, c.tensor(0), c.flag(1), made));
  for (int i = 0; i < 3; ++i) PEN_TRY(c.give(static_cast<Value&&>(made[i]), i));
  return PEN_OK;
}
PEN_OP(linalg_svdvals, "[out]", "aten::linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor") {
  Value made[3];
  PEN_TRY(svd_of(c, c.tensor(0), false, made));
  return c.give(static_cast<Value&&>(made[1]));
}
// V itself, and zeros where no vectors are wanted.
PEN_OP(svd, "[out=U U S V]", "aten::svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)") {
  Value made[3];
  PEN_TRY(svd_of(c, c.tensor(0), !c.flag(1) || !c.flag(2), made));
  Calls t(c);
  PEN_TRY(c.give(Value(made[1]), 1));
  PEN_TRY(t.give(c, c.flag(2) ? Value(made[0]) : t("aten::zeros_like", made[0]), 0));
  return t.give(c, c.flag(2) ? turned(t, made[2]) : t("aten::zeros_like", made[2]), 2);
}
PEN_OP(nuclear_norm, "[out]", "aten::nuclear_norm(Tensor self, bool keepdim=False) -> Tensor",
       "aten::nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor") {
  int64_t dims[2] = {-2, -1};
  if (c.form() == 1 && c.ints(1, dims, 2) != 2) return c.fail("two dims", "%lld", static_cast<long long>(c.list(1).count));
  int first, second, rank = c.tensor(0).rank();
  bool keepdim = c.flag(1 + c.form());
  PEN_TRY(c.dim(dims[0], rank, &first));
  PEN_TRY(c.dim(dims[1], rank, &second));
  Calls t(c);
  Value made[3], matrices = t("aten::movedim.intlist", c.args[0], t.ints(first, second), t.ints(-2, -1));
  PEN_TRY(t.status);
  PEN_TRY(svd_of(c, *matrices.tensor(), false, made));
  Value norm = t("aten::sum.dim_IntList", made[1], t.ints(-1), false);
  if (keepdim) norm = t("aten::unsqueeze", t("aten::unsqueeze", norm, first < second ? first : second), first < second ? second : first);
  return t.give(c, static_cast<Value&&>(norm));
}

// Values up to max(atol, rtol * the largest) count as zero; each limit is a number, or a tensor with one for every matrix.
static Status pseudoinverse(Call& c, const Value& atol, const Value& rtol, bool hermitian) {
  Calls t(c);
  const TensorObject& a = c.tensor(0);
  PEN_TRY(need_matrices(c, a, hermitian));
  if (a.numel() == 0) return t.give(c, t("aten::clone", turned(t, c.args[0])));
  Value made[3], u, values, v;
  if (hermitian) {
    PEN_TRY(eigh_of(c, a, false, true, made));
    values = made[0], u = v = made[1];
  } else {
    PEN_TRY(svd_of(c, a, false, made));
    u = made[0], values = made[1], v = turned(t, made[2]);
  }
  Value sizes = t("aten::abs", values), largest = t("aten::amax", sizes, t.ints(-1), true);
  auto limit = [&](const char* of_tensor, const char* of_number, const Value& x, const Value& with) {
    return with.tag() == Tag::tensor ? t(of_tensor, x, t("aten::unsqueeze", with, -1)) : t(of_number, x, with);
  };
  Value least = limit("aten::maximum", "aten::clamp_min", limit("aten::mul.Tensor", "aten::mul.Scalar", largest, rtol), atol);
  Value inverses = t("aten::masked_fill.Scalar", t("aten::reciprocal", values), t("aten::le.Tensor", sizes, least), 0);
  return t.give(c, t("aten::matmul", t("aten::mul.Tensor", v, t("aten::unsqueeze", inverses, -2)), turned(t, u)));
}
PEN_OP(pinverse, "aten::pinverse(Tensor self, float rcond=1e-15) -> Tensor",
       "[out]aten::linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor",
       "[out=out_rcond_tensor]aten::linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor") {
  return pseudoinverse(c, Value(0.0), c.args[1], c.form() > 0 && c.flag(2));
}
PEN_OP(linalg_pinv_limits, "[out]",
       "aten::linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) -> Tensor",
       "aten::linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor") {
  const TensorObject& a = c.tensor(0);
  PEN_TRY(need_matrices(c, a, false));
  int64_t m = a.dim(a.rank() - 2), n = a.dim(a.rank() - 1);
  double otherwise = 1.1920928955078125e-07 * static_cast<double>(m > n ? m : n);  // where no limit is given
  Calls t(c);
  Value atol = c.given(1) ? c.args[1] : Value(0.0), rtol = c.args[2];
  if (!c.given(2) && atol.tag() == Tag::tensor)
    rtol = t("aten::mul.Scalar", t("aten::le.Scalar", atol, 0), otherwise);
  else if (!c.given(2))
    rtol = Value(atol.number() > 0 ? 0 : otherwise);
  PEN_TRY(t.status);
  return pseudoinverse(c, atol, rtol, c.flag(3));
}
PEN_OP(matrix_exp, "aten::{matrix_exp,linalg_matrix_exp[out]}(Tensor self) -> Tensor") {
  PEN_TRY(need_matrices(c, c.tensor(0), true));
  Graph g(c);
  PEN_TRY(g.run(g.node("matrix_exp.f32", c.tensor(0))));
  return c.give(g.take(0));
}

}  // namespace pen
