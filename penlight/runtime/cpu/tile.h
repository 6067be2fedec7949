// The register tile of the matrix product (gemm.h): how large it is, and the loop over K that fills it. kRows x kVectors
// accumulators stay in registers; each step of K loads kVectors vectors of B, and multiplies them by one float of every
// row. A chain of multiply-adds goes in the order of K on every instruction set.
#pragma once
#include "penlight/runtime/exec/kernel.h"
#include "penlight/runtime/simd/simd.h"

namespace pen {
namespace PEN_ISA {

constexpr int kPanel = 16;  // columns in a panel of B: [K][16]

// Accumulators, vectors of B and values of A must fit the register file; the rest is a choice between loads of A (more
// vectors) and of B (more rows).
#if defined(PEN_TALL_TILES)
// Nearly all registers. A step of K loads 16 vectors for 28 multiply-adds, the lower tile below 10 for 16, and reads B from the second
// cache level half as often: with two units a step takes half the cycles, and loads begin to count.
constexpr int kTileVectors = 2, kTileRows = 14;  // 28 + 2 + 1 of 32
#elif defined(__AVX512F__)
// Half of the 32 registers. As many sums as fit (28) are slower: Zen 4 runs out of renaming registers before a tile's last
// sums leave, and the next tile starts late (K = 16: 92 of 116 GFLOP/s, this one 101; long K the same).
constexpr int kTileVectors = 2, kTileRows = 8;  // 16 + 2 + 1 of 32
#elif defined(__AVX2__)
constexpr int kTileVectors = 2, kTileRows = 6;  // 12 + 2 + 1 of 16
#elif defined(__SSE4_1__)
constexpr int kTileVectors = 2, kTileRows = 6;  // 12 + 2 + 1 and a product of 16: no fused multiply-add
#elif defined(__aarch64__)
constexpr int kTileVectors = 4, kTileRows = 5;  // 20 + 4 + 5 (four steps of K for each row) of 32; with 6 rows some spill
#elif defined(__wasm_simd128__)
// 8 + 4 + 1 and a product. More rows would fit, but each has an address to count up, and code for WebAssembly counts them one by one:
// MobileNetV2 in V8 on Zen 4 takes 19.7 ms, with 2 x 4 22.5, with 4 x 3 25.8, with 2 x 6 28.8 (SSE4, natively: 19.6).
constexpr int kTileVectors = 4, kTileRows = 2;
#elif defined(__ARM_NEON)
constexpr int kTileVectors = 2, kTileRows = 4;  // 8 + 2 + 4 of 16
#else
constexpr int kTileVectors = 4, kTileRows = 2;  // 8 + 4 + 1 of 16 scalar registers
#endif

// The lowest tile that comes in half the width too. On aarch64 a panel is as wide as a tile: a low one reads the same cache lines in half
// the width, and one or two rows of half the sums wait as long for each other. Three rows do multiply more so, in a corner of C. Each such
// tile would take a kilobyte.
#if defined(__aarch64__)
constexpr int kNarrowRows = kTileRows - 1;
#else
constexpr int kNarrowRows = 1;
#endif

// Rows of the lowest tile that keeps the multiply units busy: its sums are as many as products are under way at a time, which are eight
// where two units take four cycles each, and four where whole vectors take both.
#if defined(__AVX512F__) && !defined(PEN_TALL_TILES)
constexpr int kBusyRows = 4 / kTileVectors;
#else
constexpr int kBusyRows = 8 / kTileVectors;
#endif

// Where a half vector takes as long as a whole one, the halves of two rows share one: of 24 columns, a step of K then takes 3 multiply-adds
// for two rows, not 4. acc[r][j] of an even row has the next one's half too, an odd row has none of its own.
#if defined(PEN_TALL_TILES)
constexpr bool kPairsHalves = true;
#else
constexpr bool kPairsHalves = false;
#endif

// A row alone: what decides is how fast B comes, from afar, so its tile is wider, and fetches so many lines ahead. Zen 5, GB/s: 2 vectors
// 94 to 98 from the third cache level and 48 from memory, 4 vectors 104 to 109 and 48, 8 vectors 101 to 109 and 45. 0: as wide as others.
#if defined(__SSE4_1__)
constexpr int kRowVectors = 4, kRowAhead = 32;
#else
constexpr int kRowVectors = 0, kRowAhead = 0;
#endif

// The rows of tile i, of as many as it takes. kEven: all about as high. Else as high as can be, where the next lower one may not be
// there; but a row alone, whose few sums wait for each other, shares with the tile before it.
template <int kRows, bool kEven>
static PEN_INLINE Range tile_rows(int64_t count, int64_t tiles, int64_t i) {
  if (kEven) return part(count, tiles, i);
  const int64_t shared = count % kRows == 1 ? kRows / 2 : 0;
  return {i * kRows - (i > 0 && i == tiles - 1 ? shared : 0), i == tiles - 1 ? count : (i + 1) * kRows - (i == tiles - 2 ? shared : 0)};
}

// Tiles of at most kRows of `count` rows that lie one pitch (in bytes) apart in C and, if there is one, in the residual; how many there
// are. `rows` has their pointers.
template <int kRows, bool kEven, class T, class Tile>
static PEN_INLINE int cut_row_tiles(const T* const* rows, int64_t count, const uint8_t* live, char* c, int64_t c_pitch,
                                    const char* residual, int64_t residual_pitch, Tile* tiles) {
  int64_t cuts = (count + kRows - 1) / kRows;
  for (int64_t i = 0; i < cuts; ++i) {
    Range range = tile_rows<kRows, kEven>(count, cuts, i);
    const char* from = residual ? residual + range.begin * residual_pitch : nullptr;
    tiles[i] = {rows + range.begin, live, reinterpret_cast<decltype(tiles->c)>(c + range.begin * c_pitch),
                reinterpret_cast<decltype(tiles->residual)>(from), static_cast<int>(range.end - range.begin)};
  }
  return static_cast<int>(cuts);
}

// A tile's columns: kVectors vectors, of the last one only the first half if kHalf.
template <int kVectors, bool kHalf>
struct Width {
  static constexpr bool half(int j) { return kHalf && j == kVectors - 1; }
  static constexpr int kColumns = kVectors * kLanes - (kHalf ? kLanes / 2 : 0);
};

// The columns of one row of B; `panel_step` floats from a panel to the next.
template <int kVectors, bool kHalf = false>
static PEN_INLINE void load_columns(const float* b, int64_t panel_step, V (&columns)[kVectors]) {
  PEN_UNROLL for (int j = 0; j < kVectors; ++j) {
    const float* p = b + j * kLanes / kPanel * panel_step + j * kLanes % kPanel;
    columns[j] = !Width<kVectors, kHalf>::half(j) ? load(p) : kPairsHalves ? load_halves(p, p) : load_half(p);
  }
}

// One step of K: column k of the rows p.
template <bool kHalf, int kRows, int kVectors>
static PEN_INLINE void multiply_step(const float* const* p, int64_t k, const float* b, int64_t panel_step, V (&acc)[kRows][kVectors]) {
  V columns[kVectors];
  load_columns<kVectors, kHalf>(b, panel_step, columns);
  if constexpr (kHalf && kPairsHalves) {
    constexpr int kWhole = kVectors - 1;
    PEN_UNROLL for (int r = 0; r < kRows; r += 2) {
      const int other = r + 1 < kRows ? r + 1 : r;
      V x = set1(p[r][k]), y = set1(p[other][k]);
      keep(x);
      keep(y);
      PEN_UNROLL for (int j = 0; j < kWhole; ++j) {
        acc[r][j] = fma(x, columns[j], acc[r][j]);
        if (other > r) acc[other][j] = fma(y, columns[j], acc[other][j]);
      }
      acc[r][kWhole] = fma(halves(x, y), columns[kWhole], acc[r][kWhole]);
    }
  } else {
    PEN_UNROLL for (int r = 0; r < kRows; ++r) {
      V x = set1(p[r][k]);
      PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[r][j] =
          Width<kVectors, kHalf>::half(j) ? fma_half(x, columns[j], acc[r][j]) : fma(x, columns[j], acc[r][j]);
    }
  }
}

// acc += values a[r][offsets[k]] times the rows of B from b on.
template <bool kHalf, int kRows, int kVectors>
static PEN_INLINE void multiply_places(const float* const* a, const int32_t* offsets, const float* b, int64_t panel_step, int64_t k_begin,
                                       int64_t k_end, V (&acc)[kRows][kVectors]) {
  for (int64_t k = k_begin; k < k_end; ++k, b += kPanel) multiply_step<kHalf>(a, offsets[k], b, panel_step, acc);
}

#if defined(__ARM_NEON)

// One step of four: lane kLane of each row's vector x.
template <int kLane, int kRows, int kVectors>
static PEN_INLINE void multiply_lane(const V (&x)[kRows], const float*& b, int64_t panel_step, V (&acc)[kRows][kVectors]) {
  V columns[kVectors];
  load_columns(b, panel_step, columns);
  b += kPanel;
  PEN_UNROLL for (int r = 0; r < kRows; ++r) {
    PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[r][j] = fma_lane<kLane>(x[r], columns[j], acc[r][j]);
  }
#if !defined(__aarch64__)
  PEN_UNROLL for (int r = 0; r < kRows; ++r) { PEN_UNROLL for (int j = 0; j < kVectors; ++j) after(b, acc[r][j]); }
#endif
}

// acc += rows a[r][k_begin..k_end) times the rows of B from b on. NEON multiplies by a lane, so four steps of K need one
// load for each row of A, where a broadcast would be a load for each step.
template <bool kHalf, int kRows, int kVectors>
static PEN_INLINE void multiply_run(const float* const* a, const float* b, int64_t panel_step, [[maybe_unused]] int64_t ahead,
                                    int64_t k_begin, int64_t k_end, V (&acc)[kRows][kVectors]) {
  static_assert(!kHalf, "NEON has no halves");
  const float* p[kRows];
  PEN_UNROLL for (int r = 0; r < kRows; ++r) p[r] = a[r] + k_begin;
  const float *end = b + (k_end - k_begin) * kPanel, *fours = b + (k_end - k_begin) / 4 * 4 * kPanel;
  while (b != fours) {
    V x[kRows];
    PEN_UNROLL for (int r = 0; r < kRows; ++r) {
      x[r] = load(p[r]);
      p[r] += 4;
      asm("" : "+r"(p[r]));  // a pointer of its own: the load moves it on, an index would be added to every row first
    }
    multiply_lane<0>(x, b, panel_step, acc);
    multiply_lane<1>(x, b, panel_step, acc);
    multiply_lane<2>(x, b, panel_step, acc);
    multiply_lane<3>(x, b, panel_step, acc);
  }
  for (int64_t k = 0; b != end; ++k, b += kPanel) multiply_step<kHalf>(p, k, b, panel_step, acc);
}

#else

// acc += rows a[r][k_begin..k_end) times the rows of B from b on. What lies `ahead` floats further is fetched into the
// second cache level meanwhile.
template <bool kHalf, int kRows, int kVectors>
static PEN_INLINE void multiply_run(const float* const* a, const float* b, int64_t panel_step, int64_t ahead, int64_t k_begin,
                                    int64_t k_end, V (&acc)[kRows][kVectors]) {
  for (int64_t k = k_begin; k < k_end; ++k, b += kPanel) {
    multiply_step<kHalf>(a, k, b, panel_step, acc);
    if (kVectors == kTileVectors) {
      PEN_UNROLL for (int j = 0; j < kVectors * kLanes; j += kPanel) __builtin_prefetch(b + ahead + j / kPanel * panel_step, 0, 2);
    } else if (kVectors == kRowVectors) {
      PEN_UNROLL for (int j = 0; j < kVectors * kLanes; j += kPanel) __builtin_prefetch(b + kRowAhead * kPanel + j / kPanel * panel_step);
    }
  }
}

#endif

}  // namespace PEN_ISA
}  // namespace pen
