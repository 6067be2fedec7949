// Where buffers lie in the arena. Two that live at the same time must not overlap; the whole should not be larger than
// what is alive at the step where most is, and for the networks we know it is not. Finding the best layout takes
// exponential time. Greedy does well in one order or in another, so a few orders are tried and the smallest result kept.
#include "penlight/runtime/exec/guard.h"
#include "penlight/runtime/exec/plan.h"

namespace pen {

namespace {

constexpr int64_t kLine = 64;  // every buffer begins at a cache line
// Placing takes time that grows with the square of the number of buffers: above this, the first order must do.
constexpr int32_t kManyBuffers = 4096;

enum class Order { size, area, lifetime, first };
constexpr Order kOrders[] = {Order::size, Order::area, Order::lifetime, Order::first};

double weight(const Buffer& b, Order order) {
  double size = static_cast<double>(b.size), steps = static_cast<double>(b.last - b.first + 1);
  switch (order) {
    case Order::size:
      return size;
    case Order::area:
      return size * steps;
    case Order::lifetime:
      return steps;
    case Order::first:
      return -static_cast<double>(b.first);
  }
  return 0;
}

struct Arena {
  List<Buffer>& buffers;
  int32_t* order;  // the buffers to be placed
  int32_t count;
  int32_t* placed;  // by rising offset

  // Heaviest first: heap sort, which needs no recursion and no library.
  void sort(Order by) {
    auto before = [&](int32_t a, int32_t b) {
      const Buffer &x = buffers[a], &y = buffers[b];
      double wx = weight(x, by), wy = weight(y, by);
      if (wx > wy || wx < wy) return wx > wy;
      return x.size != y.size ? x.size > y.size : a < b;
    };
    auto sink = [&](int32_t root, int32_t end) {
      for (int32_t child; (child = 2 * root + 1) < end; root = child) {
        if (child + 1 < end && before(order[child], order[child + 1])) ++child;
        if (!before(order[root], order[child])) return;
        swap(root, child);
      }
    };
    for (int32_t i = count / 2 - 1; i >= 0; --i) sink(i, count);
    for (int32_t end = count - 1; end > 0; --end) {
      swap(0, end);
      sink(0, end);
    }
  }
  void swap(int32_t i, int32_t j) {
    int32_t t = order[i];
    order[i] = order[j];
    order[j] = t;
  }

  // Each at the lowest offset where it overlaps no buffer that lives at the same time. Returns the bytes taken.
  int64_t place() {
    int64_t total = 0;
    for (int32_t i = 0; i < count; ++i) {
      Buffer& b = buffers[order[i]];
      int64_t at = 0;
      for (int32_t j = 0; j < i; ++j) {
        const Buffer& other = buffers[placed[j]];
        if (other.last < b.first || b.last < other.first) continue;
        if (other.offset >= at + b.size + kGuardGap) break;
        int64_t end = round_up(other.offset + other.size + kGuardGap, kLine);
        at = end > at ? end : at;
      }
      b.offset = at;
      int32_t j = i;
      for (; j > 0 && buffers[placed[j - 1]].offset > at; --j) placed[j] = placed[j - 1];
      placed[j] = order[i];
      total = at + b.size > total ? at + b.size : total;
    }
    return round_up(total, kLine);
  }
};

// Bytes alive at the step where most are.
int64_t most_alive(const Plan& plan, const Arena& arena, int64_t* change) {
  for (int32_t i = 0; i < arena.count; ++i) {
    const Buffer& b = plan.buffers[arena.order[i]];
    change[b.first] += round_up(b.size, kLine);
    change[b.last + 1] -= round_up(b.size, kLine);
  }
  int64_t alive = 0, most = 0;
  for (int32_t i = 0; i < plan.step_count; ++i) {
    alive += change[i];
    most = alive > most ? alive : most;
  }
  return most;
}

}  // namespace

bool lay_arena(Plan* plan, Pool* scrap) {
  int32_t n = plan->buffers.count;
  Arena arena = {plan->buffers, scrap->take_array<int32_t>(n + 1), 0, scrap->take_array<int32_t>(n + 1)};
  int64_t* change = scrap->take_array<int64_t>(plan->step_count + 2);
  if (!arena.order || !arena.placed || !change) return false;
  for (int32_t i = 0; i < n; ++i) {
    const Buffer& b = plan->buffers[i];
    if (b.kind == Buffer::Kind::arena && b.merged < 0 && b.size > 0) arena.order[arena.count++] = i;
  }
  plan->live_bytes = most_alive(*plan, arena, change);
  Order best = kOrders[0];
  for (Order order : kOrders) {
    arena.sort(order);
    int64_t bytes = arena.place();
    if (order == kOrders[0] || bytes < plan->arena_bytes) {
      plan->arena_bytes = bytes;
      best = order;
    }
    if (plan->arena_bytes <= plan->live_bytes || arena.count > kManyBuffers) return true;
  }
  arena.sort(best);
  arena.place();
  return true;
}

}  // namespace pen
