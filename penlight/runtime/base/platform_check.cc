// Proves that platform.h declares what this platform has: every function's type, every constant, every size, against
// the real headers. Nothing of this reaches the object file. Compiled where there are such headers; cross builds
// without a libc skip it, so a host build of the same kind of system has to have passed before.
#if __STDC_HOSTED__ && __has_include(<pthread.h>) && __has_include(<sys/mman.h>)

#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS 1  // <math.h> and <stdlib.h> as C has them, without overloads
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#define PEN_PLATFORM_CHECK
#include "penlight/runtime/base/platform.h"

namespace pen::platform {
namespace {

// Whether a call compiled against Ours is a right call of Theirs: the same types, but for pointers to what we do not
// declare (we say void*, or a struct of our own). noexcept is no part of the calling convention.
template <class Ours, class Theirs>
constexpr bool kSame = false;
template <class T>
constexpr bool kSame<T, T> = true;
template <class T>
constexpr bool kSame<void*, T*> = true;
template <class T>
constexpr bool kSame<const void*, const T*> = true;
template <>
constexpr bool kSame<void*, void*> = true;
template <>
constexpr bool kSame<const void*, const void*> = true;
template <>
constexpr bool kSame<platform_h::pen_timespec*, struct timespec*> = true;

template <class Ours, class Theirs>
constexpr bool kFits = false;
template <class R, class Q, class... A, class... B>
constexpr bool kFits<R(A...), Q(B...)> = kSame<R, Q> && (kSame<A, B> && ...);
template <class R, class Q, class... A, class... B>
constexpr bool kFits<R(A..., ...), Q(B..., ...)> = kSame<R, Q> && (kSame<A, B> && ...);

template <class F>
struct Plain;
template <class R, class... A>
struct Plain<R(A...)> {
  using Type = R(A...);
};
template <class R, class... A>
struct Plain<R(A...) noexcept> {
  using Type = R(A...);
};
template <class R, class... A>
struct Plain<R(A..., ...)> {
  using Type = R(A..., ...);
};
template <class R, class... A>
struct Plain<R(A..., ...) noexcept> {
  using Type = R(A..., ...);
};

#pragma GCC diagnostic ignored "-Wignored-attributes"  // nonnull, pure and such are no part of a type
#define PEN_SAME(name) \
  static_assert(kFits<Plain<decltype(platform_h::name)>::Type, Plain<decltype(::name)>::Type>, #name " is declared differently here")
PEN_SAME(malloc);
PEN_SAME(calloc);
PEN_SAME(free);
PEN_SAME(posix_memalign);
PEN_SAME(memcpy);
PEN_SAME(memmove);
PEN_SAME(memset);
PEN_SAME(memcmp);
PEN_SAME(strlen);
PEN_SAME(strcmp);
PEN_SAME(strncmp);
PEN_SAME(snprintf);
PEN_SAME(vsnprintf);
PEN_SAME(strtod);
PEN_SAME(getenv);
PEN_SAME(strerror);
#if defined(__APPLE__)
PEN_SAME(sysctlbyname);
#elif defined(__aarch64__) && defined(__linux__)
PEN_SAME(getauxval);
static_assert(kHwcap == AT_HWCAP && kHwcap2 == AT_HWCAP2, "AT_HWCAP");
static_assert(kHwcapDotprod == HWCAP_ASIMDDP, "HWCAP_ASIMDDP");
#if defined(HWCAP2_I8MM)
static_assert(kHwcap2I8mm == HWCAP2_I8MM, "HWCAP2_I8MM");
#endif
#endif
PEN_SAME(expf);
PEN_SAME(logf);
PEN_SAME(log2f);
PEN_SAME(log10f);
PEN_SAME(log1pf);
PEN_SAME(expm1f);
PEN_SAME(powf);
PEN_SAME(sinf);
PEN_SAME(cosf);
PEN_SAME(tanf);
PEN_SAME(asinf);
PEN_SAME(acosf);
PEN_SAME(atanf);
PEN_SAME(atan2f);
PEN_SAME(sinhf);
PEN_SAME(coshf);
PEN_SAME(tanhf);
PEN_SAME(erff);
PEN_SAME(fmodf);
PEN_SAME(floorf);
PEN_SAME(ceilf);
PEN_SAME(truncf);
PEN_SAME(nearbyintf);
PEN_SAME(nextafterf);
// Overloaded in some C++ libraries, so chosen by type.
#define PEN_SAME_AS(name, ...)                                                                  \
  static_assert(kFits<Plain<decltype(platform_h::name)>::Type, double(__VA_ARGS__)> &&          \
                    sizeof(static_cast<double (*)(__VA_ARGS__)>(::name)) == sizeof(void (*)()), \
                #name " is declared differently here")
#define PEN_SAME_UNARY(name) PEN_SAME_AS(name, double)
#define PEN_SAME_BINARY(name) PEN_SAME_AS(name, double, double)
#define PEN_SAME_PARTS(name) PEN_SAME_AS(name, double, int*)
PEN_SAME_UNARY(floor);
PEN_SAME_UNARY(ceil);
PEN_SAME_UNARY(exp);
PEN_SAME_UNARY(exp2);
PEN_SAME_UNARY(expm1);
PEN_SAME_UNARY(log);
PEN_SAME_UNARY(log1p);
PEN_SAME_UNARY(log2);
PEN_SAME_UNARY(log10);
PEN_SAME_UNARY(sin);
PEN_SAME_UNARY(cos);
PEN_SAME_UNARY(tan);
PEN_SAME_UNARY(asin);
PEN_SAME_UNARY(acos);
PEN_SAME_UNARY(atan);
PEN_SAME_UNARY(sinh);
PEN_SAME_UNARY(cosh);
PEN_SAME_UNARY(tanh);
PEN_SAME_UNARY(erf);
PEN_SAME_UNARY(erfc);
PEN_SAME_UNARY(trunc);
PEN_SAME_UNARY(nearbyint);
PEN_SAME_UNARY(j0);
PEN_SAME_UNARY(j1);
PEN_SAME_UNARY(y0);
PEN_SAME_UNARY(y1);
PEN_SAME_BINARY(pow);
PEN_SAME_BINARY(atan2);
PEN_SAME_BINARY(fmod);
PEN_SAME_BINARY(nextafter);
PEN_SAME_PARTS(frexp);
PEN_SAME_AS(ldexp, double, int);
PEN_SAME_UNARY(asinh);
PEN_SAME_UNARY(acosh);
PEN_SAME_UNARY(atanh);
PEN_SAME_UNARY(tgamma);
PEN_SAME_BINARY(remainder);
PEN_SAME_PARTS(lgamma_r);
PEN_SAME(lgammaf_r);
#if defined(__APPLE__)
PEN_SAME(__error);
#elif defined(__ANDROID__)
PEN_SAME(__errno);
#else
PEN_SAME(__errno_location);
#endif
PEN_SAME(open);
PEN_SAME(close);
PEN_SAME(lseek);
PEN_SAME(pread);
PEN_SAME(write);
PEN_SAME(rename);
PEN_SAME(unlink);
PEN_SAME(mkdir);
PEN_SAME(mmap);
PEN_SAME(munmap);
PEN_SAME(madvise);
PEN_SAME(sysconf);
PEN_SAME(clock_gettime);
PEN_SAME(getpid);
PEN_SAME(dlopen);
PEN_SAME(dlsym);
PEN_SAME(dlerror);
PEN_SAME(pthread_create);
PEN_SAME(pthread_join);
PEN_SAME(pthread_mutex_init);
PEN_SAME(pthread_mutex_destroy);
PEN_SAME(pthread_mutex_lock);
PEN_SAME(pthread_mutex_unlock);
PEN_SAME(pthread_cond_init);
PEN_SAME(pthread_cond_destroy);
PEN_SAME(pthread_cond_wait);
PEN_SAME(pthread_cond_signal);
PEN_SAME(pthread_cond_broadcast);
PEN_SAME(pthread_key_create);
PEN_SAME(pthread_getspecific);
PEN_SAME(pthread_setspecific);
PEN_SAME(sched_yield);

static_assert(kReadOnly == O_RDONLY, "O_RDONLY");
static_assert(kCreateNew == (O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC), "O_CREAT, O_EXCL, O_CLOEXEC");
static_assert(kLoadNow == (RTLD_NOW | RTLD_LOCAL), "RTLD_NOW, RTLD_LOCAL");
static_assert(kSeekEnd == SEEK_END, "SEEK_END");
static_assert(kProtRead == PROT_READ, "PROT_READ");
static_assert(kMapPrivate == MAP_PRIVATE, "MAP_PRIVATE");
static_assert(kInterrupted == EINTR, "EINTR");
static_assert(kPageSizeName == _SC_PAGESIZE, "_SC_PAGESIZE");
static_assert(kCoresName == _SC_NPROCESSORS_ONLN, "_SC_NPROCESSORS_ONLN");
static_assert(kMonotonic == CLOCK_MONOTONIC, "CLOCK_MONOTONIC");
#if defined(MADV_HUGEPAGE)
static_assert(kAdviceHugePages == MADV_HUGEPAGE, "MADV_HUGEPAGE");
#endif
static_assert(sizeof(pthread_mutex_t) <= kLockBytes && alignof(pthread_mutex_t) <= 64, "pthread_mutex_t");
static_assert(sizeof(pthread_cond_t) <= kConditionBytes && alignof(pthread_cond_t) <= 64, "pthread_cond_t");
static_assert(sizeof(platform_h::pen_pthread) == sizeof(pthread_t), "pthread_t");
static_assert(sizeof(platform_h::pen_pthread_key) == sizeof(pthread_key_t), "pthread_key_t");
static_assert(sizeof(platform_h::pen_mode) == sizeof(mode_t), "mode_t");
static_assert(sizeof(platform_h::pen_timespec) == sizeof(struct timespec), "timespec");

}  // namespace
}  // namespace pen::platform

#endif
