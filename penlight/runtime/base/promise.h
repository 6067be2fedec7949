// What callers promise (penlight.h) and an app would pay for with every call if it were checked: asserted in debug builds (PEN_PROMISES:
// CMAKE_BUILD_TYPE Debug, and those under sanitizers), where a promise that is not kept ends the process with words. In all others nothing
// of this is compiled. Handles begin with a mark of their kind; it says whether one is alive, who is inside of it, and what depends on it.
#pragma once
#include "penlight/runtime/base/platform.h"

namespace pen {

enum class HandleKind : uint32_t { model = 0x6d6f6465, session, module, operators, value, buffer, trace };

#if defined(PEN_PROMISES)

struct Mark {
  uint64_t written[4];  // by free(), so that what follows stays for a while
  uintptr_t thread;     // that is inside of it; 0: none
  int32_t depth;        // calls of that thread
  int32_t dependent;    // handles that need it
  uint32_t kind;        // a HandleKind; another number: there is no such handle any more, or never was
};

[[noreturn]] void promise_broken(const char* function, const char* words);
void mark_check(const Mark* mark, HandleKind kind, const char* function);
void mark_enter(const Mark* mark, HandleKind kind, bool alone, const char* function);
void mark_leave(const Mark* mark);
void mark_end(Mark* mark, HandleKind kind, const char* function);
void mark_depend(const Mark* mark, int by);

template <HandleKind kKind>
struct Handle : Mark {};
template <HandleKind kKind>
void handle_begin(Handle<kKind>* h) {
  static_cast<Mark&>(*h) = {{}, 0, 0, 0, static_cast<uint32_t>(kKind)};
}
// Nobody is inside of it, nothing depends on it, and it is not used again. NULL is nothing, here and below.
template <HandleKind kKind>
void handle_end(Handle<kKind>* h, const char* function = __builtin_FUNCTION()) {
  if (h) mark_end(h, kKind, function);
}
template <HandleKind kKind>
void alive(const Handle<kKind>* h, const char* function = __builtin_FUNCTION()) {
  if (h) mark_check(h, kKind, function);
}
// Another handle needs this one, until it says that it does not.
template <HandleKind kKind>
void depend(const Handle<kKind>* h) {
  if (h) mark_depend(h, 1);
}
template <HandleKind kKind>
void depend_no_more(const Handle<kKind>* h) {
  if (h) mark_depend(h, -1);
}
// A call that is inside of a handle, as one thread at a time may be. `alone`: not from inside of another call of this thread either.
class Inside {
 public:
  template <HandleKind kKind>
  explicit Inside(const Handle<kKind>* h, bool alone = false, const char* function = __builtin_FUNCTION()) : mark_(h) {
    if (h) mark_enter(h, kKind, alone, function);
  }
  ~Inside() {
    if (mark_) mark_leave(mark_);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  const Mark* mark_;
};

#else

template <HandleKind kKind>
struct Handle {};
static PEN_INLINE void handle_begin(const void*) {}
static PEN_INLINE void handle_end(const void*) {}
static PEN_INLINE void alive(const void*) {}
static PEN_INLINE void depend(const void*) {}
static PEN_INLINE void depend_no_more(const void*) {}
struct Inside {
  explicit PEN_INLINE Inside(const void*, bool = false) {}
};

#endif

}  // namespace pen
