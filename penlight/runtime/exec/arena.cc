// Where buffers lie in the arena. Two that live at the same time must not overlap; the whole should not be larger than
// what is alive at the step where most is, and for the networks we know it is not, for one thread. Finding the best layout takes
// exponential time. Greedy does well in one order or in another, so a few orders are tried and the smallest result kept.
#include "penlight/runtime/cpu/blocking.h"
#include "penlight/runtime/exec/guard.h"
#include "penlight/runtime/exec/plan.h"

namespace pen {

namespace {

constexpr int64_t kLine = 64;  // every buffer begins at a cache line
// Placing takes time that grows with the square of the number of buffers: above this, the first order must do.
constexpr int32_t kManyBuffers = 4096;

// Several threads. A thread computes the same part of each value (pool.cc). Where values of all sizes lie around one middle, the parts of
// the first thread come before it and those of the last behind it, and a core writes where it has written before. Elsewhere each line
// that it writes comes out of the other's cache: 9 GB/s were measured between cores that share none, 200 of its own.
// DeepLabV3's values, 19 MB, are in no core's own cache when they are written anew, and gain nothing: such arenas must not grow by much.
constexpr int64_t kWide = 16 << 10;  // smaller values are not worth it
constexpr int kMiddles = 32;         // more are not kept apart
constexpr int64_t kWorth = 2;        // such an arena may be larger by one part in so many, and by middles_bytes (cpu/blocking.h) at most

enum class Order { size, area, lifetime, first };
constexpr Order kOrders[] = {Order::size, Order::area, Order::lifetime, Order::first};

double weight(const Buffer& b, Order order) {
  if (order == Order::first) return -static_cast<double>(b.first);
  double steps = static_cast<double>(b.last - b.first + 1);
  if (order == Order::lifetime) return steps;
  return static_cast<double>(b.size) * (order == Order::area ? steps : 1);
}

struct Arena {
  List<Buffer>& buffers;
  int32_t* order;  // the buffers to be placed
  int32_t count;
  int32_t* placed;  // by rising offset

  // Heaviest first: Shell's sort, which needs no recursion and no library, and is the smallest that stays quick.
  void sort(Order by) {
    auto before = [&](int32_t a, int32_t b) {
      const Buffer &x = buffers[a], &y = buffers[b];
      double wx = weight(x, by), wy = weight(y, by);
      if (wx > wy || wx < wy) return wx > wy;
      return x.size != y.size ? x.size > y.size : a < b;
    };
    for (int32_t gap = count / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11) {
      for (int32_t i = gap; i < count; ++i) {
        const int32_t moved = order[i];
        int32_t j = i;
        for (; j >= gap && before(moved, order[j - gap]); j -= gap) order[j] = order[j - gap];
        order[j] = moved;
      }
    }
  }

  // Each, in this order, at the lowest offset where it overlaps no buffer that lives at the same time; with `middles`, which wants the
  // largest first, those of kWide and above at the first middle that none of these lies around. Returns the bytes taken.
  int64_t place(bool middles) {
    int64_t total = 0, middle[kMiddles];
    uint32_t found = 0;  // a bit for each
    for (int32_t i = 0; i < count; ++i) {
      Buffer& b = buffers[order[i]];
      int64_t at = 0;
      const bool wide = middles && b.size >= kWide;
      uint32_t taken = 0;
      for (int32_t j = 0; j < i; ++j) {
        const Buffer& other = buffers[placed[j]];
        if (other.last < b.first || b.last < other.first) continue;
        taken |= static_cast<uint32_t>(other.index);
        if (wide) continue;
        if (other.offset >= at + b.size + kGuardGap) break;
        int64_t end = round_up(other.offset + other.size + kGuardGap, kLine);
        at = end > at ? end : at;
      }
      if (wide) {
        const uint32_t bit = ~taken & (taken + 1);
        if (bit == 0) return INT64_MAX;  // more of them live at once than there are middles for
        const int64_t half = round_up(b.size, 2 * kLine) / 2;
        int64_t& m = middle[__builtin_ctz(bit)];
        if (!(found & bit)) m = round_up(total, kLine) + (found ? kApart : 0) + half;
        found |= bit;
        b.index = static_cast<int32_t>(bit);
        at = m - half;
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

bool lay_arena(Plan* plan, int64_t room, Pool* scrap) {
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
    int64_t bytes = arena.place(false);
    if (order == kOrders[0] || bytes < plan->arena_bytes) {
      plan->arena_bytes = bytes;
      best = order;
    }
    if (plan->arena_bytes <= plan->live_bytes || arena.count > kManyBuffers) break;
  }
  if (room > 0 && arena.count <= kManyBuffers) {
    arena.sort(Order::size);
    const int64_t bytes = arena.place(true), more = bytes - plan->arena_bytes;
    if (bytes <= room && more <= plan->arena_bytes / kWorth && more <= middles_bytes(processor())) {
      plan->arena_bytes = bytes;
      return true;
    }
  }
  arena.sort(best);
  arena.place(false);
  return true;
}

}  // namespace pen
