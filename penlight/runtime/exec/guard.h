// Under AddressSanitizer: while a step runs, all of the arena (scratch included) and of the weights is forbidden except
// what this step was given, so that a kernel which reads or writes one byte outside its operands stops the test. In
// other builds nothing of this exists.
#pragma once
#include "penlight/runtime/exec/plan.h"

#if PEN_ASAN
extern "C" {
void __asan_poison_memory_region(const volatile void* address, size_t size);
void __asan_unpoison_memory_region(const volatile void* address, size_t size);
}
#endif

namespace pen {

constexpr int64_t kGuardGap = PEN_ASAN ? 256 : 0;  // between buffers of the arena, and between workers' scratch

struct Guard {
  const Model* model;
  const Plan* plan;
  char* arena;
  int64_t arena_size;
  int workers;
  bool weights;  // only where no other session uses the model: PENLIGHT_GUARD=weights
};

#if PEN_ASAN
static PEN_INLINE void guard_open(const Guard& g, const Place& at) {
  if (at.buffer < 0) return;
  int32_t i = at.buffer;
  while (g.plan->buffers[i].merged >= 0) i = g.plan->buffers[i].merged;
  const Buffer& b = g.plan->buffers[i];
  if (b.kind == Buffer::Kind::arena) __asan_unpoison_memory_region(g.arena + b.offset, static_cast<size_t>(b.size));
  if (b.kind == Buffer::Kind::constant) __asan_unpoison_memory_region(b.base, static_cast<size_t>(b.size));
}

static PEN_INLINE void guard_step(const Guard& g, const Step& step) {
  __asan_poison_memory_region(g.arena, static_cast<size_t>(g.arena_size));
  if (g.weights) __asan_poison_memory_region(g.model->data, g.model->data_size);
  for (int i = 0; i < step.in_count; ++i) guard_open(g, step.in_at[i]);
  for (int i = 0; i < step.out_count; ++i) guard_open(g, step.out_at[i]);
  for (int i = 0; i < step.copy_count; ++i) {
    guard_open(g, step.copies[i].from_at);
    guard_open(g, step.copies[i].to_at);
  }
  guard_open(g, step.shared);
  for (int i = 0; i < g.workers && step.scratch_at.buffer >= 0; ++i) {
    char* base = g.arena + g.plan->buffers[step.scratch_at.buffer].offset;
    __asan_unpoison_memory_region(base + i * step.scratch_stride, static_cast<size_t>(step.scratch));
  }
}

static PEN_INLINE void guard_end(const Guard& g) {
  __asan_unpoison_memory_region(g.arena, static_cast<size_t>(g.arena_size));
  if (g.weights) __asan_unpoison_memory_region(g.model->data, g.model->data_size);
}
#else
static PEN_INLINE void guard_step(const Guard&, const Step&) {}
static PEN_INLINE void guard_end(const Guard&) {}
#endif

}  // namespace pen
