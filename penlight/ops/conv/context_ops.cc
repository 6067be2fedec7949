// Vulkan's other packed layers of the VM: norms and recurrent layers on objects that hold their weights (capture/lite/packed.py).
#include "penlight/runtime/vm/calls.h"

namespace pen {

static Status attribute(const Call& c, int arg, const char* name, Tag tag, bool optional, Value* to) {
  const Instance* object = c.args[arg].object();
  const Value* found = instance_attribute(object, name);
  *to = found ? *found : Value();
  if (to->tag() == tag || (optional && to->is_none())) return PEN_OK;
  return c.fail("packed weights with all their parts", "an object of class %s without \"%s\"", object->type_name ? object->type_name : "?",
                name);
}

PEN_OP(run_batchnorm_context, "vulkan_prepack::run_batchnorm_context(Tensor input_arg, object bn_context) -> Tensor") {
  static const char* const kNames[] = {"weight", "bias", "running_mean", "running_var"};
  Value parts[4], eps;
  for (int i = 0; i < 4; ++i) PEN_TRY(attribute(c, 1, kNames[i], Tag::tensor, true, &parts[i]));
  PEN_TRY(attribute(c, 1, "eps", Tag::real, false, &eps));
  Calls t(c);
  return t.give(c, t("aten::batch_norm", c.args[0], parts[0], parts[1], parts[2], parts[3], false, 0.1, eps, false));
}
PEN_OP(run_layernorm_context, "vulkan_prepack::run_layernorm_context(Tensor X, SymInt[] normalized_shape, object BW_prepack) -> Tensor") {
  Value weight, bias, eps;
  PEN_TRY(attribute(c, 2, "weight", Tag::tensor, true, &weight));
  PEN_TRY(attribute(c, 2, "bias", Tag::tensor, true, &bias));
  PEN_TRY(attribute(c, 2, "eps", Tag::real, false, &eps));
  Calls t(c);
  return t.give(c, t("aten::layer_norm", c.args[0], c.args[1], weight, bias, eps));
}

// The arguments of lstm.input and gru.input after the states.
static Status recurrent_parts(const Call& c, int arg, Value* parts) {
  static const struct {
    const char* name;
    Tag tag;
  } kParts[] = {{"params", Tag::list},   {"has_biases", Tag::boolean},    {"num_layers", Tag::integer}, {"dropout", Tag::real},
                {"train", Tag::boolean}, {"bidirectional", Tag::boolean}, {"batch_first", Tag::boolean}};
  for (int i = 0; i < 7; ++i) PEN_TRY(attribute(c, arg, kParts[i].name, kParts[i].tag, false, &parts[i]));
  return PEN_OK;
}
PEN_OP(run_gru_context,
       "vulkan_prepack::run_gru_context(Tensor input_vk, Tensor hx_vk, object GRU_prepack) -> (Tensor next_input, Tensor hidden_layer)") {
  Value p[7], made[2];
  PEN_TRY(recurrent_parts(c, 2, p));
  Calls t(c);
  t.all(made, "aten::gru.input", c.args[0], c.args[1], p[0], p[1], p[2], p[3], p[4], p[5], p[6]);
  for (int i = 0; i < 2; ++i) PEN_TRY(t.give(c, static_cast<Value&&>(made[i]), i));
  return PEN_OK;
}
PEN_OP(run_lstm_context,
       "vulkan_prepack::run_lstm_context(Tensor input_vk, Tensor hx_vk, Tensor cx_vk, object LSTM_prepack) -> (Tensor next_input, Tensor "
       "hidden_state, Tensor cell_state)") {
  Value p[7], made[3];
  PEN_TRY(recurrent_parts(c, 3, p));
  Calls t(c);
  Value states[2] = {c.args[1], c.args[2]};
  t.all(made, "aten::lstm.input", c.args[0], t.tensors(states, 2), p[0], p[1], p[2], p[3], p[4], p[5], p[6]);
  for (int i = 0; i < 3; ++i) PEN_TRY(t.give(c, static_cast<Value&&>(made[i]), i));
  return PEN_OK;
}

}  // namespace pen
