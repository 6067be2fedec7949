// Packing and unpacking: quantized::*_prepack, *_unpack and what can be asked of packed parameters.
#include "penlight/ops/quantized/packed.h"

#include "penlight/runtime/file/model.h"

namespace pen {

// ---- attributes ----
static Status find(const Call& c, const Instance& object, const char* name, const Value** to) {
  *to = instance_attribute(&object, name);
  return *to ? PEN_OK : c.fail("packed parameters with their attributes", "none of the name %s", name);
}
Status packed_tensor(const Call& c, const Instance& object, const char* name, bool optional, const TensorObject** to) {
  const Value* v;
  PEN_TRY(find(c, object, name, &v));
  *to = nullptr;
  if (optional && v->is_none()) return PEN_OK;
  if (v->tag() != Tag::tensor) return c.fail("packed parameters of tensors", "%s as %s", v->tag_name(), name);
  *to = v->tensor();
  return PEN_OK;
}
Status packed_ints(const Call& c, const Instance& object, const char* name, int count, int64_t* to) {
  const Value* v;
  PEN_TRY(find(c, object, name, &v));
  bool fits = v->tag() == Tag::list && (v->list()->count == count || v->list()->count == 1);
  for (int i = 0; fits && i < count; ++i) {
    const Value& item = v->list()->items[v->list()->count == 1 ? 0 : i];
    fits = item.tag() == Tag::integer;
    if (fits) to[i] = item.integer();
  }
  return fits ? PEN_OK : c.fail("packed parameters with a number for each dimension", "another %s", name);
}
Status packed_int(const Call& c, const Instance& object, const char* name, int64_t* to) {
  const Value* v;
  PEN_TRY(find(c, object, name, &v));
  if (v->tag() != Tag::integer) return c.fail("packed parameters with ints", "%s as %s", v->tag_name(), name);
  *to = v->integer();
  return PEN_OK;
}
Status packed_flag(const Call& c, const Instance& object, const char* name, bool* to) {
  const Value* v;
  PEN_TRY(find(c, object, name, &v));
  if (v->tag() != Tag::boolean) return c.fail("packed parameters with bools", "%s as %s", v->tag_name(), name);
  *to = v->boolean();
  return PEN_OK;
}
Status packed_object(const Call& c, const Value& value, const char* type, Instance** to) {
  if (value.tag() != Tag::object) return c.fail("packed parameters", "%s", value.tag_name());
  *to = value.object();
  const char* name = (*to)->type_name ? (*to)->type_name : (*to)->type ? (*to)->type->name : "";
  return strcmp(name, type) == 0 ? PEN_OK : c.fail(type, "%s", name);
}
Status packed_object(const Call& c, int i, const char* type, Instance** to) { return packed_object(c, c.args[i], type, to); }

Status weights_of(const Call& c, const Instance& object, int axis, int64_t groups, Weights* w) {
  PEN_TRY(packed_tensor(c, object, "weight", false, &w->tensor));
  PEN_TRY(packed_tensor(c, object, "bias", true, &w->bias));
  return check_weights(c, axis, groups, w);
}
Status check_weights(const Call& c, int axis, int64_t groups, Weights* w) {
  const TensorObject& t = *w->tensor;
  if (!t.quantizer || t.dtype() != DType::i8 || axis >= t.rank())
    return c.fail("a weight of qint8", "%s of rank %d", t.quantizer ? dtype_name(t.dtype()) : "one that is not quantized", t.rank());
  w->axis = axis;
  if (mul_overflows(t.dim(axis), groups, &w->outputs)) return c.fail("a weight of less groups", "%lld", static_cast<long long>(groups));
  PEN_TRY(channels_fit(c, t));
  const Quantizer& q = *t.quantizer;
  if (q.axis >= 0 && (q.axis != axis || q.channels != w->outputs)) return c.fail("a scale for each output", "scales along dim %d", q.axis);
  for (int64_t i = 0; i < (q.axis < 0 ? 1 : q.channels); ++i) PEN_TRY(check_zero_point(c, w->zero(i), DType::i8));
  if (w->bias && (w->bias->dtype() != DType::f32 || w->bias->quantizer || w->bias->rank() != 1 || w->bias->dim(0) != w->outputs))
    return c.fail("a bias of f32, one for each output", "%s of %lld elements", dtype_name(w->bias->dtype()),
                  static_cast<long long>(w->bias->numel()));
  return PEN_OK;
}

// ---- making and taking apart ----
static const char* const kLinearFields[] = {"weight", "bias"};
static const char* const kConvFields[] = {"weight", "bias", "stride", "padding", "dilation", "output_padding", "groups", "transposed"};
static const ClassInfo kLinearClass = {kLinearParams, kLinearFields, 2};
static const ClassInfo kConv2dClass = {kConv2dParams, kConvFields, 8};
static const ClassInfo kConv3dClass = {kConv3dParams, kConvFields, 8};

static Status packable(const Call& c, int i) {
  const TensorObject& w = c.tensor(i);
  if (w.quantizer && w.dtype() == DType::i8) return channels_fit(c, w);
  return c.fail("a weight of qint8", "%s", w.quantizer ? dtype_name(w.dtype()) : "one that is not quantized");
}
PEN_OP(linear_prepack, "[quantized]",
       "quantized::linear_prepack(Tensor W, Tensor? B=None) -> __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack",
       "_quantized::linear_prepack(Tensor W, Tensor? B=None) -> __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack") {
  PEN_TRY(packable(c, 0));
  if (c.tensor(0).rank() != 2) return c.fail("a weight of rank 2", "rank %d", c.tensor(0).rank());
  Instance* made = instance_create(kLinearParams, &kLinearClass, 2);
  if (!made) return c.out_of_memory();
  made->slots[0] = c.args[0];
  made->slots[1] = c.args[1];
  return c.give(made);
}
// Numbers as f16 holds them; what is too large becomes its largest.
PEN_OP(linear_prepack_fp16,
       "quantized::linear_prepack_fp16(Tensor W, Tensor? B=None) -> __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack",
       "_quantized::linear_prepack_fp16(Tensor W, Tensor? B=None) -> __torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack") {
  const TensorObject& w = c.tensor(0);
  if (w.dtype() != DType::f32 || w.rank() != 2)
    return c.fail("a weight of f32 and rank 2", "%s of rank %d", dtype_name(w.dtype()), w.rank());
  Status status;
  Value limited = Value::own(tensor_clone(c, w, &status));
  PEN_TRY(status);
  float* x = limited.tensor()->as<float>();
  PEN_TRY(in_pieces(c, w.numel(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) x[i] = x[i] > 65504.0f ? 65504.0f : x[i] < -65504.0f ? -65504.0f : x[i];
  }));
  Value half = Value::own(tensor_cast(c, *limited.tensor(), DType::f16, &status));
  PEN_TRY(status);
  Value rounded = Value::own(tensor_cast(c, *half.tensor(), DType::f32, &status));
  PEN_TRY(status);
  Instance* made = instance_create(kLinearParams, &kLinearClass, 2);
  if (!made) return c.out_of_memory();
  made->slots[0] = rounded;
  made->slots[1] = c.args[1];
  return c.give(made);
}

static Status unpack(Call& c, const char* type) {
  Instance* object;
  PEN_TRY(packed_object(c, 0, type, &object));
  const TensorObject *weight, *bias;
  PEN_TRY(packed_tensor(c, *object, "weight", false, &weight));
  PEN_TRY(packed_tensor(c, *object, "bias", true, &bias));
  PEN_TRY(c.give(Value::share(const_cast<TensorObject*>(weight)), 0));
  return bias ? c.give(Value::share(const_cast<TensorObject*>(bias)), 1) : PEN_OK;
}
PEN_OP(
    linear_unpack,
    "quantized::linear_unpack(__torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack) -> (Tensor W_origin, Tensor? B_origin)",
    "quantized::linear_unpack_fp16(__torch__.torch.classes.quantized.LinearPackedParamsBase W_prepack) -> (Tensor W_origin, Tensor? "
    "B_origin)") {
  return unpack(c, kLinearParams);
}
PEN_OP(
    conv2d_unpack,
    "quantized::conv2d_unpack(__torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weights) -> (Tensor unpacked_weights, "
    "Tensor? "
    "B_origin)",
    "quantized::conv_unpack(__torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weights) -> (Tensor unpacked_weights, Tensor? "
    "B_origin)",
    "quantized::conv_transpose2d_unpack(__torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weights) -> (Tensor "
    "unpacked_weights, Tensor? B_origin)") {
  return unpack(c, kConv2dParams);
}
PEN_OP(conv3d_unpack,
       "quantized::conv3d_unpack(__torch__.torch.classes.quantized.Conv3dPackedParamsBase packed_weights) -> (Tensor unpacked_weights, "
       "Tensor? "
       "B_origin)",
       "quantized::conv_transpose3d_unpack(__torch__.torch.classes.quantized.Conv3dPackedParamsBase packed_weights) -> (Tensor "
       "unpacked_weights, Tensor? B_origin)") {
  return unpack(c, kConv3dParams);
}
// Packed as a convolution of height 1: the weight comes back without it.
PEN_OP(conv1d_unpack,
       "quantized::conv1d_unpack(__torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weights) -> (Tensor unpacked_weights, "
       "Tensor? "
       "B_origin)",
       "quantized::conv_transpose1d_unpack(__torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weights) -> (Tensor "
       "unpacked_weights, Tensor? B_origin)") {
  PEN_TRY(unpack(c, kConv2dParams));
  const TensorObject& w = *c.results[0].tensor();
  if (w.rank() != 4 || w.dim(2) != 1) return c.fail("the parameters of a convolution in one dimension", "a weight of rank %d", w.rank());
  int64_t dims[] = {w.dim(0), w.dim(1), w.dim(3)}, strides[] = {w.shape.strides[0], w.shape.strides[1], w.shape.strides[3]};
  return c.give(tensor_view(w, 3, dims, strides, w.offset));
}

// ints from argument i as a list of `rank`; a single one counts for all. conv1d: with `first` before it.
static Status int_list(const Call& c, int i, int rank, bool one_dimension, int64_t first, Value* to) {
  int64_t given[3];
  int count = c.given(i) ? c.ints(i, given, 3) : 0;
  int wanted = one_dimension ? 1 : rank;
  if (!c.given(i)) count = 1, given[0] = 0;
  if (count != wanted && count != 1 && !(one_dimension && count == 2)) return c.fail("a number for each dimension", "%d", count);
  *to = Value::own(list_create(rank));
  if (to->is_none()) return c.out_of_memory();
  for (int d = 0; d < rank; ++d) {
    int64_t v = one_dimension ? (d == 0 ? first : given[count - 1]) : given[count == 1 ? 0 : d];
    if (!list_append(to->list(), Value(v))) return c.out_of_memory();
  }
  return PEN_OK;
}
// weight, bias, stride, padding, [output_padding,] dilation, groups
static Status conv_prepack(Call& c, int rank, bool one_dimension, bool transposed) {
  PEN_TRY(packable(c, 0));
  const TensorObject& w = c.tensor(0);
  int weight_rank = one_dimension ? 3 : rank + 2, at = 4;
  if (w.rank() != weight_rank) return c.fail("a weight of two dims more than the convolution has", "rank %d", w.rank());
  Value object = Value::own(instance_create(rank == 3 ? kConv3dParams : kConv2dParams, rank == 3 ? &kConv3dClass : &kConv2dClass, 8));
  if (object.is_none()) return c.out_of_memory();
  Value* slots = object.object()->slots;
  slots[0] = c.args[0];
  if (one_dimension) {
    int64_t dims[] = {w.dim(0), w.dim(1), 1, w.dim(2)}, strides[] = {w.shape.strides[0], w.shape.strides[1], 0, w.shape.strides[2]};
    slots[0] = Value::own(tensor_view(w, 4, dims, strides, w.offset));
    if (slots[0].is_none()) return c.out_of_memory();
  }
  slots[1] = c.args[1];
  PEN_TRY(int_list(c, 2, rank, one_dimension, 1, &slots[2]));
  PEN_TRY(int_list(c, 3, rank, one_dimension, 0, &slots[3]));
  PEN_TRY(int_list(c, transposed ? at++ : 99, rank, one_dimension, 0, &slots[5]));
  PEN_TRY(int_list(c, at, rank, one_dimension, 1, &slots[4]));
  slots[6] = c.args[at + 1];
  slots[7] = Value(transposed);
  return c.give(static_cast<Value&&>(object));
}
PEN_OP(conv1d_prepack, "[quantized]",
       "quantized::conv1d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> "
       "__torch__.torch.classes.quantized.Conv2dPackedParamsBase") {
  return conv_prepack(c, 2, true, false);
}
PEN_OP(conv2d_prepack, "[quantized]",
       "quantized::conv2d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> "
       "__torch__.torch.classes.quantized.Conv2dPackedParamsBase",
       "quantized::conv_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> "
       "__torch__.torch.classes.quantized.Conv2dPackedParamsBase",
       "_quantized::conv2d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> "
       "__torch__.torch.classes.quantized.Conv2dPackedParamsBase") {
  return conv_prepack(c, 2, false, false);
}
PEN_OP(conv3d_prepack, "[quantized]",
       "quantized::conv3d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> "
       "__torch__.torch.classes.quantized.Conv3dPackedParamsBase") {
  return conv_prepack(c, 3, false, false);
}
PEN_OP(
    conv_transpose1d_prepack, "[quantized]",
    "quantized::conv_transpose1d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] output_padding, int[] dilation, "
    "int groups) -> __torch__.torch.classes.quantized.Conv2dPackedParamsBase",
    "_quantized::conv_transpose1d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] output_padding, int[] dilation, "
    "int groups) -> __torch__.torch.classes.quantized.Conv2dPackedParamsBase") {
  return conv_prepack(c, 2, true, true);
}
PEN_OP(
    conv_transpose2d_prepack, "[quantized]",
    "quantized::conv_transpose2d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] output_padding, int[] dilation, "
    "int groups) -> __torch__.torch.classes.quantized.Conv2dPackedParamsBase",
    "_quantized::conv_transpose2d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] output_padding, int[] dilation, "
    "int groups) -> __torch__.torch.classes.quantized.Conv2dPackedParamsBase") {
  return conv_prepack(c, 2, false, true);
}
PEN_OP(
    conv_transpose3d_prepack, "[quantized]",
    "quantized::conv_transpose3d_prepack(Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] output_padding, int[] dilation, "
    "int groups) -> __torch__.torch.classes.quantized.Conv3dPackedParamsBase") {
  return conv_prepack(c, 3, false, true);
}

}  // namespace pen
