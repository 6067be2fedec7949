// The thread pool from inside: what it learns of its threads' speeds, how it hands out work by them, and that every task is done once
// whatever it has learnt. It is compiled here, in place of the library's, so that nothing has to be timed. Run under ThreadSanitizer too.
#include "penlight/runtime/exec/pool.cc"
#include "tests/runtime/check.h"

using namespace pen;

static uint64_t state = 1;
static int below(int n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<int>((state >> 33) % static_cast<uint64_t>(n));
}

static void set_speeds(ThreadPool* pool, const int32_t* speeds) {
  int32_t all = 0;
  for (int i = 0; i < pool->threads; ++i) {
    __atomic_store_n(&pool->speeds[i], speeds[i], __ATOMIC_RELAXED);  // threads that have nothing to do may look at it, as in learn()
    all += speed_of(speeds[i]);
  }
  __atomic_store_n(&pool->speed, all, __ATOMIC_RELAXED);
}

static void learn_rates(ThreadPool* pool, int64_t first, int64_t second) {
  pool->shares[0].rate = first;
  pool->shares[1].rate = second;
  learn(pool);
}

static void test_learning() {
  for (int slow = 0; slow < 2; ++slow) {
    ThreadPool* pool = pool_create(2);
    const int32_t &fast = pool->speeds[1 - slow], &other = pool->speeds[slow];
    CHECK(pool->speed == 2 * kFull);
    const int64_t quarter[2] = {slow == 0 ? 1000000 : 4000000, slow == 1 ? 1000000 : 4000000};
    learn_rates(pool, quarter[0], quarter[1]);
    CHECK(pool->speed == 2 * kFull);  // one piece of work says little
    for (int i = 0; i < 60; ++i) learn_rates(pool, quarter[0], quarter[1]);
    CHECK(other >= kFull / 4 - 8 && other <= kFull / 4 + 8);
    CHECK(speed_of(fast) == kFull && pool->speed == kFull + other);
    CHECK(pool->shares[0].rate == 0 && pool->shares[1].rate == 0);
    // A thread that takes no part is given another chance, in time.
    for (int i = 0; i < 60; ++i) learn_rates(pool, slow == 0 ? 0 : 1000, slow == 1 ? 0 : 1000);
    CHECK(pool->speed == 2 * kFull);
    // A tenth apart is not worth other shares; nothing measured at all, no matter.
    for (int i = 0; i < 60; ++i) learn_rates(pool, slow == 0 ? 900 : 1000, slow == 1 ? 900 : 1000);
    CHECK(pool->speed == 2 * kFull);
    for (int i = 0; i < 60; ++i) learn_rates(pool, 0, 0);
    CHECK(pool->speed == 2 * kFull);
    pool_destroy(pool);
  }
}

static void test_leaving() {
  ThreadPool* pool = pool_create(2);
  const int32_t speeds[] = {kFull, kFull / 4};
  set_speeds(pool, speeds);
  // The other thread does four tasks while this one does one.
  for (uint32_t left = 0; left < 8; ++left) {
    pool->shares[0].word = left / 2;
    pool->shares[1].word = left - left / 2;
    CHECK(leaves(pool, 1) == (left < 4));
  }
  pool->shares[0].word = kBegun | 4;
  pool->shares[1].word = 0;
  CHECK(!leaves(pool, 1));
  pool->shares[0].word = kBegun | 3;
  CHECK(leaves(pool, 1));
  // A slow caller, with nobody there and with somebody.
  const int32_t turned[] = {kFull / 4, kFull};
  set_speeds(pool, turned);
  pool->shares[0].word = 3;
  CHECK(!leaves(pool, 0));
  pool->shares[1].word = kBegun;
  CHECK(leaves(pool, 0));
  pool->shares[0].word = 4;
  CHECK(!leaves(pool, 0));
  pool->shares[0].word = pool->shares[1].word = 0;
  CHECK(leaves(pool, 0));  // nothing is left, nobody to wait for
  pool_destroy(pool);
}

static void test_taking() {
  Share share = {};
  share.end = 10;
  share.word = 3;
  int32_t task = 0;
  CHECK(take(&share, 0, false, &task) && task == 7 && share.word == 2);
  CHECK(take(&share, kBegun, true, &task) && task == 8 && share.word == (kBegun | 1));
  CHECK(!take(&share, 0, false, &task));  // the last one is left to whoever is at work on the others
  CHECK(take(&share, 0, true, &task) && task == 9 && share.word == kBegun);
  CHECK(!take(&share, kBegun, true, &task));
  share.word = 1;  // nobody is at work
  CHECK(take(&share, 0, false, &task) && task == 9 && share.word == 0);
}

struct Counts {
  int done[600], calls, others;  // plain: the pool must give each task to one thread, and be done when it returns
};
static void count(void* context, int64_t begin, int64_t end, int worker) {
  Counts* c = static_cast<Counts*>(context);
  for (int64_t i = begin; i < end; ++i) ++c->done[i];
  if (worker == 0)
    ++c->calls;
  else
    __atomic_fetch_add(&c->others, 1, __ATOMIC_RELAXED);
}
static Counts run_counted(ThreadPool* pool, int tasks) {
  Counts counts = {};
  pool_run(pool, tasks, count, &counts);
  for (int i = 0; i < 600; ++i) CHECK(counts.done[i] == (i < tasks));
  return counts;
}

static void test_shares() {
  ThreadPool* pool = pool_create(3);
  const int32_t speeds[] = {kEven, kFull / 4, kFull};
  run_counted(pool, 90);
  CHECK(pool->shares[0].end == 30 && pool->shares[1].end == 60 && pool->shares[2].end == 90);
  set_speeds(pool, speeds);
  run_counted(pool, 90);
  CHECK(pool->shares[0].end == 40 && pool->shares[1].end == 50 && pool->shares[2].end == 90);
  pool_destroy(pool);
}

static void test_each_task_once() {
  for (int threads = 2; threads <= 5; ++threads) {
    ThreadPool* pool = pool_create(threads);
    for (int round = 0; round < 400; ++round) {
      int32_t speeds[5];
      for (int32_t& speed : speeds) speed = below(2) ? kFull : 8 + below(kFull);
      set_speeds(pool, speeds);
      for (int i = 0; i < 3; ++i) run_counted(pool, below(4) == 0 ? below(600) : below(9));
    }
    pool_destroy(pool);
  }
}

// Nobody comes: the system did not start the threads, or does not let them run.
static void test_a_slow_caller_without_help() {
  ThreadPool* pool = pool_create(4);
  pool->owner = getpid();
  const int32_t speeds[] = {kFull / 4, kFull, kFull, kFull / 4};
  set_speeds(pool, speeds);
  for (int tasks = 0; tasks < 40; ++tasks) CHECK(run_counted(pool, tasks).others == 0);
  pool_destroy(pool);
}

// The other thread is at work until the caller, which has nothing left to do, has been asked.
struct Waits {
  bool there, asked;
};
static void wait_for_other(void* context, int64_t, int64_t, int worker) {
  Waits* w = static_cast<Waits*>(context);
  if (worker != 0) __atomic_store_n(&w->there, true, __ATOMIC_RELEASE);
  while (!__atomic_load_n(worker == 0 ? &w->there : &w->asked, __ATOMIC_ACQUIRE)) sched_yield();
}
static void test_asking_while_others_work() {
  ThreadPool* pool = pool_create(2);
  Waits waits = {};
  pool_while_waiting(pool, [](void* context) { __atomic_store_n(&static_cast<Waits*>(context)->asked, true, __ATOMIC_RELEASE); });
  pool_run(pool, 2, wait_for_other, &waits);
  pool_while_waiting(pool, nullptr);
  CHECK(waits.there && waits.asked);
  pool_destroy(pool);
}

static void test_alone() {
  const int64_t hour = 3600 * INT64_C(1000000000);
  ThreadPool* pool = pool_create(3);
  pool->alone = true;
  pool->stalled = now_ns() + hour;
  CHECK(run_counted(pool, 500).calls == 1);  // one range
  CHECK(pool->alone);
  pool->stalled = now_ns() - hour;  // long ago: a wait now would have to be as long to count
  run_counted(pool, 500);
  CHECK(!pool->alone);
  pool_destroy(pool);
}

// Phases: every task of one sees what all tasks of the one before have written.
struct Phases {
  int count, written[64 * 64];  // plain, as above
  bool early;
};
static void run_phase(void* context, int64_t begin, int64_t end, int) {
  Phases* p = static_cast<Phases*>(context);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t phase = i / p->count;
    for (int64_t j = (phase - 1) * p->count; phase && j < phase * p->count; ++j)
      if (p->written[j] != phase) __atomic_store_n(&p->early, true, __ATOMIC_RELAXED);
    p->written[i] += static_cast<int>(phase) + 1;
  }
}
static void repeat_counted(ThreadPool* pool, int count, int phases) {
  Phases p = {};
  p.count = count;
  pool_repeat(pool, count, phases, run_phase, &p);
  CHECK(!p.early);
  for (int i = 0; i < 64 * 64; ++i) CHECK(p.written[i] == (i < count * phases ? i / count + 1 : 0));
}

static void test_phases() {
  for (int threads = 2; threads <= 4; ++threads) {
    ThreadPool* pool = pool_create(threads);
    for (int round = 0; round < 300; ++round) {
      int32_t speeds[4];
      for (int32_t& speed : speeds) speed = below(2) ? kFull : 8 + below(kFull);
      set_speeds(pool, speeds);
      if (below(3) == 0) {  // alone, and until now, about
        pool->alone = true;
        pool->stalled = now_ns() + below(2) * 20000 - 10000;
      }
      repeat_counted(pool, 1 + below(9), 1 + below(20));
    }
    pool_destroy(pool);
  }
}

// The time alone is over, and a slow caller comes late: whoever is there does it all.
static void test_phases_after_being_alone() {
  const int32_t slow[] = {kFull / 4, kFull, kFull}, even[] = {kFull, kFull, kFull};
  for (int threads = 2; threads <= 3; ++threads) {
    ThreadPool* pool = pool_create(threads);
    for (int round = 0; round < 400; ++round) {
      pool->alone = false;
      set_speeds(pool, even);
      run_counted(pool, 64);  // threads are here, and wait for more
      set_speeds(pool, slow);
      pool->alone = true;
      pool->stalled = now_ns() - 1;
      repeat_counted(pool, 4, 20);
    }
    pool_destroy(pool);
  }
}

int main() {
  test_learning();
  test_leaving();
  test_taking();
  test_shares();
  test_each_task_once();
  test_a_slow_caller_without_help();
  test_asking_while_others_work();
  test_alone();
  test_phases();
  test_phases_after_being_alone();
  printf("all tasks\n");
  return 0;
}
