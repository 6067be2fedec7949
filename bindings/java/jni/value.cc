// Native.java's functions over modules and values: interpreted methods, which take and give any value. A library built without the VM has
// none of them, and no file that needs them opens there.
#include "bindings/java/jni/jvm.h"

using namespace pen::java;

namespace {

// A buffer that a tensor lies in lives as long as the tensor, which may be in a module's state: by a global reference.
void let_go(void* buffer) {
  env e = nullptr;
  bool attached = machine->get_env(&e, kVersion) != 0 && machine->attach(&e) == 0;
  if (e) e->DeleteGlobalRef(static_cast<object>(buffer));
  if (attached) machine->detach();
}

int64_t made(env e, pen_value* value) {
  if (!value) raise(e, "java/lang/OutOfMemoryError", "no memory for a value");
  return handle(value);
}

// Handles of a long[], in memory that the caller frees.
struct Handles {
  pen_value** values;
  size_t count;
  Handles(env e, array from) : values(nullptr), count(static_cast<size_t>(e->GetArrayLength(from))) {
    static_assert(sizeof(pen_value*) <= sizeof(int64_t), "read as numbers, then made narrower in place");
    int64_t* numbers = static_cast<int64_t*>(malloc(count * sizeof(int64_t) + 1));
    if (!numbers) {
      raise(e, "java/lang/OutOfMemoryError", "no memory for a list of %zu values", count);
      return;
    }
    e->GetLongArrayRegion(from, 0, static_cast<int32_t>(count), numbers);
    values = reinterpret_cast<pen_value**>(numbers);
    for (size_t i = 0; i < count; ++i) {
      int64_t number;
      __builtin_memcpy(&number, numbers + i, sizeof number);
      pen_value* value = pointer<pen_value>(number);
      __builtin_memcpy(static_cast<void*>(values + i), &value, sizeof value);
    }
  }
  ~Handles() { free(static_cast<void*>(values)); }
};

// Row-major, from any strides.
void read_rows(char*& to, const char* from, const pen_tensor& tensor, int32_t axis, size_t unit) {
  if (axis == tensor.rank) {
    memcpy(to, from, unit);
    to += unit;
    return;
  }
  for (int64_t i = 0; i < tensor.dims[axis]; ++i)
    read_rows(to, from + i * tensor.strides[axis] * static_cast<int64_t>(unit), tensor, axis + 1, unit);
}

bool row_major(const pen_tensor& tensor) {
  int64_t step = 1;
  for (int32_t i = tensor.rank - 1; tensor.strides && i >= 0; --i) {
    if (tensor.dims[i] != 1 && tensor.strides[i] != step) return false;
    step *= tensor.dims[i];
  }
  return true;
}

}  // namespace

PEN_JAVA(int64_t, createModule, int64_t model, array device, int32_t threads, int64_t memory_limit, int64_t max_steps, uint8_t f16) {
  Text where(e, device);
  if (!where) return 0;
  pen_module_options options = PEN_MODULE_OPTIONS;
  options.device = where;
  options.threads = threads;
  options.memory_limit = static_cast<uint64_t>(memory_limit);
  options.max_steps = max_steps;
  options.f16 = f16;
  pen_module* module = nullptr;
  pen_error error = {};
  if (pen_module_create(pointer<pen_model>(model), &options, &module, &error) != PEN_OK) return raise(e, error), 0;
  return handle(module);
}

PEN_JAVA(void, destroyModule, int64_t module) { pen_module_destroy(pointer<pen_module>(module)); }

PEN_JAVA(int64_t, runModule, int64_t module, array method, array args) {
  Text name(e, method);
  if (!name) return 0;
  Handles given(e, args);
  if (!given.values) return 0;
  pen_value* result = nullptr;
  if (pen_module_run(pointer<pen_module>(module), name, given.values, given.count, &result) == PEN_OK) return handle(result);
  raise(e, *pen_module_error(pointer<pen_module>(module)));
  return 0;
}

PEN_JAVA(void, resetModule, int64_t module) {
  if (pen_module_reset(pointer<pen_module>(module)) != PEN_OK) raise(e, *pen_module_error(pointer<pen_module>(module)));
}

PEN_JAVA(void, seedModule, int64_t module, int64_t seed) { pen_module_seed(pointer<pen_module>(module), static_cast<uint64_t>(seed)); }

PEN_JAVA(int64_t, valueNone) { return made(e, pen_value_none()); }

PEN_JAVA(int64_t, valueBool, uint8_t value) { return made(e, pen_value_bool(value)); }

PEN_JAVA(int64_t, valueInt, int64_t value) { return made(e, pen_value_int(value)); }

PEN_JAVA(int64_t, valueFloat, double value) { return made(e, pen_value_float(value)); }

PEN_JAVA(int64_t, valueString, array from) {
  size_t count = static_cast<size_t>(e->GetArrayLength(from));
  char* chars = static_cast<char*>(malloc(count + 1));
  if (chars) e->GetByteArrayRegion(from, 0, static_cast<int32_t>(count), reinterpret_cast<int8_t*>(chars));
  int64_t value = made(e, chars ? pen_value_string(chars, count) : nullptr);
  free(chars);
  return value;
}

PEN_JAVA(int64_t, valueTensor, object data, int32_t dtype, array dims, int32_t rank, int32_t format, uint8_t is_read_only) {
  BufferTensor input;
  if (!input.read(e, data, dtype, dims, rank, format)) return 0;
  object kept = e->NewGlobalRef(data);
  pen_value* value = kept ? pen_value_tensor(&input.tensor, let_go, kept) : nullptr;
  if (!value && kept) {
    e->DeleteGlobalRef(kept);
    return raise(e, PEN_ILLEGAL, "a tensor: expected sizes that memory may have, and memory for a value, got others, or none"), 0;
  }
  if (value && is_read_only) pen_value_make_read_only(value);  // whoever has the buffer itself may write it
  return made(e, value);
}

PEN_JAVA(int64_t, valueList, array items) {
  Handles given(e, items);
  return given.values ? made(e, pen_value_list(given.values, given.count)) : 0;
}

PEN_JAVA(int64_t, valueTuple, array items) {
  Handles given(e, items);
  return given.values ? made(e, pen_value_tuple(given.values, given.count)) : 0;
}

PEN_JAVA(int64_t, valueDict, array keys, array values) {
  Handles names(e, keys);
  if (!names.values) return 0;
  Handles parts(e, values);
  return parts.values ? made(e, pen_value_dict(names.values, parts.values, names.count)) : 0;
}

PEN_JAVA(void, valueRelease, int64_t value) {
  if (value) pen_value_release(pointer<pen_value>(value));
}

PEN_JAVA(int32_t, valueKind, int64_t value) { return pen_value_kind(pointer<pen_value>(value)); }

PEN_JAVA(int64_t, valueAsInt, int64_t value) { return pen_value_as_int(pointer<pen_value>(value)); }

PEN_JAVA(double, valueAsFloat, int64_t value) { return pen_value_as_float(pointer<pen_value>(value)); }

PEN_JAVA(array, valueText, int64_t value) {
  size_t size = 0;
  const char* chars = pen_value_text(pointer<pen_value>(value), &size);
  return text(e, chars, size);
}

PEN_JAVA(int32_t, valueTensorInfo, int64_t value, array dims) {
  pen_tensor tensor = {};
  pen_quantization quantization = {};
  if (pen_value_as_tensor(pointer<pen_value>(value), &tensor) != PEN_OK) return raise(e, PEN_ILLEGAL, "expected a tensor"), 0;
  e->SetLongArrayRegion(dims, 0, tensor.rank, tensor.dims);
  return tensor.dtype | tensor.rank << 8 | (pen_value_quantization(pointer<pen_value>(value), &quantization) ? 1 << 16 : 0);
}

PEN_JAVA(void, valueTensorRead, int64_t value, object to) {
  pen_tensor tensor = {};
  if (pen_value_as_tensor(pointer<pen_value>(value), &tensor) != PEN_OK) return raise(e, PEN_ILLEGAL, "expected a tensor");
  size_t unit = element_bytes(tensor.dtype), bytes = unit;
  for (int32_t i = 0; i < tensor.rank; ++i) bytes *= static_cast<size_t>(tensor.dims[i]);
  char* data = static_cast<char*>(room(e, to, bytes, 1));
  if (!data || !bytes) return;
  if (row_major(tensor))
    memcpy(data, tensor.data, bytes);
  else
    read_rows(data, static_cast<const char*>(tensor.data), tensor, 0, unit);
}

PEN_JAVA(int32_t, valueCount, int64_t value) { return static_cast<int32_t>(pen_value_count(pointer<pen_value>(value))); }

PEN_JAVA(int64_t, valueItem, int64_t value, int32_t index) {
  return made(e, pen_value_item(pointer<pen_value>(value), static_cast<size_t>(index)));
}

PEN_JAVA(int64_t, valueKey, int64_t value, int32_t index) {
  return made(e, pen_value_key(pointer<pen_value>(value), static_cast<size_t>(index)));
}
