// conv_tbc and _weight_norm of the VM, made of other operators.
#include "penlight/runtime/vm/calls.h"

namespace pen {

// Time first, channels last in x and w: [T, B, Ci] by [K, Ci, Co].
PEN_OP(conv_tbc, "[out]", "aten::conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor") {
  if (c.tensor(0).rank() != 3 || c.tensor(1).rank() != 3)
    return c.fail("an input and a weight of rank 3", "rank %d and %d", c.tensor(0).rank(), c.tensor(1).rank());
  Calls t(c);
  Value x = t("aten::permute", c.args[0], t.ints(1, 2, 0)), w = t("aten::permute", c.args[1], t.ints(2, 1, 0));
  Value y = t("aten::conv1d", x, w, c.args[2], t.ints(1), t.ints(c.integer(3)));
  return t.give(c, t("aten::contiguous", t("aten::permute", y, t.ints(2, 0, 1))));
}
// v with the norm of each slice along dim set to g.
PEN_OP(weight_norm, "aten::_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor") {
  const TensorObject& v = c.tensor(0);
  Calls t(c);
  int64_t others[kMaxRank];
  int n = 0, dim = -1;
  if (c.integer(2) != -1) PEN_TRY(c.dim(2, v.rank(), &dim));
  for (int d = 0; d < v.rank(); ++d)
    if (d != dim) others[n++] = d;
  Value norm = n ? t("aten::linalg_vector_norm", v, 2, t.ints_of(others, n), true) : t("aten::abs", v);
  if (dim < 0) norm = t("aten::linalg_vector_norm", v, 2);
  return t.give(c, t("aten::mul.Tensor", v, t("aten::div.Tensor", c.args[1], norm)));
}
PEN_OP(weight_norm_interface, "[out]", "aten::_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)") {
  const TensorObject& v = c.tensor(0);
  Calls t(c);
  int64_t others[kMaxRank];
  int n = 0, dim;
  PEN_TRY(c.dim(2, v.rank(), &dim));
  for (int d = 0; d < v.rank(); ++d)
    if (d != dim) others[n++] = d;
  Value norm = n ? t("aten::linalg_vector_norm", v, 2, t.ints_of(others, n), true) : t("aten::abs", v);
  PEN_TRY(t.give(c, t("aten::mul.Tensor", v, t("aten::div.Tensor", c.args[1], norm))));
  return t.give(c, static_cast<Value&&>(norm), 1);
}
// Slices along dim whose norm is above maxnorm are scaled down to it.
PEN_OP(renorm, "[in_place][out]", "aten::renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  int64_t others[kMaxRank];
  int n = 0, dim;
  if (x.rank() < 2) return c.fail("a tensor of rank 2 or more", "rank %d", x.rank());
  if (!(c.number(1) > 0)) return c.fail("a p above 0", "%g", c.number(1));
  if (!(c.number(3) >= 0)) return c.fail("a maxnorm of 0 or more", "%g", c.number(3));
  PEN_TRY(c.dim(2, x.rank(), &dim));
  for (int d = 0; d < x.rank(); ++d)
    if (d != dim) others[n++] = d;
  Calls t(c);
  Value norm = t("aten::linalg_vector_norm", x, c.number(1), t.ints_of(others, n), true);
  Value factor = t("aten::mul.Scalar", t("aten::reciprocal", t("aten::add.Scalar", norm, 1e-7)), c.number(3));
  factor = t("aten::masked_fill.Scalar", factor, t("aten::le.Scalar", norm, c.number(3)), 1);
  return t.give(c, t("aten::mul.Tensor", x, factor));
}

}  // namespace pen
