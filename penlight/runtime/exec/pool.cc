#include "penlight/runtime/exec/pool.h"

namespace pen {

namespace {

constexpr int kMaxThreads = 64;
constexpr int kSpins = 20000;  // about 50-100 microseconds: longer than the gap between two nodes of a run
// A thread's speed, of the fastest's. From kEven on a thread counts as fast as that: shares that differ for no reason would move work
// from cache to cache.
constexpr int kFull = 256, kEven = 192;
constexpr int kMeasured = 8;  // of so many pieces of work, one is measured
constexpr int kHelp = 100;    // spins, a few microseconds: what a slow caller waits for somebody to come
// A wait of kStall that takes more than was won since the one before is for a thread in whose place the system runs another program, and
// that will come again: for kAlone the caller then works alone. Both in nanoseconds.
constexpr int64_t kStall = 1 << 20, kAlone = 48 << 20;

PEN_INLINE void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

}  // namespace

// The range of tasks that is a thread's own. It is about the same part of each node's work, so that what a thread has written for one
// node is in its core's cache for the next. With it, in one cache line, what is known of the thread's speed; results do not depend on that,
// only who computes them.
struct alignas(64) Share {
  int32_t next, end;
  int32_t speed;
  int64_t rate;  // tasks by time, of a piece of work that was measured
  ThreadPool* pool;
  bool begun;  // its thread is at work on it, and leaves no task of it
};

struct ThreadPool {
  alignas(64) char lock[platform::kLockBytes];
  alignas(64) char wake[platform::kConditionBytes];
  int threads;  // the caller included
  int started;  // other threads running
  int owner;    // process that started them
  bool stopping;
  uint32_t pieces;
  int32_t speed;    // of all together
  int64_t stalled;  // when the last stall ended; while the caller works alone, until when it does
  bool alone;

  // The current work; may be read by those inside the door, as may be speeds.
  TaskFn run;
  void* context;
  bool measuring;
  // The door, in one word: how many other threads are inside, whether it is open, and a number that changes with every
  // piece of work. Whoever comes after the last task was taken finds it closed: the caller never waits for a thread
  // that the system has not let run, only for those at work.
  alignas(64) uint32_t door;
  Share shares[kMaxThreads];
  alignas(64) int32_t sleepers;
  pen_pthread handles[kMaxThreads];
  void (*waiting)(void* context);
};

namespace {

constexpr uint32_t kInside = 0xff, kOpen = 0x100, kNumberShift = 9;
static_assert(kMaxThreads <= static_cast<int>(kInside), "all threads are counted");

PEN_INLINE int32_t speed_of(const Share& share) { return share.speed < kEven ? share.speed : kFull; }

// Whether a slow thread had better take no task: others will be done with all that are left before it would be with one.
bool leaves(const ThreadPool* pool, int worker) {
  int32_t left = 0, speed = pool->shares[worker].speed;
  for (int i = 0; i < pool->threads; ++i) {
    const Share& share = pool->shares[i];
    int32_t next = __atomic_load_n(&share.next, __ATOMIC_RELAXED);
    if (next < share.end) left += share.end - next;
  }
  if (int64_t{left} * speed >= pool->speed - speed) return false;
  // The caller must know that somebody is there.
  for (int spins = 0; worker == 0 && left && !(__atomic_load_n(&pool->door, __ATOMIC_RELAXED) & kInside); ++spins) {
    if (spins == kHelp) return false;
    pause_cpu();
  }
  return true;
}

// The last task of a thread that is at work is its own: it would be done no sooner elsewhere, and what it reads and writes is there.
PEN_INLINE bool is_theirs(const Share& share) {
  return share.end - __atomic_load_n(&share.next, __ATOMIC_RELAXED) < 2 && __atomic_load_n(&share.begun, __ATOMIC_RELAXED);
}

// Its own share, then what others have left of theirs.
void work(ThreadPool* pool, int worker) {
  const int64_t start = pool->measuring ? now_ns() : 0;
  Share& own = pool->shares[worker];
  __atomic_store_n(&own.begun, own.speed >= kEven, __ATOMIC_RELAXED);
  int64_t tasks = 0;
  for (int i = 0, owner = worker; i < pool->threads; ++i) {
    Share& share = pool->shares[owner];
    owner = owner + 1 < pool->threads ? owner + 1 : 0;
    while ((own.speed >= kEven || !leaves(pool, worker))) {
      int32_t task = __atomic_fetch_add(&share.next, 1, __ATOMIC_RELAXED);
      if (task >= share.end) break;
      pool->run(pool->context, task, task + 1, worker);
      ++tasks;
    }
  }
  if (start) own.rate = (tasks << 32) / (now_ns() - start + 1);
}

// What a measured piece of work says of the threads. One that took no part counts as fast, so that what was known of it is forgotten in
// time, and it gets tasks again: it may have been held up by something else.
void learn(ThreadPool* pool) {
  int64_t best = 0;
  for (int i = 0; i < pool->threads; ++i) best = pool->shares[i].rate > best ? pool->shares[i].rate : best;
  pool->speed = 0;
  for (int i = 0; i < pool->threads; ++i) {
    Share& share = pool->shares[i];
    share.speed += (static_cast<int32_t>(share.rate ? share.rate / (best / kFull + 1) : kFull) - share.speed) / 8;
    share.rate = 0;
    pool->speed += speed_of(share);
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
  Share* own = static_cast<Share*>(argument);
  ThreadPool* pool = own->pool;
  uint32_t seen = 0;
  for (;;) {
    uint32_t door = wait_for_work(pool, seen);
    if (__atomic_load_n(&pool->stopping, __ATOMIC_ACQUIRE)) return nullptr;
    if (!__atomic_compare_exchange_n(&pool->door, &door, door + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) continue;
    work(pool, static_cast<int>(own - pool->shares));
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

// The caller has waited for others since `start`.
PEN_INLINE void note_wait(ThreadPool* pool, int64_t start) {
  const int64_t end = now_ns(), lost = end - start;
  if (lost < kStall) return;
  pool->alone = start - pool->stalled < 3 * lost;
  pool->stalled = pool->alone ? end + kAlone : end;
}

// Whether the caller works alone still. Asked once for each piece of work, before anything is handed out by it.
PEN_INLINE bool is_alone(ThreadPool* pool) {
  if (pool->alone && now_ns() > pool->stalled) pool->alone = false;
  return pool->alone;
}

void close_door(ThreadPool* pool) {
  __atomic_fetch_and(&pool->door, ~kOpen, __ATOMIC_ACQ_REL);
  int64_t start = 0;
  for (int64_t spins = 0; __atomic_load_n(&pool->door, __ATOMIC_ACQUIRE) & kInside; ++spins) {
    pause_cpu();
    if (spins == kSpins) start = now_ns();
    if (spins <= kSpins) continue;
    if (kAsks && pool->waiting) pool->waiting(pool->context);
    sched_yield();
  }
  if (start) note_wait(pool, start);
}

void start_threads(ThreadPool* pool) {
  pthread_mutex_init(pool->lock, nullptr);
  pthread_cond_init(pool->wake, nullptr);
  pool->started = 0;
  pool->sleepers = 0;
  pool->door = 0;
  pool->owner = getpid();
  for (int i = 1; i < pool->threads; ++i) {
    pool->shares[i].pool = pool;
    if (pthread_create(&pool->handles[pool->started], nullptr, thread_main, &pool->shares[i]) != 0) break;  // slower, not wrong
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
  for (int i = 0; i < pool->threads; ++i) pool->speed += pool->shares[i].speed = kFull;
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
void pool_while_waiting(ThreadPool* pool, void (*call)(void* context)) { pool->waiting = call; }

void pool_run(ThreadPool* pool, int64_t count, TaskFn run, void* context) {
  if (count <= 0) return;
  const bool slow = pool->shares[0].speed < kEven;
  if (pool->threads == 1 || is_alone(pool) || (count == 1 && !slow)) return run(context, 0, count, 0);
  if (pool->owner != getpid()) start_threads(pool);  // the first time, and in a forked child
  pool->run = run;
  pool->context = context;
  pool->measuring = count >= 4 * pool->threads && ++pool->pieces % kMeasured == 0;
  int64_t before = 0, begin = 0;
  for (int i = 0; i < pool->threads; ++i) {
    Share& share = pool->shares[i];
    before += speed_of(share);
    share.next = static_cast<int32_t>(begin);
    begin = count * before / pool->speed;
    share.end = static_cast<int32_t>(begin);
    share.begun = false;
  }
  open_door(pool);
  work(pool, 0);
  close_door(pool);
  if (pool->measuring) learn(pool);
  pool->measuring = false;
  if (slow) work(pool, 0);  // what it left, if those inside left it too
}

int64_t now_ns() {
  pen_timespec t = {0, 0};
  clock_gettime(platform::kMonotonic, &t);
  return static_cast<int64_t>(t.seconds) * 1000000000 + t.nanoseconds;
}

int core_count() {
  long n = sysconf(platform::kCoresName);
  return n < 1 ? 1 : (n > kMaxThreads ? kMaxThreads : static_cast<int>(n));
}

namespace {

constexpr int kPatience = 64;  // spins, about a microsecond: what others take longer for than oneself is theirs for so long

// All phases are one piece of work of the pool: threads come in once and stay until the last phase is done, which costs a phase two
// cache lines that go from core to core instead of six or more.
struct Repeat {
  ThreadPool* pool;
  TaskFn run;
  void* context;
  int32_t count, phases, threads;
  bool alone;                 // the caller goes on alone: others leave
  alignas(64) int32_t done;   // tasks, of all phases: its quotient by `count` is the phase that is open
  Share shares[kMaxThreads];  // next: how many tasks of this part of every phase were taken, over all phases
};

// How many tasks of `owner`'s share of a phase this worker took and did. If the phase is over by now, none is left in it.
int32_t take_share(Repeat* r, int32_t phase, int owner, int worker) {
  const int64_t begin = int64_t{r->count} * owner / r->threads, end = int64_t{r->count} * (owner + 1) / r->threads;
  const int32_t size = static_cast<int32_t>(end - begin), all = (phase + 1) * size;
  int32_t taken = __atomic_load_n(&r->shares[owner].next, __ATOMIC_RELAXED), did = 0;
  while (taken < all) {
    if (!__atomic_compare_exchange_n(&r->shares[owner].next, &taken, taken + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) continue;
    // Every second phase goes backward: what a thread has used last is near when it begins anew.
    const int32_t place = taken - phase * size;
    const int64_t task = int64_t{phase} * r->count + begin + (phase % 2 ? size - 1 - place : place);
    r->run(r->context, task, task + 1, worker);
    ++taken;
    ++did;
  }
  return did;
}

// Whoever comes goes through the phases from the one that is open. Nobody waits for a thread that has taken no task of this phase.
void take_part(void* context, int64_t, int64_t, int worker) {
  Repeat* r = static_cast<Repeat*>(context);
  int spins = 0;
  int64_t start = 0;  // since when the caller has waited, where that is long
  for (;;) {
    const bool alone = __atomic_load_n(&r->alone, __ATOMIC_RELAXED);
    const int32_t phase = __atomic_load_n(&r->done, __ATOMIC_ACQUIRE) / r->count;
    if (phase == r->phases || (alone && worker != 0)) return;
    int32_t did = take_share(r, phase, worker, worker);
    for (int i = 0; (alone || spins >= kPatience) && i < r->threads; ++i) did += take_share(r, phase, i, worker);
    if (did) {
      __atomic_fetch_add(&r->done, did, __ATOMIC_ACQ_REL);
      spins = 0;
      if (!start) continue;
      note_wait(r->pool, start);
      start = 0;
      if (r->pool->alone) __atomic_store_n(&r->alone, true, __ATOMIC_RELAXED);
      continue;
    }
    pause_cpu();
    if (++spins < kSpins) continue;
    if (worker == 0 && !start) start = now_ns();
    sched_yield();
    spins = kPatience;
  }
}

}  // namespace

void pool_repeat(ThreadPool* pool, int32_t count, int32_t phases, TaskFn run, void* context) {
  if (pool->threads == 1 || count == 1 || is_alone(pool)) {
    for (int64_t phase = 0; phase < phases; ++phase) run(context, phase * count, (phase + 1) * count, 0);
    return;
  }
  Repeat all = {};
  all.pool = pool;
  all.run = run;
  all.context = context;
  all.count = count;
  all.phases = phases;
  all.threads = pool->threads;
  pool_run(pool, pool->threads, take_part, &all);
}

}  // namespace pen
