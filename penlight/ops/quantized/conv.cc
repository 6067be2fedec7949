// quantized::conv1d … conv_transpose3d: products of gathered rows (product.h), or depthwise. Results lie channels-last, as torch's do.
#include "penlight/ops/conv/windows.h"
#include "penlight/ops/quantized/packed.h"

namespace pen {

namespace {
// A convolution in up to three dimensions; missing ones have size 1.
struct ConvCall {
  Weights w;
  Columns columns;
  Gather gather;
  int rank;  // of the convolution
  int64_t batch, groups, outputs;
};
}  // namespace

static Status conv_shape(const Call& c, const Instance& object, const TensorObject& x, bool transposed, ConvCall* v) {
  const TensorObject* weight;
  PEN_TRY(packed_tensor(c, object, "weight", false, &weight));
  int rank = v->rank = weight->rank() - 2;
  if (rank < 1 || rank > 3) return c.fail("a weight of rank 3, 4 or 5", "rank %d", weight->rank());
  if (x.rank() != rank + 2) return c.fail("an input of the weight's rank", "rank %d, the weight has %d", x.rank(), weight->rank());
  int64_t stride[3], padding[3], dilation[3], output_padding[3];
  bool is_transposed;
  PEN_TRY(packed_ints(c, object, "stride", rank, stride));
  PEN_TRY(packed_ints(c, object, "padding", rank, padding));
  PEN_TRY(packed_ints(c, object, "dilation", rank, dilation));
  PEN_TRY(packed_ints(c, object, "output_padding", rank, output_padding));
  PEN_TRY(packed_int(c, object, "groups", &v->groups));
  PEN_TRY(packed_flag(c, object, "transposed", &is_transposed));
  if (is_transposed != transposed)
    return c.fail(transposed ? "parameters of a transposed convolution" : "parameters of a convolution", "others");
  if (v->groups < 1 || v->groups > x.dim(1))
    return c.fail("a group at least, and a channel for each", "%lld", static_cast<long long>(v->groups));
  PEN_TRY(weights_of(c, object, transposed ? 1 : 0, transposed ? v->groups : 1, &v->w));
  int64_t inputs = transposed ? weight->dim(0) / v->groups : weight->dim(1);
  v->outputs = transposed ? weight->dim(1) : weight->dim(0) / v->groups;
  if (inputs * v->groups != x.dim(1) || weight->dim(0) % v->groups != 0)
    return c.fail("as many channels as the weight's groups take", "%lld for %lld groups of %lld", static_cast<long long>(x.dim(1)),
                  static_cast<long long>(v->groups), static_cast<long long>(inputs));
  Gather& g = v->gather;
  g.channels = x.dim(1);
  g.transposed = transposed;
  v->batch = x.dim(0);
  int64_t taps = 1;
  constexpr int64_t kMost = int64_t{1} << 31;
  for (int side = 0; side < 3; ++side) {
    int d = side - (3 - rank);
    if (d < 0) {
      g.in[side] = g.out[side] = g.kernel[side] = g.stride[side] = g.dilation[side] = 1;
      g.pad[side] = 0;
      continue;
    }
    g.in[side] = x.dim(2 + d), g.kernel[side] = weight->dim(2 + d);
    g.stride[side] = stride[d], g.pad[side] = padding[d], g.dilation[side] = dilation[d];
    bool sane = g.in[side] > 0 && g.in[side] < kMost && g.kernel[side] > 0 && g.kernel[side] < kMost && stride[d] > 0 &&
                stride[d] < kMost && dilation[d] > 0 && dilation[d] < kMost && padding[d] >= 0 && padding[d] < kMost &&
                output_padding[d] >= 0 && output_padding[d] < kMost;
    if (!sane) return c.fail("sizes, stride, padding and dilation that make sense", "others in dimension %d", d);
    WindowSide w = {g.in[side], g.kernel[side], stride[d], dilation[d], padding[d], padding[d] - output_padding[d] * transposed};
    g.out[side] = transposed ? transposed_size(w) : window_count(w);
    if (g.out[side] <= 0) return c.fail("an input as large as the kernel", "%lld in dimension %d", static_cast<long long>(g.in[side]), d);
    if (mul_overflows(taps, g.kernel[side], &taps)) return c.out_of_memory();
  }
  return PEN_OK;
}

// Where the taps of a weight lie, in elements, one after the other as rows are gathered.
static Status tap_offsets(const Call& c, const ConvCall& v, Value* keep) {
  const TensorObject& w = *v.w.tensor;
  const Gather& g = v.gather;
  int64_t taps = g.kernel[0] * g.kernel[1] * g.kernel[2], steps[3] = {0, 0, 0}, at = 0;
  for (int d = 0; d < v.rank; ++d) steps[3 - v.rank + d] = w.shape.strides[2 + d];
  *keep = Value::own(tensor_create(DType::i64, 1, &taps));
  if (keep->is_none()) return c.out_of_memory();
  int64_t* to = keep->tensor()->as<int64_t>();
  for (int64_t z = 0; z < g.kernel[0]; ++z)
    for (int64_t y = 0; y < g.kernel[1]; ++y)
      for (int64_t x = 0; x < g.kernel[2]; ++x) to[at++] = z * steps[0] + y * steps[1] + x * steps[2];
  return PEN_OK;
}

static Status conv_of(const Call& c, Instance* object, const TensorObject& x, bool transposed, Target target, Value* y) {
  ConvCall v;
  Affine a;
  PEN_TRY(affine_of(c, x, &a));
  if (x.dtype() == DType::i32) return c.fail("an input of quint8 or qint8", "qint32");
  PEN_TRY(check_zero_point(c, target.zero, x.dtype()));
  PEN_TRY(check_scale(c, target.scale));
  PEN_TRY(conv_shape(c, *object, x, transposed, &v));
  const TensorObject& w = *v.w.tensor;
  const Gather& g = v.gather;
  Value offsets;
  PEN_TRY(tap_offsets(c, v, &offsets));
  int out_dim = transposed ? 1 : 0;
  v.columns = {v.groups,
               v.outputs,
               g.channels / v.groups,
               g.kernel[0] * g.kernel[1] * g.kernel[2],
               w.shape.strides[0] * (transposed ? g.channels / v.groups : v.outputs),
               w.shape.strides[out_dim],
               w.shape.strides[1 - out_dim],
               offsets.tensor()->as<int64_t>(),
               transposed ? "quantized conv_transpose" : "quantized conv"};
  if (v.batch > 0 && g.channels == 0) return c.fail("a channel at least", "0");
  Status status;
  Value dense = Value::own(ordered(c, x, x.rank() == 3 ? Order::rows : Order::channels, &status));
  PEN_TRY(status);
  int64_t dims[5] = {v.batch, v.outputs * v.groups, 0, 0, 0};
  for (int d = 0; d < v.rank; ++d) dims[2 + d] = g.out[3 - v.rank + d];
  *y = Value::own(quantized_create(x.dtype(), x.rank(), dims, Order::channels, target.scale, target.zero));
  if (y->is_none()) return c.out_of_memory();
  Levels levels = levels_of(x.dtype());
  int32_t low = static_cast<int32_t>(target.relu ? target.zero : levels.low), high = static_cast<int32_t>(levels.high);
  bool depthwise = v.columns.inputs == 1 && v.outputs == 1 && v.groups > 1;
  Value packed, numbers;
  ColumnNumbers n;
  PEN_TRY(column_numbers(c, v.w, v.columns, !depthwise, x.dtype(), a.scale, target.scale, &numbers, &n));
  const uint8_t* from = dense.tensor()->as<uint8_t>();
  if (depthwise) {
    Depthwise p = {};
    PEN_TRY(depthwise_of(c, v.w, v.columns, &packed, &p.weights));
    p.x = from, p.x_signed = x.dtype() == DType::i8, p.x_zero = static_cast<int32_t>(a.zero);
    p.batch = v.batch, p.gather = g;
    p.scale = n.scale, p.bias = n.bias;
    p.y = y->tensor()->as<uint8_t>();
    p.y_zero = static_cast<int32_t>(target.zero), p.low = low, p.high = high;
    return run_depthwise(c, p);
  }
  IntegerProduct p = {};
  PEN_TRY(panels_of(c, v.w, v.columns, &packed, &p.panels));
  p.x = from, p.x_signed = x.dtype() == DType::i8, p.x_zero = static_cast<int32_t>(a.zero);
  p.rows = v.batch * g.out[0] * g.out[1] * g.out[2];
  p.depth = v.columns.inputs * v.columns.taps, p.columns = v.outputs, p.groups = v.groups;
  bool pointwise = v.columns.taps == 1;
  for (int side = 0; side < 3; ++side) pointwise &= g.stride[side] == 1 && g.pad[side] == 0 && g.in[side] == g.out[side];
  p.x_stride = pointwise ? g.channels : 0;
  p.gather = g;
  p.zeros = n.zeros, p.scale = n.scale, p.bias = n.bias;
  p.y = y->tensor()->as<uint8_t>(), p.y_stride = v.outputs * v.groups;
  p.y_zero = static_cast<int32_t>(target.zero), p.low = low, p.high = high;
  return run_product(c, &p);
}

static Status conv(Call& c, const char* type, int scale_at, bool transposed, bool relu) {
  Instance* object;
  PEN_TRY(packed_object(c, 1, type, &object));
  const TensorObject& x = c.tensor(0);
  return conv_of(c, object, x, transposed, {c.number(scale_at), c.integer(scale_at + 1), relu}, &c.results[0]);
}
// In one dimension: a map of height 1 on the way in and out.
static Status conv1d(Call& c, bool transposed, bool relu) {
  Instance* object;
  PEN_TRY(packed_object(c, 1, kConv2dParams, &object));
  const TensorObject& x = c.tensor(0);
  if (x.rank() != 3) return c.fail("an input of rank 3", "rank %d", x.rank());
  int64_t dims[] = {x.dim(0), x.dim(1), 1, x.dim(2)}, strides[] = {x.shape.strides[0], x.shape.strides[1], 0, x.shape.strides[2]};
  Value map = Value::own(tensor_view(x, 4, dims, strides, x.offset)), made;
  if (map.is_none()) return c.out_of_memory();
  PEN_TRY(conv_of(c, object, *map.tensor(), transposed, {c.number(2), c.integer(3), relu}, &made));
  const TensorObject& y = *made.tensor();
  int64_t row[] = {y.dim(0), y.dim(1), y.dim(3)}, steps[] = {y.shape.strides[0], y.shape.strides[1], y.shape.strides[3]};
  return c.give(tensor_view(y, 3, row, steps, y.offset));
}

PEN_OP(quantized_conv1d, "[quantized]",
       "quantized::conv1d(Tensor qx, __torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weight, float output_scale, int "
       "output_zero_point) -> Tensor") {
  return conv1d(c, false, false);
}
PEN_OP(quantized_conv1d_relu, "[quantized]",
       "quantized::conv1d_relu(Tensor qx, __torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weight, float output_scale, int "
       "output_zero_point) -> Tensor") {
  return conv1d(c, false, true);
}
PEN_OP(quantized_conv_transpose1d, "[quantized]",
       "quantized::conv_transpose1d(Tensor qx, __torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weight, float output_scale, "
       "int output_zero_point) -> Tensor") {
  return conv1d(c, true, false);
}
PEN_OP(quantized_conv2d_new, "[quantized]",
       "quantized::conv2d.new(Tensor qx, __torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weight, float output_scale, int "
       "output_zero_point) -> Tensor",
       "_quantized::conv2d(Tensor qx, __torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weight, float output_scale, int "
       "output_zero_point) -> Tensor") {
  return conv(c, kConv2dParams, 2, false, false);
}
PEN_OP(
    quantized_conv2d_relu_new, "[quantized]",
    "quantized::conv2d_relu.new(Tensor qx, __torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weight, float output_scale, int "
    "output_zero_point) -> Tensor",
    "_quantized::conv2d_relu(Tensor qx, __torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weight, float output_scale, int "
    "output_zero_point) -> Tensor") {
  return conv(c, kConv2dParams, 2, false, true);
}
PEN_OP(quantized_conv2d, "[quantized]",
       "quantized::conv2d(Tensor qx, __torch__.torch.classes.quantized.Conv2dPackedParamsBase weight, int[] stride, int[] padding, int[] "
       "dilation, int groups, float output_scale, int output_zero_point) -> Tensor") {
  return conv(c, kConv2dParams, 6, false, false);
}
PEN_OP(
    quantized_conv2d_relu, "[quantized]",
    "quantized::conv2d_relu(Tensor qx, __torch__.torch.classes.quantized.Conv2dPackedParamsBase weight, int[] stride, int[] padding, int[] "
    "dilation, int groups, float output_scale, int output_zero_point) -> Tensor") {
  return conv(c, kConv2dParams, 6, false, true);
}
PEN_OP(quantized_conv_transpose2d, "[quantized]",
       "quantized::conv_transpose2d(Tensor qx, __torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weight, float output_scale, "
       "int output_zero_point) -> Tensor") {
  return conv(c, kConv2dParams, 2, true, false);
}
PEN_OP(quantized_conv3d_new, "[quantized]",
       "quantized::conv3d.new(Tensor qx, __torch__.torch.classes.quantized.Conv3dPackedParamsBase packed_weight, float output_scale, int "
       "output_zero_point) -> Tensor") {
  return conv(c, kConv3dParams, 2, false, false);
}
PEN_OP(
    quantized_conv3d_relu_new, "[quantized]",
    "quantized::conv3d_relu.new(Tensor qx, __torch__.torch.classes.quantized.Conv3dPackedParamsBase packed_weight, float output_scale, int "
    "output_zero_point) -> Tensor") {
  return conv(c, kConv3dParams, 2, false, true);
}
PEN_OP(quantized_conv3d, "[quantized]",
       "quantized::conv3d(Tensor qx, __torch__.torch.classes.quantized.Conv3dPackedParamsBase weight, int[] stride, int[] padding, int[] "
       "dilation, int groups, float output_scale, int output_zero_point) -> Tensor") {
  return conv(c, kConv3dParams, 6, false, false);
}
PEN_OP(
    quantized_conv3d_relu, "[quantized]",
    "quantized::conv3d_relu(Tensor qx, __torch__.torch.classes.quantized.Conv3dPackedParamsBase weight, int[] stride, int[] padding, int[] "
    "dilation, int groups, float output_scale, int output_zero_point) -> Tensor") {
  return conv(c, kConv3dParams, 6, false, true);
}
PEN_OP(quantized_conv_transpose3d, "[quantized]",
       "quantized::conv_transpose3d(Tensor qx, __torch__.torch.classes.quantized.Conv3dPackedParamsBase packed_weight, float output_scale, "
       "int output_zero_point) -> Tensor") {
  return conv(c, kConv3dParams, 2, true, false);
}

}  // namespace pen
