// Activation functions that are not one rule with torch's own arguments: those with a choice of rules, with numbers of their own,
// with a check, or of parts of the tensor.
#include "penlight/ops/elementwise/operands.h"

namespace pen {

// A rule for floats, with these attributes.
static Status give_floats(Call& c, const char* kernel, double first = 0, double second = 0, double third = 0) {
  PEN_TRY(need_floats(c, 0));
  DType dtype = c.tensor(0).dtype(), carrier;
  PEN_TRY(carrier_for(c, kernel, dtype, &carrier));
  Rows r(c);
  return r.give(r.cast(r.with(r.node(kernel, carrier, r.cast(r.input(c.tensor(0)), carrier)), first, second, third), dtype));
}

PEN_OP(gelu, "[in_place][out][nhwc]", "aten::gelu(Tensor self, *, str approximate='none') -> Tensor") {
  bool tanh = strcmp(c.text(1), "tanh") == 0;
  if (!tanh && strcmp(c.text(1), "none") != 0) return c.fail("approximate 'none' or 'tanh'", "'%s'", c.text(1));
  return give_floats(c, tanh ? "gelu_tanh" : "gelu");
}

PEN_OP(rrelu, "[in_place][nhwc]",
       "aten::rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, Generator? generator=None) -> "
       "Tensor") {
  if (c.flag(3)) return c.fail("training=False: a model that runs, not one that learns", "training=True");
  return give_floats(c, "leaky_relu", (c.number(1) + c.number(2)) / 2);
}

PEN_OP(selu, "[in_place][nhwc]", "aten::selu(Tensor self) -> Tensor") {
  return give_floats(c, "elu", 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1);
}
PEN_OP(celu, "[in_place][out][nhwc]", "aten::celu(Tensor self, Scalar alpha=1.0) -> Tensor") {
  if (c.number(1) == 0) return c.raise("RuntimeError: ZeroDivisionError: alpha cannot be 0 for CELU");
  return give_floats(c, "elu", c.number(1), 1, 1 / c.number(1));
}

PEN_OP(softshrink, "[out][nhwc]", "aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor") {
  if (c.number(1) < 0) return c.fail("a lambd of 0 or more", "%g", c.number(1));
  return give_floats(c, "softshrink", c.number(1));
}

// One slope, or one for each entry of dim 1.
PEN_OP(prelu, "aten::{prelu,_prelu_kernel}(Tensor self, Tensor weight) -> Tensor") {
  PEN_TRY(need_floats(c, 0));
  const TensorObject &x = c.tensor(0), &w = c.tensor(1);
  if (x.dtype() != w.dtype()) return c.fail("a weight of the tensor's dtype", "%s for %s", dtype_name(w.dtype()), dtype_name(x.dtype()));
  Tensor slopes = w.view();
  if (w.numel() != 1 && c.word() == 0) {
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
  } else if (c.word() == 0) {
    slopes.rank = 0;
  }
  DType dtype = x.dtype(), carrier = dtype == DType::f64 ? DType::f64 : DType::f32;
  Rows r(c);
  int in = r.cast(r.input(x), carrier);
  return r.give(r.cast(r.node("prelu", carrier, in, r.cast(r.input(slopes), carrier)), dtype));
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
