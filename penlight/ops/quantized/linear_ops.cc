// quantized::linear and its dynamic forms. Dynamic: x is real; its scale is chosen from its range in every call, as torch does.
// reduce_range asks for 7 bits, and gets them, as in fbgemm; qnnpack does not listen, and capture takes it out of its models
// (capture/script/levels.py).
#include "penlight/ops/quantized/filter.h"

namespace pen {

static Status rows_of(const Call& c, const TensorObject& x, int64_t inputs, int64_t* rows) {
  if (x.rank() == 0 || x.dim(x.rank() - 1) != inputs)
    return c.fail("an input whose last dim is the weight's", "%lld, the weight has %lld",
                  static_cast<long long>(x.rank() ? x.dim(x.rank() - 1) : 0), static_cast<long long>(inputs));
  *rows = 1;
  for (int d = 0; d + 1 < x.rank(); ++d) *rows *= x.dim(d);
  return PEN_OK;
}
// weights_of has filled f->w.
static Status filter_of(const Call& c, const TensorObject& x, Filter* f) {
  const TensorObject& w = *f->w.tensor;
  if (w.rank() != 2) return c.fail("a weight of rank 2", "rank %d", w.rank());
  int64_t rows;
  PEN_TRY(rows_of(c, x, w.dim(1), &rows));
  return filter_of(c, 0, 1, false, f);
}
// What lies in *dense, x row after row, as the weight takes it.
static Status operand(const Call& c, const Filter& f, const TensorObject& x, Value* dense, Tensor* to) {
  *to = x.shape;
  to->dtype = dense->tensor()->dtype();
  if (f.doubled) {
    Value once = *dense;
    PEN_TRY(doubled_rows(c, f, *once.tensor(), dense));
    to->dims[to->rank - 1] *= 2;
  }
  row_major_strides(to->rank, to->dims, to->strides);
  to->data = dense->tensor()->data();
  return PEN_OK;
}

Status linear_of(const Call& c, Instance* object, const TensorObject& x, Target target, Value* y) {
  Filter f;
  Affine a;
  Value dense;
  PEN_TRY(bytes_of(c, x, Order::rows, &dense, &a));
  PEN_TRY(check_zero_point(c, target.zero, x.dtype()));
  PEN_TRY(check_scale(c, target.scale));
  PEN_TRY(weights_of(c, *object, 0, 1, &f.w));
  PEN_TRY(filter_of(c, x, &f));
  FilterValues values;
  Tensor rows;
  PEN_TRY(pack_filter(c, f, x.dtype(), a, target.scale, &values));
  PEN_TRY(operand(c, f, x, &dense, &rows));
  Graph g(c);
  int in = g.input(rows), weights = add_filter(&g, f, values);
  g.quantized(in, a.scale, a.zero);
  int made = g.node("linear.q8", in, weights, *values.columns.tensor(), -1);
  add_limits(&g, target.relu);
  g.quantized(made, target.scale, byte_zero(x.dtype(), target.zero));
  PEN_TRY(g.run(made));
  *y = Value::own(g.take(0));
  return from_bytes(c, x.dtype(), Order::rows, target.scale, target.zero, y);
}

// f16 weights: they are f32 numbers here, and so is the product.
static Status linear_real(const Call& c, const TensorObject* w, const TensorObject* bias, const TensorObject& x, bool relu, Value* y) {
  int64_t rows;
  if (w->dtype() != DType::f32 || w->quantizer || w->rank() != 2)
    return c.fail("a weight of f32 and rank 2", "%s of rank %d", dtype_name(w->dtype()), w->rank());
  if (bias && (bias->dtype() != DType::f32 || bias->rank() != 1 || bias->dim(0) != w->dim(0)))
    return c.fail("a bias of f32, one for each output", "%lld elements", static_cast<long long>(bias->numel()));
  PEN_TRY(rows_of(c, x, w->dim(1), &rows));
  Status status;
  Value dense = Value::own(ordered(c, x, Order::rows, &status));
  PEN_TRY(status);
  int64_t flat[] = {rows, w->dim(1)}, steps[] = {w->dim(1), 1};
  Value matrix = Value::own(tensor_view(*dense.tensor(), 2, flat, steps, dense.tensor()->offset));
  int64_t turned[] = {w->dim(1), w->dim(0)}, turned_steps[] = {w->shape.strides[1], w->shape.strides[0]};
  Value right = Value::own(tensor_view(*w, 2, turned, turned_steps, w->offset));
  if (matrix.is_none() || right.is_none()) return c.out_of_memory();
  Graph g(c);
  int made = g.node("matmul.f32", *matrix.tensor(), *right.tensor());
  if (bias) made = g.node("add.f32", made, *bias);
  if (relu) made = g.node("relu.f32", made);
  PEN_TRY(g.run(made));
  Value product = Value::own(g.take(0));
  if (product.is_none()) return c.out_of_memory();
  int64_t dims[kMaxRank], strides[kMaxRank];
  for (int d = 0; d < x.rank(); ++d) dims[d] = x.dim(d);
  dims[x.rank() - 1] = w->dim(0);
  row_major_strides(x.rank(), dims, strides);
  *y = Value::own(tensor_view(*product.tensor(), x.rank(), dims, strides, product.tensor()->offset));
  return y->is_none() ? c.out_of_memory() : PEN_OK;
}

Status linear_dynamic_of(const Call& c, const TensorObject& weight, const TensorObject* bias, const TensorObject& x, bool relu,
                         bool reduce_range, Value* y) {
  if (x.quantizer || x.dtype() != DType::f32)
    return c.fail("an input of f32", "%s", x.quantizer ? "a quantized one" : dtype_name(x.dtype()));
  Filter f;
  f.w.tensor = &weight;
  f.w.bias = bias;
  PEN_TRY(check_weights(c, 0, 1, &f.w));
  PEN_TRY(filter_of(c, x, &f));
  Status status;
  Value dense = Value::own(ordered(c, x, Order::rows, &status));
  PEN_TRY(status);
  FilterValues values;
  Tensor rows;
  PEN_TRY(pack_filter(c, f, DType::u8, {1.0, 0}, 0.0, &values));  // in steps: the scale of x comes in the run
  PEN_TRY(operand(c, f, x, &dense, &rows));
  Graph g(c);
  int in = g.node("quantize_dynamic.f32", rows);
  g.integer("high", reduce_range ? 127 : 255).text("rule", "torch").number("eps", 0.0);
  g.quantized(in, 1.0, 0);
  int step = g.output(), columns = g.node("columns_dynamic.i32", *values.columns.tensor(), step, -1);
  g.integer("groups", 1).integer("zero", 0);
  int made = g.node("linear.q8", in, add_filter(&g, f, values), columns, -1);
  add_limits(&g, relu);
  PEN_TRY(g.run(made));
  *y = Value::own(g.take(0));
  return y->is_none() ? c.out_of_memory() : PEN_OK;
}

// ---- operators ----
static Status linear(Call& c, bool relu) {
  Instance* object;
  PEN_TRY(packed_object(c, 1, kLinearParams, &object));
  return linear_of(c, object, c.tensor(0), {c.number(2), c.integer(3), relu}, &c.results[0]);
}
PEN_OP(
    quantized_linear, "[quantized]",
    "quantized::linear(Tensor X, __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack, float Y_scale_i, int Y_zero_point_i) "
    "-> Tensor Y",
    "_quantized::linear(Tensor X, __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack, float Y_scale_i, int "
    "Y_zero_point_i) -> Tensor Y") {
  return linear(c, false);
}
PEN_OP(quantized_linear_relu, "[quantized]",
       "quantized::linear_relu(Tensor X, __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack, float Y_scale_i, int "
       "Y_zero_point_i) -> Tensor Y") {
  return linear(c, true);
}
static Status dynamic(Call& c, bool relu) {
  Instance* object;
  PEN_TRY(packed_object(c, 1, kLinearParams, &object));
  const TensorObject *weight, *bias, &x = c.tensor(0);
  PEN_TRY(packed_tensor(c, *object, "weight", false, &weight));
  PEN_TRY(packed_tensor(c, *object, "bias", true, &bias));
  if (!weight->quantizer && !x.quantizer && x.dtype() == DType::f32) return linear_real(c, weight, bias, x, relu, &c.results[0]);
  return linear_dynamic_of(c, *weight, bias, x, relu, c.given(2) && c.flag(2), &c.results[0]);
}
PEN_OP(
    linear_dynamic,
    "quantized::linear_dynamic(Tensor X, __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack, bool reduce_range=False) -> "
    "Tensor Y",
    "_quantized::linear_dynamic(Tensor X, __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack, bool reduce_range=False) -> "
    "Tensor Y",
    "quantized::linear_dynamic_fp16(Tensor X, __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack) -> Tensor Y") {
  return dynamic(c, false);
}
PEN_OP(linear_relu_dynamic,
       "quantized::linear_relu_dynamic(Tensor X, __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack, bool "
       "reduce_range=False) -> Tensor Y",
       "quantized::linear_relu_dynamic_fp16(Tensor X, __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack) -> Tensor Y") {
  return dynamic(c, true);
}

}  // namespace pen
