// dropout and its relatives of the VM: the input itself outside of training, random zeros in it. The numbers are this runtime's
// own, not torch's.
#include "penlight/runtime/vm/calls.h"
#include "penlight/runtime/vm/flat.h"

namespace pen {

// True with probability 1 - p; of x's shape, or one for each channel of each row.
static Status keep_mask(const Call& c, const TensorObject& x, double p, bool features, Value* mask) {
  if (features && x.rank() < 2) return c.fail("an input of rank 2 or more", "rank %d", x.rank());
  Shape shape = shape_of(x);
  for (int d = 2; features && d < shape.rank; ++d) shape.dims[d] = 1;
  Value limit = Value::own(tensor_of(Value(p), DType::f32));
  if (limit.is_none()) return c.out_of_memory();
  Graph g(c);
  int random = g.node_of("random_uniform.f32", nullptr, 0);
  g.ints("shape", shape.dims, shape.rank).number("low", 0).number("high", 1).flag("open", false).integer("stream", 0);
  PEN_TRY(g.run(g.node("ge.f32", random, *limit.tensor())));
  *mask = Value::own(g.take(0));
  return PEN_OK;
}
static Status need_probability(const Call& c, double p) { return p >= 0 && p <= 1 ? PEN_OK : c.fail("a probability from 0 to 1", "%g", p); }

static Status drop(Call& c, bool features, bool alpha) {
  double p = c.number(1);
  PEN_TRY(need_probability(c, p));
  const TensorObject& x = c.tensor(0);
  if (!c.flag(2) || p == 0 || x.numel() == 0) return c.give(Value(c.args[0]));
  if (!is_floating(x.dtype())) return c.fail("floats", "%s", dtype_name(x.dtype()));
  Value mask;
  PEN_TRY(keep_mask(c, x, p, features, &mask));
  Calls t(c);
  mask = t("aten::to.dtype", mask, code_of_dtype(x.dtype()));
  if (!alpha) return t.give(c, t("aten::mul.Tensor", x, t("aten::mul.Scalar", mask, p < 1 ? 1 / (1 - p) : 0.0)));
  // What is dropped becomes selu's lower limit; then mean and variance are brought back.
  constexpr double kAlpha = 1.7580993408473766;
  if (p == 1) return t.give(c, t("aten::mul.Tensor", x, t("aten::mul.Scalar", mask, 0.0)));
  double a = 1 / __builtin_sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  Value rest = t("aten::add.Scalar", t("aten::mul.Scalar", t("aten::sub.Scalar", mask, 1), kAlpha * a), kAlpha * a * p);
  return t.give(c, t("aten::add.Tensor", t("aten::mul.Tensor", x, t("aten::mul.Scalar", mask, a)), rest));
}

PEN_OP(dropout, "[in_place][nhwc]", "aten::dropout(Tensor input, float p, bool train) -> Tensor") { return drop(c, false, false); }
PEN_OP(feature_dropout, "[in_place][nhwc]", "aten::feature_dropout(Tensor input, float p, bool train) -> Tensor") {
  return drop(c, true, false);
}
PEN_OP(alpha_dropout, "[in_place]", "aten::alpha_dropout(Tensor input, float p, bool train) -> Tensor") { return drop(c, false, true); }
PEN_OP(feature_alpha_dropout, "[in_place]", "aten::feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor") {
  return drop(c, true, true);
}

PEN_OP(native_dropout, "[out]", "aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)") {
  double p = c.number(1);
  PEN_TRY(need_probability(c, p));
  const TensorObject& x = c.tensor(0);
  Calls t(c);
  if (c.given(2) && !c.flag(2)) {
    PEN_TRY(t.give(c, t("aten::clone", x)));
    return t.give(c, t("aten::ones_like", x, code_of_dtype(DType::boolean)), 1);
  }
  if (!is_floating(x.dtype())) return c.fail("floats", "%s", dtype_name(x.dtype()));
  Value mask;
  PEN_TRY(keep_mask(c, x, p, false, &mask));
  Value scaled = t("aten::mul.Scalar", t("aten::to.dtype", mask, code_of_dtype(x.dtype())), p < 1 ? 1 / (1 - p) : 0.0);
  PEN_TRY(t.give(c, t("aten::mul.Tensor", x, scaled)));
  return c.give(static_cast<Value&&>(mask), 1);
}

}  // namespace pen
