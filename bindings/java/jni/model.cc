// Native.java's functions over models: what a file holds, and the specs of its methods' containers.
#include "bindings/java/jni/jvm.h"
#include "penlight/runtime/include/penlight_spec.hpp"

using namespace pen::java;

namespace {

int64_t opened(env e, pen_status status, pen_model* model, const pen_error& error) {
  if (status != PEN_OK) raise(e, error);
  return status == PEN_OK ? handle(model) : 0;
}

bool read_spec(env e, const pen_model* model, const char* method, bool inputs, penlight::Spec& spec) {
  bool fine = inputs ? spec.read_inputs(pen_model_input_spec(model, method), pen_model_input_count(model, method))
                     : spec.read_outputs(pen_model_output_spec(model, method), pen_model_output_count(model, method));
  if (fine) return true;
  pen_error error = {};
  error.status = PEN_ERROR_FORMAT;
  snprintf(error.message, sizeof error.message, "method %s: %s", method, spec.error());
  raise(e, error);
  return false;
}

constexpr int kFields = 9;  // Spec.java: FIELDS

array spec_numbers(env e, const penlight::Spec& spec) {
  array numbers = e->NewLongArray(static_cast<int32_t>(kFields * spec.count()));
  for (uint32_t i = 0; numbers && i < spec.count(); ++i) {
    const penlight::SpecNode& n = spec[i];
    int64_t number;
    __builtin_memcpy(&number, &n.number, sizeof number);
    int64_t fields[kFields] = {static_cast<int64_t>(n.kind),
                               static_cast<int64_t>(n.key_kind),
                               n.count,
                               n.end,
                               n.tensor,
                               n.imaginary,
                               n.integer,
                               number,
                               n.key_integer};
    e->SetLongArrayRegion(numbers, static_cast<int32_t>(kFields * i), kFields, fields);
  }
  return numbers;
}

array spec_texts(env e, const penlight::Spec& spec, bool keys) {
  array made = texts(e, static_cast<int32_t>(spec.count()));
  for (uint32_t i = 0; made && i < spec.count(); ++i) {
    const penlight::SpecNode& n = spec[i];
    if (!put(e, made, static_cast<int32_t>(i), keys ? text(e, n.key, n.key_bytes) : text(e, n.text, n.text_bytes))) return nullptr;
  }
  return made;
}

array spec_arguments(env e, const penlight::Spec& spec, bool inputs) {
  int32_t count = 0;
  while (inputs && spec.argument(static_cast<uint32_t>(count))) ++count;
  array made = e->NewIntArray(count);
  for (int32_t i = 0; made && i < count; ++i) {
    int32_t part = static_cast<int32_t>(spec.argument(static_cast<uint32_t>(i)));
    e->SetIntArrayRegion(made, i, 1, &part);
  }
  return made;
}

}  // namespace

PEN_JAVA(array, version) { return text(e, pen_version()); }

PEN_JAVA(array, vulkanProblem) {
  pen_error why = {};
  return pen_vulkan_available(&why) ? nullptr : text(e, why.message);
}

PEN_JAVA(int64_t, openPath, array path, int32_t flags) {
  Text name(e, path);
  if (!name) return 0;
  pen_model* model = nullptr;
  pen_error error = {};
  pen_status status = pen_model_open(name, static_cast<uint32_t>(flags), &model, &error);
  return opened(e, status, model, error);
}

PEN_JAVA(int64_t, openMemory, object bytes, int32_t flags) {
  void* data = room(e, bytes, 0, 1);
  if (!data) return 0;
  pen_model* model = nullptr;
  pen_error error = {};
  size_t size = static_cast<size_t>(e->GetDirectBufferCapacity(bytes));
  pen_status status = pen_model_open_memory(data, size, static_cast<uint32_t>(flags), &model, &error);
  return opened(e, status, model, error);
}

PEN_JAVA(int64_t, openDescriptor, int32_t descriptor, int64_t offset, int64_t size, int32_t flags) {
  pen_model* model = nullptr;
  pen_error error = {};
  pen_status status = pen_model_open_fd(descriptor, static_cast<uint64_t>(offset), static_cast<uint64_t>(size),
                                        static_cast<uint32_t>(flags), &model, &error);
  return opened(e, status, model, error);
}

PEN_JAVA(void, closeModel, int64_t model) { pen_model_close(pointer<pen_model>(model)); }

PEN_JAVA(array, metadata, int64_t model) { return text(e, pen_model_metadata(pointer<pen_model>(model))); }

PEN_JAVA(int32_t, methodCount, int64_t model) { return pen_model_method_count(pointer<pen_model>(model)); }

PEN_JAVA(array, methodName, int64_t model, int32_t index) { return text(e, pen_model_method_name(pointer<pen_model>(model), index)); }

PEN_JAVA(int32_t, functionCount, int64_t model) {
  return pen_model_function_count ? pen_model_function_count(pointer<pen_model>(model)) : 0;
}

PEN_JAVA(array, functionName, int64_t model, int32_t index) { return text(e, pen_model_function_name(pointer<pen_model>(model), index)); }

PEN_JAVA(array, functionSchema, int64_t model, int32_t index) {
  return text(e, pen_model_function_schema(pointer<pen_model>(model), index));
}

PEN_JAVA(int32_t, portCount, int64_t model, array method, uint8_t inputs) {
  Text name(e, method);
  if (!name) return 0;
  return inputs ? pen_model_input_count(pointer<pen_model>(model), name) : pen_model_output_count(pointer<pen_model>(model), name);
}

PEN_JAVA(array, port, int64_t model, array method, uint8_t inputs, int32_t index, array numbers) {
  Text name(e, method);
  if (!name) return nullptr;
  pen_tensor_info info = {};
  if (inputs)
    pen_model_input_info(pointer<pen_model>(model), name, index, &info);
  else
    pen_model_output_info(pointer<pen_model>(model), name, index, &info);
  int64_t head[2] = {info.dtype, info.rank};
  e->SetLongArrayRegion(numbers, 0, 2, head);
  e->SetLongArrayRegion(numbers, 2, 8, info.dims);
  e->SetLongArrayRegion(numbers, 10, 8, info.min_dims);
  e->SetLongArrayRegion(numbers, 18, 8, info.max_dims);
  return text(e, info.name);
}

PEN_JAVA(array, specText, int64_t model, array method, uint8_t inputs) {
  Text name(e, method);
  if (!name) return nullptr;
  return text(e, inputs ? pen_model_input_spec(pointer<pen_model>(model), name) : pen_model_output_spec(pointer<pen_model>(model), name));
}

PEN_JAVA(array, spec, int64_t model, array method, uint8_t inputs) {
  Text name(e, method);
  penlight::Spec spec;
  if (!name || !read_spec(e, pointer<pen_model>(model), name, inputs, spec)) return nullptr;
  object type = e->FindClass("java/lang/Object");
  array made = type ? e->NewObjectArray(4, type, static_cast<object>(nullptr)) : nullptr;
  bool whole = made && put(e, made, 0, spec_numbers(e, spec)) && put(e, made, 1, spec_texts(e, spec, false)) &&
               put(e, made, 2, spec_texts(e, spec, true)) && put(e, made, 3, spec_arguments(e, spec, inputs));
  return whole ? made : nullptr;
}

PEN_JAVA(array, describe, int64_t model, array method, uint8_t inputs, int32_t node) {
  Text name(e, method);
  penlight::Spec spec;
  if (!name || !read_spec(e, pointer<pen_model>(model), name, inputs, spec)) return nullptr;
  char words[512];
  spec.describe(static_cast<uint32_t>(node), words, sizeof words);
  return text(e, words);
}

PEN_JAVA(int64_t, dim, array expression, array dims, array ranks) {
  Text words(e, expression);
  if (!words) return 0;
  int32_t count = e->GetArrayLength(ranks);
  size_t bytes = static_cast<size_t>(count) * (sizeof(pen_tensor) + 8 * sizeof(int64_t) + sizeof(int32_t)) + 1;
  pen_tensor* inputs = static_cast<pen_tensor*>(malloc(bytes));
  if (!inputs) return raise(e, "java/lang/OutOfMemoryError", "no memory for the sizes of %d inputs", static_cast<int>(count)), 0;
  int64_t* sizes = reinterpret_cast<int64_t*>(inputs + count);
  int32_t* rank = reinterpret_cast<int32_t*>(sizes + 8 * count);
  e->GetLongArrayRegion(dims, 0, 8 * count, sizes);
  e->GetIntArrayRegion(ranks, 0, count, rank);
  for (int32_t i = 0; i < count; ++i) inputs[i] = {nullptr, 0, rank[i], sizes + 8 * i, nullptr};
  penlight::SpecNode node = {};
  node.text = words;
  int64_t value = 0;
  const char* problem = penlight::Spec().dim(node, inputs, count, &value);
  if (problem) raise(e, PEN_ILLEGAL, "a size among the results, %s: %s", node.text, problem);
  free(inputs);
  return value;
}

PEN_JAVA(int32_t, bundleCount, int64_t model) { return pen_model_bundle_count ? pen_model_bundle_count(pointer<pen_model>(model)) : 0; }

PEN_JAVA(array, bundle, int64_t model, int32_t index, array values, array limits) {
  pen_bundle bundle = {};
  pen_error error = {};
  if (pen_model_bundle(pointer<pen_model>(model), index, &bundle, &error) != PEN_OK) return raise(e, error), nullptr;
  int64_t handles[2] = {handle(bundle.args), handle(bundle.outputs)};
  double off[2] = {bundle.absolute, bundle.relative};
  e->SetLongArrayRegion(values, 0, 2, handles);
  e->SetDoubleArrayRegion(limits, 0, 2, off);
  array made = texts(e, 2);
  bool whole = made && put(e, made, 0, text(e, bundle.method)) && put(e, made, 1, text(e, bundle.info));
  return whole ? made : nullptr;
}
