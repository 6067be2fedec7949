// Losses of the VM that are arithmetic: torch's own formulas, then no reduction (0), the mean (1) or the sum (2).
#include "penlight/runtime/vm/calls.h"

namespace pen {

static Status give_loss(Call& c, Calls& t, Value&& loss, int64_t reduction) {
  if (reduction == 1) loss = t("aten::mean", loss);
  if (reduction == 2) loss = t("aten::sum", loss);
  PEN_TRY(t.status);
  if (reduction < 0 || reduction > 2) return c.fail("a reduction of 0, 1 or 2", "%lld", static_cast<long long>(reduction));
  return t.give(c, static_cast<Value&&>(loss));
}

PEN_OP(difference_loss, "[out]", "aten::{mse_loss,l1_loss}(Tensor self, Tensor target, int reduction=Mean) -> Tensor") {
  Calls t(c);
  Value apart = t("aten::sub.Tensor", c.args[0], c.args[1]);
  return give_loss(c, t, c.word() == 0 ? t("aten::mul.Tensor", apart, apart) : t("aten::abs", apart), c.integer(2));
}
// A parabola near 0, a line beyond.
PEN_OP(smooth_loss, "[out]", "aten::smooth_l1_loss(Tensor self, Tensor target, int reduction=Mean, float beta=1.0) -> Tensor",
       "aten::huber_loss(Tensor self, Tensor target, int reduction=Mean, float delta=1.0) -> Tensor") {
  Calls t(c);
  double edge = c.number(3);
  bool huber = c.form() == 1;
  if (!(edge >= 0) || (huber && edge == 0)) return c.fail(huber ? "a delta above 0" : "a beta of 0 or more", "%g", edge);
  Value apart = t("aten::abs", t("aten::sub.Tensor", c.args[0], c.args[1]));
  if (edge == 0) return give_loss(c, t, static_cast<Value&&>(apart), c.integer(2));
  Value curve = t("aten::mul.Scalar", t("aten::mul.Tensor", apart, apart), huber ? 0.5 : 0.5 / edge);
  Value line = t("aten::mul.Scalar", t("aten::sub.Scalar", apart, 0.5 * edge), huber ? edge : 1.0);
  Value near = huber ? t("aten::le.Scalar", apart, edge) : t("aten::lt.Scalar", apart, edge);
  return give_loss(c, t, t("aten::where.self", near, curve, line), c.integer(2));
}

PEN_OP(binary_cross_entropy, "[out]",
       "aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean) -> Tensor") {
  Calls t(c);
  const Value &x = c.args[0], &y = c.args[1];
  Value bounds[2];
  t.all(bounds, "aten::aminmax", x);
  PEN_TRY(t.status);
  if (c.tensor(0).numel() > 0) {
    Value low, high;
    PEN_TRY(number_in(c, *bounds[0].tensor(), &low));
    PEN_TRY(number_in(c, *bounds[1].tensor(), &high));
    if (low.number() < 0 || high.number() > 1) return c.fail("probabilities from 0 to 1", "%g … %g", low.number(), high.number());
  }
  // Logarithms are cut at -100, as in torch.
  Value log_x = t("aten::clamp_min", t("aten::log", x), -100.0),
        log_rest = t("aten::clamp_min", t("aten::log1p", t("aten::neg", x)), -100.0);
  Value loss = t("aten::sub.Tensor", t("aten::mul.Tensor", t("aten::sub.Scalar", y, 1), log_rest), t("aten::mul.Tensor", y, log_x));
  if (c.given(2)) loss = t("aten::mul.Tensor", loss, c.args[2]);
  return give_loss(c, t, static_cast<Value&&>(loss), c.integer(3));
}
PEN_OP(binary_cross_entropy_with_logits, "[out]",
       "aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int "
       "reduction=Mean) -> Tensor") {
  Calls t(c);
  const Value &x = c.args[0], &y = c.args[1];
  // log(1 + e^-x) without overflow
  Value tail = t("aten::add.Tensor", t("aten::log1p", t("aten::exp", t("aten::neg", t("aten::abs", x)))),
                 t("aten::clamp_min", t("aten::neg", x), 0));
  if (c.given(3))
    tail = t("aten::mul.Tensor", t("aten::add.Scalar", t("aten::mul.Tensor", t("aten::sub.Scalar", c.args[3], 1), y), 1), tail);
  Value loss = t("aten::add.Tensor", t("aten::mul.Tensor", t("aten::rsub.Scalar", y, 1), x), tail);
  if (c.given(2)) loss = t("aten::mul.Tensor", loss, c.args[2]);
  return give_loss(c, t, static_cast<Value&&>(loss), c.integer(4));
}
PEN_OP(kl_div, "aten::kl_div(Tensor self, Tensor target, int reduction=Mean, *, bool log_target=False) -> Tensor") {
  Calls t(c);
  const Value &x = c.args[0], &y = c.args[1];
  Value loss = c.flag(3) ? t("aten::mul.Tensor", t("aten::exp", y), t("aten::sub.Tensor", y, x))
                         : t("aten::sub.Tensor", t("aten::xlogy.Tensor", y, y), t("aten::mul.Tensor", y, x));
  return give_loss(c, t, static_cast<Value&&>(loss), c.integer(2));
}
PEN_OP(poisson_nll_loss,
       "aten::poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor") {
  Calls t(c);
  const Value &x = c.args[0], &y = c.args[1];
  Value loss = c.flag(2) ? t("aten::sub.Tensor", t("aten::exp", x), t("aten::mul.Tensor", y, x))
                         : t("aten::sub.Tensor", x, t("aten::mul.Tensor", y, t("aten::log", t("aten::add.Scalar", x, c.number(4)))));
  if (c.flag(3)) {  // Stirling's formula, where the target is above 1
    Value term = t("aten::add.Tensor", t("aten::sub.Tensor", t("aten::mul.Tensor", y, t("aten::log", y)), y),
                   t("aten::mul.Scalar", t("aten::log", t("aten::mul.Scalar", y, 2 * 3.141592653589793)), 0.5));
    loss = t("aten::add.Tensor", loss, t("aten::masked_fill.Scalar", term, t("aten::le.Scalar", y, 1), 0));
  }
  return give_loss(c, t, static_cast<Value&&>(loss), c.integer(5));
}
PEN_OP(soft_margin_loss, "[out]", "aten::soft_margin_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor") {
  Calls t(c);
  Value loss = t("aten::log1p", t("aten::exp", t("aten::mul.Tensor", t("aten::neg", c.args[1]), c.args[0])));
  return give_loss(c, t, static_cast<Value&&>(loss), c.integer(2));
}
PEN_OP(margin_ranking_loss,
       "aten::margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=Mean) -> Tensor") {
  Calls t(c);
  Value apart = t("aten::sub.Tensor", c.args[0], c.args[1]);
  Value loss = t("aten::add.Scalar", t("aten::mul.Tensor", t("aten::neg", c.args[2]), apart), c.number(3));
  return give_loss(c, t, t("aten::clamp_min", loss, 0), c.integer(4));
}
PEN_OP(hinge_embedding_loss, "aten::hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int reduction=Mean) -> Tensor") {
  Calls t(c);
  const Value &x = c.args[0], &y = c.args[1];
  Value beyond = t("aten::clamp_min", t("aten::rsub.Scalar", x, c.number(2)), 0);
  Value apart = t("aten::masked_fill.Scalar", beyond, t("aten::eq.Scalar", y, 1), 0),
        same = t("aten::masked_fill.Scalar", x, t("aten::eq.Scalar", y, -1), 0);
  return give_loss(c, t, t("aten::add.Tensor", apart, same), c.integer(3));
}
PEN_OP(cosine_embedding_loss,
       "aten::cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=Mean) -> Tensor") {
  Calls t(c);
  constexpr double kEpsilon = 1e-12;
  const Value &a = c.args[0], &b = c.args[1], &y = c.args[2];
  int dim = c.tensor(2).rank();
  auto over = [&](const Value& x) { return t("aten::sum.dim_IntList", x, t.ints(dim)); };
  Value dot = over(t("aten::mul.Tensor", a, b)), aa = t("aten::add.Scalar", over(t("aten::mul.Tensor", a, a)), kEpsilon),
        bb = t("aten::add.Scalar", over(t("aten::mul.Tensor", b, b)), kEpsilon);
  Value cosine = t("aten::div.Tensor", dot, t("aten::sqrt", t("aten::mul.Tensor", aa, bb)));
  Value same = t("aten::rsub.Scalar", cosine, 1), apart = t("aten::clamp_min", t("aten::sub.Scalar", cosine, c.number(3)), 0);
  same = t("aten::masked_fill.Scalar", same, t("aten::ne.Scalar", y, 1), 0);
  apart = t("aten::masked_fill.Scalar", apart, t("aten::ne.Scalar", y, -1), 0);
  return give_loss(c, t, t("aten::add.Tensor", same, apart), c.integer(4));
}
PEN_OP(triplet_margin_loss,
       "aten::triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2.0, float eps=1e-06, bool "
       "swap=False, int reduction=Mean) -> Tensor") {
  Calls t(c);
  auto distance = [&](int a, int b) { return t("aten::pairwise_distance", c.args[a], c.args[b], c.number(4), c.number(5), false); };
  Value near = distance(0, 1), far = distance(0, 2);
  if (c.flag(6)) far = t("aten::minimum", far, distance(1, 2));
  return give_loss(c, t, t("aten::clamp_min", t("aten::add.Scalar", t("aten::sub.Tensor", near, far), c.number(3)), 0), c.integer(7));
}

}  // namespace pen
