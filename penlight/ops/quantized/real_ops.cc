// Normalization and softmax of quantized tensors. No integer kernel has them: they are computed in real numbers and quantized again, as
// planned code does it. So are products of the few tensors that matmul's integer kernel does not take.
#include "penlight/ops/quantized/quantized.h"
#include "penlight/runtime/vm/calls.h"
#include "penlight/runtime/vm/graph.h"

namespace pen {

// Argument i in real numbers.
static Value real_of(const Call& c, int i, Calls* t) {
  Affine a;
  if (t->status == PEN_OK) t->status = affine_of(c, c.tensor(i), &a);
  return t->status == PEN_OK ? Value::own(dequantized(c, c.tensor(i), &t->status)) : Value();
}
// Quantizes what was computed, by the scale and the zero point that the call has at `scale_at`.
static Status give_quantized(Call& c, const Calls& t, const Value& real, int scale_at, Order order) {
  PEN_TRY(t.status);
  PEN_TRY(check_scale(c, c.number(scale_at)));
  Status status;
  Value made = Value::own(quantized_from(c, *real.tensor(), c.number(scale_at), c.integer(scale_at + 1), c.tensor(0).dtype(), &status));
  PEN_TRY(status);
  Value lying = Value::own(ordered(c, *made.tensor(), order, &status));
  return status == PEN_OK ? c.give(static_cast<Value&&>(lying)) : status;
}

static Status batch_norm(Call& c, bool relu) {
  const TensorObject& x = c.tensor(0);
  if (x.rank() < 2) return c.fail("an input of batch, channels and sides", "rank %d", x.rank());
  Calls t(c);
  Value y = t("aten::batch_norm", real_of(c, 0, &t), c.args[1], c.args[2], c.args[3], c.args[4], false, 0.0, c.number(5), false);
  if (relu) y = t("aten::relu", y);
  return give_quantized(c, t, y, 6, x.rank() > 3 ? Order::channels : Order::rows);  // as torch has it, whatever the input
}
PEN_OP(quantized_batch_norm, "[quantized]",
       "quantized::{batch_norm,batch_norm1d,batch_norm2d,batch_norm3d}(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, "
       "float eps, float output_scale, int output_zero_point) -> Tensor",
       "[out]aten::quantized_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, float "
       "output_scale, int output_zero_point) -> Tensor") {
  return batch_norm(c, false);
}
PEN_OP(quantized_batch_norm_relu, "[quantized]",
       "quantized::{batch_norm_relu,batch_norm1d_relu,batch_norm2d_relu,batch_norm3d_relu}(Tensor qx, Tensor? weight, Tensor? bias, Tensor "
       "mean, Tensor var, float eps, float output_scale, int output_zero_point) -> Tensor") {
  return batch_norm(c, true);
}
PEN_OP(quantized_layer_norm, "[quantized]",
       "quantized::layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps, float output_scale, int "
       "output_zero_point) -> Tensor") {
  Calls t(c);
  Value y = t("aten::layer_norm", real_of(c, 0, &t), c.args[1], c.args[2], c.args[3], c.number(4), false);
  return give_quantized(c, t, y, 5, Order::rows);
}
static Status group_norm(Call& c, int64_t groups, int weight_at) {
  Calls t(c);
  Value y = t("aten::group_norm", real_of(c, 0, &t), groups, c.args[weight_at], c.args[weight_at + 1], c.number(weight_at + 2), false);
  return give_quantized(c, t, y, weight_at + 3, order_of(c.tensor(0)));
}
PEN_OP(quantized_group_norm, "[quantized]",
       "quantized::group_norm(Tensor input, int num_groups, Tensor? weight, Tensor? bias, float eps, float output_scale, int "
       "output_zero_point) -> Tensor") {
  return group_norm(c, c.integer(1), 2);
}
PEN_OP(quantized_instance_norm, "[quantized]",
       "quantized::instance_norm(Tensor input, Tensor? weight, Tensor? bias, float eps, float output_scale, int output_zero_point) -> "
       "Tensor") {
  return group_norm(c, c.tensor(0).rank() > 1 ? c.tensor(0).dim(1) : 1, 1);
}
PEN_OP(quantized_softmax, "[quantized]", "quantized::softmax(Tensor qx, int dim, float output_scale, int output_zero_point) -> Tensor") {
  Calls t(c);
  Value y = t("aten::softmax.int", real_of(c, 0, &t), c.integer(1), Value());
  return give_quantized(c, t, y, 2, Order::rows);
}
constexpr int64_t kMatmulDepth = INT32_MAX / (255 * 255);  // whose sums fit 32 bits, whatever the zero points
static Status product(Call& c, const TensorObject& a, const TensorObject& b) {
  Value bytes[2];
  Affine left, right;
  PEN_TRY(bytes_of(c, a, Order::rows, &bytes[0], &left));
  PEN_TRY(bytes_of(c, b, Order::rows, &bytes[1], &right));
  PEN_TRY(check_zero_point(c, c.integer(3), a.dtype()));
  PEN_TRY(check_scale(c, c.number(2)));
  Graph g(c);
  int x = g.input(*bytes[0].tensor()), y = g.input(*bytes[1].tensor());
  g.quantized(x, left.scale, left.zero);
  g.quantized(y, right.scale, right.zero);
  int made = g.node("matmul.q8", x, y);
  g.quantized(made, c.number(2), byte_zero(a.dtype(), c.integer(3)));
  PEN_TRY(g.run(made));
  Value result = Value::own(g.take(0));
  PEN_TRY(from_bytes(c, a.dtype(), Order::rows, c.number(2), c.integer(3), &result));
  return c.give(static_cast<Value&&>(result));
}
PEN_OP(quantized_matmul, "[quantized]", "quantized::matmul(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc") {
  const TensorObject &a = c.tensor(0), &b = c.tensor(1);
  if (a.dtype() != b.dtype() || a.dtype() == DType::i32)
    return c.fail("operands of quint8 or of qint8", "%s and %s", dtype_name(a.dtype()), dtype_name(b.dtype()));
  const int64_t depth = a.rank() > 1 && b.rank() > 1 ? a.dim(a.rank() - 1) : -1;
  if (depth >= 0 && depth <= kMatmulDepth && depth == b.dim(b.rank() - 2)) return product(c, a, b);
  Calls t(c);
  Value left = real_of(c, 0, &t), right = real_of(c, 1, &t);
  return give_quantized(c, t, t("aten::matmul", left, right), 2, Order::rows);
}
PEN_OP(quantized_prelu, "[quantized]", "quantized::prelu(Tensor qx, Tensor weight, float output_scale, int output_zero_point) -> Tensor") {
  Calls t(c);
  Value x = real_of(c, 0, &t), slopes = c.tensor(1).quantizer ? real_of(c, 1, &t) : c.args[1];
  return give_quantized(c, t, t("aten::prelu", x, slopes), 2, order_of(c.tensor(0)));
}

}  // namespace pen
