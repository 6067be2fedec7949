// What a model's VM code offers, as the C interface tells it: methods, operators that this library lacks, bundled inputs.
#include "penlight/runtime/vm/data.h"
#include "penlight/runtime/vm/op.h"
#include "penlight/runtime/vm/value_api.h"

using namespace pen;

extern "C" {

static const format::Function* function_at(const Model& model, int32_t index) {
  for (uint32_t i = 0; i < model.functions.count; ++i)
    if (model.functions[i].method != format::kNone && index-- == 0) return &model.functions[i];
  return nullptr;
}
int32_t pen_model_function_count(const pen_model* model) {
  int32_t count = 0;
  while (function_at(*model, count)) ++count;
  return count;
}
const char* pen_model_function_name(const pen_model* model, int32_t index) {
  const format::Function* f = function_at(*model, index);
  return f ? model->string(f->method) : nullptr;
}
const char* pen_model_function_schema(const pen_model* model, int32_t index) {
  const format::Function* f = function_at(*model, index);
  return f ? model->string(f->schema) : nullptr;
}
int32_t pen_model_function_default_count(const pen_model* model, int32_t index) {
  const format::Function* f = function_at(*model, index);
  return f ? static_cast<int32_t>(f->default_count) : 0;
}
const char* pen_model_missing_operator(const pen_model* model, int32_t index) {
  for (uint32_t i = 0; i < model->operators.count; ++i) {
    const char* name = model->string(model->operators[i].name);
    if (!find_operator(name) && index-- == 0) return name;
  }
  return nullptr;
}

int32_t pen_model_bundle_count(const pen_model* model) { return static_cast<int32_t>(model->bundles.count); }
pen_status pen_model_bundle(const pen_model* model, int32_t index, pen_bundle* out, pen_error* error) {
  *out = {};
  if (index < 0 || static_cast<uint32_t>(index) >= model->bundles.count)
    return report(error, PEN_ERROR_ARGUMENT, "bundled input", "an index of one", "another");
  const format::Bundle& b = model->bundles[static_cast<uint32_t>(index)];
  out->method = model->string(b.method);
  out->info = model->string(b.info);
  out->absolute = b.absolute;
  out->relative = b.relative;
  Account* account = account_create(0, model);  // the values keep the model
  Account* before = account_enter(account);
  bool made = account != nullptr;
  for (int part = 0; part < 2 && made; ++part) {
    uint32_t root = part ? b.outputs : b.args;
    Data data = {};
    if (root == format::kNone) continue;
    pen_value*& to = part ? out->outputs : out->args;
    if (data_create(&data, *model, root)) to = box(data.values[root]);
    data_destroy(&data);
    made = to != nullptr;
  }
  account_enter(before);
  account_release(account);
  if (made) return PEN_OK;
  pen_value_release(out->args);
  pen_value_release(out->outputs);
  *out = {};
  return report(error, PEN_ERROR_MEMORY, "bundled input", "memory", "none");
}

}  // extern "C"
