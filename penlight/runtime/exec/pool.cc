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

// The range of tasks that is a thread's own. It is about the same part of each node's work, so that what a thread has written for one
// node is in its core's cache for the next.
struct alignas(64) Share {
  int32_t next, end;
};

struct Start {  // what a thread is told
  ThreadPool* pool;
  int worker;
};

struct ThreadPool {
  alignas(64) char lock[platform::kLockBytes];
  alignas(64) char wake[platform::kConditionBytes];
  int threads;  // the caller included
  int started;  // other threads running
  int owner;    // process that started them
  bool stopping;
  pen_pthread handles[kMaxThreads];
  Start starts[kMaxThreads];

  // The current work; may be read by those inside the door.
  TaskFn run;
  void* context;
  // The door, in one word: how many other threads are inside, whether it is open, and a number that changes with every
  // piece of work. Whoever comes after the last task was taken finds it closed: the caller never waits for a thread
  // that the system has not let run, only for those at work.
  alignas(64) uint32_t door;
  Share shares[kMaxThreads];
  alignas(64) int32_t sleepers;
};

namespace {

constexpr uint32_t kInside = 0xff, kOpen = 0x100, kNumberShift = 9;
static_assert(kMaxThreads <= static_cast<int>(kInside), "all threads are counted");

void work(ThreadPool* pool, int worker) {
  // Its own share, then what others have left of theirs.
  for (int i = 0; i < pool->threads; ++i) {
    int owner = worker + i < pool->threads ? worker + i : worker + i - pool->threads;
    Share& share = pool->shares[owner];
    for (;;) {
      int32_t task = __atomic_fetch_add(&share.next, 1, __ATOMIC_RELAXED);
      if (task >= share.end) break;
      pool->run(pool->context, task, task + 1, worker);
    }
  }
}

// Whether there is work that this thread has not seen yet, or it is time to go; then `door` is what it saw.
bool called(ThreadPool* pool, uint32_t seen, uint32_t* door) {
  *door = __atomic_load_n(&pool->door, __ATOMIC_SEQ_CST);
  return ((*door & kOpen) && *door >> kNumberShift != seen) || __atomic_load_n(&pool->stopping, __ATOMIC_ACQUIRE);
}

uint32_t wait_for_work(ThreadPool* pool, uint32_t seen) {
  uint32_t door;
  for (;;) {
    for (int spins = 0; spins < kSpins; ++spins) {
      if (called(pool, seen, &door)) return door;
      pause_cpu();
    }
    pthread_mutex_lock(pool->lock);
    // It says that it sleeps, then looks once more; open_door opens, then looks for sleepers. So one of the two sees the other.
    __atomic_fetch_add(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
    // Once woken it spins again, even if the work that woke it is done by now: more will follow.
    if (!called(pool, seen, &door)) pthread_cond_wait(pool->wake, pool->lock);
    __atomic_fetch_sub(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(pool->lock);
  }
}

void* thread_main(void* argument) {
  Start start = *static_cast<Start*>(argument);
  ThreadPool* pool = start.pool;
  uint32_t seen = 0;
  for (;;) {
    uint32_t door = wait_for_work(pool, seen);
    if (__atomic_load_n(&pool->stopping, __ATOMIC_ACQUIRE)) return nullptr;
    if (!__atomic_compare_exchange_n(&pool->door, &door, door + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) continue;
    work(pool, start.worker);
    seen = door >> kNumberShift;
    __atomic_fetch_sub(&pool->door, 1, __ATOMIC_RELEASE);
  }
}

void wake_sleepers(ThreadPool* pool) {
  if (__atomic_load_n(&pool->sleepers, __ATOMIC_SEQ_CST) == 0) return;
  pthread_mutex_lock(pool->lock);
  pthread_cond_broadcast(pool->wake);
  pthread_mutex_unlock(pool->lock);
}

// Nobody is inside when it opens; close_door waits until nobody is inside again.
void open_door(ThreadPool* pool) {
  uint32_t number = (__atomic_load_n(&pool->door, __ATOMIC_RELAXED) >> kNumberShift) + 1;
  __atomic_store_n(&pool->door, number << kNumberShift | kOpen, __ATOMIC_SEQ_CST);
  wake_sleepers(pool);
}

void close_door(ThreadPool* pool) {
  __atomic_fetch_and(&pool->door, ~kOpen, __ATOMIC_ACQ_REL);
  for (int spins = 0; __atomic_load_n(&pool->door, __ATOMIC_ACQUIRE) & kInside; ++spins) {
    pause_cpu();
    if (spins < kSpins) continue;
    sched_yield();
    spins = 0;
  }
}

void start_threads(ThreadPool* pool) {
  pthread_mutex_init(pool->lock, nullptr);
  pthread_cond_init(pool->wake, nullptr);
  pool->started = 0;
  pool->sleepers = 0;
  pool->door = 0;
  pool->owner = getpid();
  for (int i = 1; i < pool->threads; ++i) {
    pool->starts[i] = {pool, i};
    if (pthread_create(&pool->handles[pool->started], nullptr, thread_main, &pool->starts[i]) != 0) break;  // slower, not wrong
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
    __atomic_store_n(&pool->stopping, true, __ATOMIC_SEQ_CST);
    wake_sleepers(pool);
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
  for (int i = 0; i < pool->threads; ++i)
    pool->shares[i] = {static_cast<int32_t>(count * i / pool->threads), static_cast<int32_t>(count * (i + 1) / pool->threads)};
  open_door(pool);
  work(pool, 0);
  close_door(pool);
}

int core_count() {
  long n = sysconf(platform::kCoresName);
  return n < 1 ? 1 : (n > kMaxThreads ? kMaxThreads : static_cast<int>(n));
}

}  // namespace pen
