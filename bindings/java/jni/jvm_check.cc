// Compares jvm.h with a JDK's jni.h; compiled by the tests, part of no library.
#include <jni.h>

#include "bindings/java/jni/jvm.h"

namespace {

using namespace pen::java;

#define PEN_SAME_PLACE(place, name, result, parameters) \
  static_assert(__builtin_offsetof(JNINativeInterface_, name) == place * sizeof(void*), #name " is elsewhere in jni.h");
PEN_JAVA_FUNCTIONS(PEN_SAME_PLACE)
#undef PEN_SAME_PLACE

// Types: how many parameters, and how wide each of them and the result is.
template <class T>
constexpr int kWidth = sizeof(T);
template <>
constexpr int kWidth<void> = 0;
template <class A, class B>
struct Same;
template <class R, class... P, class S, class... Q>
struct Same<R (*)(P...), S (*)(Q...)> {
  static constexpr bool kIs = sizeof...(P) == sizeof...(Q) && kWidth<R> == kWidth<S> && ((kWidth<P> == kWidth<Q>) && ...);
};
#define PEN_SAME_TYPE(place, name, result, parameters) \
  static_assert(Same<WithEnvironment<result parameters>::Type, decltype(JNINativeInterface_::name)>::kIs, #name " is of another type");
PEN_JAVA_FUNCTIONS(PEN_SAME_TYPE)
#undef PEN_SAME_TYPE

static_assert(__builtin_offsetof(JNIInvokeInterface_, AttachCurrentThread) == Machine::kAttach * sizeof(void*));
static_assert(__builtin_offsetof(JNIInvokeInterface_, DetachCurrentThread) == Machine::kDetach * sizeof(void*));
static_assert(__builtin_offsetof(JNIInvokeInterface_, GetEnv) == Machine::kGetEnv * sizeof(void*));
static_assert(sizeof(Argument) == sizeof(jvalue) && kVersion == JNI_VERSION_1_6 && JNI_ABORT == 2);

}  // namespace
