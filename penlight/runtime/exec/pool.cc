#include "penlight/runtime/exec/pool.h"

namespace pen {

namespace {

constexpr int kMaxThreads = 64;
constexpr int kSpins = 20000;  // about 50-100 microseconds: longer than the gap between two nodes of a run

PEN_INLINE void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

}  // namespace

struct ThreadPool {
  alignas(64) char lock[platform::kLockBytes];
  alignas(64) char wake[platform::kConditionBytes];
  int threads;  // the caller included
  int started;  // other threads running
  int owner;    // process that started them
  bool stopping;
  pen_pthread handles[kMaxThreads];

  // The current work. `generation` changes when there is new work; workers acknowledge by counting `busy` down.
  alignas(64) uint32_t generation;
  TaskFn run;
  void* context;
  int32_t count;
  alignas(64) int32_t next;
  alignas(64) int32_t busy;
  int32_t sleepers;
};

namespace {

struct Start {
  ThreadPool* pool;
  int worker;
};

void work(ThreadPool* pool, int worker) {
  for (;;) {
    int32_t task = __atomic_fetch_add(&pool->next, 1, __ATOMIC_RELAXED);
    if (task >= pool->count) return;
    pool->run(pool->context, task, task + 1, worker);
  }
}

void* thread_main(void* argument) {
  Start start = *static_cast<Start*>(argument);
  free(argument);
  ThreadPool* pool = start.pool;
  uint32_t seen = 0;
  for (;;) {
    int spins = 0;
    while (__atomic_load_n(&pool->generation, __ATOMIC_ACQUIRE) == seen && spins < kSpins) {
      pause_cpu();
      ++spins;
    }
    if (spins == kSpins) {
      pthread_mutex_lock(pool->lock);
      ++pool->sleepers;
      while (__atomic_load_n(&pool->generation, __ATOMIC_ACQUIRE) == seen) pthread_cond_wait(pool->wake, pool->lock);
      --pool->sleepers;
      pthread_mutex_unlock(pool->lock);
    }
    ++seen;  // generations are handed out one by one: the caller waits for all workers in between
    if (__atomic_load_n(&pool->stopping, __ATOMIC_ACQUIRE)) return nullptr;
    work(pool, start.worker);
    __atomic_fetch_sub(&pool->busy, 1, __ATOMIC_RELEASE);
  }
}

void publish(ThreadPool* pool) {
  __atomic_store_n(&pool->busy, pool->started, __ATOMIC_RELEASE);
  pthread_mutex_lock(pool->lock);
  __atomic_fetch_add(&pool->generation, 1, __ATOMIC_RELEASE);
  if (pool->sleepers) pthread_cond_broadcast(pool->wake);
  pthread_mutex_unlock(pool->lock);
}

void start_threads(ThreadPool* pool) {
  pthread_mutex_init(pool->lock, nullptr);
  pthread_cond_init(pool->wake, nullptr);
  pool->generation = 0;
  pool->started = 0;
  pool->sleepers = 0;
  pool->busy = 0;
  pool->owner = getpid();
  for (int i = 1; i < pool->threads; ++i) {
    Start* start = static_cast<Start*>(malloc(sizeof(Start)));
    if (!start) break;  // fewer threads: slower, not wrong
    *start = {pool, i};
    if (pthread_create(&pool->handles[pool->started], nullptr, thread_main, start) != 0) {
      free(start);
      break;
    }
    ++pool->started;
  }
}

}  // namespace

ThreadPool* pool_create(int threads) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, sizeof(ThreadPool)) != 0) return nullptr;
  memset(memory, 0, sizeof(ThreadPool));
  ThreadPool* pool = static_cast<ThreadPool*>(memory);
  pool->threads = threads < 1 ? 1 : (threads > kMaxThreads ? kMaxThreads : threads);
  return pool;
}

void pool_destroy(ThreadPool* pool) {
  if (!pool) return;
  if (pool->started && pool->owner == getpid()) {
    __atomic_store_n(&pool->stopping, true, __ATOMIC_RELEASE);
    publish(pool);
    for (int i = 0; i < pool->started; ++i) pthread_join(pool->handles[i], nullptr);
    pthread_cond_destroy(pool->wake);
    pthread_mutex_destroy(pool->lock);
  }
  free(pool);
}

int pool_threads(const ThreadPool* pool) { return pool->threads; }

void pool_run(ThreadPool* pool, int64_t count, TaskFn run, void* context) {
  if (count <= 0) return;
  if (pool->threads == 1 || count == 1) return run(context, 0, count, 0);
  if (pool->owner != getpid()) start_threads(pool);  // the first time, and in a forked child
  pool->run = run;
  pool->context = context;
  pool->count = static_cast<int32_t>(count);
  __atomic_store_n(&pool->next, 0, __ATOMIC_RELAXED);
  publish(pool);
  work(pool, 0);
  int spins = 0;
  while (__atomic_load_n(&pool->busy, __ATOMIC_ACQUIRE) != 0) {
    pause_cpu();
    if (++spins > kSpins) {
      sched_yield();
      spins = 0;
    }
  }
}

int core_count() {
  long n = sysconf(platform::kCoresName);
  return n < 1 ? 1 : (n > kMaxThreads ? kMaxThreads : static_cast<int>(n));
}

}  // namespace pen
