// What all files of the Java binding share: exceptions, texts, and tensors in Java's direct buffers.
#include "bindings/java/jni/jvm.h"

namespace pen::java {

Machine* machine;

void raise(env e, const pen_error& error) {
  object type = e->FindClass("org/penlight/PenlightException");
  if (!type) return;  // the machine has raised something itself, here and below
  method_id constructor = e->GetMethodID(type, "<init>", "(I[B)V");
  array message = constructor ? text(e, error.message) : nullptr;
  if (!message) return;
  Argument args[2];
  args[0].i = error.status;
  args[1].l = message;
  object exception = e->NewObjectA(type, constructor, args);
  if (exception) e->Throw(exception);
}

void raise(env e, const char* type, const char* format, ...) {
  char message[512];
  __builtin_va_list args;
  __builtin_va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  __builtin_va_end(args);
  object found = e->FindClass(type);
  if (found) e->ThrowNew(found, message);
}

array text(env e, const char* from, size_t bytes) {
  array made = e->NewByteArray(static_cast<int32_t>(bytes));
  if (made) e->SetByteArrayRegion(made, 0, static_cast<int32_t>(bytes), reinterpret_cast<const int8_t*>(from));
  return made;
}
array text(env e, const char* from) { return text(e, from ? from : "", from ? strlen(from) : 0); }

array texts(env e, int32_t count) {
  object type = e->FindClass("[B");
  return type ? e->NewObjectArray(count, type, static_cast<object>(nullptr)) : nullptr;
}

bool put(env e, array to, int32_t index, object o) {
  if (!o) return false;
  e->SetObjectArrayElement(to, index, o);
  e->DeleteLocalRef(o);
  return true;
}

Text::Text(env e, array from) : chars_(small_) {
  int32_t count = e->GetArrayLength(from);
  if (count > static_cast<int32_t>(sizeof small_)) chars_ = static_cast<char*>(malloc(static_cast<size_t>(count)));
  if (chars_)
    e->GetByteArrayRegion(from, 0, count, reinterpret_cast<int8_t*>(chars_));
  else
    raise(e, "java/lang/OutOfMemoryError", "no memory for a text of %d bytes", static_cast<int>(count));
}

size_t element_bytes(int32_t dtype) {
  constexpr uint8_t kBytes[] = {4, 2, 8, 1, 1, 2, 4, 8, 1, 2};  // by pen_dtype
  return kBytes[dtype];
}

bool BufferTensor::read(env e, object buffer, int32_t dtype, array shape, int32_t rank, int32_t format) {
  e->GetLongArrayRegion(shape, 0, rank, dims);
  void* data = e->GetDirectBufferAddress(buffer);
  if (!data) {
    if (e->GetDirectBufferCapacity(buffer) != 0) return raise(e, PEN_ILLEGAL, "a tensor: expected a direct buffer"), false;
    data = dims;  // of no elements: an address that nobody reads
  }
  if (reinterpret_cast<uintptr_t>(data) % element_bytes(dtype) != 0) {
    raise(e, PEN_ILLEGAL,
          "a tensor: expected data at an address that is a multiple of its %zu bytes per element, got one that is off by %zu",
          element_bytes(dtype), reinterpret_cast<uintptr_t>(data) % element_bytes(dtype));
    return false;
  }
  tensor = {data, dtype, rank, dims, nullptr};
  if (format == 0) return true;
  if (rank != 3 + format) {
    raise(e, PEN_ILLEGAL, "a tensor in the memory format CHANNELS_LAST%s: expected %d dimensions, got %d", format == 1 ? "" : "_3D",
          static_cast<int>(3 + format), static_cast<int>(rank));
    return false;
  }
  strides[1] = 1;
  int64_t step = dims[1];
  for (int32_t i = rank - 1; i != 1; i = i == 2 ? 0 : i - 1) {
    strides[i] = step;
    step *= dims[i];
    if (i == 0) break;
  }
  tensor.strides = strides;
  return true;
}

void* room(env e, object buffer, size_t bytes, size_t unit) {
  void* data = e->GetDirectBufferAddress(buffer);
  int64_t capacity = e->GetDirectBufferCapacity(buffer);
  if (capacity < 0 || (!data && capacity)) return raise(e, PEN_ILLEGAL, "a buffer: expected a direct one"), nullptr;
  if (static_cast<uint64_t>(capacity) * unit < bytes) {
    raise(e, PEN_ILLEGAL, "a buffer: expected room for %zu bytes, got %zu", bytes, static_cast<size_t>(capacity) * unit);
    return nullptr;
  }
  static char nothing[8] __attribute__((aligned(8)));
  return data ? data : nothing;
}

}  // namespace pen::java

extern "C" PEN_API int32_t JNI_OnLoad(pen::java::Machine* m, void*) {
  pen::java::machine = m;
  return pen::java::kVersion;
}
