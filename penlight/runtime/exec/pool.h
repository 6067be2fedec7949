// A session's threads. Work is a number of tasks; every thread gets a range of them, and helps the others when it is done. The threads
// start with the first piece of work worth sharing, spin a bounded time for more, then sleep. After fork() they are started anew.
#pragma once
#include "penlight/runtime/base/platform.h"

namespace pen {

using TaskFn = void (*)(void* context, int64_t begin, int64_t end, int worker);

struct ThreadPool;

// Null when out of memory. threads >= 1; with 1 everything runs on the caller's thread.
ThreadPool* pool_create(int threads);
void pool_destroy(ThreadPool* pool);
// Calls `run` over ranges that cover [0, count), on up to `threads` threads, and returns when all is done.
void pool_run(ThreadPool* pool, int64_t count, TaskFn run, void* context);
int pool_threads(const ThreadPool* pool);

int core_count();

}  // namespace pen
