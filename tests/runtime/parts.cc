// The parts that everything rests on, each against a plain way to compute the same: strides and copies, the arena,
// symbolic dims, memory, SHA-256, the thread pool. Run under both sanitizers.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <utility>
#include <vector>

#include "case.h"

#define PEN_PLATFORM_CHECK  // keeps platform.h's declarations apart from libc's
#include "penlight/runtime/base/sha256.h"
#include "penlight/runtime/cpu/copy.h"
#include "penlight/runtime/exec/plan.h"
#include "penlight/runtime/exec/pool.h"

using namespace pen;

static uint64_t state = 1;
static int64_t below(int64_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(n));
}

static Tensor random_tensor(int rank, int64_t most) {
  Tensor t;
  t.rank = rank;
  for (int d = 0; d < rank; ++d) t.dims[d] = below(8) == 0 ? 0 : below(3) == 0 ? 1 : 1 + below(most);
  return t;
}
static bool is_empty(const Tensor& t) {
  for (int d = 0; d < t.rank; ++d)
    if (t.dims[d] == 0) return true;
  return false;
}
static int64_t offset_of(const Tensor& t, int64_t index) {
  int64_t at = 0;
  for (int d = t.rank - 1; d >= 0; --d) {
    at += index % t.dims[d] * t.strides[d];
    index /= t.dims[d];
  }
  return at;
}
static int64_t reach_of(const Tensor& t) {
  int64_t at = 1;
  for (int d = 0; d < t.rank; ++d) at += (t.dims[d] > 0 ? t.dims[d] - 1 : 0) * t.strides[d];
  return at;
}

static void test_laying() {
  for (int i = 0; i < 3000; ++i) {
    Tensor t = random_tensor(static_cast<int>(below(7)), 5);
    int64_t bytes = -1;
    CHECK(lay_plain(&t, &bytes));
    CHECK(bytes == (is_empty(t) ? 0 : t.numel() * 4));
    if (!is_empty(t))
      for (int64_t k = 0; k < t.numel(); ++k) CHECK(offset_of(t, k) == k);
    Tensor same = t;
    CHECK(lies_as(&same, Need::dense) && lies_as(&same, Need::rows));
    if (t.rank < 3 || t.rank > 5) continue;
    int64_t pitch = t.dims[1] + below(4);
    CHECK(lay_channels(&t, pitch, &bytes));
    CHECK(t.strides[1] == 1 && (is_empty(t) ? bytes == 0 : reach_of(t) * 4 <= bytes));
    Tensor channels = t;
    CHECK(lies_as(&channels, Need::channels));
  }
  Tensor huge;
  huge.rank = 3;
  int64_t bytes;
  for (int d = 0; d < 3; ++d) huge.dims[d] = int64_t{1} << 40;
  CHECK(!lay_plain(&huge, &bytes) && !lay_channels(&huge, huge.dims[1], &bytes));
  huge.dims[0] = huge.dims[1] = 1 << 15;
  huge.dims[2] = 1 << 15;  // 2^45 elements: more than a tensor may have, no overflow
  CHECK(!lay_plain(&huge, &bytes));
}

// lies_as may only change strides of dims that have one element; what it accepts must be true of the elements.
static void test_lies_as() {
  for (int i = 0; i < 20000; ++i) {
    Tensor t = random_tensor(1 + static_cast<int>(below(5)), 4);
    int order[kMaxRank];
    for (int d = 0; d < t.rank; ++d) {
      int at = static_cast<int>(below(d + 1));
      order[d] = order[at];
      order[at] = d;
    }
    int64_t stride = 1 + (below(4) == 0);
    for (int k = 0; k < t.rank; ++k) {
      t.strides[order[k]] = below(10) == 0 ? 0 : stride;
      stride *= t.dims[order[k]] > 0 ? t.dims[order[k]] : 1;
      stride += below(5) == 0 ? below(3) : 0;
    }
    if (is_empty(t)) continue;
    for (Need need : {Need::dense, Need::rows, Need::channels}) {
      Tensor u = t;
      if (!lies_as(&u, need)) continue;
      for (int64_t k = 0; k < t.numel(); ++k) CHECK(offset_of(u, k) == offset_of(t, k));
      if (need == Need::dense)
        for (int64_t k = 0; k < t.numel(); ++k) CHECK(offset_of(u, k) == k);
      if (need == Need::rows) CHECK(u.strides[u.rank - 1] == 1);
      if (need != Need::channels) continue;
      CHECK(u.rank >= 3 && u.strides[1] == 1);
      int64_t pitch = u.strides[u.rank - 1];
      CHECK(pitch >= u.dims[1]);
      for (int d = u.rank - 2; d >= 2; --d) CHECK(u.strides[d] == u.strides[d + 1] * u.dims[d + 1]);
    }
  }
}

// Between any two strides, in tasks of any number and order, with every instruction set there is.
static void test_copies() {
  Isa isas[kIsaCount];
  int isa_count = available_isas(isas);
  const DType types[] = {DType::u8, DType::i16, DType::f32, DType::i64};
  for (int i = 0; i < 4000; ++i) {
    Tensor to = random_tensor(static_cast<int>(below(6)), i % 40 ? 5 : 40), from;
    to.dtype = types[below(4)];
    const bool one_long_row = i % 200 == 0;
    if (one_long_row) to.rank = 1, to.dims[0] = (1 << 16) + below(200);
    from = to;
    int64_t size = dtype_size(to.dtype), bytes;
    CHECK(lay_plain(&to, &bytes));
    if (to.rank >= 3 && to.rank <= 5 && below(2)) CHECK(lay_channels(&to, to.dims[1] + below(3), &bytes));
    int64_t stride = 1;
    for (int d = 0; d < from.rank; ++d) {  // reversed order, repeats and gaps
      from.strides[d] = below(6) == 0 ? 0 : stride;
      stride *= from.dims[d] > 0 ? from.dims[d] : 1;
      stride += below(3);
    }
    std::vector<char> source(static_cast<size_t>(reach_of(from) * size)), target(static_cast<size_t>(reach_of(to) * size), 0x55);
    for (char& c : source) c = static_cast<char>(below(256));
    from.data = source.data();
    to.data = target.data();
    std::vector<char> before = target;
    char key[16];
    snprintf(key, sizeof key, "copy.b%d", static_cast<int>(8 * size));
    const KernelEntry* entry = find_kernel(key);
    CHECK(entry != nullptr);
    CopyPlan plan = {};
    plan_copy(from, to, &plan);
    CHECK(!one_long_row || plan.tasks > 1);
    for (int64_t task = plan.tasks; task > 0;) {
      int64_t begin = task - 1 - below(task < 3 ? task : 3);
      Run run = {&from, &to, &plan, nullptr, nullptr, begin, task, 0, nullptr, nullptr, nullptr, Caller{nullptr, 0}};
      run_function(*entry, isas[i % isa_count])(run);
      task = begin;
    }
    if (is_empty(to)) {
      CHECK(target == before);
      continue;
    }
    for (int64_t k = 0; k < to.numel(); ++k) {
      CHECK(memcmp(to.data + offset_of(to, k) * size, from.data + offset_of(from, k) * size, static_cast<size_t>(size)) == 0);
      memset(to.data + offset_of(to, k) * size, 0x55, static_cast<size_t>(size));
    }
    CHECK(target == before);  // nothing beside the elements was touched
  }
}

// Buffers of random sizes and lives: none lies where another is alive. For one thread little is lost against the most alive at once, for
// several at most half, and only where there is room for it; it is for most.
static void test_arena(bool several) {
  double lost = 0;
  int larger = 0;
  const int rounds = 400;
  for (int i = 0; i < rounds; ++i) {
    Plan plan;
    plan.step_count = static_cast<int32_t>(1 + below(60));
    std::vector<int64_t> alive(static_cast<size_t>(plan.step_count));
    for (int64_t n = below(80); n >= 0; --n) {
      int32_t first = static_cast<int32_t>(below(plan.step_count)), last = first + static_cast<int32_t>(below(i % 3 ? 4 : 30));
      Buffer b = {Buffer::Kind::arena, -1, below(10) == 0 ? 0 : 64 * (1 + below(several ? 20000 : 1000)), first, last, -1, -1, nullptr};
      b.last = b.last < plan.step_count ? b.last : plan.step_count - 1;
      CHECK(plan.buffers.push(b));
      for (int32_t s = b.first; s <= b.last; ++s) alive[static_cast<size_t>(s)] += b.size;
    }
    int64_t most = 0;
    for (int64_t bytes : alive) most = bytes > most ? bytes : most;
    Pool scrap;
    CHECK(lay_arena(&plan, 0, &scrap));
    const int64_t alone = plan.arena_bytes, room = i % 4 ? INT64_MAX : alone;
    if (several) {
      scrap.release();
      CHECK(lay_arena(&plan, room, &scrap));
      CHECK(plan.arena_bytes <= room && plan.arena_bytes <= alone + alone / 2);
      larger += plan.arena_bytes > alone;
    }
    CHECK(plan.live_bytes == most && plan.arena_bytes >= most && plan.arena_bytes % 64 == 0);
    for (int32_t a = 0; a < plan.buffers.count; ++a) {
      const Buffer& x = plan.buffers[a];
      if (x.size == 0) continue;
      CHECK(x.offset >= 0 && x.offset % 64 == 0 && x.offset + x.size <= plan.arena_bytes);
      for (int32_t b = 0; b < a; ++b) {
        const Buffer& y = plan.buffers[b];
        if (y.size == 0 || y.last < x.first || x.last < y.first) continue;
        CHECK(x.offset + x.size <= y.offset || y.offset + y.size <= x.offset);
      }
    }
    lost += most ? static_cast<double>(plan.arena_bytes) / static_cast<double>(most) - 1 : 0;
    plan.buffers.release();
    scrap.release();
  }
  CHECK(PEN_ASAN || lost / rounds < (several ? 0.5 : 0.05));  // AddressSanitizer's gaps between buffers are not counted as alive
  CHECK(larger > (several ? rounds / 4 : -1));
}

static void test_dims() {
  using format::StepOp;
  format::Step steps[8];
  format::Expr expr = {0, 0};
  Model m;
  m.steps = {steps, 8};
  m.exprs = {&expr, 1};
  Tensor input;
  input.rank = 2;
  pen_error error;
  auto value = [&](int64_t a, StepOp op, int64_t b, int64_t* out) {
    steps[0] = {static_cast<uint32_t>(StepOp::register_dim), 0, 1};
    steps[1] = {static_cast<uint32_t>(StepOp::constant), 0, b};
    steps[2] = {static_cast<uint32_t>(op), 0, 0};
    expr = {0, 3};
    input.dims[1] = a;
    return evaluate_dim(m, format::kExprBase, &input, out, &error);
  };
  int64_t r;
  CHECK(evaluate_dim(m, 42, &input, &r, &error) == PEN_OK && r == 42);
  CHECK(evaluate_dim(m, -7, &input, &r, &error) == PEN_OK && r == -7);
  for (int64_t a = -9; a <= 9; ++a) {
    for (int64_t b = -4; b <= 4; ++b) {
      if (b == 0) continue;
      int64_t quotient = -40;  // the largest that is not above a / b
      while (b > 0 ? (quotient + 1) * b <= a : (quotient + 1) * b >= a) ++quotient;
      CHECK(value(a, StepOp::floor_div, b, &r) == PEN_OK && r == quotient);
      CHECK(value(a, StepOp::mod, b, &r) == PEN_OK && r == a - quotient * b && (r == 0 || (r < 0) == (b < 0)));
      CHECK(value(a, StepOp::max, b, &r) == PEN_OK && r == (a > b ? a : b));
      CHECK(value(a, StepOp::min, b, &r) == PEN_OK && r == (a < b ? a : b));
      CHECK(value(a, StepOp::sub, b, &r) == PEN_OK && r == a - b);
    }
  }
  CHECK(value(1, StepOp::floor_div, 0, &r) == PEN_ERROR_SHAPE && value(1, StepOp::mod, 0, &r) == PEN_ERROR_SHAPE);
  CHECK(value(INT64_MIN, StepOp::floor_div, -1, &r) == PEN_ERROR_SHAPE && value(INT64_MIN, StepOp::mod, -1, &r) == PEN_ERROR_SHAPE);
  CHECK(value(INT64_MAX, StepOp::add, 1, &r) == PEN_ERROR_SHAPE && value(INT64_MIN, StepOp::sub, 1, &r) == PEN_ERROR_SHAPE);
  CHECK(value(int64_t{1} << 62, StepOp::mul, 2, &r) == PEN_ERROR_SHAPE);
  CHECK(strstr(error.message, "overflow or a division by zero"));
}

static void test_memory() {
  Pool pool;
  std::vector<std::pair<char*, size_t>> pieces;
  for (int i = 0; i < 500; ++i) {
    size_t size = static_cast<size_t>(below(20) == 0 ? below(300000) : below(700));
    char* p = static_cast<char*>(pool.take(size));
    CHECK(p && reinterpret_cast<uintptr_t>(p) % 64 == 0);
    for (size_t k = 0; k < size; ++k) CHECK(p[k] == 0);
    memset(p, i, size);
    pieces.push_back({p, size});
  }
  for (size_t i = 0; i < pieces.size(); ++i)
    for (size_t k = 0; k < pieces[i].second; ++k) CHECK(pieces[i].first[k] == static_cast<char>(i));
  CHECK(pool.take_array<int64_t>(-1) == nullptr && pool.take_array<int64_t>(INT64_MAX) == nullptr);
  CHECK(pool.take(SIZE_MAX) == nullptr && pool.take(SIZE_MAX - 70) == nullptr);
  for (int i = 0; i < 300; ++i) {  // what was taken back is zero again
    if (below(30) == 0) pool.rewind();
    size_t size = static_cast<size_t>(below(50) == 0 ? below(100000) : below(700));
    char* p = static_cast<char*>(pool.take(size));
    CHECK(p);
    for (size_t k = 0; k < size; ++k) CHECK(p[k] == 0);
    memset(p, 1, size);
  }
  pool.release();
  pool.rewind();
  List<int64_t> list;
  for (int64_t i = 0; i < 1000; ++i) CHECK(list.push(i * i));
  for (int32_t i = 0; i < 1000; ++i) CHECK(list[i] == int64_t{i} * i);
  list.release();
}

static void test_sha256() {
  struct {
    const char *text, *digest;
  } known[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"}};
  for (auto& k : known) {
    for (size_t cut = 0; cut <= strlen(k.text); ++cut) {
      Sha256 sha;
      uint8_t digest[32];
      sha.begin();
      sha.update(k.text, cut);
      sha.update(nullptr, 0);  // of no constants
      sha.update(k.text + cut, strlen(k.text) - cut);
      sha.finish(digest);
      char hex[65];
      for (int i = 0; i < 32; ++i) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
      CHECK(strcmp(hex, k.digest) == 0);
    }
  }
}

struct Counts {
  std::vector<int> done;  // plain: the pool must give each task to one thread, and be done when it returns
  int threads;
};
static void test_pool() {
  for (int threads : {1, 2, 3, 5, 8}) {
    ThreadPool* pool = pool_create(threads);
    CHECK(pool && pool_threads(pool) == threads);
    for (int round = 0; round < 300; ++round) {
      int64_t count = below(5) == 0 ? below(2000) : below(9);
      Counts counts = {std::vector<int>(static_cast<size_t>(count) + 1), threads};
      pool_run(
          pool, count,
          [](void* context, int64_t begin, int64_t end, int worker) {
            Counts* c = static_cast<Counts*>(context);
            CHECK(begin < end && worker >= 0 && worker < c->threads);
            for (int64_t i = begin; i < end; ++i) ++c->done[static_cast<size_t>(i)];
          },
          &counts);
      for (int64_t i = 0; i < count; ++i) CHECK(counts.done[static_cast<size_t>(i)] == 1);
      CHECK(counts.done[static_cast<size_t>(count)] == 0);
      if (round % 60 == 59) {  // long enough for the workers to fall asleep
        struct timespec pause = {0, 5000000};
        nanosleep(&pause, nullptr);
      }
    }
    pool_destroy(pool);
  }
  for (int i = 0; i < 50; ++i) pool_destroy(pool_create(1 + i % 4));  // never used
  pool_destroy(nullptr);
}

struct Phases {
  std::vector<int> before, after;  // plain: each task of a phase reads what all of the one before it wrote
  int threads;
};
static void test_repeats() {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool* pool = pool_create(threads);
    for (int round = 0; round < 40; ++round) {
      const int32_t count = static_cast<int32_t>(1 + below(9)), phases = static_cast<int32_t>(below(60));
      Phases all = {std::vector<int>(static_cast<size_t>(count)), std::vector<int>(static_cast<size_t>(count)), threads};
      pool_repeat(
          pool, count, phases,
          [](void* context, int64_t begin, int64_t end, int worker) {
            Phases* p = static_cast<Phases*>(context);
            const int64_t count = static_cast<int64_t>(p->before.size()), phase = begin / count;
            CHECK(begin < end && end <= (phase + 1) * count && worker >= 0 && worker < p->threads);
            const std::vector<int>& from = phase % 2 ? p->after : p->before;
            int sum = 1;
            for (int64_t i = 0; i < count; ++i) sum += from[static_cast<size_t>(i)] % 1000;
            for (int64_t i = begin; i < end; ++i)
              (phase % 2 ? p->before : p->after)[static_cast<size_t>(i % count)] = sum + static_cast<int>(i % count);
          },
          &all);
      std::vector<int> expected(static_cast<size_t>(count));
      for (int32_t phase = 0; phase < phases; ++phase) {
        int sum = 1;
        for (int x : expected) sum += x % 1000;
        for (int32_t i = 0; i < count; ++i) expected[static_cast<size_t>(i)] = sum + i;
      }
      CHECK((phases % 2 ? all.after : all.before) == expected);
      if (round % 10 == 9) {  // long enough for the workers to fall asleep
        struct timespec pause = {0, 5000000};
        nanosleep(&pause, nullptr);
      }
    }
    pool_destroy(pool);
  }
}

static void test_cutting() {
  for (int i = 0; i < 2000; ++i) {
    int64_t total = below(100000), count = task_count(total, 1 + below(3000)), at = 0;
    CHECK(count >= 1 && count <= 256);
    for (int64_t k = 0; k < count; ++k) {
      Range r = part(total, count, k);
      CHECK(r.begin == at && r.end >= r.begin);
      at = r.end;
    }
    CHECK(at == total);
  }
}

int main() {
  test_laying();
  test_lies_as();
  test_copies();
  test_arena(false);
  test_arena(true);
  test_dims();
  test_memory();
  test_sha256();
  test_pool();
  test_repeats();
  test_cutting();
  printf("all parts\n");
  return 0;
}
