// What attention's bind rule tells its kernels, and what those of floats and of bytes share.
#pragma once
#include "penlight/ops/matmul/panels.h"
#include "penlight/runtime/cpu/result_q8.h"
#include "penlight/runtime/simd/math.h"

namespace pen {

struct AttentionParams {
  BatchDims batch;  // operands: q, packed k, packed v (in matrices), mask, out
  PackedBatch keys, values;
  int64_t l, s, e, ev;
  int64_t q_pitch, out_pitch;
  int64_t k_row, k_column, v_row, v_column;
  int64_t mask_row, mask_column;  // strides: 0 where broadcast
  bool has_mask, causal;
  bool direct;  // one query: keys and values are not packed
  bool own;     // each task packs those that it alone needs
  float scale;
  int64_t key_blocks;      // blocks of keys, of nearly equal length: whole tiles, but for the last
  int64_t block_keys;      // the longest of them
  int64_t row_blocks;      // blocks of queries
  int64_t block_rows;      // the longest of them
  int64_t k_size, v_size;  // floats of one packed matrix
  int64_t pack_count, pack_tasks;
  int64_t scores_pitch, sums_pitch;
};

// Scores of a block (56 x 256, 57 kB) and its panels stay in any second cache level. Constants, whatever the processor has: sums are
// rescaled from one block of keys to the next, so another block would give other bits (cpu/blocking.h).
constexpr int64_t kQueryRows = 56;
constexpr int64_t kKeyBlock = 256;
constexpr int64_t kKeyUnit = 32;       // columns of the widest tile
constexpr float kScoreSteps = 255.0f;  // of 1, the largest of the exponentials, which bytes are rounded to

static PEN_INLINE Range keys_of(const AttentionParams& p, int64_t block) {
  const int64_t begin = block * p.block_keys;
  return {begin, p.s - begin < p.block_keys ? p.s : begin + p.block_keys};
}

// Of quantized bytes: sizes of packed matrices are bytes. Behind it: float[3][width], the scale of scores in every column, that of products
// with v, and zeros.
struct AttentionQ8 : AttentionParams {
  int64_t padded_e;                 // E, filled up to whole quads
  int64_t width;                    // columns of the widest product, filled up to whole panels
  int64_t k_block, v_block;         // bytes of one packed block of keys, or of values
  int64_t bytes_pitch, copy_pitch;  // of rounded scores; of queries, where they end within a quad and are copied: else 0
  uint32_t q_zero, k_zero, v_zero;  // zero points, k's and v's as of i8
  ResultQ8 sums, result;            // what products give (f32), what attention gives
  float inverse;                    // of the scale of bytes that attention gives
};

namespace PEN_ISA {

// scores = scores * scale + mask, -inf past `visible`; gives their maximum (NaN left out: exp finds it again).
static PEN_INLINE float finish_scores(float* scores, int64_t n, int64_t visible, float scale, const float* mask, int64_t step) {
  V s = set1(scale), highest = set1(-__builtin_inff());
  V one = set1(mask && step == 0 ? *mask : 0.0f);
  int64_t i = 0;
  for (; i + kLanes <= visible; i += kLanes) {
    V a = fma(load(scores + i), s, mask && step ? load(mask + i) : one);
    store(scores + i, a);
    highest = max(a, highest);
  }
  float top = reduce_max(highest);
  for (; i < visible; ++i) {
    float a = scores[i] * scale + (mask ? mask[i * step] : 0.0f);
    scores[i] = a;
    top = a > top ? a : top;
  }
  for (; i < n; ++i) scores[i] = -__builtin_inff();
  return top;
}

static PEN_INLINE void scale_row(const float* from, float* to, int64_t n, float factor) {
  V f = set1(factor);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(to + i, load(from + i) * f);
  if (i < n) store_partial(to + i, load_partial(from + i, n - i) * f, n - i);
}

}  // namespace PEN_ISA
}  // namespace pen
