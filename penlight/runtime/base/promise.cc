#include "penlight/runtime/base/promise.h"

#if defined(PEN_PROMISES)

extern "C" [[noreturn]] void abort(void) noexcept;

namespace pen {

namespace {

// Freed memory is looked at on purpose: a handle that was destroyed still says so there, as long as nobody else has the memory.
#define PEN_ANY_MEMORY __attribute__((no_sanitize("address", "thread", "undefined"), noinline))

constexpr const char* kNames[] = {"pen_model", "pen_session", "pen_module", "pen_operators", "pen_value", "pen_buffer", "pen_trace"};
constexpr uint32_t kEnded = 0x656e6465;

const char* name_of(HandleKind kind) { return kNames[static_cast<uint32_t>(kind) - static_cast<uint32_t>(HandleKind::model)]; }

// A number of this thread alone, from what every system has: where it keeps errno.
uintptr_t this_thread() {
#if defined(__wasm__)
  return 1;
#elif defined(__APPLE__)
  return reinterpret_cast<uintptr_t>(__error());
#elif defined(__ANDROID__)
  return reinterpret_cast<uintptr_t>(__errno());
#else
  return reinterpret_cast<uintptr_t>(__errno_location());
#endif
}

[[noreturn]] void broken(const char* function, HandleKind kind, const char* words) {
  char text[192];
  snprintf(text, sizeof text, words, name_of(kind));
  promise_broken(function, text);
}

PEN_ANY_MEMORY uint32_t kind_of(const Mark* mark) { return *const_cast<const volatile uint32_t*>(&mark->kind); }

}  // namespace

void promise_broken(const char* function, const char* words) {
  char text[320];
  const int size = snprintf(text, sizeof text, "penlight: %s: a promise of the caller's is broken: %s\n", function, words);
  if (size > 0 && write(2, text, static_cast<size_t>(size)) < 0) abort();
  abort();
}

void mark_check(const Mark* mark, HandleKind kind, const char* function) {
  const uint32_t found = kind_of(mark);
  if (found == kEnded) broken(function, kind, "a %s that was destroyed");
  if (found != static_cast<uint32_t>(kind)) broken(function, kind, "this is no %s, or none that is alive");
}

void mark_enter(const Mark* given, HandleKind kind, bool alone, const char* function) {
  mark_check(given, kind, function);
  Mark* mark = const_cast<Mark*>(given);
  const uintptr_t self = this_thread();
  uintptr_t nobody = 0;
  if (!__atomic_compare_exchange_n(&mark->thread, &nobody, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    if (nobody != self) broken(function, kind, "another thread is inside of this %s (or was when the process forked)");
    if (alone) broken(function, kind, "this thread is inside of this %s already: a callback must not use it so");
  }
  ++mark->depth;
}
void mark_leave(const Mark* given) {
  Mark* mark = const_cast<Mark*>(given);
  if (--mark->depth == 0) __atomic_store_n(&mark->thread, uintptr_t{0}, __ATOMIC_RELEASE);
}
void mark_end(Mark* mark, HandleKind kind, const char* function) {
  mark_enter(mark, kind, true, function);
  if (__atomic_load_n(&mark->dependent, __ATOMIC_ACQUIRE) != 0) broken(function, kind, "something that is alive needs this %s still");
  *const_cast<volatile uint32_t*>(&mark->kind) = kEnded;  // it is freed next: a compiler may leave out other writes
}
void mark_depend(const Mark* mark, int by) { __atomic_add_fetch(&const_cast<Mark*>(mark)->dependent, by, __ATOMIC_ACQ_REL); }

}  // namespace pen
#endif
