// Going through a mask of bools, eight bytes at a time. Any byte but 0 counts as true, so that what is counted is what is
// written, whatever a caller's memory holds.
#pragma once
#include "penlight/runtime/exec/kernel.h"

namespace pen {

// Bit 0 of each byte: whether that byte of the word is not zero.
static PEN_INLINE uint64_t true_bytes(uint64_t word) {
  constexpr uint64_t kLow7 = 0x7F7F7F7F7F7F7F7Full, kBit0 = 0x0101010101010101ull;
  return ((((word & kLow7) + kLow7) | word) >> 7) & kBit0;
}

static PEN_INLINE uint64_t mask_word(const uint8_t* mask, int64_t at, int64_t end) {
  uint64_t word = 0;
  memcpy(&word, mask + at, end - at < 8 ? static_cast<size_t>(end - at) : 8);
  return true_bytes(word);
}

// Calls f(i) for every i in [begin, end) where the mask is true, in order.
template <class F>
static PEN_INLINE void for_true(const uint8_t* mask, int64_t begin, int64_t end, const F& f) {
  for (int64_t at = begin; at < end; at += 8)
    for (uint64_t bits = mask_word(mask, at, end); bits; bits &= bits - 1) f(at + (__builtin_ctzll(bits) >> 3));
}

static inline int64_t count_true(const uint8_t* mask, int64_t begin, int64_t end) {
  int64_t n = 0;
  for (int64_t at = begin; at < end; at += 8) n += static_cast<int64_t>(mask_word(mask, at, end) * 0x0101010101010101u >> 56);
  return n;
}

// The work on a mask has two phases over the same tasks: each counts its part, then each knows where its results begin.
constexpr int64_t kMaskGrain = 16384;

struct MaskParams {
  int64_t count, tasks;  // elements of the mask
};

static inline Status mask_bind(Bind& b, MaskParams* p, int64_t count) {
  p->count = count;
  p->tasks = task_count(count, kMaskGrain);
  PEN_TRY(b.shared(p->tasks * 8));
  b.tasks(p->tasks, p->tasks);
  return PEN_OK;
}

// Phase 0, for the tasks of this call.
static inline void count_parts(const Run& r, const MaskParams& p, const uint8_t* mask) {
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.count, p.tasks, task);
    reinterpret_cast<int64_t*>(r.shared)[task] = count_true(mask, range.begin, range.end);
  }
}

// Phase 1: where results of `task` begin. The last task tells how many there are in all.
static inline int64_t part_begin(const Run& r, const MaskParams& p, int64_t task) {
  const int64_t* counts = reinterpret_cast<const int64_t*>(r.shared);
  int64_t before = 0;
  for (int64_t i = 0; i < task; ++i) before += counts[i];
  if (task == p.tasks - 1) r.counts[0] = before + counts[task];
  return before;
}

}  // namespace pen
