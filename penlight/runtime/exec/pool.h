// A session's threads. Work is a number of tasks; every thread gets a range of them, as many as it is fast, and helps the others when it is
// done. The threads start with the first piece of work worth sharing, spin a bounded time for more, then sleep. After fork() they are
// started anew.
#pragma once
#include "penlight/runtime/base/tensor.h"

namespace pen {

using TaskFn = void (*)(void* context, int64_t begin, int64_t end, int worker);

struct ThreadPool;

// Null when out of memory. threads >= 1; with 1 everything runs on the caller's thread.
ThreadPool* pool_create(int threads);
void pool_destroy(ThreadPool* pool);
// Calls `run` over ranges that cover [0, count), on up to `threads` threads, and returns when all is done.
void pool_run(ThreadPool* pool, int64_t count, TaskFn run, void* context);
int pool_threads(const ThreadPool* pool);
// What the caller's thread calls with the work's context, time and again, while it waits at the end of a pool_run for others that are at
// work for long; null: nothing.
void pool_while_waiting(ThreadPool* pool, void (*call)(void* context));
// The same for so many phases, each of which begins when all tasks of the one before are done; task t of phase p is number p * count + t,
// and a range that `run` gets lies in one phase. Threads stay from phase to phase, so a phase may be as short as ten microseconds.
// count * phases is below 2^30.
void pool_repeat(ThreadPool* pool, int32_t count, int32_t phases, TaskFn run, void* context);

int core_count();
int64_t now_ns();

}  // namespace pen
