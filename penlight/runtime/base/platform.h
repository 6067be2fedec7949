// Every C function and constant the runtime takes from its platform, declared here by hand: no C++ library header and
// no libc header is needed to compile it, so one compiler builds it for any target. platform_check.cc compares these
// declarations with the real headers wherever they exist; the symbol test compares them with what objects import.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define PEN_INLINE inline __attribute__((always_inline))  // never emits a weak copy (see docs/GLOSSARY.md: ISA trap)
#define PEN_LIKELY(x) __builtin_expect(!!(x), 1)
#define PEN_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define PEN_RESTRICT __restrict__
// Code that runs once per plan, in files that are compiled for speed: as few bytes as the compiler can.
#if defined(__clang__)
#define PEN_SMALL __attribute__((minsize))
#elif defined(__SANITIZE_ADDRESS__)
// GCC 12 forgets to give a cold function's frame of more than 256 bytes back to AddressSanitizer's stack of past frames. That is full
// after some thousand plans: it then sees no use after return any more, and searches all of its frames in every call, for half of the time.
#define PEN_SMALL
#else
#define PEN_SMALL __attribute__((cold))
#endif
// Of kernels: loops around the one that computes, which a block of thousands of multiply-adds passes once. Few bytes too, but not cold.
#if defined(__clang__)
#define PEN_OUTER __attribute__((minsize, noinline))
#else
#define PEN_OUTER
#endif

// Builds under AddressSanitizer lay memory out so that it sees every step outside (memory.cc, exec/guard.h).
#if defined(__SANITIZE_ADDRESS__)
#define PEN_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PEN_ASAN 1
#endif
#endif
#ifndef PEN_ASAN
#define PEN_ASAN 0
#endif

// Windows has these under other names, in other forms or not at all: platform_windows.cc defines them. Under names of their own, as the
// C library of a program that the runtime is linked into may have some of them, and its malloc, for one, must stay another.
#if defined(_WIN32)
#pragma redefine_extname malloc penlight_malloc
#pragma redefine_extname calloc penlight_calloc
#pragma redefine_extname free penlight_free
#pragma redefine_extname posix_memalign penlight_posix_memalign
#pragma redefine_extname snprintf penlight_snprintf
#pragma redefine_extname vsnprintf penlight_vsnprintf
#pragma redefine_extname j0 penlight_j0
#pragma redefine_extname j1 penlight_j1
#pragma redefine_extname y0 penlight_y0
#pragma redefine_extname y1 penlight_y1
#pragma redefine_extname lgamma_r penlight_lgamma_r
#pragma redefine_extname lgammaf_r penlight_lgammaf_r
#pragma redefine_extname __errno_location penlight_errno_location
#pragma redefine_extname open penlight_open
#pragma redefine_extname close penlight_close
#pragma redefine_extname lseek penlight_lseek
#pragma redefine_extname pread penlight_pread
#pragma redefine_extname mmap penlight_mmap
#pragma redefine_extname munmap penlight_munmap
#pragma redefine_extname madvise penlight_madvise
#pragma redefine_extname sysconf penlight_sysconf
#pragma redefine_extname clock_gettime penlight_clock_gettime
#pragma redefine_extname getpid penlight_getpid
#pragma redefine_extname pthread_create penlight_pthread_create
#pragma redefine_extname pthread_join penlight_pthread_join
#pragma redefine_extname pthread_mutex_init penlight_pthread_mutex_init
#pragma redefine_extname pthread_mutex_destroy penlight_pthread_mutex_destroy
#pragma redefine_extname pthread_mutex_lock penlight_pthread_mutex_lock
#pragma redefine_extname pthread_mutex_unlock penlight_pthread_mutex_unlock
#pragma redefine_extname pthread_cond_init penlight_pthread_cond_init
#pragma redefine_extname pthread_cond_destroy penlight_pthread_cond_destroy
#pragma redefine_extname sched_yield penlight_sched_yield
#pragma redefine_extname pthread_cond_wait penlight_pthread_cond_wait
#pragma redefine_extname pthread_cond_signal penlight_pthread_cond_signal
#pragma redefine_extname pthread_cond_broadcast penlight_pthread_cond_broadcast
#pragma redefine_extname pthread_key_create penlight_pthread_key_create
#pragma redefine_extname pthread_getspecific penlight_pthread_getspecific
#pragma redefine_extname pthread_setspecific penlight_pthread_setspecific
#endif

// platform_check.cc, and tests that include libc's headers too, have these in a namespace beside the real ones.
#if defined(PEN_PLATFORM_CHECK)
namespace platform_h {
#else
extern "C" {
#endif
// libraries that a machine may have or not: in libdl, where that is one by itself
void* dlopen(const char* name, int flags) noexcept;
void* dlsym(void* library, const char* name) noexcept;
char* dlerror(void) noexcept;
// memory and strings
void* malloc(size_t size) noexcept;
void* calloc(size_t count, size_t size) noexcept;
void free(void* p) noexcept;
int posix_memalign(void** p, size_t alignment, size_t size) noexcept;
void* memcpy(void* to, const void* from, size_t n) noexcept;
void* memmove(void* to, const void* from, size_t n) noexcept;
void* memset(void* to, int byte, size_t n) noexcept;
int memcmp(const void* a, const void* b, size_t n) noexcept;
size_t strlen(const char* s) noexcept;
int strcmp(const char* a, const char* b) noexcept;
int strncmp(const char* a, const char* b, size_t n) noexcept;
int snprintf(char* to, size_t size, const char* format, ...) noexcept __attribute__((format(printf, 3, 4)));
int vsnprintf(char* to, size_t size, const char* format, __builtin_va_list args) noexcept;
double strtod(const char* text, char** end) noexcept;
char* getenv(const char* name) noexcept;
char* strerror(int error) noexcept;
// what an arm64 processor can do
#if defined(__APPLE__)
int sysctlbyname(const char* name, void* value, size_t* size, void* set, size_t set_size);
#elif defined(__aarch64__) && defined(__linux__)
unsigned long getauxval(unsigned long name) noexcept;
#endif
// math: only what no vector approximation replaces
float expf(float) noexcept;
float logf(float) noexcept;
float log2f(float) noexcept;
float log10f(float) noexcept;
float log1pf(float) noexcept;
float expm1f(float) noexcept;
float powf(float, float) noexcept;
float sinf(float) noexcept;
float cosf(float) noexcept;
float tanf(float) noexcept;
float asinf(float) noexcept;
float acosf(float) noexcept;
float atanf(float) noexcept;
float atan2f(float, float) noexcept;
float sinhf(float) noexcept;
float coshf(float) noexcept;
float tanhf(float) noexcept;
float erff(float) noexcept;
float fmodf(float, float) noexcept;
float floorf(float) noexcept;
float ceilf(float) noexcept;
float truncf(float) noexcept;
float nearbyintf(float) noexcept;
float nextafterf(float, float) noexcept;
double floor(double) noexcept;
double ceil(double) noexcept;
double exp(double) noexcept;
double exp2(double) noexcept;
double expm1(double) noexcept;
double log(double) noexcept;
double log1p(double) noexcept;
double log2(double) noexcept;
double log10(double) noexcept;
double sin(double) noexcept;
double cos(double) noexcept;
double tan(double) noexcept;
double asin(double) noexcept;
double acos(double) noexcept;
double atan(double) noexcept;
double sinh(double) noexcept;
double cosh(double) noexcept;
double tanh(double) noexcept;
double erf(double) noexcept;
double erfc(double) noexcept;
double trunc(double) noexcept;
double nearbyint(double) noexcept;
double pow(double, double) noexcept;
double atan2(double, double) noexcept;
double fmod(double, double) noexcept;
double nextafter(double, double) noexcept;
double frexp(double, int* exponent) noexcept;
double ldexp(double, int exponent) noexcept;
double asinh(double) noexcept;
double acosh(double) noexcept;
double atanh(double) noexcept;
double tgamma(double) noexcept;
double remainder(double, double) noexcept;
// No compiler's builtins, so headers that say noexcept and headers that do not both follow on this.
double j0(double);
double j1(double);
double y0(double);
double y1(double);
double lgamma_r(double, int* sign);
float lgammaf_r(float, int* sign);
// files
#if defined(__APPLE__)
int* __error(void);
#elif defined(__ANDROID__)
int* __errno(void);
#else
int* __errno_location(void) noexcept __attribute__((const));
#endif
int open(const char* path, int flags, ...);
int close(int fd);
// off_t and time_t: a long, but for Windows, and for 32-bit systems of musl's, which have no macro of their own.
#if __SIZEOF_LONG__ == 4 && !defined(__GLIBC__) && !defined(__ANDROID__)
typedef long long pen_offset;
typedef long long pen_seconds;
#else
typedef long pen_offset;
typedef long pen_seconds;
#endif
pen_offset lseek(int fd, pen_offset offset, int whence) noexcept;
ptrdiff_t pread(int fd, void* to, size_t size, pen_offset offset);
ptrdiff_t write(int fd, const void* from, size_t size);
int rename(const char* from, const char* to) noexcept;
int unlink(const char* path) noexcept;
#if defined(__APPLE__) || (defined(__ANDROID__) && __SIZEOF_LONG__ == 4)
typedef unsigned short pen_mode;
#else
typedef unsigned pen_mode;
#endif
int mkdir(const char* path, pen_mode mode) noexcept;
void* mmap(void* address, size_t size, int protection, int flags, int fd, pen_offset offset) noexcept;
int munmap(void* address, size_t size) noexcept;
int madvise(void* address, size_t size, int advice) noexcept;
long sysconf(int name) noexcept;
struct pen_timespec {
  pen_seconds seconds;
  long nanoseconds;
};
int clock_gettime(int clock, pen_timespec* t) noexcept;
int getpid(void) noexcept;
// threads
#if defined(_WIN32)
typedef void* pen_pthread;
#else
typedef unsigned long pen_pthread;
#endif
int pthread_create(pen_pthread* thread, const void* attributes, void* (*start)(void*), void* argument) noexcept;
int pthread_join(pen_pthread thread, void** result);
int pthread_mutex_init(void* mutex, const void* attributes) noexcept;
int pthread_mutex_destroy(void* mutex) noexcept;
int pthread_mutex_lock(void* mutex) noexcept;
int pthread_mutex_unlock(void* mutex) noexcept;
int pthread_cond_init(void* condition, const void* attributes) noexcept;
int pthread_cond_destroy(void* condition) noexcept;
int sched_yield(void) noexcept;
int pthread_cond_wait(void* condition, void* mutex);
int pthread_cond_signal(void* condition) noexcept;
int pthread_cond_broadcast(void* condition) noexcept;
#if defined(__APPLE__)
typedef unsigned long pen_pthread_key;
#elif defined(__ANDROID__)
typedef int pen_pthread_key;
#else
typedef unsigned pen_pthread_key;
#endif
int pthread_key_create(pen_pthread_key* key, void (*destroy)(void*)) noexcept;
void* pthread_getspecific(pen_pthread_key key) noexcept;
int pthread_setspecific(pen_pthread_key key, const void* value) noexcept;
}

namespace pen::platform {

// The same on every system we build for (Linux, Android, Darwin).
constexpr int kReadOnly = 0;     // O_RDONLY
constexpr int kSeekEnd = 2;      // SEEK_END
constexpr int kProtRead = 1;     // PROT_READ
constexpr int kMapPrivate = 2;   // MAP_PRIVATE
constexpr int kInterrupted = 4;  // EINTR
// These differ.
#if defined(__APPLE__)
constexpr int kPageSizeName = 29;      // _SC_PAGESIZE
constexpr int kCoresName = 58;         // _SC_NPROCESSORS_ONLN
constexpr int kMonotonic = 6;          // CLOCK_MONOTONIC
constexpr int kAdviceHugePages = 0;    // MADV_HUGEPAGE; 0: there is no such advice
constexpr int kCreateNew = 0x1000a01;  // O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC
constexpr int kLoadNow = 6;            // RTLD_NOW | RTLD_LOCAL
#elif defined(__ANDROID__)
constexpr int kPageSizeName = 39;
constexpr int kCoresName = 97;
constexpr int kMonotonic = 1;
constexpr int kAdviceHugePages = 14;
constexpr int kCreateNew = 02000301;
constexpr int kLoadNow = __SIZEOF_LONG__ == 4 ? 0 : 2;
#elif defined(__wasm__)  // platform_wasm.cc has what asks for these
constexpr int kCoresName = 84;
constexpr int kMonotonic = 1;  // WASI's
constexpr int kAdviceHugePages = 0;
#elif defined(_WIN32)    // as platform_windows.cc takes them
constexpr int kPageSizeName = 30;
constexpr int kCoresName = 84;
constexpr int kMonotonic = 1;
constexpr int kAdviceHugePages = 0;
#else
constexpr int kPageSizeName = 30;
constexpr int kCoresName = 84;
constexpr int kMonotonic = 1;
constexpr int kAdviceHugePages = 14;
constexpr int kCreateNew = 02000301;
constexpr int kLoadNow = 2;
#endif
#if defined(__aarch64__) && defined(__linux__)
constexpr unsigned long kHwcap = 16, kHwcap2 = 26;  // AT_HWCAP, AT_HWCAP2
constexpr unsigned long kHwcapDotprod = 1ul << 20;  // HWCAP_ASIMDDP
constexpr unsigned long kHwcap2I8mm = 1ul << 13;    // HWCAP2_I8MM
#endif
// Room for pthread_mutex_t and pthread_cond_t of any of them.
constexpr size_t kLockBytes = 64, kConditionBytes = 64;

#if !defined(PEN_PLATFORM_CHECK) && !defined(__wasm__)
static PEN_INLINE int last_error() {
#if defined(__APPLE__)
  return *__error();
#elif defined(__ANDROID__)
  return *__errno();
#else
  return *__errno_location();
#endif
}
#endif

}  // namespace pen::platform
