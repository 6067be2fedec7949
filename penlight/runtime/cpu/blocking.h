// Every size that work is cut by so that it stays in a cache, as a function of what the processor says of itself (exec/processor.h),
// with its reason. All go by near_bytes, one core's part of the second cache level: 1 MB and above gives what was measured on Zen 4
// and Zen 5 (larger ones are not used more: that was not measured), less gives less in proportion. Nothing goes by L1, whose blocking is
// the register tile's (cpu/tile.h), nor by L3. Results do not depend on any of these: which values are computed together changes, never the
// order in which one value's products are added up. Where that would change, as with the keys of attention (ops/matmul/attention.h: an
// online softmax is rescaled from block to block) and the parts of a reduction (task_count in exec/kernel.h), the cut is a constant, the
// same on every machine.
#pragma once
#include "penlight/runtime/exec/processor.h"

namespace pen {

// Of a matrix product: how much of K (or of taps) is done at once. A tile's strip of B, 32 columns, then takes an eighth of L2 (128 kB of
// 1 MB) and stays there while all row tiles pass over it, beside the block's rows of A; partial sums wait in C, which holds them exactly.
static PEN_INLINE int64_t part_of_k(const Processor& p) { return p.near_bytes >> 10; }
// Of weights: those of this size stay in L2 anyway, and leave tasks in the order that suits the next node.
static PEN_INLINE int64_t near_weights(const Processor& p) { return p.near_bytes / 4; }
// Of the input rows under a strip of output rows, for direct convolution: all of a task's columns read them again.
static PEN_INLINE int64_t strip_bytes(const Processor& p) { return p.near_bytes / 4; }
// Of expanded rows, between the two convolutions of expand_depthwise: written and read at once, with room beside them for x and weights.
static PEN_INLINE int64_t expanded_bytes(const Processor& p) { return p.near_bytes / 8; }
// Of x that the tasks of one part of the rows read again and again, one block of channels after another.
static PEN_INLINE int64_t expand_input_bytes(const Processor& p) { return p.near_bytes / 2; }

// Of a batch that takes turns (exec/turns.h): what a step reads and writes of as many images as go together. They need not be in L2, a
// step reads its input once and in order, but in the level behind it, which others use too: ResNet50, batch 8, at 2, 4, 8 MB and as a whole
// took 24.8, 24.5, 24.5 and 27.4 ms an image on Zen 5, MobileNetV2 2.71, 2.71, 2.73 and 2.92.
static PEN_INLINE int64_t turn_bytes(const Processor& p) { return p.near_bytes * 4; }

// By how much an arena may be larger so that what each of several threads writes stays in its core's cache (exec/arena.cc): ResNet50's
// takes 1.7 MB more, MobileNetV2's 1.1.
static PEN_INLINE int64_t middles_bytes(const Processor& p) { return p.near_bytes * 2; }

}  // namespace pen
