// What platform.h promises, over what Windows has: kernel32's files, threads and clock, the universal C library's memory and text. Both
// are part of Windows 10 and later, and declared here by hand, as all in platform.h is; everything else is the C library's own.
// Paths are UTF-8. Descriptors are the C library's, which a program shares with this library if it uses the same one, as Python does.
#include "penlight/runtime/base/platform.h"

#if defined(_WIN32)

extern "C" {
// kernel32
typedef void* Handle;
struct Overlapped {
  uint64_t internal[2];
  uint32_t offset, offset_high;
  Handle event;
};
struct SystemInfo {
  uint32_t processor, page_size;
  void *lowest, *highest;
  uint64_t mask;
  uint32_t processors, type, granularity;
  uint16_t level, revision;
};
int MultiByteToWideChar(uint32_t codepage, uint32_t flags, const char* text, int size, wchar_t* to, int room);
uint32_t GetFileAttributesW(const wchar_t* path);
uint32_t GetFileType(Handle file);
Handle CreateFileMappingW(Handle file, void* security, uint32_t protection, uint32_t high, uint32_t low, const wchar_t* name);
void* MapViewOfFile(Handle mapping, uint32_t access, uint32_t offset_high, uint32_t offset, size_t size);
int UnmapViewOfFile(const void* address);
int ReadFile(Handle file, void* to, uint32_t size, uint32_t* read, Overlapped* where);
int CloseHandle(Handle handle);
uint32_t GetLastError(void);
void GetSystemInfo(SystemInfo* info);
int QueryPerformanceCounter(int64_t* count);
int QueryPerformanceFrequency(int64_t* per_second);
uint32_t GetCurrentProcessId(void);
Handle CreateThread(void* security, size_t stack, void* (*start)(void*), void* argument, uint32_t flags, uint32_t* id);
uint32_t WaitForSingleObject(Handle handle, uint32_t milliseconds);
int SwitchToThread(void);
void AcquireSRWLockExclusive(void* lock);
void ReleaseSRWLockExclusive(void* lock);
int SleepConditionVariableSRW(void* condition, void* lock, uint32_t milliseconds, uint32_t flags);
void WakeConditionVariable(void* condition);
void WakeAllConditionVariable(void* condition);
uint32_t TlsAlloc(void);
void* TlsGetValue(uint32_t key);
int TlsSetValue(uint32_t key, void* value);
// the C library
typedef void InvalidParameter(const wchar_t*, const wchar_t*, const wchar_t*, unsigned, uintptr_t);
void* _aligned_malloc(size_t size, size_t alignment);
void _aligned_free(void* p);
int __stdio_common_vsprintf(uint64_t options, char* to, size_t size, const char* format, void* locale, __builtin_va_list args);
double _j0(double);
double _j1(double);
double _y0(double);
double _y1(double);
double lgamma(double);
float lgammaf(float);
int* _errno(void);
int _wopen(const wchar_t* path, int flags, ...);
int _close(int fd);
int64_t _lseeki64(int fd, int64_t offset, int whence);
intptr_t _get_osfhandle(int fd);
InvalidParameter* _set_thread_local_invalid_parameter_handler(InvalidParameter* handler);

int* __errno_location(void) noexcept { return _errno(); }

static int fail(int error) {
  *_errno() = error;
  return -1;
}
// EIO, EBADF, ENOMEM, EACCES, EISDIR, EINVAL, ESPIPE
constexpr int kIo = 5, kNoDescriptor = 9, kNoMemory = 12, kNoAccess = 13, kDirectory = 21, kInvalid = 22, kNoPositions = 29;
constexpr uint32_t kForever = 0xffffffff;

// --- memory: free takes what any of these gave, and what the C library gives for an alignment only _aligned_free takes ---
void* malloc(size_t size) noexcept { return _aligned_malloc(size, 16); }
void* calloc(size_t count, size_t size) noexcept {
  size_t bytes;
  void* p = __builtin_mul_overflow(count, size, &bytes) ? nullptr : malloc(bytes);
  return p ? memset(p, 0, bytes) : nullptr;
}
void free(void* p) noexcept { _aligned_free(p); }
int posix_memalign(void** p, size_t alignment, size_t size) noexcept {
  void* made = _aligned_malloc(size, alignment);
  if (!made) return kNoMemory;
  *p = made;
  return 0;
}

// --- text ---
int vsnprintf(char* to, size_t size, const char* format, __builtin_va_list args) noexcept {
  return __stdio_common_vsprintf(2, to, size, format, nullptr, args);  // 2: cut off and counted as C99 says
}
int snprintf(char* to, size_t size, const char* format, ...) noexcept {
  __builtin_va_list args;
  __builtin_va_start(args, format);
  int n = vsnprintf(to, size, format, args);
  __builtin_va_end(args);
  return n;
}

// --- math ---
double j0(double x) { return _j0(x); }
double j1(double x) { return _j1(x); }
double y0(double x) { return _y0(x); }
double y1(double x) { return _y1(x); }
static int gamma_sign(double x) { return x < 0 && fmod(floor(x), 2) != 0 ? -1 : 1; }
double lgamma_r(double x, int* sign) {
  *sign = gamma_sign(x);
  return lgamma(x);
}
float lgammaf_r(float x, int* sign) {
  *sign = gamma_sign(static_cast<double>(x));
  return lgammaf(x);
}

// --- files ---
// The C library ends the process for a descriptor that is none, unless it is told not to.
static void go_on(const wchar_t*, const wchar_t*, const wchar_t*, unsigned, uintptr_t) {}
static Handle handle_of(int fd) {
  InvalidParameter* before = _set_thread_local_invalid_parameter_handler(go_on);
  intptr_t handle = _get_osfhandle(fd);
  _set_thread_local_invalid_parameter_handler(before);
  if (handle == -1 || handle == -2) {  // -2: a standard stream of a program that has none
    fail(kNoDescriptor);
    return nullptr;
  }
  Handle file = reinterpret_cast<Handle>(handle);
  if (GetFileType(file) == 1) return file;  // on a disk
  fail(kNoPositions);                       // a pipe, from which a read might wait for ever
  return nullptr;
}

int open(const char* path, int, ...) {
  constexpr uint32_t kUtf8 = 65001, kStrict = 8;
  constexpr int kBinary = 0x8000, kNotInherited = 0x80;
  int size = MultiByteToWideChar(kUtf8, kStrict, path, -1, nullptr, 0);
  if (size <= 0) return fail(kInvalid);
  wchar_t* wide = static_cast<wchar_t*>(malloc(static_cast<size_t>(size) * sizeof(wchar_t)));
  if (!wide) return fail(kNoMemory);
  MultiByteToWideChar(kUtf8, kStrict, path, -1, wide, size);
  int fd = _wopen(wide, pen::platform::kReadOnly | kBinary | kNotInherited);
  int error = *_errno();
  uint32_t kind = fd < 0 ? GetFileAttributesW(wide) : 0;
  if (kind != kForever && (kind & 0x10)) error = kDirectory;  // of which the C library says that access is denied
  free(wide);
  return fd < 0 ? fail(error) : fd;
}
int close(int fd) { return _close(fd); }
pen_offset lseek(int fd, pen_offset offset, int whence) noexcept { return handle_of(fd) ? _lseeki64(fd, offset, whence) : -1; }

ptrdiff_t pread(int fd, void* to, size_t size, pen_offset offset) {
  constexpr uint32_t kMost = 1u << 30, kEnd = 38;  // bytes at a time; ERROR_HANDLE_EOF
  Handle file = handle_of(fd);
  if (!file) return -1;
  uint64_t at = static_cast<uint64_t>(offset);
  Overlapped where = {{0, 0}, static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32), nullptr};
  uint32_t read = 0;
  if (!ReadFile(file, to, size < kMost ? static_cast<uint32_t>(size) : kMost, &read, &where) && GetLastError() != kEnd) return fail(kIo);
  return static_cast<ptrdiff_t>(read);
}

void* mmap(void*, size_t size, int, int, int fd, pen_offset offset) noexcept {
  constexpr uint32_t kPageReadOnly = 2, kMapRead = 4;
  void* failed = reinterpret_cast<void*>(-1);
  Handle file = handle_of(fd);
  if (!file) return failed;
  Handle mapping = CreateFileMappingW(file, nullptr, kPageReadOnly, 0, 0, nullptr);
  uint64_t at = static_cast<uint64_t>(offset);
  void* view = mapping ? MapViewOfFile(mapping, kMapRead, static_cast<uint32_t>(at >> 32), static_cast<uint32_t>(at), size) : nullptr;
  if (!view) fail(mapping ? kNoMemory : kNoAccess);
  if (mapping) CloseHandle(mapping);  // the view keeps it
  return view ? view : failed;
}
int munmap(void* address, size_t) noexcept { return UnmapViewOfFile(address) ? 0 : -1; }
int madvise(void*, size_t, int) noexcept { return 0; }

// --- processors, time, processes ---
long sysconf(int name) noexcept {
  SystemInfo info;
  GetSystemInfo(&info);
  // Views begin at multiples of 64 KB, though pages are smaller. Processors: of this process's group, in which its threads start.
  return static_cast<long>(name == pen::platform::kPageSizeName ? info.granularity : info.processors);
}
int clock_gettime(int, pen_timespec* t) noexcept {
  int64_t count, per_second;
  QueryPerformanceFrequency(&per_second);
  QueryPerformanceCounter(&count);
  t->seconds = count / per_second;
  t->nanoseconds = static_cast<long>(count % per_second * 1000000000 / per_second);
  return 0;
}
int getpid(void) noexcept { return static_cast<int>(GetCurrentProcessId()); }
int sched_yield(void) noexcept {
  SwitchToThread();
  return 0;
}

// --- threads ---
// Windows wants 32 bits of result where POSIX has a pointer; both are the same register, and nobody reads it.
int pthread_create(pen_pthread* thread, const void*, void* (*start)(void*), void* argument) noexcept {
  *thread = CreateThread(nullptr, 0, start, argument, 0, nullptr);
  return *thread ? 0 : kNoMemory;
}
int pthread_join(pen_pthread thread, void**) {
  WaitForSingleObject(thread, kForever);
  CloseHandle(thread);
  return 0;
}
// A lock and a condition are a pointer each, at first null; there is nothing to give back.
int pthread_mutex_init(void* mutex, const void*) noexcept {
  *static_cast<void**>(mutex) = nullptr;
  return 0;
}
int pthread_mutex_destroy(void*) noexcept { return 0; }
int pthread_mutex_lock(void* mutex) noexcept {
  AcquireSRWLockExclusive(mutex);
  return 0;
}
int pthread_mutex_unlock(void* mutex) noexcept {
  ReleaseSRWLockExclusive(mutex);
  return 0;
}
int pthread_cond_init(void* condition, const void*) noexcept {
  *static_cast<void**>(condition) = nullptr;
  return 0;
}
int pthread_cond_destroy(void*) noexcept { return 0; }
int pthread_cond_wait(void* condition, void* mutex) { return SleepConditionVariableSRW(condition, mutex, kForever, 0) ? 0 : kInvalid; }
int pthread_cond_signal(void* condition) noexcept {
  WakeConditionVariable(condition);
  return 0;
}
int pthread_cond_broadcast(void* condition) noexcept {
  WakeAllConditionVariable(condition);
  return 0;
}
int pthread_key_create(pen_pthread_key* key, void (*)(void*)) noexcept {
  *key = TlsAlloc();
  return *key == kForever ? kNoMemory : 0;  // which is TLS_OUT_OF_INDEXES too
}
void* pthread_getspecific(pen_pthread_key key) noexcept { return TlsGetValue(key); }
int pthread_setspecific(pen_pthread_key key, const void* value) noexcept {
  return TlsSetValue(key, const_cast<void*>(value)) ? 0 : kNoMemory;
}

}  // extern "C"

#endif
