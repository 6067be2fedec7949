// fake_quantize: real numbers as quantizing and dequantizing leaves them, and which of them were within the levels.
#include "penlight/ops/quantized/quantized.h"

namespace pen {

// As many channels along `axis` as there are scales; axis -1: one scale.
static Status fake(Call& c, int axis, const double* scales, const double* zeros, int64_t low, int64_t high, bool with_mask) {
  const TensorObject& x = c.tensor(0);
  if (x.dtype() != DType::f32 || x.quantizer) return c.fail("a tensor of Float", "%s", dtype_name(x.dtype()));
  if (low > high)
    return c.fail("quant_min of quant_max at most", "%lld and %lld", static_cast<long long>(low), static_cast<long long>(high));
  Status status;
  Order order = axis < 0 ? order_of(x) : Order::rows;
  Value dense = Value::own(ordered(c, x, order, &status));
  PEN_TRY(status);
  Value made = Value::own(ordered_create(DType::f32, x.rank(), x.shape.dims, order));
  Value mask = with_mask ? Value::own(ordered_create(DType::boolean, x.rank(), x.shape.dims, order)) : Value();
  if (made.is_none() || (with_mask && mask.is_none())) return c.out_of_memory();
  int64_t inner = 1, channels = axis < 0 ? 1 : x.dim(axis);
  for (int d = axis + 1; axis >= 0 && d < x.rank(); ++d) inner *= x.dim(d);
  const float* from = dense.tensor()->as<float>();
  float* to = made.tensor()->as<float>();
  uint8_t* inside = with_mask ? mask.tensor()->as<uint8_t>() : nullptr;
  double least = static_cast<double>(low), most = static_cast<double>(high);
  PEN_TRY(in_parts(c, x.numel(), 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t k = axis < 0 ? 0 : i / inner % channels;
      float scale = static_cast<float>(scales[k]), inverse = 1.0f / scale, zero = static_cast<float>(zeros[k]);
      float level = nearbyintf(from[i] * inverse) + zero, least_f = static_cast<float>(least), most_f = static_cast<float>(most);
      if (inside) inside[i] = level >= least_f && level <= most_f;
      level = level > least_f ? level : least_f;
      level = level < most_f ? level : most_f;
      to[i] = (level - zero) * scale;
    }
  }));
  PEN_TRY(c.give(static_cast<Value&&>(made), 0));
  return with_mask ? c.give(static_cast<Value&&>(mask), 1) : PEN_OK;
}
static Status per_tensor(Call& c, bool with_mask) {
  double scale = c.number(1), zero = static_cast<double>(c.integer(2));
  if (c.integer(2) < c.integer(3) || c.integer(2) > c.integer(4))
    return c.fail("a zero point between quant_min and quant_max", "%lld", static_cast<long long>(c.integer(2)));
  return fake(c, -1, &scale, &zero, c.integer(3), c.integer(4), with_mask);
}
static Status per_channel(Call& c, bool with_mask) {
  const TensorObject& x = c.tensor(0);
  int axis;
  PEN_TRY(c.dim(3, x.rank(), &axis));
  if (x.rank() == 0) return c.fail("a tensor with channels", "rank 0");
  Status status;
  Value scales = Value::own(tensor_cast(c, c.tensor(1), DType::f64, &status));
  PEN_TRY(status);
  Value zeros = Value::own(tensor_cast(c, c.tensor(2), DType::f64, &status));
  PEN_TRY(status);
  if (c.tensor(1).rank() != 1 || c.tensor(2).rank() != 1 || c.tensor(1).dim(0) != x.dim(axis) || c.tensor(2).dim(0) != x.dim(axis))
    return c.fail("a scale and a zero point for each channel", "%lld", static_cast<long long>(c.tensor(1).numel()));
  return fake(c, axis, scales.tensor()->as<double>(), zeros.tensor()->as<double>(), c.integer(4), c.integer(5), with_mask);
}
PEN_OP(fake_quantize,
       "aten::fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> Tensor") {
  return per_tensor(c, false);
}
PEN_OP(fake_quantize_mask, "[out]",
       "aten::fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> (Tensor "
       "output, Tensor mask)") {
  return per_tensor(c, true);
}
PEN_OP(
    fake_quantize_qparams,
    "aten::fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max) -> "
    "Tensor") {
  Value scale, zero;
  PEN_TRY(number_in(c, c.tensor(1), &scale));
  PEN_TRY(number_in(c, c.tensor(2), &zero));
  double s = scale.number(), z = zero.number();
  return fake(c, -1, &s, &z, c.integer(3), c.integer(4), false);
}
PEN_OP(fake_quantize_channels,
       "aten::fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) -> "
       "Tensor") {
  return per_channel(c, false);
}
PEN_OP(fake_quantize_channels_mask, "[out]",
       "aten::fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int "
       "quant_max) -> (Tensor output, Tensor mask)") {
  return per_channel(c, true);
}

}  // namespace pen
