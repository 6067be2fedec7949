// Matrix product of gathered rows and packed panels, the core of convolution and linear:
//
//   C[m][n] = act(bias[n] + residual[m][n] + sum over taps t and k of  A_t[m][k] * B[t * tap_k + k][n])
//
// A is given as pointers: row m of tap t starts at rows[t * rows_step + m] and has tap_k floats. A plain matrix is one
// tap; a convolution has one tap per kernel position, whose rows are pixels of the image or zeros (padding). B lies in
// panels of 16 columns, [ceil(N / 16)][K][16], tail columns zero. C is row-major with any pitch; columns beyond N are
// never written, for C may be part of a wider tensor.
//
// A tile of C (kTileRows x kTileVectors vectors) stays in registers while K runs. Every element is one chain of
// multiply-adds in the order of K, whatever the tiling, so results depend neither on blocking nor on threads.
#pragma once
#include "penlight/runtime/cpu/epilogue.h"
#include "penlight/runtime/simd/simd.h"

namespace pen {
namespace PEN_ISA {

constexpr int kPanel = 16;  // columns in a panel of B

// The register tile: rows x vectors accumulators, plus the vectors of B and one value of A. It must fit the register
// file; the rest of the space is a choice between loads of A (more vectors) and loads of B (more rows).
#if defined(__AVX512F__)
constexpr int kTileVectors = 2, kTileRows = 14;  // 28 + 2 + 1 of 32
constexpr int kTallRows = 14;                    // for the last columns, where half the vectors suffice
#elif defined(__AVX2__)
constexpr int kTileVectors = 2, kTileRows = 6;  // 12 + 2 + 1 of 16
constexpr int kTallRows = 12;
#elif defined(__SSE4_1__)
constexpr int kTileVectors = 2, kTileRows = 6;  // 12 + 2 + 1 and a product of 16: no fused multiply-add
constexpr int kTallRows = 8;
#elif defined(__aarch64__)
constexpr int kTileVectors = 4, kTileRows = 6;  // 24 + 4 + 1 of 32
constexpr int kTallRows = 12;
#elif defined(__ARM_NEON)
constexpr int kTileVectors = 2, kTileRows = 6;  // 12 + 2 + 1 of 16
constexpr int kTallRows = 12;
#else
constexpr int kTileVectors = 4, kTileRows = 2;  // 8 + 4 + 1 of 16 scalar registers
constexpr int kTallRows = 4;
#endif
constexpr int kTileColumns = kTileVectors * kLanes;
static_assert(kTileVectors % 2 == 0, "the tail tile has half the vectors");

// A row of tiles is at most this high.
constexpr int kMaxTileRows = kTileRows > kTallRows ? kTileRows : kTallRows;

// One tile's worth of work.
struct TileCall {
  const float* const* rows;  // of this tile: rows[t * rows_step + r]
  int64_t rows_step, a_offset;
  const uint8_t* live;  // live[t] == 0: all rows of tap t are zeros, skip it
  int64_t tap_begin, tap_end, tap_k;
  int64_t k_begin, k_end;  // of each tap
  const float* b;          // the tile's first column, at K = 0
  int64_t panel_step;      // floats from a panel to the next
  float* c;
  int64_t c_pitch;
  const float* residual;  // null: none
  int64_t residual_pitch;
  const float* bias;  // null: none
  int64_t columns;    // those that exist, from the tile's first one
  float lo, hi;
  bool clamped;
  bool first, last;  // part of K: the first starts from bias and residual, others go on from what C holds
};

template <int kVectors>
static PEN_INLINE V load_columns(const float* p, int j, int64_t columns) {
  if (PEN_LIKELY(columns >= kVectors * kLanes)) return load(p + j * kLanes);
  int64_t n = columns - j * kLanes;
  return n <= 0 ? zero() : load_partial(p + j * kLanes, n < kLanes ? n : kLanes);
}

// Loops over rows and vectors are all unrolled, those of start and end too: else GCC keeps the accumulators in memory.
#define PEN_UNROLL _Pragma("GCC unroll 64")

template <int kRows, int kVectors>
static __attribute__((noinline)) void run_tile(const TileCall& t) {
  V acc[kRows][kVectors];
  if (t.first) {
    PEN_UNROLL for (int j = 0; j < kVectors; ++j) {
      V start = t.bias ? load_columns<kVectors>(t.bias, j, t.columns) : zero();
      PEN_UNROLL for (int r = 0; r < kRows; ++r) acc[r][j] = start;
    }
    if (t.residual) {
      PEN_UNROLL for (int r = 0; r < kRows; ++r) {
        PEN_UNROLL for (int j = 0; j < kVectors; ++j)
          acc[r][j] = acc[r][j] + load_columns<kVectors>(t.residual + r * t.residual_pitch, j, t.columns);
      }
    }
  } else {
    PEN_UNROLL for (int r = 0; r < kRows; ++r) {
      PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[r][j] = load_columns<kVectors>(t.c + r * t.c_pitch, j, t.columns);
    }
  }

  for (int64_t tap = t.tap_begin; tap < t.tap_end; ++tap) {
    if (!t.live[tap]) continue;
    const float* const* rows = t.rows + tap * t.rows_step;
    const float* a[kRows];
    PEN_UNROLL for (int r = 0; r < kRows; ++r) a[r] = rows[r] + t.a_offset;
    const float* b = t.b + (tap * t.tap_k + t.k_begin) * kPanel;
    for (int64_t k = t.k_begin; k < t.k_end; ++k, b += kPanel) {
      V column[kVectors];
      PEN_UNROLL for (int j = 0; j < kVectors; ++j)
        column[j] = load(b + j * kLanes / kPanel * t.panel_step + j * kLanes % kPanel);
      PEN_UNROLL for (int r = 0; r < kRows; ++r) {
        V x = set1(a[r][k]);
        PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[r][j] = fma(x, column[j], acc[r][j]);
      }
    }
  }

  if (t.last && t.clamped) {
    V lo = set1(t.lo), hi = set1(t.hi);
    PEN_UNROLL for (int r = 0; r < kRows; ++r) {
      PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[r][j] = clamp(acc[r][j], lo, hi);
    }
  }
  if (PEN_LIKELY(t.columns >= kVectors * kLanes)) {
    PEN_UNROLL for (int r = 0; r < kRows; ++r) {
      PEN_UNROLL for (int j = 0; j < kVectors; ++j) store(t.c + r * t.c_pitch + j * kLanes, acc[r][j]);
    }
  } else {
    PEN_UNROLL for (int j = 0; j < kVectors; ++j) {
      int64_t n = t.columns - j * kLanes;
      if (n <= 0) break;
      PEN_UNROLL for (int r = 0; r < kRows; ++r)
        store_partial(t.c + r * t.c_pitch + j * kLanes, acc[r][j], n < kLanes ? n : kLanes);
    }
  }
}

template <int kVectors, int kRows>
static PEN_INLINE void run_tile_of(int rows, const TileCall& t) {
  if constexpr (kRows == 1) {
    run_tile<1, kVectors>(t);
  } else {
    if (rows == kRows) return run_tile<kRows, kVectors>(t);
    run_tile_of<kVectors, kRows - 1>(rows, t);
  }
}

// Consecutive rows of C with one pitch, at most kTileRows of them.
struct RowTile {
  const float* const* rows;
  const uint8_t* live;
  float* c;               // column 0
  const float* residual;  // column 0
  int count;
};

// A block of C: some rows (as tiles) and a range of columns. What one task computes.
struct Block {
  const RowTile* tiles;
  int tile_count;
  int64_t rows_step, taps, tap_k;
  const float* b;  // all panels
  int64_t n_begin, n_end, n;  // columns to do (n_begin on a tile's edge), and all that there are
  int64_t c_pitch, residual_pitch;
  int64_t a_offset, c_offset;  // floats to skip in every row of A, and of C and residual: a group's channels
  const float* bias;
  const Activation* act;
};

// K is cut so that a tile's strip of B (kBlockK x 32 floats) stays in the first cache level while all row tiles of the
// block pass over it, and the block's rows of A in the second level; partial sums wait in C.
constexpr int64_t kBlockK = 512;
// An activation with a row function runs after this many columns: enough for its call, few enough to stay in cache.
constexpr int64_t kActColumns = 128;

static void run_block(const Block& g) {
  TileCall t;
  t.rows_step = g.rows_step;
  t.a_offset = g.a_offset;
  t.tap_k = g.tap_k;
  t.panel_step = g.taps * g.tap_k * kPanel;
  t.c_pitch = g.c_pitch;
  t.residual_pitch = g.residual_pitch;
  t.lo = g.act->lo;
  t.hi = g.act->hi;
  t.clamped = g.act->clamped;
  // Long taps are cut, short ones taken together.
  int64_t cuts = (g.tap_k + kBlockK - 1) / kBlockK;
  int64_t together = cuts > 1 ? 1 : kBlockK / (g.tap_k > 0 ? g.tap_k : 1);
  cuts = cuts > 0 ? cuts : 1;
  for (t.tap_begin = 0; t.tap_begin < g.taps; t.tap_begin += together) {
    t.tap_end = t.tap_begin + together < g.taps ? t.tap_begin + together : g.taps;
    for (int64_t cut = 0; cut < cuts; ++cut) {
      Range k = part(g.tap_k, cuts, cut);
      t.k_begin = k.begin;
      t.k_end = k.end;
      t.first = t.tap_begin == 0 && cut == 0;
      t.last = t.tap_end == g.taps && cut == cuts - 1;
      int64_t act_begin = g.n_begin;
      for (int64_t n = g.n_begin; n < g.n_end; n += kTileColumns) {
        t.columns = g.n - n;
        t.bias = g.bias ? g.bias + n : nullptr;
        t.b = g.b + n / kPanel * t.panel_step + n % kPanel;
        for (int i = 0; i < g.tile_count; ++i) {
          const RowTile& tile = g.tiles[i];
          t.rows = tile.rows;
          t.live = tile.live;
          t.c = tile.c + g.c_offset + n;
          t.residual = tile.residual ? tile.residual + g.c_offset + n : nullptr;
          if (t.columns > kTileColumns / 2)
            run_tile_of<kTileVectors, kTileRows>(tile.count, t);
          else
            run_tile_of<kTileVectors / 2, kTileRows>(tile.count, t);
        }
        int64_t done = n + kTileColumns < g.n_end ? n + kTileColumns : g.n_end;
        if (t.last && g.act->row && (done - act_begin >= kActColumns || done == g.n_end)) {
          for (int i = 0; i < g.tile_count; ++i)
            for (int r = 0; r < g.tiles[i].count; ++r)
              apply_row(*g.act, g.tiles[i].c + g.c_offset + r * g.c_pitch + act_begin, done - act_begin);
          act_begin = done;
        }
      }
    }
  }
}

}  // namespace PEN_ISA
}  // namespace pen
