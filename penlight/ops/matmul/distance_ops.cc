// Distances and other products of the VM that are made of others: cdist, cosine_similarity, cross, kron, tensordot …
#include "penlight/runtime/vm/calls.h"
#include "penlight/runtime/vm/flat.h"

namespace pen {

constexpr int64_t kMany = 25;  // rows from which on torch takes the matrix product for p = 2

PEN_OP(cdist, "aten::cdist(Tensor x1, Tensor x2, float p=2.0, int? compute_mode=None) -> Tensor",
       "[out]aten::_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor") {
  const TensorObject &x = c.tensor(0), &y = c.tensor(1);
  double p = c.number(2);
  int64_t mode = c.given(3) ? c.integer(3) : 0;
  if (x.rank() < 2 || y.rank() < 2 || x.dim(x.rank() - 1) != y.dim(y.rank() - 1))
    return c.fail("two tensors [..., rows, size] of one size", "rank %d and %d", x.rank(), y.rank());
  if (!is_floating(x.dtype()) || x.dtype() != y.dtype())
    return c.fail("floats of one dtype", "%s and %s", dtype_name(x.dtype()), dtype_name(y.dtype()));
  if (!(p >= 0)) return c.fail("a p of 0 or more", "%g", p);
  int64_t a = x.dim(x.rank() - 2), b = y.dim(y.rank() - 2), size = x.dim(x.rank() - 1);
  Calls t(c);
  if (p == 2 && size > 0 && (mode == 1 || (mode == 0 && (a > kMany || b > kMany)))) {
    Value squares = t("aten::add.Tensor", t("aten::sum.dim_IntList", t("aten::mul.Tensor", x, x), t.ints(-1), true),
                      t("aten::unsqueeze", t("aten::sum.dim_IntList", t("aten::mul.Tensor", y, y), t.ints(-1)), -2));
    Value product = t("aten::matmul", x, t("aten::transpose.int", y, -2, -1));
    return t.give(c, t("aten::sqrt", t("aten::clamp_min", t("aten::sub.Tensor", squares, t("aten::mul.Scalar", product, 2)), 0)));
  }
  Value apart = t("aten::sub.Tensor", t("aten::unsqueeze", x, -2), t("aten::unsqueeze", y, -3));
  return t.give(c, t("aten::linalg_vector_norm", apart, p, t.ints(-1)));
}
// The norms of all x[i] - x[j] with i < j, in order.
PEN_OP(pdist, "aten::pdist(Tensor self, float p=2.0) -> Tensor", "[out]aten::_pdist_forward(Tensor self, float p=2.0) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  if (x.rank() != 2 || !is_floating(x.dtype())) return c.fail("a matrix of floats", "rank %d, %s", x.rank(), dtype_name(x.dtype()));
  if (!(c.number(1) >= 0)) return c.fail("a p of 0 or more", "%g", c.number(1));
  int64_t n = x.dim(0), count = n * (n - 1) / 2, at = 0;
  Value all, made = Value::own(tensor_create(DType::f64, 1, &count));
  PEN_TRY(elements_of(c, x, DType::f64, &all));
  if (made.is_none()) return c.out_of_memory();
  Calls t(c);
  Value row = t("aten::sub.Tensor", t("aten::unsqueeze", all, 1), t("aten::unsqueeze", all, 0));
  Value norms = t("aten::linalg_vector_norm", row, c.number(1), t.ints(-1));
  PEN_TRY(t.status);
  for (int64_t i = 0; i < n; ++i) {
    PEN_TRY(c.walk(n - i));
    for (int64_t j = i + 1; j < n; ++j) made.tensor()->as<double>()[at++] = norms.tensor()->as<double>()[i * n + j];
  }
  return give_as(c, static_cast<Value&&>(made), x.dtype());
}
PEN_OP(dist, "[out]", "aten::dist(Tensor self, Tensor other, Scalar p=2) -> Tensor") {
  Calls t(c);
  return t.give(c, t("aten::norm.Scalar", t("aten::sub.Tensor", c.args[0], c.args[1]), c.args[2]));
}
PEN_OP(pairwise_distance, "aten::pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool keepdim=False) -> Tensor") {
  Calls t(c);
  Value apart = t("aten::add.Scalar", t("aten::sub.Tensor", c.args[0], c.args[1]), c.number(3));
  return t.give(c, t("aten::linalg_vector_norm", apart, c.number(2), t.ints(-1), c.flag(4)));
}
PEN_OP(cosine_similarity, "aten::cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor") {
  Calls t(c);
  Value pair[2] = {c.args[0], c.args[1]}, both = t("aten::broadcast_tensors", t.tensors(pair, 2));
  PEN_TRY(t.status);
  const Value &x = both.list()->items[0], &y = both.list()->items[1];
  Value dims = t.ints(c.integer(2));
  auto length = [&](const Value& v) { return t("aten::clamp_min", t("aten::linalg_vector_norm", v, 2, dims, true), c.number(3)); };
  Value a = t("aten::div.Tensor", x, length(x)), b = t("aten::div.Tensor", y, length(y));
  return t.give(c, t("aten::sum.dim_IntList", t("aten::mul.Tensor", a, b), dims));
}

PEN_OP(trace, "[out]", "aten::trace(Tensor self) -> Tensor") {
  if (c.tensor(0).rank() != 2) return c.fail("a matrix", "rank %d", c.tensor(0).rank());
  Calls t(c);
  return t.give(c, t("aten::sum", t("aten::diagonal", c.args[0])));
}
PEN_OP(cross, "[out]", "aten::cross(Tensor self, Tensor other, int? dim=None) -> Tensor",
       "aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor") {
  Calls t(c);
  Value pair[2] = {c.args[0], c.args[1]}, both = t("aten::broadcast_tensors", t.tensors(pair, 2));
  PEN_TRY(t.status);
  const TensorObject& x = *both.list()->items[0].tensor();
  int dim = -1;
  if (c.given(2)) PEN_TRY(c.dim(2, x.rank(), &dim));
  for (int d = 0; dim < 0 && d < x.rank(); ++d)  // torch's old rule: the first dim of three
    if (x.dim(d) == 3) dim = d;
  if (dim < 0 || x.rank() == 0 || x.dim(dim) != 3) return c.fail("a dim of size 3", "none, or another size");
  Value parts[3];
  auto part = [&](int of, int i) { return t("aten::select.int", both.list()->items[of], dim, (i + 3) % 3); };
  for (int i = 0; i < 3; ++i)
    parts[i] =
        t("aten::sub.Tensor", t("aten::mul.Tensor", part(0, i - 2), part(1, i - 1)), t("aten::mul.Tensor", part(0, i - 1), part(1, i - 2)));
  return t.give(c, t("aten::stack", t.tensors(parts, 3), dim));
}
PEN_OP(inner, "[out]", "aten::inner(Tensor self, Tensor other) -> Tensor") {
  const TensorObject &x = c.tensor(0), &y = c.tensor(1);
  Calls t(c);
  if (x.rank() == 0 || y.rank() == 0) return t.give(c, t("aten::mul.Tensor", x, y));
  return t.give(c, t("aten::tensordot", x, y, t.ints(-1), t.ints(-1)));
}
// The sum over pairs of dims: both sides as matrices.
PEN_OP(tensordot, "[out]", "aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor") {
  const TensorObject* sides[] = {&c.tensor(0), &c.tensor(1)};
  Value matrices[2];
  Shape shape;
  Calls t(c);
  int64_t summed[2];
  if (c.list(2).count != c.list(3).count)
    return c.fail("as many dims of both", "%lld and %lld", static_cast<long long>(c.list(2).count),
                  static_cast<long long>(c.list(3).count));
  for (int s = 0; s < 2; ++s) {
    const TensorObject& x = *sides[s];
    DimSet over;
    PEN_TRY(dims_of(c, 2 + s, x.rank(), false, &over));
    int64_t order[kMaxRank], inner = 1, outer = 1, list[kMaxRank];
    int n = 0, count = c.ints(2 + s, list, kMaxRank);
    if (count && x.rank() == 0) return c.fail("no dims of a tensor that has none", "%d", count);
    auto add = [&](bool contracted) {
      for (int i = 0; contracted && i < count; ++i) {
        int64_t d = list[i] < 0 ? list[i] + x.rank() : list[i];
        order[n++] = d;
        inner *= x.dim(static_cast<int>(d));
      }
      for (int d = 0; !contracted && d < x.rank(); ++d) {
        if (over.has[d]) continue;
        order[n++] = d;
        outer *= x.dim(d);
        if (shape.rank < kMaxRank) shape.dims[shape.rank++] = x.dim(d);
      }
    };
    add(s == 1);
    add(s == 0);
    summed[s] = inner;
    matrices[s] = t("aten::reshape", t("aten::permute", x, t.ints_of(order, n)), s ? t.ints(inner, outer) : t.ints(outer, inner));
  }
  if (summed[0] != summed[1])
    return c.fail("dims of equal sizes", "%lld and %lld", static_cast<long long>(summed[0]), static_cast<long long>(summed[1]));
  if (c.tensor(0).rank() + c.tensor(1).rank() - 2 * static_cast<int>(c.list(2).count) > kMaxRank)
    return c.fail("a result of rank 8 at most", "more");
  return t.give(c, t("aten::reshape", t("aten::mm", matrices[0], matrices[1]), t.ints_of(shape.dims, shape.rank)));
}
PEN_OP(kron, "[out]", "aten::kron(Tensor self, Tensor other) -> Tensor") {
  const TensorObject &x = c.tensor(0), &y = c.tensor(1);
  int rank = x.rank() > y.rank() ? x.rank() : y.rank();
  if (2 * rank > kMaxRank) return c.fail("tensors of rank 4 at most", "rank %d", rank);
  int64_t a[kMaxRank], b[kMaxRank], all[kMaxRank];
  for (int d = 0; d < rank; ++d) {
    int i = d - rank + x.rank(), j = d - rank + y.rank();
    a[2 * d] = i < 0 ? 1 : x.dim(i), a[2 * d + 1] = 1;
    b[2 * d] = 1, b[2 * d + 1] = j < 0 ? 1 : y.dim(j);
    if (mul_overflows(a[2 * d], b[2 * d + 1], &all[d])) return c.fail("a result that memory can hold", "more");
  }
  Calls t(c);
  Value product = t("aten::mul.Tensor", t("aten::reshape", x, t.ints_of(a, 2 * rank)), t("aten::reshape", y, t.ints_of(b, 2 * rank)));
  return t.give(c, t("aten::reshape", product, t.ints_of(all, rank)));
}
PEN_OP(chain_matmul, "[out]", "aten::chain_matmul(Tensor[] matrices) -> Tensor", "aten::linalg_multi_dot(Tensor[] tensors) -> Tensor") {
  const ListObject& list = c.list(0);
  if (list.count < 1) return c.fail("at least one matrix", "none");
  Calls t(c);
  Value product = list.items[0];
  for (int64_t i = 1; i < list.count; ++i) product = t("aten::matmul", product, list.items[i]);
  return t.give(c, static_cast<Value&&>(product));
}
PEN_OP(matrix_power, "[out]", "aten::{matrix_power,linalg_matrix_power}(Tensor self, int n) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  int64_t n = c.integer(1);
  if (x.rank() < 2 || x.dim(x.rank() - 1) != x.dim(x.rank() - 2)) return c.fail("square matrices", "rank %d", x.rank());
  if (n == INT64_MIN) return c.fail("a power above -2^63", "-2^63");
  Calls t(c);
  Value base = n < 0 ? t("aten::linalg_inv", x) : Value(c.args[0]), made;
  for (uint64_t left = static_cast<uint64_t>(n < 0 ? -n : n); left && t.status == PEN_OK; left >>= 1) {
    if (left & 1) made = made.is_none() ? base : t("aten::matmul", made, base);
    if (left > 1) base = t("aten::matmul", base, base);
  }
  if (made.is_none() && t.status == PEN_OK) {
    Value eye = t("aten::eye", x.dim(x.rank() - 1), code_of_dtype(x.dtype()));
    made = t("aten::clone", t("aten::expand_as", eye, x));
  } else if (made.is(c.args[0])) {
    made = t("aten::clone", made);
  }
  return t.give(c, static_cast<Value&&>(made));
}
PEN_OP(addr, "[in_place][out]", "aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor") {
  Calls t(c);
  Value product = t("aten::outer", c.args[1], c.args[2]);
  if (c.number(4) != 1) product = t("aten::mul.Scalar", product, c.args[4]);
  if (c.number(3) == 0) return t.give(c, static_cast<Value&&>(product));
  Value x = c.number(3) == 1 ? Value(c.args[0]) : t("aten::mul.Scalar", c.args[0], c.args[3]);
  return t.give(c, t("aten::add.Tensor", x, product));
}
PEN_OP(addmm_activation, "[out]",
       "aten::_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, bool use_gelu=False) -> Tensor") {
  Calls t(c);
  Value y = t("aten::addmm", c.args[0], c.args[1], c.args[2], c.args[3], c.args[4]);
  return t.give(c, c.flag(5) ? t("aten::gelu", y) : t("aten::relu", y));
}
// sum over i, j of x[i] w[o, i, j] y[j]
PEN_OP(bilinear, "aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor") {
  const TensorObject &x = c.tensor(0), &y = c.tensor(1), &w = c.tensor(2);
  if (w.rank() != 3 || x.rank() < 1 || x.rank() != y.rank() || x.rank() + 1 > kMaxRank || x.dim(x.rank() - 1) != w.dim(1) ||
      y.dim(y.rank() - 1) != w.dim(2))
    return c.fail("inputs [..., I] and [..., J] and a weight [O, I, J]", "rank %d, %d and %d, or other sizes", x.rank(), y.rank(),
                  w.rank());
  Calls t(c);
  int64_t shape[kMaxRank];
  for (int d = 0; d < x.rank() - 1; ++d) shape[d] = x.dim(d);
  shape[x.rank() - 1] = w.dim(0);
  shape[x.rank()] = w.dim(2);
  Value flat = t("aten::reshape", t("aten::permute", w, t.ints(1, 0, 2)), t.ints(w.dim(1), w.dim(0) * w.dim(2)));
  Value xw = t("aten::reshape", t("aten::matmul", x, flat), t.ints_of(shape, x.rank() + 1));
  Value z = t("aten::squeeze.dim", t("aten::matmul", xw, t("aten::unsqueeze", y, -1)), -1);
  return t.give(c, c.given(3) ? t("aten::add.Tensor", z, c.args[3]) : static_cast<Value&&>(z));
}

}  // namespace pen
