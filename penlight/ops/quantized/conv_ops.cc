// quantized::conv1d … conv_transpose3d over the integer kernels of conv2d and conv3d. Results lie channels-last, as torch's do.
#include "penlight/ops/conv/windows.h"
#include "penlight/ops/quantized/filter.h"

namespace pen {

namespace {
// A convolution of two or three sides: depth, height, width.
struct ConvCall {
  Filter f;
  int64_t in[3], out[3], stride[3], pad[3], dilation[3];
};
}  // namespace

static Status conv_shape(const Call& c, const Instance& object, const TensorObject& x, bool transposed, ConvCall* v) {
  const TensorObject* weight;
  PEN_TRY(packed_tensor(c, object, "weight", false, &weight));
  int sides = weight->rank() - 2;
  if (sides < 2 || sides > 3) return c.fail("a weight of rank 4 or 5", "rank %d", weight->rank());
  if (x.rank() != sides + 2) return c.fail("an input of the weight's rank", "rank %d, the weight has %d", x.rank(), weight->rank());
  int64_t stride[3], padding[3], dilation[3], output_padding[3], groups;
  bool is_transposed;
  PEN_TRY(packed_ints(c, object, "stride", sides, stride));
  PEN_TRY(packed_ints(c, object, "padding", sides, padding));
  PEN_TRY(packed_ints(c, object, "dilation", sides, dilation));
  PEN_TRY(packed_ints(c, object, "output_padding", sides, output_padding));
  PEN_TRY(packed_int(c, object, "groups", &groups));
  PEN_TRY(packed_flag(c, object, "transposed", &is_transposed));
  if (is_transposed != transposed)
    return c.fail(transposed ? "parameters of a transposed convolution" : "parameters of a convolution", "others");
  if (groups < 1 || groups > x.dim(1)) return c.fail("a group at least, and a channel for each", "%lld", static_cast<long long>(groups));
  PEN_TRY(weights_of(c, object, transposed ? 1 : 0, transposed ? groups : 1, &v->f.w));
  PEN_TRY(filter_of(c, sides, groups, transposed, &v->f));
  if (x.dim(1) % groups != 0 || v->f.inputs != x.dim(1) / groups || weight->dim(0) % groups != 0)
    return c.fail("as many channels as the weight's groups take", "%lld for %lld groups of %lld", static_cast<long long>(x.dim(1)),
                  static_cast<long long>(groups), static_cast<long long>(v->f.inputs));
  constexpr int64_t kMost = int64_t{1} << 31;
  for (int side = 0; side < 3; ++side) {
    int d = side - (3 - sides);
    v->in[side] = v->out[side] = v->stride[side] = v->dilation[side] = 1;
    v->pad[side] = 0;
    if (d < 0) continue;
    int64_t size = v->in[side] = x.dim(2 + d), kernel = v->f.kernel[side];
    v->stride[side] = stride[d], v->pad[side] = padding[d], v->dilation[side] = dilation[d];
    bool sane = size > 0 && size < kMost && kernel > 0 && kernel < kMost && stride[d] > 0 && stride[d] < kMost && dilation[d] > 0 &&
                dilation[d] < kMost && padding[d] >= 0 && padding[d] < kMost && output_padding[d] >= 0 && output_padding[d] < kMost;
    if (!sane) return c.fail("sizes, stride, padding and dilation that make sense", "others in dimension %d", d);
    WindowSide w = {size, kernel, stride[d], dilation[d], padding[d], padding[d] - output_padding[d] * transposed};
    v->out[side] = transposed ? transposed_size(w) : window_count(w);
    if (v->out[side] <= 0) return c.fail("an input as large as the kernel", "%lld in dimension %d", static_cast<long long>(size), d);
  }
  return PEN_OK;
}

// The map of which a transposed convolution is a plain one of stride 1: the pixels of x a stride apart, zero points around them. Dense, as
// x.
static Status spread_pixels(const Call& c, const TensorObject& x, int64_t zero, ConvCall* v, Value* to) {
  int64_t size[3], before[3], dims[5] = {x.dim(0), 0, 0, 0, x.dim(1)}, channels = x.dim(1);
  for (int side = 0; side < 3; ++side) {
    int64_t reach = (v->f.kernel[side] - 1) * v->dilation[side];
    if (add_overflows(v->out[side], reach, &size[side])) return c.out_of_memory();
    dims[1 + side] = size[side];
    before[side] = reach - v->pad[side];
  }
  *to = Value::own(tensor_create(DType::u8, 5, dims));
  if (to->is_none()) return c.out_of_memory();
  uint8_t* map = to->tensor()->as<uint8_t>();
  const uint8_t* from = x.as<uint8_t>();
  memset(map, static_cast<int>(zero), static_cast<size_t>(to->tensor()->numel()));
  auto inside = [&](int side, int64_t at) { return at >= 0 && at < size[side]; };
  for (int64_t n = 0; n < x.dim(0); ++n)
    for (int64_t z = 0; z < v->in[0]; ++z)
      for (int64_t y = 0; y < v->in[1]; ++y) {
        PEN_TRY(c.walk(v->in[2] * channels));
        for (int64_t k = 0; k < v->in[2]; ++k, from += channels) {
          int64_t at[3] = {z * v->stride[0] + before[0], y * v->stride[1] + before[1], k * v->stride[2] + before[2]};
          if (!inside(0, at[0]) || !inside(1, at[1]) || !inside(2, at[2])) continue;
          memcpy(map + (((n * size[0] + at[0]) * size[1] + at[1]) * size[2] + at[2]) * channels, from, static_cast<size_t>(channels));
        }
      }
  for (int side = 0; side < 3; ++side) v->in[side] = size[side], v->stride[side] = 1, v->pad[side] = 0;
  return PEN_OK;
}

static Status conv_of(const Call& c, Instance* object, const TensorObject& x, bool transposed, Target target, Value* y) {
  ConvCall v;
  Affine a;
  PEN_TRY(affine_of(c, x, &a));
  PEN_TRY(check_zero_point(c, target.zero, x.dtype()));
  PEN_TRY(check_scale(c, target.scale));
  PEN_TRY(conv_shape(c, *object, x, transposed, &v));
  const Filter& f = v.f;
  Value pixels, given;
  FilterValues values;
  PEN_TRY(bytes_of(c, x, Order::channels, &pixels, &a));
  PEN_TRY(pack_filter(c, f, x.dtype(), a, target.scale, &values));
  if (transposed) {
    given.swap(pixels);
    PEN_TRY(spread_pixels(c, *given.tensor(), a.zero, &v, &pixels));
  }
  if (f.doubled) {
    given.swap(pixels);
    PEN_TRY(doubled_rows(c, f, *given.tensor(), &pixels));
  }
  const int sides = f.sides, first = 3 - sides;
  Tensor map = x.shape;
  map.dtype = DType::u8;
  map.data = pixels.tensor()->data();
  map.dims[1] *= f.doubled ? 2 : 1;
  int64_t step = map.strides[1] = 1, padding[6];
  step = map.dims[1];
  for (int side = 2; side >= first; --side) {
    int d = 2 + side - first;
    map.dims[d] = v.in[side];
    map.strides[d] = step;
    step *= v.in[side];
    padding[side - first] = padding[side - first + sides] = v.pad[side];
  }
  map.strides[0] = step;
  Graph g(c);
  int in = g.input(map), weights = add_filter(&g, f, values);
  g.quantized(in, a.scale, a.zero);
  const char* key = f.depthwise() ? "conv2d.q8.depthwise" : sides == 3 ? "conv3d.q8.gemm" : "conv2d.q8.gemm";
  int made = g.node(key, in, weights, *values.columns.tensor(), -1);
  g.ints("stride", v.stride + first, sides).ints("padding", padding, 2 * sides).ints("dilation", v.dilation + first, sides);
  g.integer("groups", f.groups);
  add_limits(&g, target.relu);
  g.quantized(made, target.scale, byte_zero(x.dtype(), target.zero));
  g.channels(made);
  PEN_TRY(g.run(made));
  *y = Value::own(g.take(0));
  return from_bytes(c, x.dtype(), Order::channels, target.scale, target.zero, y);
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
