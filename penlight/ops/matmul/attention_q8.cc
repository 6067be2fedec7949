// attention.q8: of quantized bytes, to u8 or f32, block by block as of floats (attention.cc). Scores are exact sums, scaled to f32; their
// exponentials, 1 at most, are rounded to bytes in steps of 1 / 255, and multiplied with v in integers.
//
//   k, v     as bytes of i8, packed as matmul.q8 packs (quads.h); each block of keys has starts and sums of its columns behind it
//   rounding takes from a query what many small exponentials are worth together. Where all keys are visible, the block's mean of v gets
//            what was lost; else the weights that are left are divided by their own sum, so that a hidden key adds nothing
//
// Neither threads nor instruction set change a bit: nothing is fused, and sums of exponentials are of whole steps.
#include "penlight/ops/matmul/attention.h"
#include "penlight/ops/matmul/quads.h"
#include "penlight/runtime/simd/bytes.h"

namespace pen {
namespace PEN_ISA {

static_assert(kQueryRows >= kQ8Rows, "a block has its tiles");

// A packed block: `panels` panels of `padded_k` steps, then i32[panels * 16] starts, and as many sums (of values: means as f32, and sums).
struct PackedBlock {
  int8_t* panels;
  int32_t *starts, *sums;
};
static PEN_INLINE PackedBlock packed_block(char* at, int64_t columns, int64_t padded_k) {
  const int64_t padded = panel_count(columns) * kPanel;
  int32_t* starts = reinterpret_cast<int32_t*>(at + padded * padded_k);
  return {reinterpret_cast<int8_t*>(at), starts, starts + padded};
}
static PEN_INLINE void pack_block(const PackedBlock& b, const uint8_t* from, int64_t k, int64_t columns, int64_t row, int64_t column) {
  const int64_t padded_k = (k + 3) / 4 * 4;
  for (int64_t j = 0; j < columns; j += kPanel) {
    pack_quads(from + j * column, k, columns - j, row, column, b.panels + j * padded_k);
    sum_quads(b.panels + j * padded_k, padded_k, b.sums + j);
  }
}

static PEN_INLINE char* keys_at(const Run& r, const AttentionQ8& p, int64_t matrix, int64_t block) {
  return r.shared + matrix * p.k_size + block * p.k_block;
}
static PEN_INLINE char* values_at(const Run& r, const AttentionQ8& p, int64_t matrix, int64_t block) {
  return r.shared + p.keys.source.count * p.k_size + matrix * p.v_size + block * p.v_block;
}

static PEN_INLINE void attention_pack_q8(const Run& r, const AttentionQ8& p) {
  const uint32_t start = static_cast<uint32_t>(p.e) * p.q_zero * p.k_zero;
  const float v_scale = static_cast<float>(r.in[2].quant->scale);
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.pack_count, p.pack_tasks, task);
    for (int64_t i = range.begin; i < range.end; ++i) {
      int64_t matrix = i / p.key_blocks, block = i % p.key_blocks, at;
      Range keys = keys_of(p, block);
      const int64_t n = keys.end - keys.begin;
      if (matrix < p.keys.source.count) {
        batch_offsets(p.keys.source, matrix, &at, 1);
        PackedBlock b = packed_block(keys_at(r, p, matrix, block), n, p.padded_e);
        pack_block(b, r.in[1].as<uint8_t>() + at + keys.begin * p.k_row, p.e, n, p.k_column, p.k_row);
        for (int64_t j = 0; j < panel_count(n) * kPanel; ++j)
          b.starts[j] = static_cast<int32_t>(start - p.q_zero * static_cast<uint32_t>(b.sums[j]));
      } else {
        matrix -= p.keys.source.count;
        batch_offsets(p.values.source, matrix, &at, 1);
        PackedBlock b = packed_block(values_at(r, p, matrix, block), p.ev, (n + 3) / 4 * 4);
        pack_block(b, r.in[2].as<uint8_t>() + at + keys.begin * p.v_row, n, p.ev, p.v_row, p.v_column);
        const int32_t zeros = static_cast<int32_t>(p.v_zero) * static_cast<int32_t>(n);
        float* means = reinterpret_cast<float*>(b.starts);
        for (int64_t j = 0; j < p.ev; ++j) means[j] = static_cast<float>(b.sums[j] - zeros) * v_scale / static_cast<float>(n);
      }
    }
  }
}

// e**x for x <= 0, within 3e-7; below -20.8 that of -20.8. The same bits everywhere: simd/math.h fuses where it can.
static PEN_INLINE V exp_of_score(V x) {
  x = clamp(x * set1(kLog2E), set1(-30.0f), set1(0.0f));
  const V n = round(x), f = x - n;
  V y = set1(0.0013264718f) * f + set1(0.009671513f);
  y = y * f + set1(0.05550734f);
  y = y * f + set1(0.24022242f);
  y = y * f + set1(0.693147f);
  return (y * f + set1(1.0f)) * power_of_two(to_int(n));
}

constexpr float kSumSteps = 1 << 21;  // of 1: a block's sum of them fits 32 bits, in any order
static_assert(kKeyBlock < (int64_t{1} << 31) / (1 << 21), "sums of a block's exponentials");

// scores = exp(scores - top), as bytes of 255 steps; `sum`: of the exponentials as they were. Gives the sum of the bytes.
static PEN_INLINE int32_t exponentials_as_bytes(const float* scores, int64_t n, float top, uint8_t* to, float* sum) {
  const V t = set1(top), steps = set1(kScoreSteps), fine = set1(kSumSteps);
  V seen = zero();  // a NaN among them
  I total = set1i(0);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const V a = exp_of_score(load(scores + i) - t);
    store_bytes(to + i, round_to_int(a * steps));
    total = total + round_to_int(a * fine);
    seen = seen + a;
  }
  if (i < n) {
    const V a = exp_of_score(load_partial(scores + i, n - i) - t);
    store_bytes_partial(to + i, round_to_int(a * steps), n - i);
    float rest[kLanes];
    store(rest, a);
    const V there = load_partial(rest, n - i);
    total = total + round_to_int(there * fine);
    seen = seen + there;
  }
  int32_t lanes[kLanes];
  store_ints(lanes, total);
  uint32_t all = 0;  // of NaN an integer is anything
  for (int32_t lane : lanes) all += static_cast<uint32_t>(lane);
  const float nan = reduce_add(seen);
  *sum = nan != nan ? nan : static_cast<float>(all) / kSumSteps;
  return sum_bytes(to, n);
}

static PEN_INLINE void add_scaled(float* to, const float* from, int64_t n, float factor) {
  const V f = set1(factor);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(to + i, load(from + i) * f + load(to + i));
  if (i < n) store_partial(to + i, load_partial(from + i, n - i) * f + load_partial(to + i, n - i), n - i);
}

// from * factor, as bytes in steps of the result.
static PEN_INLINE void scale_row_to_bytes(const float* from, uint8_t* to, int64_t n, float factor, int32_t zero_point) {
  const V f = set1(factor), most = set1(1000.0f);
  const I zero = set1i(zero_point);
  auto bytes = [&](V x) { return round_to_int(max(min(x * f, most), -most)) + zero; };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_bytes(to + i, bytes(load(from + i)));
  if (i < n) store_bytes_partial(to + i, bytes(load_partial(from + i, n - i)), n - i);
}

// Rows times a packed block, to f32 at `c`: in place of what is there, or added to it.
static PEN_INLINE void multiply_block(const AttentionQ8& p, const uint8_t* const* rows, const int32_t* row_starts, int64_t count,
                                      const PackedBlock& b, const int32_t* starts, const float* scale, int64_t padded_k, int64_t columns,
                                      float* c, int64_t pitch, bool add) {
  static const uint8_t live[1] = {1};
  static const Activation none = {};
  const float* zeros = reinterpret_cast<const float*>(&p + 1) + 2 * p.width;
  RowTileQ8 tiles[kQueryRows];
  char* to = reinterpret_cast<char*>(c);
  BlockQ8 block = {};
  block.tiles = tiles;
  block.tile_count = cut_row_tiles(rows, count, live, to, pitch * 4, add ? to : nullptr, pitch * 4, tiles);
  block.taps = 1;
  block.tap_k = padded_k;
  block.b = b.panels;
  block.n = block.n_end = columns;
  block.c_pitch = block.residual_pitch = pitch;
  block.columns = {scale, starts ? starts : reinterpret_cast<const int32_t*>(zeros), b.sums, zeros};
  block.row_starts = row_starts;
  block.result = &p.sums;
  block.act = &none;
  run_block(block);
}

}  // namespace PEN_ISA

PEN_KERNEL(attention, q8) {
  using namespace PEN_ISA;
  const AttentionQ8& p = r.as<AttentionQ8>();
  if (r.phase == 0) return attention_pack_q8(r, p);
  const float *score_scale = reinterpret_cast<const float*>(&p + 1), *value_scale = score_scale + p.width;
  const bool whole = !p.has_mask && !p.causal;  // every key is visible
  const int64_t size = dtype_size(r.out[0].dtype);
  float* scores = reinterpret_cast<float*>(r.scratch);
  float* sums = scores + p.block_rows * p.scores_pitch;
  float* tops = sums + p.block_rows * p.sums_pitch;
  float* totals = tops + p.block_rows;
  uint8_t* bytes = reinterpret_cast<uint8_t*>(totals + p.block_rows);
  uint8_t* copies = bytes + p.block_rows * p.bytes_pitch;
  const uint8_t *queries[kQueryRows], *weights[kQueryRows];
  int32_t query_starts[kQueryRows], weight_starts[kQueryRows];
  float lost[kQueryRows];
  for (int64_t task = r.begin; task < r.end; ++task) {
    int64_t at[5];
    batch_offsets(p.batch, task / p.row_blocks, at, 5);
    Range rows = part(p.l, p.row_blocks, task % p.row_blocks);
    const int64_t m = rows.end - rows.begin;
    for (int64_t i = 0; i < m; ++i) {
      const uint8_t* query = r.in[0].as<uint8_t>() + at[0] + (rows.begin + i) * p.q_pitch;
      query_starts[i] = p.k_zero != 0 ? static_cast<int32_t>(0 - p.k_zero * static_cast<uint32_t>(sum_bytes(query, p.e))) : 0;
      queries[i] = query;
      if (p.copy_pitch > 0) queries[i] = static_cast<const uint8_t*>(memcpy(copies + i * p.copy_pitch, query, static_cast<size_t>(p.e)));
      weights[i] = bytes + i * p.bytes_pitch;
      tops[i] = -__builtin_inff();
      totals[i] = 0;
    }
    bool started = false;
    for (int64_t block = 0; block < p.key_blocks; ++block) {
      Range keys = keys_of(p, block);
      if (p.causal && keys.begin >= rows.end) break;  // no query here sees keys this late
      const int64_t n = keys.end - keys.begin;
      const PackedBlock k = packed_block(keys_at(r, p, at[1], block), n, p.padded_e);
      multiply_block(p, queries, p.k_zero != 0 ? query_starts : nullptr, m, k, k.starts, score_scale, p.padded_e, n, scores, p.scores_pitch,
                     false);
      for (int64_t i = 0; i < m; ++i) {
        float* row = scores + i * p.scores_pitch;
        int64_t query = rows.begin + i, visible = n;
        if (p.causal && query + 1 - keys.begin < n) visible = query + 1 > keys.begin ? query + 1 - keys.begin : 0;
        const float* mask = nullptr;
        if (p.has_mask) mask = r.in[3].as<float>() + at[3] + query * p.mask_row + keys.begin * p.mask_column;
        float top = finish_scores(row, n, visible, 1.0f, mask, p.mask_column);
        top = top > tops[i] ? top : tops[i];
        float base = top == -__builtin_inff() ? 0.0f : top;  // nothing visible yet: exp(-inf) must be 0, not NaN
        float sum;
        const int32_t steps = exponentials_as_bytes(row, n, base, bytes + i * p.bytes_pitch, &sum);
        float kept[kLanes];
        store(kept, exp_of_score(set1(tops[i] - base)));
        const float rounded = static_cast<float>(steps) / kScoreSteps;
        lost[i] = sum - rounded;
        weight_starts[i] = static_cast<int32_t>(0 - p.v_zero * static_cast<uint32_t>(steps));
        totals[i] = totals[i] * kept[0] + (whole || sum != sum ? sum : rounded);
        tops[i] = top;
        if (started && kept[0] != 1.0f) scale_row(sums + i * p.sums_pitch, sums + i * p.sums_pitch, p.ev, kept[0]);
      }
      const int64_t padded_n = (n + 3) / 4 * 4;
      const PackedBlock v = packed_block(values_at(r, p, at[2], block), p.ev, padded_n);
      multiply_block(p, weights, p.v_zero != 0 ? weight_starts : nullptr, m, v, nullptr, value_scale, padded_n, p.ev, sums, p.sums_pitch,
                     started);
      for (int64_t i = 0; whole && i < m; ++i) add_scaled(sums + i * p.sums_pitch, reinterpret_cast<const float*>(v.starts), p.ev, lost[i]);
      started = true;
    }
    for (int64_t i = 0; i < m; ++i) {
      char* out = r.out[0].data + (at[4] + (rows.begin + i) * p.out_pitch) * size;
      const float* sum = sums + i * p.sums_pitch;
      if (totals[i] == 0.0f)
        memset(out, p.result.real ? 0 : p.result.zero, static_cast<size_t>(p.ev * size));
      else if (p.result.real)
        scale_row(sum, reinterpret_cast<float*>(out), p.ev, 1.0f / totals[i]);
      else
        scale_row_to_bytes(sum, reinterpret_cast<uint8_t*>(out), p.ev, p.inverse / totals[i], p.result.zero);
    }
  }
}

}  // namespace pen
