// What platform.h promises and WebAssembly lacks: threads (there is one, the caller's), processes, an environment. The clock is the
// one thing that a module takes from outside, by WASI's name, so that every host has it. All else is the C library's (WASI's).
#include "penlight/runtime/base/platform.h"

#if defined(__wasm__)

extern "C" {

__attribute__((import_module("wasi_snapshot_preview1"), import_name("clock_time_get"))) int pen_wasi_clock(int clock, uint64_t precision,
                                                                                                           uint64_t* nanoseconds);

int clock_gettime(int clock, pen_timespec* t) noexcept {
  uint64_t now = 0;
  int error = pen_wasi_clock(clock, 1, &now);
  t->seconds = static_cast<pen_seconds>(now / 1000000000u);
  t->nanoseconds = static_cast<long>(now % 1000000000u);
  return error;
}
long sysconf(int) noexcept { return 1; }  // cores
int madvise(void*, size_t, int) noexcept { return 0; }
char* getenv(const char*) noexcept { return nullptr; }
int getpid(void) noexcept { return 1; }
int sched_yield(void) noexcept { return 0; }

int pthread_create(pen_pthread*, const void*, void* (*)(void*), void*) noexcept { return 1; }
int pthread_join(pen_pthread, void**) { return 1; }
int pthread_mutex_init(void*, const void*) noexcept { return 0; }
int pthread_mutex_destroy(void*) noexcept { return 0; }
int pthread_mutex_lock(void*) noexcept { return 0; }
int pthread_mutex_unlock(void*) noexcept { return 0; }
int pthread_cond_init(void*, const void*) noexcept { return 0; }
int pthread_cond_destroy(void*) noexcept { return 0; }
int pthread_cond_wait(void*, void*) { return 1; }  // nobody would end it
int pthread_cond_signal(void*) noexcept { return 0; }
int pthread_cond_broadcast(void*) noexcept { return 0; }

// One thread's values are plain variables; the runtime has one key.
static bool taken;
static const void* kept;
int pthread_key_create(pen_pthread_key* key, void (*)(void*)) noexcept {
  if (taken) return 1;
  taken = true;
  *key = 0;
  return 0;
}
void* pthread_getspecific(pen_pthread_key) noexcept { return const_cast<void*>(kept); }
int pthread_setspecific(pen_pthread_key, const void* value) noexcept {
  kept = value;
  return 0;
}

}  // extern "C"

#endif
