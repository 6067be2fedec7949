// The register tile of integer products and the loops around it (gemm_q8.h). Compiled once per instruction set.
#include "penlight/runtime/cpu/gemm_q8.h"

namespace pen {
namespace PEN_ISA {

static_assert(!kFlipped || needs_sums_q8(Isa::PEN_ISA, false), "bind adds up weights for these");

struct TileQ8 {
  const uint8_t* const* rows;
  int64_t rows_step, a_offset;
  const int32_t* places;
  const uint8_t* live;
  int64_t taps, tap_k;
  const int8_t* b;     // the tile's first column, at K = 0
  int64_t panel_step;  // bytes from a panel to the next
  char* c;
  const char* residual;
  int64_t c_pitch, residual_pitch;
  ColumnsQ8 columns;     // from the tile's first column on
  int64_t count;         // columns that exist, from the tile's first one
  int height;            // rows that exist
  int64_t row[kQ8Rows];  // a tile may have more: they are the last one again
  bool plain;            // whole vectors of bytes, of sums alone, that 32 bits hold
  const ResultQ8* result;
  const Activation* act;
};

// What is known of a tile's sums when its code is compiled: that they are all there is, that a residual is added, nothing. Whether they can
// be too large for 32 bits is open in the last case alone.
enum class Sums { alone, residual, any };

// A sum in steps of the result: row's vector j. kWhole: all columns exist.
template <Sums kSums, bool kWhole>
static PEN_INLINE I steps_of(const TileQ8& t, int r, int j, I sum, V scale) {
  V y = to_float(sum) * scale;
  if (kSums == Sums::alone) return round_to_int(y);
  if (kSums == Sums::residual || t.residual) {
    const uint8_t* residual = reinterpret_cast<const uint8_t*>(t.residual) + r * t.residual_pitch + j * kLanes;
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
static PEN_INLINE void store_bytes_of(const TileQ8& t, const I (&acc)[kRows][kVectors], const V (&scale)[kVectors]) {
  constexpr int kLast = kRows * kVectors - 1;
  const Limits limits = make_limits(t.result->zero, t.result->low, t.result->high);
  uint8_t* c = reinterpret_cast<uint8_t*>(t.c);
  auto place = [&](int r, int j) { return c + (kExactHeights ? r : t.row[r]) * t.c_pitch + j * kLanes; };
  PEN_UNROLL for (int v = 0; v <= kLast; v += 4) {
    I steps[4];
    PEN_UNROLL for (int i = 0; i < 4; ++i) {
      const int at = v + i < kLast ? v + i : kLast;
      steps[i] = steps_of<kSums, kWhole>(t, at / kVectors, at % kVectors, acc[at / kVectors][at % kVectors], scale[at % kVectors]);
    }
    Bytes bytes = pack(steps[0], steps[1], steps[2], steps[3], limits);
    if constexpr (kVectors == 1) {
      PEN_UNROLL for (int i = 0; i < 4; ++i) {
        if (v + i < kRows && kWhole) store_quarter(place(v + i, 0), bytes, i);
        if (v + i < kRows && !kWhole) {
          uint8_t quarter[kLanes], *to = place(v + i, 0);
          store_quarter(quarter, bytes, i);
          for (int64_t k = 0; k < (t.count < kLanes ? t.count : kLanes); ++k) to[k] = quarter[k];
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

static PEN_INLINE void store_real(const TileQ8& t, float* c, const float* residual, int j, I sum, V scale) {
  const int64_t n = t.count - j * kLanes;
  if (n <= 0) return;
  V y = to_float(sum) * scale + load(t.columns.bias + j * kLanes);
  if (residual) y = y + (n >= kLanes ? load(residual + j * kLanes) : load_partial(residual + j * kLanes, n));
  if (t.act->clamped) y = clamp(y, set1(t.act->lo), set1(t.act->hi));
  if (PEN_UNLIKELY(n < kLanes)) return store_partial(c + j * kLanes, y, n);
  store(c + j * kLanes, y);
}

// Where code is to be small: sums that are not plain leave through memory, by a loop that all tiles share.
static PEN_OUTER void leave(const TileQ8& t, const I* sums, int vectors) {
  const ResultQ8& q = *t.result;
  const Limits limits = make_limits(q.zero, q.low, q.high);
  for (int r = 0; r < t.height; ++r, sums += vectors) {
    auto scale = [&](int j) { return load(t.columns.scale + j * kLanes); };
    if (q.real) {
      float* c = reinterpret_cast<float*>(t.c) + r * t.c_pitch;
      const float* residual = t.residual ? reinterpret_cast<const float*>(t.residual) + r * t.residual_pitch : nullptr;
      for (int j = 0; j < vectors; ++j) store_real(t, c, residual, j, sums[j], scale(j));
      continue;
    }
    I steps[4];
    for (int j = 0; j < 4; ++j) steps[j] = j < vectors ? steps_of<Sums::any, false>(t, r, j, sums[j], scale(j)) : steps[0];
    uint8_t bytes[4 * kLanes];
    store_all(bytes, pack(steps[0], steps[1], steps[2], steps[3], limits));
    memcpy(t.c + r * t.c_pitch, bytes, static_cast<size_t>(t.count < vectors * kLanes ? t.count : vectors * kLanes));
  }
}

template <int kRows, int kVectors>
static __attribute__((noinline)) void run_tile(const TileQ8& t) {
  I start[kVectors], acc[kRows][kVectors];
  PEN_UNROLL for (int j = 0; j < kVectors; ++j) {
    start[j] = load_ints(t.columns.start + j * kLanes);
    if (kFlipped) start[j] = start[j] + (load_ints(t.columns.sums + j * kLanes) << 7);
  }
  SumsQ8<kRows, kVectors> sums;
  sums.begin(start);
  for (int64_t tap = 0; tap < t.taps; ++tap) {
    if (!t.live[tap]) continue;
    const uint8_t* const* rows = t.rows + tap * t.rows_step;
    const uint8_t* a[kRows];
    PEN_UNROLL for (int r = 0; r < kRows; ++r) a[r] = rows[kExactHeights ? r : t.row[r]] + t.a_offset;
    sums.add(a, t.b + (t.places ? t.places[tap] : tap) * t.tap_k * kPanel, t.panel_step, t.tap_k);
  }
  sums.end(acc);
  if (kSmallCode && PEN_UNLIKELY(!t.plain)) {
    static_assert(!kSmallCode || kVectors <= 4, "leave packs four vectors");
    return leave(t, &acc[0][0], kVectors);
  }
  V scale[kVectors];
  PEN_UNROLL for (int j = 0; j < kVectors; ++j) scale[j] = load(t.columns.scale + j * kLanes);
  if (!kSmallCode && t.result->real) {
    float* c = reinterpret_cast<float*>(t.c);
    const float* residual = reinterpret_cast<const float*>(t.residual);
    PEN_UNROLL for (int r = 0; r < kRows; ++r) {
      PEN_UNROLL for (int j = 0; j < kVectors; ++j)
          store_real(t, c + r * t.c_pitch, residual ? residual + r * t.residual_pitch : nullptr, j, acc[r][j], scale[j]);
    }
    return;
  }
  if (kSmallCode || PEN_LIKELY(t.plain)) return store_bytes_of<Sums::alone, true>(t, acc, scale);
  if (!t.result->wide && !t.residual) return store_bytes_of<Sums::alone, false>(t, acc, scale);
  if (!t.result->wide && t.count >= kVectors * kLanes) return store_bytes_of<Sums::residual, true>(t, acc, scale);
  store_bytes_of<Sums::any, false>(t, acc, scale);
}

// By the lowest tile that has so many rows.
template <int kVectors, int kRows = kQ8Rows>
static PEN_INLINE void run_rows(const TileQ8& t) {
  constexpr int kLower = next_height(kRows);
  if constexpr (kLower > 0) {
    if (t.height <= kLower) return run_rows<kVectors, kLower>(t);
  }
  run_tile<kRows, kVectors>(t);
}

void run_block_q8(const BlockQ8& g) {
  TileQ8 t;
  const int64_t size = g.result->real ? 4 : 1;
  t.height = 0;
  t.rows_step = g.rows_step;
  t.a_offset = g.a_offset;
  t.places = g.places;
  t.taps = g.taps;
  t.tap_k = g.tap_k;
  t.panel_step = (g.b_taps ? g.b_taps : g.taps) * g.tap_k * kPanel;
  t.c_pitch = g.c_pitch;
  t.residual_pitch = g.residual_pitch;
  t.result = g.result;
  t.act = g.act;
  for (int64_t n = g.n_begin; n < g.n_end; n += kQ8Columns) {
    t.count = g.n_end - n < kQ8Columns ? g.n_end - n : kQ8Columns;
    t.b = g.b + n / kPanel * t.panel_step + n % kPanel * 4;
    t.columns = {g.columns.scale + n, g.columns.start + n, kFlipped ? g.columns.sums + n : nullptr, g.columns.bias + n};
    for (int i = 0; i < g.tile_count; ++i) {
      const RowTileQ8& tile = g.tiles[i];
      t.rows = tile.rows;
      t.live = tile.live;
      t.c = tile.c + (g.c_offset + n) * size;
      t.residual = tile.residual ? tile.residual + (g.c_offset + n) * size : nullptr;
      if (t.height != tile.count) {
        t.height = tile.count;
        for (int r = 0; r < kQ8Rows; ++r) t.row[r] = r < t.height ? r : t.height - 1;
      }
      const bool narrow = t.count <= kQ8Columns / 2 && (!kSmallCode || t.height > next_height(kQ8Rows));
      t.plain = !g.result->real && !g.result->wide && !tile.residual && t.count == (narrow ? kQ8Columns / 2 : kQ8Columns);
      if (!narrow)
        run_rows<kQ8Vectors>(t);
      else if (kSmallCode)
        run_tile<kQ8Rows, kQ8Vectors / 2>(t);
      else
        run_rows<kQ8Vectors / 2>(t);
    }
    if (!g.result->real || !g.act->row) continue;
    for (int i = 0; i < g.tile_count; ++i)
      for (int r = 0; r < g.tiles[i].count; ++r)
        apply_row(*g.act, reinterpret_cast<float*>(g.tiles[i].c) + g.c_offset + r * g.c_pitch + n, t.count);
  }
}

}  // namespace PEN_ISA
}  // namespace pen
