// Activation functions. Those with numbers (leaky_relu's slope) have kernels for f32, which halves are computed in; for f64
// they are put together from arithmetic, as a kernel's numbers are f32.
#include "penlight/ops/elementwise/operands.h"

namespace pen {

PEN_OP(relu, "[in_place][out]", "aten::relu(Tensor self) -> Tensor") {
  if (c.tensor(0).dtype() == DType::boolean) return c.fail("a tensor of numbers", "one of bools");
  return give_kernel(c, "relu", c.tensor(0).dtype(), 1);
}

PEN_OP(float_activation, "[in_place][out]", "aten::{hardswish,hardsigmoid,silu,mish}(Tensor self) -> Tensor") {
  PEN_TRY(need_floats(c, 0));
  return give_kernel(c, KernelName(c), c.tensor(0).dtype(), 1);
}

PEN_OP(log_sigmoid, "aten::log_sigmoid(Tensor self) -> Tensor") {
  PEN_TRY(need_floats(c, 0));
  return give_kernel(c, "log_sigmoid", c.tensor(0).dtype(), 1);
}

PEN_OP(gelu, "[in_place][out]", "aten::gelu(Tensor self, *, str approximate='none') -> Tensor") {
  PEN_TRY(need_floats(c, 0));
  bool tanh = strcmp(c.text(1), "tanh") == 0;
  if (!tanh && strcmp(c.text(1), "none") != 0) return c.fail("approximate 'none' or 'tanh'", "'%s'", c.text(1));
  return give_kernel(c, tanh ? "gelu_tanh" : "gelu", c.tensor(0).dtype(), 1);
}

// The tensor as f32 or f64, a rule on it, and its dtype again.
template <class Rule>
static Status give_rule(Call& c, Rule rule) {
  PEN_TRY(need_floats(c, 0));
  DType dtype = c.tensor(0).dtype(), carrier = dtype == DType::f64 ? DType::f64 : DType::f32;
  Rows r(c);
  return r.give(r.cast(rule(r, r.cast(r.input(c.tensor(0)), carrier), carrier), dtype));
}
// x above zero, `below` elsewhere.
static int above_zero(Rows& r, DType d, int x, int above, int below) {
  return r.node("where", d, r.node("gt", d, x, r.number(0.0, d)), above, below);
}

PEN_OP(leaky_relu, "[in_place][out]", "aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor") {
  double slope = c.number(1);
  return give_rule(c, [&](Rows& r, int x, DType d) {
    if (d == DType::f32) return r.with(r.node("leaky_relu", d, x), slope);
    return above_zero(r, d, x, x, r.node("mul", d, x, r.number(slope, d)));
  });
}
PEN_OP(rrelu, "[in_place]",
       "aten::rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, Generator? generator=None) -> "
       "Tensor") {
  if (c.flag(3)) return c.fail("training=False: a model that runs, not one that learns", "training=True");
  double slope = (c.number(1) + c.number(2)) / 2;
  return give_rule(c, [&](Rows& r, int x, DType d) { return above_zero(r, d, x, x, r.node("mul", d, x, r.number(slope, d))); });
}

static Status give_elu(Call& c, double alpha, double scale, double input_scale) {
  return give_rule(c, [&](Rows& r, int x, DType d) {
    if (d == DType::f32) return r.with(r.node("elu", d, x), alpha, scale, input_scale);
    int curve = r.node("expm1", d, r.node("mul", d, x, r.number(input_scale, d)));
    return above_zero(r, d, x, r.node("mul", d, x, r.number(scale, d)), r.node("mul", d, curve, r.number(alpha * scale, d)));
  });
}
PEN_OP(elu, "[in_place][out]", "aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor") {
  return give_elu(c, c.number(1), c.number(2), c.number(3));
}
PEN_OP(selu, "aten::selu(Tensor self) -> Tensor", "aten::selu_(Tensor(a!) self) -> Tensor(a!)") {
  return give_elu(c, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1);
}
PEN_OP(celu, "[in_place]", "aten::celu(Tensor self, Scalar alpha=1.0) -> Tensor") {
  if (c.number(1) == 0) return c.raise("RuntimeError: ZeroDivisionError: alpha cannot be 0 for CELU");
  return give_elu(c, c.number(1), 1, 1 / c.number(1));
}

PEN_OP(softplus, "[out]", "aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor") {
  double beta = c.number(1), threshold = c.number(2);
  return give_rule(c, [&](Rows& r, int x, DType d) {
    if (d == DType::f32) return r.with(r.node("softplus", d, x), beta, threshold);
    int scaled = r.node("mul", d, x, r.number(beta, d));
    int curve = r.node("div", d, r.node("log1p", d, r.node("exp", d, scaled)), r.number(beta, d));
    return r.node("where", d, r.node("gt", d, scaled, r.number(threshold, d)), x, curve);
  });
}

PEN_OP(threshold, "[in_place][out]", "aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor") {
  DType dtype = c.tensor(0).dtype(), carrier;
  if (dtype == DType::boolean) return c.fail("a tensor of numbers", "one of bools");
  PEN_TRY(carrier_for(c, "where", dtype, &carrier));
  Rows r(c);
  int x = operand(r, c, 0, dtype, carrier), below = r.node("le", carrier, x, operand(r, c, 1, dtype, carrier));
  return r.give(r.cast(r.node("where", carrier, below, operand(r, c, 2, dtype, carrier), x), dtype));
}
PEN_OP(hardshrink, "[out]", "aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor") {
  double limit = c.number(1);
  return give_rule(c, [&](Rows& r, int x, DType d) {
    int near = r.node("le", d, r.node("abs", d, x), r.number(limit, d));
    return r.node("where", d, near, r.number(0.0, d), x);
  });
}
PEN_OP(softshrink, "[out]", "aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor") {
  double limit = c.number(1);
  if (limit < 0) return c.fail("a lambd of 0 or more", "%g", limit);
  return give_rule(c, [&](Rows& r, int x, DType d) {
    int lambd = r.number(limit, d), minus = r.number(-limit, d);
    int below = r.node("where", d, r.node("lt", d, x, minus), r.node("add", d, x, lambd), r.node("mul", d, x, r.number(0.0, d)));
    return r.node("where", d, r.node("gt", d, x, lambd), r.node("sub", d, x, lambd), below);
  });
}

// One slope, or one for each entry of dim 1.
PEN_OP(prelu, "aten::{prelu,_prelu_kernel}(Tensor self, Tensor weight) -> Tensor") {
  PEN_TRY(need_floats(c, 0));
  const TensorObject &x = c.tensor(0), &w = c.tensor(1);
  if (x.dtype() != w.dtype()) return c.fail("a weight of the tensor's dtype", "%s for %s", dtype_name(w.dtype()), dtype_name(x.dtype()));
  Tensor slopes = w.view();
  if (w.numel() != 1 && c.op->name[6] != '_') {
    if (w.rank() != 1 || x.rank() == 0)
      return c.fail("one slope, or one for each entry of dim 1", "rank %d for rank %d", w.rank(), x.rank());
    int64_t channels = x.rank() > 1 ? x.dim(1) : 1;
    if (w.dim(0) != channels)
      return c.fail("one slope, or one for each entry of dim 1", "%lld for %lld", static_cast<long long>(w.dim(0)),
                    static_cast<long long>(channels));
    slopes.rank = x.rank();
    for (int d = 0; d < x.rank(); ++d) slopes.dims[d] = slopes.strides[d] = 1;
    slopes.dims[1] = channels;
    slopes.strides[1] = w.shape.strides[0];
  } else if (c.op->name[6] != '_') {
    slopes.rank = 0;
  }
  DType dtype = x.dtype(), carrier = dtype == DType::f64 ? DType::f64 : DType::f32;
  Rows r(c);
  int in = r.cast(r.input(x), carrier), below = r.node("mul", carrier, in, r.cast(r.input(slopes), carrier));
  return r.give(r.cast(above_zero(r, carrier, in, in, below), dtype));
}

PEN_OP(glu, "[out]", "aten::glu(Tensor self, int dim=-1) -> Tensor") {
  PEN_TRY(need_floats(c, 0));
  const TensorObject& x = c.tensor(0);
  int dim;
  if (x.rank() == 0) return c.fail("a tensor with dims", "rank 0");
  PEN_TRY(c.dim(1, x.rank(), &dim));
  if (x.dim(dim) % 2) return c.fail("an even size to halve", "%lld", static_cast<long long>(x.dim(dim)));
  Tensor first = x.view(), second = first;
  first.dims[dim] = second.dims[dim] = x.dim(dim) / 2;
  second.data += first.dims[dim] * first.strides[dim] * dtype_size(x.dtype());
  DType dtype = x.dtype(), carrier = dtype == DType::f64 ? DType::f64 : DType::f32;
  Rows r(c);
  int gate = r.node("sigmoid", carrier, r.cast(r.input(second), carrier));
  return r.give(r.cast(r.node("mul", carrier, r.cast(r.input(first), carrier), gate), dtype));
}

}  // namespace pen
