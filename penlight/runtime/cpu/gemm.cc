// The register tile and the loops around it (gemm.h). Compiled once per instruction set; the only copy of its code.
#include "penlight/runtime/cpu/gemm.h"

#include "penlight/runtime/cpu/blocking.h"

namespace pen {
namespace PEN_ISA {

// One tile's worth of work.
struct TileCall {
  const float* const* rows;  // of this tile: rows[t * rows_step + r]
  int64_t rows_step, a_offset;
  const int32_t* offsets;
  const int32_t* places;
  const uint8_t* live;  // live[t] == 0: all rows of tap t are zeros, skip it
  int64_t tap_begin, tap_end, tap_k;
  int64_t k_begin, k_end;  // of each tap
  const float* b;          // the tile's first column, at K = 0
  int64_t panel_step;      // floats from a panel to the next
  int64_t ahead;           // floats from b to what will be needed next
  float* c;
  int64_t c_pitch;
  const float* start;  // what the sums start from, beside the bias: residual, or C itself in later parts of K; or null
  int64_t start_pitch;
  const float* bias;  // null: none
  int64_t columns;    // those that exist, from the tile's first one
  float lo, hi;
  bool clamped;
};

PEN_OUTER int cut_row_tiles(const float* const* rows, int64_t count, const uint8_t* live, char* c, int64_t c_pitch, const char* residual,
                            int64_t residual_pitch, RowTile* tiles) {
  return cut_row_tiles<kTileRows, true>(rows, count, live, c, c_pitch, residual, residual_pitch, tiles);
}

// Rows of `columns` floats, one after another: between a tile at the edge of C and a buffer of whole vectors.
static PEN_OUTER __attribute__((noinline)) void copy_rows(const float* from, int64_t from_pitch, float* to, int64_t to_pitch, int rows,
                                                          int64_t columns) {
  for (int r = 0; r < rows; ++r) {
    int64_t n = 0;
    for (; n + kLanes <= columns; n += kLanes) store(to + r * to_pitch + n, load(from + r * from_pitch + n));
    if (n < columns) store_partial(to + r * to_pitch + n, load_partial(from + r * from_pitch + n, columns - n), columns - n);
  }
}

// Vector j of row r, which begins at p: where rows pair their halves, also the next row's, and none of an odd row.
template <int kRows, class Columns>
static PEN_INLINE V load_sums(const float* p, int64_t pitch, int r, int j) {
  p += j * kLanes;
  if (!Columns::half(j)) return load(p);
  if (!kPairsHalves) return load_half(p);
  return r % 2 ? zero() : load_halves(p, r + 1 < kRows ? p + pitch : p);
}
template <int kRows, class Columns>
static PEN_INLINE void store_sums(float* p, int64_t pitch, int r, int j, V sums) {
  p += j * kLanes;
  if (!Columns::half(j)) return store(p, sums);
  if (!kPairsHalves) return store_half(p, sums);
  if (r % 2) return;
  r + 1 < kRows ? store_halves(p, p + pitch, sums) : store_half(p, sums);
}

template <int kRows, int kVectors, bool kHalf>
static __attribute__((noinline)) void run_tile(const TileCall& t) {
  using Columns = Width<kVectors, kHalf>;
  constexpr int kColumns = kVectors * kLanes;
  // Tiles that N cuts go through a buffer, so that the code below knows whole vectors only.
  float buffer[kRows * kColumns];
  bool whole = t.columns >= Columns::kColumns;
  float* c = whole ? t.c : buffer;
  int64_t c_pitch = whole ? t.c_pitch : kColumns;
  const float* from = t.start;
  int64_t from_pitch = t.start_pitch;
  if (PEN_UNLIKELY(!whole) && from) {
    copy_rows(from, from_pitch, buffer, kColumns, kRows, t.columns);
    from = buffer;
    from_pitch = kColumns;
  }

  V acc[kRows][kVectors];
  PEN_UNROLL for (int j = 0; j < kVectors; ++j) {
    int64_t exist = t.columns - j * kLanes;
    V bias = zero();
    if (t.bias && exist > 0) bias = exist >= kLanes ? load(t.bias + j * kLanes) : load_partial(t.bias + j * kLanes, exist);
    if (kPairsHalves && Columns::half(j)) bias = twice(bias);
    PEN_UNROLL for (int r = 0; r < kRows; ++r) acc[r][j] = bias;
  }
  if (from) {
    PEN_UNROLL for (int r = 0; r < kRows; ++r, from += from_pitch) {
      PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[r][j] = acc[r][j] + load_sums<kRows, Columns>(from, from_pitch, r, j);
    }
  }

  for (int64_t tap = t.tap_begin; tap < t.tap_end; ++tap) {
    if (!t.live[tap]) continue;
    const float* const* rows = t.rows + tap * t.rows_step;
    const float* a[kRows];
    PEN_UNROLL for (int r = 0; r < kRows; ++r) a[r] = rows[r] + t.a_offset;
    const float* b = t.b + ((t.places ? t.places[tap] : tap) * t.tap_k + t.k_begin) * kPanel;
    if (t.offsets)
      multiply_places<kHalf>(a, t.offsets, b, t.panel_step, t.k_begin, t.k_end, acc);
    else
      multiply_run<kHalf>(a, b, t.panel_step, t.ahead, t.k_begin, t.k_end, acc);
  }

  if (t.clamped) {
    V lo = set1(t.lo), hi = set1(t.hi);
    PEN_UNROLL for (int r = 0; r < kRows; ++r) { PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[r][j] = clamp(acc[r][j], lo, hi); }
  }
  PEN_UNROLL for (int r = 0; r < kRows; ++r, c += c_pitch) {
    PEN_UNROLL for (int j = 0; j < kVectors; ++j) store_sums<kRows, Columns>(c, c_pitch, r, j, acc[r][j]);
  }
  if (PEN_UNLIKELY(!whole)) copy_rows(buffer, kColumns, t.c, t.c_pitch, kRows, t.columns);
}

template <int kVectors, bool kHalf, int kRows = kTileRows>
static PEN_INLINE void run_rows(int rows, const TileCall& t) {
  if constexpr (kRows == (kVectors == kTileVectors ? 1 : kNarrowRows)) {
    run_tile<kRows, kVectors, kHalf>(t);
  } else {
    if (rows == kRows) return run_tile<kRows, kVectors, kHalf>(t);
    run_rows<kVectors, kHalf, kRows - 1>(rows, t);
  }
}

// The narrowest tile that holds the columns, of those that there are.
static PEN_INLINE void run_columns(int rows, const TileCall& t) {
  if constexpr (kRowVectors > 0) {
    if (t.columns > kTileColumns) return run_tile<1, kRowVectors, false>(t);
  }
  constexpr int kFew = kTileVectors / 2;
  if (rows < kNarrowRows) return run_rows<kTileVectors, false>(rows, t);
  if (kHasHalves && t.columns <= Width<kFew, true>::kColumns) return run_rows<kFew, kHasHalves>(rows, t);
  if (t.columns <= kTileColumns / 2) return run_rows<kFew, false>(rows, t);
  if (kHasHalves && t.columns <= Width<kTileVectors, true>::kColumns) return run_rows<kTileVectors, kHasHalves>(rows, t);
  run_rows<kTileVectors, false>(rows, t);
}

// How many of the columns that are left the next tiles do. A tile of half a vector would wait for its loads, so the last
// 33 to 40 columns are not 32 + 8 but 16 + 24.
static PEN_INLINE int64_t strip_columns(int64_t left, bool one_row) {
  if (one_row && kRowVectors > 0 && left >= kRowVectors * kLanes) return kRowVectors * kLanes;
  if (kHasHalves && left > kTileColumns && left <= kTileColumns + kLanes / 2) return kLanes;
  return left < kTileColumns ? left : kTileColumns;
}

// K is cut so that a tile's strip of B and the block's rows of A stay in the second cache level while all row tiles pass over
// them (part_of_k); partial sums wait in C. Shorter parts, for the first level, gain nothing: a step of K takes more cycles than
// its loads. Later parts start from C with these as bias: -0 is the one number that leaves every other as it is, so the sum of all
// parts has the bits of one chain, however K is cut.
struct MinusZeros {
  float of[kRowVectors > kTileVectors ? kRowVectors* kLanes : kTileColumns] = {};
  constexpr MinusZeros() {
    for (float& x : of) x = -0.0f;
  }
};
static constexpr MinusZeros kMinusZeros;
// An activation with a row function runs after this many columns: enough for its call, few enough to stay in cache.
constexpr int64_t kActColumns = 128;

PEN_OUTER void run_block(const Block& g) {
  TileCall t;
  t.rows_step = g.rows_step;
  t.a_offset = g.a_offset;
  t.offsets = g.offsets;
  t.places = g.places;
  t.tap_k = g.tap_k;
  t.panel_step = (g.b_taps ? g.b_taps : g.taps) * g.tap_k * kPanel;
  t.c_pitch = g.c_pitch;
  t.lo = g.act->lo;
  t.hi = g.act->hi;
  const bool one_row = g.tile_count == 1 && g.tiles->count == 1;
  // Long taps are cut, short ones taken together.
  const int64_t most = part_of_k(processor());
  int64_t cuts = (g.tap_k + most - 1) / most;
  int64_t together = cuts > 1 ? 1 : most / (g.tap_k > 0 ? g.tap_k : 1);
  cuts = cuts > 0 ? cuts : 1;
  for (t.tap_begin = 0; t.tap_begin < g.taps; t.tap_begin += together) {
    t.tap_end = t.tap_begin + together < g.taps ? t.tap_begin + together : g.taps;
    for (int64_t cut = 0; cut < cuts; ++cut) {
      Range k = part(g.tap_k, cuts, cut);
      t.k_begin = k.begin;
      t.k_end = k.end;
      bool first = t.tap_begin == 0 && cut == 0, last = t.tap_end == g.taps && cut == cuts - 1;
      t.clamped = last && g.act->clamped;
      int64_t act_begin = g.n_begin;
      for (int64_t n = g.n_begin; n < g.n_end; n += t.columns) {
        t.columns = strip_columns(g.n_end - n, one_row);
        t.bias = !first ? kMinusZeros.of : g.bias ? g.bias + n : nullptr;
        t.b = g.b + n / kPanel * t.panel_step + n % kPanel;
        for (int i = 0; i < g.tile_count; ++i) {
          const RowTile& tile = g.tiles[i];
          t.rows = tile.rows;
          t.live = tile.live;
          t.c = tile.c + g.c_offset + n;
          t.start = !first ? t.c : tile.residual ? tile.residual + g.c_offset + n : nullptr;
          t.start_pitch = first ? g.residual_pitch : g.c_pitch;
          const float* next = n + t.columns < g.n_end ? t.b + t.columns / kPanel * t.panel_step : g.next_b;
          t.ahead = i == g.tile_count - 1 && next ? next - t.b : 0;
          run_columns(tile.count, t);
        }
        int64_t done = n + t.columns;
        if (last && g.act->row && (done - act_begin >= kActColumns || done == g.n_end)) {
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
