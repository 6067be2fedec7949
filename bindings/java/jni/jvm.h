// The part of Java's native interface that the binding uses, declared here by hand: no JDK and no NDK is needed to compile it.
// jvm_check.cc compares these declarations with a JDK's jni.h. Functions are entries of a table, at places that Java's specification
// fixes for all machines.
#pragma once
#include "penlight/runtime/base/platform.h"
#include "penlight/runtime/include/penlight.h"

#include "penlight/runtime/include/penlight_weak.hpp"

namespace pen::java {

struct Object;  // what a reference points to is the machine's
typedef Object* object;
typedef object array;
typedef struct MethodId* method_id;

union Argument {  // jvalue
  int32_t i;
  int64_t j;
  double d;
  object l;
};

// ROW(place in the table, name, result, parameters after the environment)
#define PEN_JAVA_FUNCTIONS(ROW)                                                                     \
  ROW(6, FindClass, object, (const char* name))                                                     \
  ROW(13, Throw, int32_t, (object exception))                                                       \
  ROW(14, ThrowNew, int32_t, (object type, const char* message))                                    \
  ROW(21, NewGlobalRef, object, (object o))                                                         \
  ROW(22, DeleteGlobalRef, void, (object o))                                                        \
  ROW(23, DeleteLocalRef, void, (object o))                                                         \
  ROW(30, NewObjectA, object, (object type, method_id constructor, const Argument* args))           \
  ROW(33, GetMethodID, method_id, (object type, const char* name, const char* signature))           \
  ROW(171, GetArrayLength, int32_t, (array a))                                                      \
  ROW(172, NewObjectArray, array, (int32_t count, object type, object first))                       \
  ROW(174, SetObjectArrayElement, void, (array a, int32_t index, object o))                         \
  ROW(176, NewByteArray, array, (int32_t count))                                                    \
  ROW(179, NewIntArray, array, (int32_t count))                                                     \
  ROW(180, NewLongArray, array, (int32_t count))                                                    \
  ROW(200, GetByteArrayRegion, void, (array a, int32_t start, int32_t count, int8_t* to))           \
  ROW(203, GetIntArrayRegion, void, (array a, int32_t start, int32_t count, int32_t* to))           \
  ROW(204, GetLongArrayRegion, void, (array a, int32_t start, int32_t count, int64_t* to))          \
  ROW(205, GetFloatArrayRegion, void, (array a, int32_t start, int32_t count, float* to))           \
  ROW(208, SetByteArrayRegion, void, (array a, int32_t start, int32_t count, const int8_t* from))   \
  ROW(211, SetIntArrayRegion, void, (array a, int32_t start, int32_t count, const int32_t* from))   \
  ROW(212, SetLongArrayRegion, void, (array a, int32_t start, int32_t count, const int64_t* from))  \
  ROW(214, SetDoubleArrayRegion, void, (array a, int32_t start, int32_t count, const double* from)) \
  ROW(222, GetPrimitiveArrayCritical, void*, (array a, uint8_t* is_copy))                           \
  ROW(223, ReleasePrimitiveArrayCritical, void, (array a, void* data, int32_t mode))                \
  ROW(230, GetDirectBufferAddress, void*, (object buffer))                                          \
  ROW(231, GetDirectBufferCapacity, int64_t, (object buffer))

struct Environment;
typedef Environment* env;  // JNIEnv*

#define PEN_JAVA_PLACE(place, name, result, parameters) k##name = place,
enum Place { PEN_JAVA_FUNCTIONS(PEN_JAVA_PLACE) };
#undef PEN_JAVA_PLACE

template <class F>
struct WithEnvironment;
template <class R, class... P>
struct WithEnvironment<R(P...)> {
  typedef R (*Type)(env, P...);
};

struct Environment {
  void* const* table;
#define PEN_JAVA_CALL(place, name, result, parameters)                                                \
  template <class... A>                                                                               \
  PEN_INLINE result name(A... args) {                                                                 \
    return reinterpret_cast<WithEnvironment<result parameters>::Type>(table[k##name])(this, args...); \
  }
  PEN_JAVA_FUNCTIONS(PEN_JAVA_CALL)
#undef PEN_JAVA_CALL
};

struct Machine {  // JavaVM
  void* const* table;
  static constexpr int kAttach = 4, kDetach = 5, kGetEnv = 6;
  int32_t get_env(env* out, int32_t version) {
    return reinterpret_cast<int32_t (*)(Machine*, env*, int32_t)>(table[kGetEnv])(this, out, version);
  }
  int32_t attach(env* out) { return reinterpret_cast<int32_t (*)(Machine*, env*, void*)>(table[kAttach])(this, out, nullptr); }
  int32_t detach() { return reinterpret_cast<int32_t (*)(Machine*)>(table[kDetach])(this); }
};
constexpr int32_t kVersion = 0x00010006;  // JNI_VERSION_1_6

// --- what the files of the binding share (jvm.cc) ---
// Raises org.penlight.PenlightException; the caller returns at once.
void raise(env e, const pen_error& error);
void raise(env e, const char* type, const char* format, ...) __attribute__((format(printf, 3, 4)));
#define PEN_ILLEGAL "java/lang/IllegalArgumentException"
// A byte[] of a text; NULL, and an exception, where there is no memory.
array text(env e, const char* from, size_t bytes);
array text(env e, const char* from);
// byte[][] of so many elements, all null.
array texts(env e, int32_t count);
// Puts an object into an array and lets go of it; false where there is none.
bool put(env e, array to, int32_t index, object o);

// The text of a byte[] that ends with a 0.
class Text {
 public:
  Text(env e, array from);
  ~Text() {
    if (chars_ != small_) free(chars_);
  }
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  explicit operator bool() const { return chars_ != nullptr; }  // else an exception was raised
  operator const char*() const { return chars_; }

 private:
  char small_[256];
  char* chars_;
};

// A tensor in a direct buffer, in one of org.pytorch.MemoryFormat's orders. False, and an exception, where it cannot be.
struct BufferTensor {
  pen_tensor tensor;
  int64_t dims[8], strides[8];
  bool read(env e, object buffer, int32_t dtype, array shape, int32_t rank, int32_t format);
};
size_t element_bytes(int32_t dtype);
// Room in a direct buffer for so many bytes (elements of `unit` bytes each); NULL and an exception where there is less.
void* room(env e, object buffer, size_t bytes, size_t unit);

template <class T>
static PEN_INLINE T* pointer(int64_t handle) {
  return reinterpret_cast<T*>(static_cast<intptr_t>(handle));
}
static PEN_INLINE int64_t handle(const void* pointer) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(pointer)); }
extern Machine* machine;

}  // namespace pen::java

#define PEN_JAVA(result, name, ...) \
  extern "C" PEN_API result Java_org_penlight_Native_##name([[maybe_unused]] pen::java::env e, pen::java::object, ##__VA_ARGS__)
