// quantized::linear and its dynamic forms. Dynamic: x is real; its scale is chosen from its range in every call, as torch does,
// with all 256 levels (reduce_range is for engines whose sums saturate).
#include "penlight/ops/quantized/packed.h"
#include "penlight/runtime/vm/graph.h"

namespace pen {

static Status rows_of(const Call& c, const TensorObject& x, int64_t inputs, int64_t* rows) {
  if (x.rank() == 0 || x.dim(x.rank() - 1) != inputs)
    return c.fail("an input whose last dim is the weight's", "%lld, the weight has %lld",
                  static_cast<long long>(x.rank() ? x.dim(x.rank() - 1) : 0), static_cast<long long>(inputs));
  *rows = 1;
  for (int d = 0; d + 1 < x.rank(); ++d) *rows *= x.dim(d);
  return PEN_OK;
}
namespace {
// What both kinds of product share: weights, columns and the dims of the result.
struct LinearCall {
  Weights w;
  Columns columns;
  int64_t rows, dims[kMaxRank], tap;
};
}  // namespace
static Status begin(const Call& c, const Instance& object, const TensorObject& x, LinearCall* l) {
  PEN_TRY(weights_of(c, object, 0, 1, &l->w));
  const TensorObject& w = *l->w.tensor;
  if (w.rank() != 2) return c.fail("a weight of rank 2", "rank %d", w.rank());
  PEN_TRY(rows_of(c, x, w.dim(1), &l->rows));
  l->tap = 0;
  l->columns = {1, w.dim(0), w.dim(1), 1, 0, w.shape.strides[0], w.shape.strides[1], &l->tap, "quantized linear"};
  for (int d = 0; d < x.rank(); ++d) l->dims[d] = x.dim(d);
  l->dims[x.rank() - 1] = w.dim(0);
  return PEN_OK;
}
static Status product(const Call& c, LinearCall& l, const TensorObject& x, Affine a, Target target, TensorObject* y) {
  Value panels, numbers;
  ColumnNumbers n;
  bool real = y->dtype() == DType::f32;
  IntegerProduct p = {};
  PEN_TRY(panels_of(c, l.w, l.columns, &panels, &p.panels));
  PEN_TRY(column_numbers(c, l.w, l.columns, true, x.dtype(), a.scale, real ? 0.0 : target.scale, &numbers, &n));
  p.x = x.as<uint8_t>();
  p.x_signed = x.dtype() == DType::i8;
  p.x_zero = static_cast<int32_t>(a.zero);
  p.rows = l.rows, p.depth = l.columns.inputs, p.columns = l.columns.outputs, p.groups = 1;
  p.x_stride = p.depth;
  p.zeros = n.zeros, p.scale = n.scale, p.bias = n.bias, p.real_bias = n.real_bias;
  p.y_stride = p.columns;
  p.relu = target.relu;
  if (real) {
    p.y_real = y->as<float>();
  } else {
    Levels levels = levels_of(y->dtype());
    p.y = y->as<uint8_t>();
    p.y_zero = static_cast<int32_t>(target.zero);
    p.low = static_cast<int32_t>(target.relu ? target.zero : levels.low), p.high = static_cast<int32_t>(levels.high);
  }
  if (p.depth == 0) p.x_stride = 1;
  return run_product(c, &p);
}

Status linear_of(const Call& c, Instance* object, const TensorObject& x, Target target, Value* y) {
  LinearCall l;
  Affine a;
  PEN_TRY(affine_of(c, x, &a));
  if (x.dtype() == DType::i32) return c.fail("an input of quint8 or qint8", "qint32");
  PEN_TRY(check_zero_point(c, target.zero, x.dtype()));
  PEN_TRY(check_scale(c, target.scale));
  PEN_TRY(begin(c, *object, x, &l));
  Status status;
  Value dense = Value::own(ordered(c, x, Order::rows, &status));
  PEN_TRY(status);
  *y = Value::own(quantized_create(x.dtype(), x.rank(), l.dims, Order::rows, target.scale, target.zero));
  if (y->is_none()) return c.out_of_memory();
  return product(c, l, *dense.tensor(), a, target, y->tensor());
}

// f16 weights: they are f32 numbers here, and so is the product.
static Status linear_real(const Call& c, const Instance& object, const TensorObject& x, bool relu, Value* y) {
  const TensorObject *w, *bias;
  PEN_TRY(packed_tensor(c, object, "weight", false, &w));
  PEN_TRY(packed_tensor(c, object, "bias", true, &bias));
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

Status linear_dynamic_of(const Call& c, Instance* object, const TensorObject& x, bool relu, Value* y) {
  if (x.quantizer || x.dtype() != DType::f32)
    return c.fail("an input of f32", "%s", x.quantizer ? "a quantized one" : dtype_name(x.dtype()));
  const TensorObject* weight;
  PEN_TRY(packed_tensor(c, *object, "weight", false, &weight));
  if (!weight->quantizer) return linear_real(c, *object, x, relu, y);
  LinearCall l;
  PEN_TRY(begin(c, *object, x, &l));
  Status status;
  Value dense = Value::own(ordered(c, x, Order::rows, &status));
  PEN_TRY(status);
  float low, high;
  Affine a;
  smallest_and_largest(*dense.tensor(), &low, &high);
  if (!choose_scale(low, high, 0, 255, &a)) return c.fail("an input of numbers", "NaN");
  Value quantized = Value::own(quantized_from(c, *dense.tensor(), a.scale, a.zero, DType::u8, &status));
  PEN_TRY(status);
  *y = Value::own(tensor_create(DType::f32, x.rank(), l.dims));
  if (y->is_none()) return c.out_of_memory();
  return product(c, l, *quantized.tensor(), a, {0.0, 0, relu}, y->tensor());
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
  return linear_dynamic_of(c, object, c.tensor(0), relu, &c.results[0]);
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
