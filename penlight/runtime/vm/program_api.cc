// What a model's VM code offers, as the C interface tells it: methods, operators that this library lacks, bundled inputs.
#include "penlight/runtime/vm/data.h"
#include "penlight/runtime/vm/op.h"
#include "penlight/runtime/vm/value_api.h"

using namespace pen;

extern "C" {

static const format::Function* function_at(const Model& model, int32_t index) {
  bool there = index >= 0 && static_cast<uint32_t>(index) < model.entry_points.count;
  return there ? &model.functions[model.entry_points[static_cast<uint32_t>(index)]] : nullptr;
}
int32_t pen_model_function_count(const pen_model* model) {
  alive(model);
  return model ? static_cast<int32_t>(model->entry_points.count) : 0;
}
const char* pen_model_function_name(const pen_model* model, int32_t index) {
  alive(model);
  const format::Function* f = model ? function_at(*model, index) : nullptr;
  return f ? model->string(f->method) : nullptr;
}
const char* pen_model_function_schema(const pen_model* model, int32_t index) {
  alive(model);
  const format::Function* f = model ? function_at(*model, index) : nullptr;
  return f ? model->string(f->schema) : nullptr;
}
int32_t pen_model_function_default_count(const pen_model* model, int32_t index) {
  alive(model);
  const format::Function* f = model ? function_at(*model, index) : nullptr;
  return f ? static_cast<int32_t>(f->default_count) : 0;
}
const char* pen_model_missing_operator(const pen_model* model, int32_t index) {
  alive(model);
  if (!model || index < 0 || static_cast<uint32_t>(index) >= model->missing_operators.count) return nullptr;
  return model->string(model->operators[model->missing_operators[static_cast<uint32_t>(index)]].name);
}

int32_t pen_model_bundle_count(const pen_model* model) {
  alive(model);
  return model ? static_cast<int32_t>(model->bundles.count) : 0;
}
pen_status pen_model_bundle(const pen_model* model, int32_t index, pen_bundle* out, pen_error* error) {
  if (!out) return report(error, PEN_ERROR_ARGUMENT, "bundled input", "room for it", "NULL");
  *out = {};
  alive(model);
  if (!model || index < 0 || static_cast<uint32_t>(index) >= model->bundles.count)
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
