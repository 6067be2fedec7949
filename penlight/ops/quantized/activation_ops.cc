// Activations of quantized tensors: functions of the stored integer, so that eight bits need a table of 256 only. The formulas are
// qnnpack's for u8, in f32 and in its order.
#include "penlight/ops/quantized/quantized.h"

namespace pen {

// y = f(x) in real numbers, quantized anew. Where qnnpack has the function for u8, it adds the zero point before it rounds; torch's
// own loops, for everything else, after it.
enum class By { qnnpack, torch };
template <class F>
static Status apply(Call& c, By by, const TensorObject& x, double scale, int64_t zero, const F& f) {
  Affine a;
  PEN_TRY(affine_of(c, x, &a));
  PEN_TRY(check_zero_point(c, zero, x.dtype()));
  PEN_TRY(check_scale(c, scale));
  float inverse = 1.0f / static_cast<float>(scale), in_scale = static_cast<float>(a.scale), out_zero = static_cast<float>(zero);
  Requantize q(inverse, zero, x.dtype());
  bool qnnpack = by == By::qnnpack && x.dtype() == DType::u8;
  return map_stored(c, x, scale, zero, [=](int64_t v) {
    float y = f(in_scale * static_cast<float>(v - a.zero));
    return qnnpack ? limit(nearest(inverse * y + out_zero), Levels{0, 255}) : q(y);
  });
}
static Status apply_in_place(Call& c, By by, const TensorObject& x, float (*f)(float, float, float), float p, float r) {
  Affine a;
  PEN_TRY(affine_of(c, x, &a));
  return apply(c, by, x, a.scale, a.zero, [=](float v) { return f(v, p, r); });
}
// Limits in real numbers, taken on the integers.
static Status clamp(Call& c, const TensorObject& x, bool has_low, double low, bool has_high, double high) {
  Affine a;
  PEN_TRY(affine_of(c, x, &a));
  PEN_TRY(check_scale(c, a.scale));
  Levels l = levels_of(x.dtype());
  Quantize q(a.scale, a.zero, x.dtype());
  if (has_low) l.low = q.wide(static_cast<float>(low));
  if (has_high) l.high = q.wide(static_cast<float>(high));
  return map_stored(c, x, a.scale, a.zero, [=](int64_t v) {
    v = v > l.low ? v : l.low;
    return v < l.high ? v : l.high;
  });
}

PEN_QUANTIZED(relu, "aten::relu", "aten::relu_") {
  Affine a;
  PEN_TRY(affine_of(c, c.tensor(0), &a));
  return map_stored(c, c.tensor(0), a.scale, a.zero, [=](int64_t v) { return v < a.zero ? a.zero : v; });
}
static Status relu6(Call& c) {
  Affine a;
  PEN_TRY(affine_of(c, c.tensor(0), &a));
  PEN_TRY(check_scale(c, a.scale));
  int64_t six = Quantize(a.scale, a.zero, c.tensor(0).dtype()).wide(6.0f);
  return map_stored(c, c.tensor(0), a.scale, a.zero, [=](int64_t v) { return v < a.zero ? a.zero : v > six ? six : v; });
}
static Status clamp_to(Call& c) {
  bool low = c.given(1), high = c.given(2);
  if (!low && !high) return c.fail("a smallest or a largest number", "neither");
  return clamp(c, c.tensor(0), low, low ? c.number(1) : 0, high, high ? c.number(2) : 0);
}
PEN_QUANTIZED(hardtanh, "aten::hardtanh", "aten::hardtanh_") { return clamp(c, c.tensor(0), true, c.number(1), true, c.number(2)); }

// Output scales that torch fixes: the whole range of the function.
static Status sigmoid(Call& c, double scale, int64_t zero) {
  return apply(c, By::qnnpack, c.tensor(0), scale, zero, [](float x) { return 1.0f / (1.0f + expf(-x)); });
}
PEN_QUANTIZED(sigmoid, "aten::sigmoid", "aten::sigmoid_") {
  DType d = c.tensor(0).dtype();
  return sigmoid(c, d == DType::i32 ? 1.0 / 4294967296.0 : 1.0 / 256, d == DType::i8 ? -128 : 0);
}
PEN_QUANTIZED(hardsigmoid, "aten::hardsigmoid", "aten::hardsigmoid_") {
  DType d = c.tensor(0).dtype();
  return apply(c, By::qnnpack, c.tensor(0), d == DType::i32 ? 1.0 / 4294967296.0 : 1.0 / 256, d == DType::i8 ? -128 : 0, [](float x) {
    float y = x + 3.0f;
    y = y > 0.0f ? y : 0.0f;
    return (y < 6.0f ? y : 6.0f) / 6.0f;
  });
}
PEN_QUANTIZED(tanh, "aten::tanh", "aten::tanh_") {
  DType d = c.tensor(0).dtype();
  return apply(c, By::qnnpack, c.tensor(0), d == DType::i32 ? 1.0 / 2147483648.0 : 1.0 / 128, d == DType::u8 ? 128 : 0,
               [](float x) { return tanhf(x); });
}
static float hardswish(float x) {
  float y = x + 3.0f;
  y = y > 0.0f ? y : 0.0f;
  y = y < 6.0f ? y : 6.0f;
  return x * y / 6.0f;
}
PEN_QUANTIZED(hardswish, "aten::hardswish", "aten::hardswish_") {
  return apply_in_place(c, By::qnnpack, c.tensor(0), [](float x, float, float) { return hardswish(x); }, 0, 0);
}
PEN_QUANTIZED(leaky_relu, "aten::leaky_relu", "aten::leaky_relu_") {
  float slope = static_cast<float>(c.number(1));
  return apply_in_place(c, By::torch, c.tensor(0), [](float x, float p, float) { return x < 0.0f ? x * p : x; }, slope, 0);
}
static Status threshold(Call& c) {
  return apply_in_place(
      c, By::torch, c.tensor(0), [](float x, float p, float r) { return x > p ? x : r; }, static_cast<float>(c.number(1)),
      static_cast<float>(c.number(2)));
}
static Status elu(Call& c, double out_scale, int64_t out_zero, double alpha_, double scale_, double input_scale_) {
  float alpha = static_cast<float>(alpha_), scale = static_cast<float>(scale_), input_scale = static_cast<float>(input_scale_);
  return apply(c, By::torch, c.tensor(0), out_scale, out_zero,
               [=](float x) { return x >= 0.0f ? x * scale : expm1f(x * input_scale) * alpha * scale; });
}

PEN_QUANTIZED(relu6, "aten::relu6", "aten::relu6_") { return relu6(c); }
PEN_QUANTIZED(clamp, "aten::clamp", "aten::clamp_") { return clamp_to(c); }
PEN_QUANTIZED(clamp_min, "aten::clamp_min", "aten::clamp_min_") { return clamp(c, c.tensor(0), true, c.number(1), false, 0); }
PEN_QUANTIZED(clamp_max, "aten::clamp_max", "aten::clamp_max_") { return clamp(c, c.tensor(0), false, 0, true, c.number(1)); }
PEN_QUANTIZED(threshold, "aten::threshold", "aten::threshold_") { return threshold(c); }

PEN_OP(quantized_sigmoid_to, "[quantized]", "quantized::sigmoid(Tensor qx, float output_scale, int output_zero_point) -> Tensor") {
  return sigmoid(c, c.number(1), c.integer(2));
}
PEN_OP(quantized_hardswish_to, "[quantized]", "quantized::hardswish(Tensor input, float output_scale, int output_zero_point) -> Tensor") {
  return apply(c, By::qnnpack, c.tensor(0), c.number(1), c.integer(2), [](float x) { return hardswish(x); });
}
PEN_OP(quantized_leaky_relu_to, "[quantized]",
       "quantized::leaky_relu(Tensor qx, Scalar negative_slope, bool inplace, float output_scale, int output_zero_point) -> Tensor") {
  float slope = static_cast<float>(c.number(1));
  return apply(c, By::torch, c.tensor(0), c.number(3), c.integer(4), [=](float x) { return x < 0.0f ? x * slope : x; });
}
PEN_OP(quantized_elu_to, "[quantized]",
       "quantized::elu(Tensor self, float output_scale, int output_zero_point, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> "
       "Tensor") {
  return elu(c, c.number(1), c.integer(2), c.number(3), c.number(4), c.number(5));
}
PEN_OP(quantized_celu_to, "[quantized]",
       "quantized::celu(Tensor self, float output_scale, int output_zero_point, Scalar alpha=1) -> Tensor") {
  if (c.number(3) == 0) return c.fail("an alpha that is not 0", "0");
  return elu(c, c.number(1), c.integer(2), c.number(3), 1.0, 1.0 / c.number(3));
}
PEN_OP(quantized_relu6_to, "[quantized]", "quantized::relu6(Tensor qx, bool inplace=False) -> Tensor") { return relu6(c); }
PEN_OP(quantized_clamp_to, "[quantized]", "quantized::clamp(Tensor qx, Scalar? min=None, Scalar? max=None) -> Tensor qy") {
  return clamp_to(c);
}
PEN_OP(quantized_threshold_to, "[quantized]", "quantized::threshold(Tensor qx, Scalar threshold, Scalar value) -> Tensor qy") {
  return threshold(c);
}
// In inference nothing is dropped, and the scale stays.
PEN_OP(quantized_dropout, "[quantized]",
       "quantized::dropout(Tensor self, float output_scale, int output_zero_point, Scalar p=0.5, bool training=False) -> Tensor") {
  if (c.flag(4)) return c.fail("a model in inference", "training");
  return c.give(Value(c.args[0]));
}
}  // namespace pen
