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

// The tasks of a piece of work that are a thread's own. It is about the same part of each node's work, so that what a thread has written
// for one node is in its core's cache for the next. What a thread must know to begin lies in one cache line, as it comes from the caller's
// core, and each line takes its time: half a microsecond there and back between cores that share no cache.
struct alignas(64) Share {
  uint32_t word;  // how many tasks nobody has taken yet, and kBegun. Whoever takes one may read what follows until that task is done
  int32_t end;
  TaskFn run;
  void* context;
  bool measuring;
  // The thread's own.
  alignas(64) uint32_t done;  // tasks, of all pieces of work; counts round and round
  int64_t rate;               // tasks by time, of a piece of work that was measured
  ThreadPool* pool;
};

struct ThreadPool {
  // What others than the caller read; it hardly changes.
  int threads;  // the caller included
  bool stopping;
  int32_t speed;  // of all together
  int32_t speeds[kMaxThreads];
  // The caller's.
  alignas(64) char lock[platform::kLockBytes];
  alignas(64) char wake[platform::kConditionBytes];
  int started;  // other threads running
  int owner;    // process that started them
  uint32_t pieces;
  uint32_t given;   // tasks, of all pieces of work: as `done` of all shares together, once they are done
  int64_t stalled;  // when the last stall ended; while the caller works alone, until when it does
  bool alone;
  void (*waiting)(void* context);
  pen_pthread handles[kMaxThreads];
  alignas(64) int32_t sleepers;
  Share shares[kMaxThreads];
};

namespace {

// A thread that is as fast as any is at work on its share, and leaves no task of it.
constexpr uint32_t kBegun = 1u << 31;

// Speeds may change while a thread that has no task yet looks at them.
PEN_INLINE int32_t load(const int32_t& speed) { return __atomic_load_n(&speed, __ATOMIC_RELAXED); }
PEN_INLINE int32_t speed_of(int32_t speed) { return speed < kEven ? speed : kFull; }

// Takes a task of the share, or says that there is none. Nobody is waited for before that: a thread that the system does not let run has
// nothing that others cannot take, but what it is at. `begun`: set for the thread whose share it is. The last task of one that is at work
// is left to it: it would be done no sooner elsewhere, and what it reads and writes is there.
PEN_INLINE bool take(Share* share, uint32_t begun, bool last_too, int32_t* task) {
  uint32_t word = __atomic_load_n(&share->word, __ATOMIC_RELAXED), left;
  do {
    left = word & ~kBegun;
    if (left == 0 || (!last_too && word == (kBegun | 1))) return false;
  } while (!__atomic_compare_exchange_n(&share->word, &word, (word - 1) | begun, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  *task = share->end - static_cast<int32_t>(left);
  return true;
}

// Whether a slow thread had better take no task: others will be done with all that are left before it would be with one. The caller must
// know that somebody is there.
bool leaves(const ThreadPool* pool, int worker) {
  const int32_t speed = load(pool->speeds[worker]);
  for (int spins = 0; spins < kHelp; ++spins) {
    int32_t left = 0;
    uint32_t begun = 0;
    for (int i = 0; i < pool->threads; ++i) {
      const uint32_t word = __atomic_load_n(&pool->shares[i].word, __ATOMIC_RELAXED);
      left += static_cast<int32_t>(word & ~kBegun);
      begun |= word & kBegun;
    }
    if (int64_t{left} * speed >= load(pool->speed) - speed) return false;
    if (worker != 0 || left == 0 || begun) return true;
    pause_cpu();
  }
  return false;
}

// Its own share, then what others have left of theirs. `all`: whatever is left.
void work(ThreadPool* pool, int worker, bool all) {
  Share& own = pool->shares[worker];
  const bool whole = all || load(pool->speeds[worker]) >= kEven;
  uint32_t begun = whole && !all ? kBegun : 0, done = 0;
  int64_t start = 0;
  for (int i = 0, owner = worker; i < pool->threads; ++i, begun = 0) {
    Share& share = pool->shares[owner];
    owner = owner + 1 < pool->threads ? owner + 1 : 0;
    int32_t task;
    while ((whole || !leaves(pool, worker)) && take(&share, begun, i == 0 || all, &task)) {
      if (PEN_UNLIKELY(share.measuring) && done == 0) start = now_ns();
      share.run(share.context, task, task + 1, worker);
      ++done;
    }
  }
  if (done == 0) return;
  if (start) own.rate = (int64_t{done} << 32) / (now_ns() - start + 1);
  __atomic_store_n(&own.done, own.done + done, __ATOMIC_RELEASE);
}

// What a measured piece of work says of the threads. One that took no part counts as fast, so that what was known of it is forgotten in
// time, and it gets tasks again: it may have been held up by something else.
void learn(ThreadPool* pool) {
  int64_t best = 0;
  for (int i = 0; i < pool->threads; ++i) best = pool->shares[i].rate > best ? pool->shares[i].rate : best;
  int32_t all = 0;
  for (int i = 0; i < pool->threads; ++i) {
    int64_t& rate = pool->shares[i].rate;
    const int32_t was = pool->speeds[i], more = (static_cast<int32_t>(rate ? rate / (best / kFull + 1) : kFull) - was) / 8;
    if (more) __atomic_store_n(&pool->speeds[i], was + more, __ATOMIC_RELAXED);
    rate = 0;
    all += speed_of(was + more);
  }
  __atomic_store_n(&pool->speed, all, __ATOMIC_RELAXED);
}

// Whether there is something to do for this thread, or it is time to go.
bool called(const ThreadPool* pool, const Share& own) {
  return (__atomic_load_n(&own.word, __ATOMIC_RELAXED) & ~kBegun) || __atomic_load_n(&pool->stopping, __ATOMIC_ACQUIRE);
}

void wait_for_work(ThreadPool* pool, const Share& own) {
  for (;;) {
    for (int spins = 0; spins < kSpins; ++spins) {
      if (called(pool, own)) return;
      pause_cpu();
    }
    pthread_mutex_lock(pool->lock);
    // It says that it sleeps, then looks once more; who has work gives it out, then asks for sleepers. Both write that word, so that one of
    // the two sees the other.
    __atomic_fetch_add(&pool->sleepers, 1, __ATOMIC_ACQ_REL);
    // Once woken it spins again, even if the work that woke it is done by now: more will follow.
    if (!called(pool, own)) pthread_cond_wait(pool->wake, pool->lock);
    __atomic_fetch_sub(&pool->sleepers, 1, __ATOMIC_ACQ_REL);
    pthread_mutex_unlock(pool->lock);
  }
}

void* thread_main(void* argument) {
  Share* own = static_cast<Share*>(argument);
  ThreadPool* pool = own->pool;
  for (;;) {
    wait_for_work(pool, *own);
    if (__atomic_load_n(&pool->stopping, __ATOMIC_ACQUIRE)) return nullptr;
    work(pool, static_cast<int>(own - pool->shares), false);
  }
}

void wake_sleepers(ThreadPool* pool) {
  if (__atomic_fetch_add(&pool->sleepers, 0, __ATOMIC_ACQ_REL) == 0) return;
  pthread_mutex_lock(pool->lock);
  pthread_cond_broadcast(pool->wake);
  pthread_mutex_unlock(pool->lock);
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

bool is_done(const ThreadPool* pool) {
  uint32_t done = 0;
  for (int i = 0; i < pool->threads; ++i) done += __atomic_load_n(&pool->shares[i].done, __ATOMIC_ACQUIRE);
  return done == pool->given;
}

// Only threads at work are waited for: the rest of what they have not taken, if they are long about it, is the caller's.
void finish(ThreadPool* pool) {
  int64_t start = 0;
  for (int64_t spins = 1; !is_done(pool); ++spins) {
    pause_cpu();
    if (spins < kSpins) continue;
    if (!start) start = now_ns();
    work(pool, 0, true);
    if (kAsks && pool->waiting) pool->waiting(pool->shares->context);
    sched_yield();
  }
  if (start) note_wait(pool, start);
}

void start_threads(ThreadPool* pool) {
  pthread_mutex_init(pool->lock, nullptr);
  pthread_cond_init(pool->wake, nullptr);
  pool->started = 0;
  pool->sleepers = 0;
  pool->given = 0;  // a child's other threads are gone, wherever they were
  memset(pool->shares, 0, sizeof pool->shares);
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
  for (int i = 0; i < pool->threads; ++i) pool->speed += pool->speeds[i] = kFull;
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
  if (pool->threads == 1 || is_alone(pool) || (count == 1 && pool->speeds[0] >= kEven)) return run(context, 0, count, 0);
  if (pool->owner != getpid()) start_threads(pool);  // the first time, and in a forked child
  const bool measuring = count >= 4 * pool->threads && ++pool->pieces % kMeasured == 0;
  pool->given += static_cast<uint32_t>(count);
  int64_t before = 0;
  int32_t begin = 0;
  for (int i = 0; i < pool->threads; ++i) {
    Share& share = pool->shares[i];
    before += speed_of(pool->speeds[i]);
    share.end = static_cast<int32_t>(count * before / pool->speed);
    share.run = run;
    share.context = context;
    share.measuring = measuring;
    __atomic_store_n(&share.word, static_cast<uint32_t>(share.end - begin), __ATOMIC_RELEASE);
    begin = share.end;
  }
  wake_sleepers(pool);
  work(pool, 0, false);
  finish(pool);
  if (measuring) learn(pool);
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
  bool alone;                // the caller goes on alone: others leave
  alignas(64) int32_t done;  // tasks, of all phases: its quotient by `count` is the phase that is open
  struct alignas(64) Part {
    int32_t taken;  // tasks of this part of every phase, over all phases
  } parts[kMaxThreads];
};

// How many tasks of `owner`'s share of a phase this worker took and did. If the phase is over by now, none is left in it.
int32_t take_share(Repeat* r, int32_t phase, int owner, int worker) {
  const int64_t begin = int64_t{r->count} * owner / r->threads, end = int64_t{r->count} * (owner + 1) / r->threads;
  const int32_t size = static_cast<int32_t>(end - begin), all = (phase + 1) * size;
  int32_t taken = __atomic_load_n(&r->parts[owner].taken, __ATOMIC_RELAXED), did = 0;
  while (taken < all) {
    if (!__atomic_compare_exchange_n(&r->parts[owner].taken, &taken, taken + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) continue;
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
