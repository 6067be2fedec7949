// The register tile of integer products and the loops around it (gemm_q8.h). Compiled once per instruction set.
#include "penlight/runtime/cpu/gemm_q8.h"

namespace pen {
namespace PEN_ISA {

static_assert(!kFlipped || needs_sums_q8(Isa::PEN_ISA, false), "bind adds up weights for these");

// A tile's width of a block's columns: what is the same for all rows.
struct StripQ8 {
  int64_t rows_step, a_offset;
  const int32_t* places;
  int64_t taps, tap_k;
  const int8_t* b;     // the first column, at K = 0
  int64_t panel_step;  // bytes from a panel to the next
  int64_t c_at;        // bytes from column 0 to the first one, in C and in the residual
  int64_t c_pitch, residual_pitch;
  ColumnsQ8 columns;                 // from the first one on
  int64_t count;                     // columns that exist
  bool whole;                        // whole vectors of bytes, of sums that 32 bits hold and, maybe, a residual
  bool plain;                        // and there is none
  const int32_t* row_starts;         // of the block's rows; may be null
  const uint8_t* const* first_rows;  // the pointers of the block's first row
  const ResultQ8* result;
  const Activation* act;
  int32_t odd_fours[kQ8Eights ? kQ8Columns : 1];  // where tiles go by eights of K
};

// Where a tile's results go.
struct PlaceQ8 {
  char* c;
  const char* residual;
  int64_t last;               // the last row that exists: the tile may have one more, which is this one again
  const int32_t* row_starts;  // what its rows add to their sums; may be null
};

// What is known of a tile's sums when its code is compiled: that they are all there is, that a residual is added, nothing. Whether they can
// be too large for 32 bits is open in the last case alone.
enum class Sums { alone, residual, any };

// A sum in steps of the result: row's vector j. kWhole: all columns exist.
template <Sums kSums, bool kWhole>
static PEN_INLINE I steps_of(const StripQ8& t, const PlaceQ8& to, int r, int j, I sum, V scale) {
  V y = to_float(sum) * scale;
  if (kSums == Sums::alone) return round_to_int(y);
  if (kSums == Sums::residual || to.residual) {
    const uint8_t* residual = reinterpret_cast<const uint8_t*>(to.residual) + r * t.residual_pitch + j * kLanes;
    const int64_t n = t.count - j * kLanes;
    I add = kWhole || n >= kLanes ? load_bytes_i(residual) : n > 0 ? load_bytes_i_partial(residual, n) : set1i(0);
    y = y + to_float(add - set1i(t.result->residual_zero)) * set1(t.result->residual_scale);
  }
  if (kSums == Sums::any && t.result->wide) y = max(min(y, set1(32767.0f)), set1(-32768.0f));
  return round_to_int(y);
}

// All rows of a tile to bytes, four vectors at a time: number v of them is vector v % kVectors of row v / kVectors; behind the last one,
// that one again. No loop here ends early: GCC would keep the sums in memory.
template <Sums kSums, bool kWhole, int kRows, int kVectors>
static PEN_INLINE void store_bytes_of(const StripQ8& t, const PlaceQ8& to, const I (&acc)[kRows][kVectors], const V (&scale)[kVectors]) {
  constexpr int kLast = kRows * kVectors - 1;
  const Limits limits = make_limits(t.result->zero, t.result->low, t.result->high);
  const int64_t pitch = t.c_pitch;  // bytes that are stored might be those of t: it would be read again for every row
  uint8_t* c = reinterpret_cast<uint8_t*>(to.c);
  auto place = [&](int r, int j) { return c + (r < kRows - 1 ? r : to.last) * pitch + j * kLanes; };
  PEN_UNROLL for (int v = 0; v <= kLast; v += 4) {
    I steps[4];
    PEN_UNROLL for (int i = 0; i < 4; ++i) {
      const int at = v + i < kLast ? v + i : kLast;
      steps[i] = steps_of<kSums, kWhole>(t, to, at / kVectors, at % kVectors, acc[at / kVectors][at % kVectors], scale[at % kVectors]);
    }
    Bytes bytes = pack(steps[0], steps[1], steps[2], steps[3], limits);
    if constexpr (kVectors == 1) {
      PEN_UNROLL for (int i = 0; i < 4; ++i) {
        if (v + i < kRows && kWhole) store_quarter(place(v + i, 0), bytes, i);
        if (v + i < kRows && !kWhole) {
          uint8_t quarter[kLanes], *at = place(v + i, 0);
          store_quarter(quarter, bytes, i);
          for (int64_t k = 0; k < (t.count < kLanes ? t.count : kLanes); ++k) at[k] = quarter[k];
        }
      }
    } else if (kVectors % 4 == 0 && (kWhole || t.count >= kVectors * kLanes)) {
      store_all(place(v / kVectors, v % kVectors), bytes);
    } else {
      PEN_UNROLL for (int i = 0; i < 2; ++i) {
        const int r = (v + 2 * i) / kVectors, j = (v + 2 * i) % kVectors;
        const int64_t n = t.count - j * kLanes;
        if (r < kRows && (kWhole || n >= 2 * kLanes))
          store_half(place(r, j), bytes, i);
        else if (r < kRows && n > 0)
          store_half_partial(place(r, j), bytes, i, n);
      }
    }
  }
}

static PEN_INLINE void store_real(const StripQ8& t, float* c, const float* residual, int j, I sum, V scale) {
  const int64_t n = t.count - j * kLanes;
  if (n <= 0) return;
  V y = to_float(sum) * scale + load(t.columns.bias + j * kLanes);
  if (residual) y = y + (n >= kLanes ? load(residual + j * kLanes) : load_partial(residual + j * kLanes, n));
  if (t.act->clamped) y = clamp(y, set1(t.act->lo), set1(t.act->hi));
  if (PEN_UNLIKELY(n < kLanes)) return store_partial(c + j * kLanes, y, n);
  store(c + j * kLanes, y);
}

// Where code is to be small: sums that are not plain leave through memory, by a loop that all tiles share.
static PEN_OUTER void leave(const StripQ8& t, const PlaceQ8& to, const I* sums, int vectors) {
  const ResultQ8& q = *t.result;
  const Limits limits = make_limits(q.zero, q.low, q.high);
  for (int r = 0; r <= to.last; ++r, sums += vectors) {
    auto scale = [&](int j) { return load(t.columns.scale + j * kLanes); };
    const I row_start = set1i(to.row_starts ? to.row_starts[r] : 0);
    if (q.real) {
      float* c = reinterpret_cast<float*>(to.c) + r * t.c_pitch;
      const float* residual = to.residual ? reinterpret_cast<const float*>(to.residual) + r * t.residual_pitch : nullptr;
      for (int j = 0; j < vectors; ++j) store_real(t, c, residual, j, sums[j] + row_start, scale(j));
      continue;
    }
    I steps[4];
    for (int j = 0; j < 4; ++j) steps[j] = j < vectors ? steps_of<Sums::any, false>(t, to, r, j, sums[j] + row_start, scale(j)) : steps[0];
    uint8_t bytes[4 * kLanes];
    store_all(bytes, pack(steps[0], steps[1], steps[2], steps[3], limits));
    memcpy(to.c + r * t.c_pitch, bytes, static_cast<size_t>(t.count < vectors * kLanes ? t.count : vectors * kLanes));
  }
}

template <int kRows, int kVectors>
static PEN_INLINE void store_tile(const StripQ8& t, const RowTileQ8& tile, int64_t last, I (&acc)[kRows][kVectors]) {
  const bool plain = kSmallCode ? PEN_LIKELY(t.plain) : false;
  const PlaceQ8 to = {tile.c + t.c_at, plain || !tile.residual ? nullptr : tile.residual + t.c_at, last,
                      t.row_starts ? t.row_starts + (tile.rows - t.first_rows) : nullptr};
  if (kSmallCode && !plain) {
    static_assert(!kSmallCode || kVectors <= 4, "leave packs four vectors");
    I sums[kRows][kVectors];  // a copy, like `at`: what is handed on lies in memory, where all tiles would have it
    PEN_UNROLL for (int r = 0; r < kRows; ++r) { PEN_UNROLL for (int j = 0; j < kVectors; ++j) sums[r][j] = acc[r][j]; }
    const PlaceQ8 at = to;
    return leave(t, at, &sums[0][0], kVectors);
  }
  V scale[kVectors];
  PEN_UNROLL for (int j = 0; j < kVectors; ++j) scale[j] = load(t.columns.scale + j * kLanes);
  // Before all else, and what is left on a copy: GCC would store every tile's sums for it.
  if (kSmallCode || PEN_LIKELY(t.plain)) return store_bytes_of<Sums::alone, true>(t, to, acc, scale);
  if (PEN_LIKELY(t.whole)) return store_bytes_of<Sums::residual, true>(t, to, acc, scale);
  static_assert(kSmallCode || kExactHeights, "a row of the tile is one of the block");
  I sums[kRows][kVectors];
  PEN_UNROLL for (int r = 0; r < kRows; ++r) {
    const I row_start = set1i(to.row_starts ? to.row_starts[r] : 0);
    PEN_UNROLL for (int j = 0; j < kVectors; ++j) sums[r][j] = acc[r][j] + row_start;
  }
  if (t.result->real) {
    float* c = reinterpret_cast<float*>(to.c);
    const float* residual = reinterpret_cast<const float*>(to.residual);
    PEN_UNROLL for (int r = 0; r < kRows; ++r) {
      PEN_UNROLL for (int j = 0; j < kVectors; ++j)
          store_real(t, c + r * t.c_pitch, residual ? residual + r * t.residual_pitch : nullptr, j, sums[r][j], scale[j]);
    }
  } else if (!t.result->wide && !to.residual) {
    store_bytes_of<Sums::alone, false>(t, to, sums, scale);
  } else {
    store_bytes_of<Sums::any, false>(t, to, sums, scale);
  }
}

// Tiles of one height, one after the other: what a call saves and restores is a few percent of a tile of small K.
template <int kRows, int kVectors>
static __attribute__((noinline)) void run_tiles(const StripQ8& t, const RowTileQ8* tile, const RowTileQ8* tiles_end) {
  do {
    const int64_t last = kExactHeights ? kRows - 1 : tile->count - 1;
    I start[kVectors], acc[kRows][kVectors];
    PEN_UNROLL for (int j = 0; j < kVectors; ++j) {
      start[j] = load_ints(t.columns.start + j * kLanes);
      if (kFlipped) start[j] = start[j] + (load_ints(t.columns.sums + j * kLanes) << 7);
      if constexpr (SumsQ8<kRows, kVectors>::kEights) start[j] = start[j] - load_ints(t.odd_fours + j * kLanes);
    }
    SumsQ8<kRows, kVectors> sums;
    sums.begin(start);
    const uint8_t* const* rows = tile->rows;
    const uint8_t *live = tile->live, *live_end = live + t.taps;
    const int32_t* places = t.places;
    const int8_t* b = t.b;
    do {
      if (places) b = t.b + *places++ * t.tap_k * kPanel;
      if (!*live) {
        b += t.tap_k * kPanel;
        continue;
      }
      const uint8_t* a[kRows];
      PEN_UNROLL for (int r = 0; r < kRows; ++r) a[r] = rows[r < kRows - 1 ? r : last];
      if (t.a_offset) {
        PEN_UNROLL for (int r = 0; r < kRows; ++r) a[r] += t.a_offset;
      }
      b = sums.add(a, b, t.panel_step, t.tap_k);
    } while (rows += t.rows_step, ++live != live_end);
    sums.end(acc);
    store_tile(t, *tile, last, acc);
  } while (++tile != tiles_end);
}

// Tiles from `tile` on that the lowest register tile with enough rows takes; returns the first that it does not.
template <int kVectors, int kRows = kQ8Rows>
static PEN_INLINE const RowTileQ8* run_rows(const StripQ8& t, const RowTileQ8* tile, const RowTileQ8* tiles_end) {
  constexpr int kLower = next_height(kRows);
  static_assert(kRows - kLower <= (kExactHeights ? 1 : 2), "a tile has no more than one row that does not exist");
  if constexpr (kLower > 0) {
    if (tile->count <= kLower) return run_rows<kVectors, kLower>(t, tile, tiles_end);
  }
  const RowTileQ8* end = tile + 1;
  while (end != tiles_end && end->count > kLower && end->count <= kRows) ++end;
  run_tiles<kRows, kVectors>(t, tile, end);
  return end;
}

void run_block_q8(const BlockQ8& g) {
  StripQ8 t;
  const int64_t size = g.result->real ? 4 : 1;
  t.rows_step = g.rows_step;
  t.a_offset = g.a_offset;
  t.places = g.places;
  t.taps = g.taps;
  t.tap_k = g.tap_k;
  t.panel_step = (g.b_taps ? g.b_taps : g.taps) * g.tap_k * kPanel;
  t.c_pitch = g.c_pitch;
  t.residual_pitch = g.residual_pitch;
  t.row_starts = g.row_starts;
  t.first_rows = g.tile_count ? g.tiles[0].rows : nullptr;
  t.result = g.result;
  t.act = g.act;
  for (int64_t n = g.n_begin; n < g.n_end; n += kQ8Columns) {
    t.count = g.n_end - n < kQ8Columns ? g.n_end - n : kQ8Columns;
    t.b = g.b + n / kPanel * t.panel_step + n % kPanel * 4;
    t.c_at = (g.c_offset + n) * size;
    t.columns = {g.columns.scale + n, g.columns.start + n, kFlipped ? g.columns.sums + n : nullptr, g.columns.bias + n};
    if (kQ8Eights && (g.tile_count > 1 || g.tiles->count > 1)) sum_odd_fours(t.b, t.taps, t.places, t.tap_k, t.odd_fours);
    for (const RowTileQ8 *tile = g.tiles, *end = tile + g.tile_count; tile != end;) {
      const bool narrow = t.count <= kQ8Columns / 2 && (!kSmallCode || tile->count > next_height(kQ8Rows));
      t.whole = !g.result->real && !g.result->wide && t.count == (narrow ? kQ8Columns / 2 : kQ8Columns) && !g.row_starts;
      t.plain = t.whole && !tile->residual;
      if (!narrow) {
        tile = run_rows<kQ8Vectors>(t, tile, end);
      } else if (kSmallCode) {
        run_tiles<kQ8Rows, kQ8Vectors / 2>(t, tile, tile + 1);
        ++tile;
      } else {
        tile = run_rows<kQ8Vectors / 2>(t, tile, end);
      }
    }
    if (!g.result->real || !g.act->row) continue;
    for (int i = 0; i < g.tile_count; ++i)
      for (int r = 0; r < g.tiles[i].count; ++r)
        apply_row(*g.act, reinterpret_cast<float*>(g.tiles[i].c) + g.c_offset + r * g.c_pitch + n, t.count);
  }
}

}  // namespace PEN_ISA
}  // namespace pen
