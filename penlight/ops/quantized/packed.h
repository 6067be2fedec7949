// Packed parameters of quantized operators: objects whose attributes are the plain weights (penlight/capture/lite/packed.py lists
// them). Weights as kernels read them are made at first use (filter.h) and kept by the machine (runtime/vm/packing.h).
#pragma once
#include "penlight/ops/quantized/quantized.h"

namespace pen {

constexpr const char* kLinearParams = "__torch__.torch.classes.quantized.LinearPackedParamsBase";
constexpr const char* kConv2dParams = "__torch__.torch.classes.quantized.Conv2dPackedParamsBase";
constexpr const char* kConv3dParams = "__torch__.torch.classes.quantized.Conv3dPackedParamsBase";
constexpr const char* kEmbeddingParams = "__torch__.torch.classes.quantized.EmbeddingPackedParamsBase";
constexpr const char* kCellParams = "__torch__.torch.classes.rnn.CellParamsBase";

// Attributes by name, of the kind asked for; an error in words otherwise.
Status packed_tensor(const Call& c, const Instance& object, const char* name, bool optional, const TensorObject** to);
Status packed_ints(const Call& c, const Instance& object, const char* name, int count, int64_t* to);
Status packed_int(const Call& c, const Instance& object, const char* name, int64_t* to);
Status packed_flag(const Call& c, const Instance& object, const char* name, bool* to);
// The object that argument i must be: of this class.
Status packed_object(const Call& c, int i, const char* type, Instance** to);
Status packed_object(const Call& c, const Value& value, const char* type, Instance** to);

// Weights of a quantized product: i8, one scale or one for each output channel.
struct Weights {
  const TensorObject* tensor;
  const TensorObject* bias;  // f32 [outputs] or null
  int64_t outputs;
  int axis;  // of the outputs
  PEN_INLINE double scale(int64_t output) const {
    return tensor->quantizer->axis < 0 ? tensor->quantizer->scale : tensor->quantizer->scales[output];
  }
  PEN_INLINE int64_t zero(int64_t output) const {
    return tensor->quantizer->axis < 0 ? tensor->quantizer->zero_point : tensor->quantizer->zero_points[output];
  }
};
// `axis`: the dim of the weight that its outputs lie along (of a grouped transposed convolution, outputs are groups times that).
Status weights_of(const Call& c, const Instance& object, int axis, int64_t groups, Weights* to);
// The same of tensors that are there, w->tensor and w->bias: fills the rest.
Status check_weights(const Call& c, int axis, int64_t groups, Weights* w);

// Results of a product of a quantized x: limits with or without relu.
struct Target {
  double scale;
  int64_t zero;
  bool relu;
};

Status linear_of(const Call& c, Instance* object, const TensorObject& x, Target target, Value* y);  // quantized x
// Of real x. reduce_range: levels 0 to 127.
Status linear_dynamic_of(const Call& c, const TensorObject& weight, const TensorObject* bias, const TensorObject& x, bool relu,
                         bool reduce_range, Value* y);

}  // namespace pen
