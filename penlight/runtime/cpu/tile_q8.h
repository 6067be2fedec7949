// The register tile of integer products (gemm_q8.h): how large it is, and the loop over K that fills it.
//
//   SumsQ8<kRows, kVectors>   begin(start)            every row's sums start so
//                             add(a, b, step, k)      += rows a[r][0 .. k) times the rows of B from b on, and where those end; k is a
//                                                     multiple of 4, `step` bytes lie from a panel to the next
//                             end(sums)               as vectors of columns
//                             kEights                 odd fours of K are multiplied otherwise (below): NEON without dot products
// What adds the products of four steps of K, and so how sums lie in between, is what instruction sets differ in.
#pragma once
#include "penlight/runtime/cpu/tile.h"
#include "penlight/runtime/simd/dots.h"

namespace pen {
namespace PEN_ISA {

#if defined(PEN_TALL_TILES)
constexpr int kQ8Vectors = 2, kQ8Rows = 14;  // 28 + 2 + 1 of 32: as in tile.h
#elif defined(__AVX512VNNI__)
constexpr int kQ8Vectors = 2, kQ8Rows = 8;  // 16 + 2 + 1 of 32: as in tile.h
#elif defined(__AVXVNNI__)
constexpr int kQ8Vectors = 2, kQ8Rows = 6;  // 12 + 2 + 1 of 16
#elif defined(__AVX2__) || defined(__SSE4_1__)
constexpr int kQ8Vectors = 2, kQ8Rows = 3;  // 6 sums, 4 of weights, 2 of x, and products, of 16
#elif defined(__ARM_FEATURE_MATMUL_INT8)
constexpr int kQ8Vectors = 4, kQ8Rows = 6;  // 24 sums, 3 of x, 2 of weights as they lie and as they are multiplied, of 32
#elif defined(__ARM_FEATURE_DOTPROD)
constexpr int kQ8Vectors = 4, kQ8Rows = 5;  // 20 + 4 + 5 (four steps for each row) and what flips x, of 32
#elif defined(__aarch64__)
constexpr int kQ8Vectors = 4, kQ8Rows = 2;  // 16 sums, 4 of x, 2 of weights and products, of 32
#elif defined(__ARM_NEON)
constexpr int kQ8Vectors = 2, kQ8Rows = 2;  // 8 sums, 2 of x, 2 of weights and products, of 16
#elif defined(__wasm_simd128__)
// 8 sums, 4 of weights, 2 of x and a product, of 16. In V8 on Zen 4 26 billion multiply-adds a second; 3 rows of 2 vectors 24, 6 of 2 25,
// 2 of 4 24, 3 of 4 25 (floats: 18).
constexpr int kQ8Vectors = 2, kQ8Rows = 4;
#else
constexpr int kQ8Vectors = 4, kQ8Rows = 2;
#endif
constexpr int kQ8Columns = kQ8Vectors * kLanes;

// Phones: a tile takes a kilobyte or more. Some heights are left out there, whose tiles are then one row higher (matrix instructions
// multiply an odd row twice anyhow), and half the width comes in full height only.
#if defined(__SSE4_1__)
constexpr bool kSmallCode = false;
#else
constexpr bool kSmallCode = true;
#endif
#if defined(__ARM_FEATURE_DOTPROD)
constexpr bool kExactHeights = false;
#else
constexpr bool kExactHeights = true;
#endif
// The next lower tile that there is; 0: none.
constexpr int next_height(int rows) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  return rows > 2 ? rows - 2 : rows - 1;
#elif defined(__ARM_FEATURE_DOTPROD)
  return rows > 4 ? rows - 2 : rows - 1;
#else
  return rows - 1;
#endif
}

// Bytes from a tile's first column to vector j of it.
static PEN_INLINE int64_t vector_offset(int j, int64_t panel_step) { return j * kLanes / kPanel * panel_step + j * kLanes % kPanel * 4; }

#if defined(__ARM_NEON)

// A tile's columns lie in one panel. Bytes from vector j of a few steps of K to the next one, or to the first one of those that follow.
static_assert(kQ8Columns <= kPanel, "a tile's columns lie in one panel");
template <int kSteps>
static constexpr int step_after(int j, int vectors) {
  return j + 1 < vectors ? 4 * kLanes : kSteps * kPanel - 4 * kLanes * j;
}

static PEN_INLINE uint32_t four_bytes(const uint8_t* p) {
  uint32_t four;
  __builtin_memcpy(&four, p, 4);
  return four;
}
// The same for all columns, as i8 where the set multiplies no u8.
static PEN_INLINE int8x16_t flipped(uint8x16_t x) { return vreinterpretq_s8_u8(veorq_u8(x, vdupq_n_u8(0x80))); }

// Where nearly all registers hold sums, Clang loads what comes next first, and spills: a pointer that waits for sums keeps its loads in
// their place.
static PEN_INLINE void after(const int8_t*& p, int32x4_t (&sums)[2]) { __asm__("" : "+r"(p), "+w"(sums[0]), "+w"(sums[1])); }

// A pointer of its own for every row: loads move it on, an index would be added to every row first.
template <int kRows>
struct Rows {
  const uint8_t* p[kRows];
  PEN_INLINE void step(int r, int bytes) {
    p[r] += bytes;
    __asm__("" : "+r"(p[r]));
  }
};

#if defined(__ARM_FEATURE_DOTPROD)

// One instruction sums four products, of four bytes of each column and a lane of x: a row's vector serves four steps.
#if defined(__ARM_FEATURE_MATMUL_INT8)
using FourSteps = uint8x16_t;
static PEN_INLINE FourSteps four_steps(uint8x16_t x) { return x; }
template <int kLane>
static PEN_INLINE int32x4_t dot_lane(int32x4_t acc, int8x16_t w, FourSteps x) {
  return vsudotq_laneq_s32(acc, w, x, kLane);
}
#else
using FourSteps = int8x16_t;
static PEN_INLINE FourSteps four_steps(uint8x16_t x) { return flipped(x); }
template <int kLane>
static PEN_INLINE int32x4_t dot_lane(int32x4_t acc, int8x16_t w, FourSteps x) {
  return vdotq_laneq_s32(acc, w, x, kLane);
}
#endif

template <int kRows, int kVectors>
struct DotSums {
  static constexpr bool kEights = false;
  int32x4_t acc[kRows][kVectors];

  PEN_INLINE void begin(const I (&start)[kVectors]) {
    PEN_UNROLL for (int r = 0; r < kRows; ++r) { PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[r][j] = start[j].v; }
  }
  template <int kLane>
  PEN_INLINE void step(const FourSteps (&x)[kRows], const int8_t*& b) {
    int8x16_t w[kVectors];
    PEN_UNROLL for (int j = 0; j < kVectors; ++j) w[j] = vld1q_s8(b + 4 * kLanes * j);
    b += 4 * kPanel;
    PEN_UNROLL for (int r = 0; r < kRows; ++r) {
      PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[r][j] = dot_lane<kLane>(acc[r][j], w[j], x[r]);
    }
  }
  PEN_INLINE const int8_t* add(const uint8_t* const (&a)[kRows], const int8_t* b, int64_t, int64_t k) {
    Rows<kRows> rows;
    PEN_UNROLL for (int r = 0; r < kRows; ++r) rows.p[r] = a[r];
    const int8_t *end = b + k * kPanel, *sixteens = b + (k & ~int64_t{15}) * kPanel;
    FourSteps x[kRows];
    while (b != sixteens) {
      PEN_UNROLL for (int r = 0; r < kRows; ++r) {
        x[r] = four_steps(vld1q_u8(rows.p[r]));
        rows.step(r, 16);
      }
      step<0>(x, b);
      step<1>(x, b);
      step<2>(x, b);
      step<3>(x, b);
    }
    while (b != end) {
      PEN_UNROLL for (int r = 0; r < kRows; ++r) {
        x[r] = four_steps(vreinterpretq_u8_u32(vdupq_n_u32(four_bytes(rows.p[r]))));
        rows.step(r, 4);
      }
      step<0>(x, b);
    }
    return b;
  }
  PEN_INLINE void end(I (&sums)[kRows][kVectors]) const {
    PEN_UNROLL for (int r = 0; r < kRows; ++r) { PEN_UNROLL for (int j = 0; j < kVectors; ++j) sums[r][j].v = acc[r][j]; }
  }
};

#endif

#if defined(__ARM_FEATURE_MATMUL_INT8)

// One instruction multiplies two rows by two columns, eight steps at once. Of eight steps, weights lie as two times four: they are zipped.
// A row alone goes by lanes, without zips.
template <int kRows, int kVectors>
struct MatrixSums {
  static constexpr bool kEights = false;
  static_assert(kRows % 2 == 0, "pairs of rows");
  static constexpr int kPairs = kRows / 2;
  int32x4_t acc[kPairs][kVectors][2];  // two rows of two columns

  PEN_INLINE void begin(const I (&start)[kVectors]) {
    PEN_UNROLL for (int j = 0; j < kVectors; ++j) {
      const int64x2_t s = vreinterpretq_s64_s32(start[j].v);
      PEN_UNROLL for (int r = 0; r < kPairs; ++r) {
        acc[r][j][0] = vreinterpretq_s32_s64(vdupq_laneq_s64(s, 0));
        acc[r][j][1] = vreinterpretq_s32_s64(vdupq_laneq_s64(s, 1));
      }
    }
  }
  PEN_INLINE void multiply(const uint8x16_t (&x)[kPairs], int j, int32x4_t w0, int32x4_t w1) {
    const int8x16_t low = vreinterpretq_s8_s32(vzip1q_s32(w0, w1)), high = vreinterpretq_s8_s32(vzip2q_s32(w0, w1));
    PEN_UNROLL for (int r = 0; r < kPairs; ++r) acc[r][j][0] = vusmmlaq_s32(acc[r][j][0], x[r], low);
    PEN_UNROLL for (int r = 0; r < kPairs; ++r) acc[r][j][1] = vusmmlaq_s32(acc[r][j][1], x[r], high);
  }
  static PEN_INLINE int32x4_t weights(const int8_t* p) { return vreinterpretq_s32_s8(vld1q_s8(p)); }
  PEN_INLINE const int8_t* add(const uint8_t* const (&a)[kRows], const int8_t* b, int64_t, int64_t k) {
    Rows<kRows> rows;
    PEN_UNROLL for (int r = 0; r < kRows; ++r) rows.p[r] = a[r];
    const int8_t* eights = b + (k & ~int64_t{7}) * kPanel;
    uint8x16_t x[kPairs];
    while (b != eights) {
      PEN_UNROLL for (int r = 0; r < kPairs; ++r) {
        const uint64x2_t first = vreinterpretq_u64_u8(vcombine_u8(vld1_u8(rows.p[2 * r]), vdup_n_u8(0)));
        x[r] = vreinterpretq_u8_u64(vld1q_lane_u64(reinterpret_cast<const uint64_t*>(rows.p[2 * r + 1]), first, 1));
        rows.step(2 * r, 8);
        rows.step(2 * r + 1, 8);
      }
      PEN_UNROLL for (int j = 0; j < kVectors; j += 2) {  // two vectors side by side are one load
        const int8_t* p = b + 4 * kLanes * j;
        const int32x4_t w0 = weights(p), v0 = weights(p + 4 * kLanes), w1 = weights(p + 4 * kPanel),
                        v1 = weights(p + 4 * kPanel + 4 * kLanes);
        if (j + 2 == kVectors) b += 8 * kPanel;
        multiply(x, j, w0, w1);
        multiply(x, j + 1, v0, v1);
        PEN_UNROLL for (int r = 0; r < kPairs; ++r) after(b, acc[r][j]), after(b, acc[r][j + 1]);
      }
    }
    if (k % 8 == 0) return b;
    PEN_UNROLL for (int r = 0; r < kPairs; ++r) {
      const uint64_t low = four_bytes(rows.p[2 * r]), high = four_bytes(rows.p[2 * r + 1]);
      x[r] = vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)));
    }
    PEN_UNROLL for (int j = 0; j < kVectors; ++j) {
      const int32x4_t w = weights(b);
      b += step_after<4>(j, kVectors);
      multiply(x, j, w, vdupq_n_s32(0));
      PEN_UNROLL for (int r = 0; r < kPairs; ++r) after(b, acc[r][j]);
    }
    return b;
  }
  PEN_INLINE void end(I (&sums)[kRows][kVectors]) const {
    PEN_UNROLL for (int r = 0; r < kRows; ++r) {
      PEN_UNROLL for (int j = 0; j < kVectors; ++j) {
        const int64x2_t left = vreinterpretq_s64_s32(acc[r / 2][j][0]), right = vreinterpretq_s64_s32(acc[r / 2][j][1]);
        sums[r][j].v = vreinterpretq_s32_s64(r % 2 == 0 ? vzip1q_s64(left, right) : vzip2q_s64(left, right));
      }
    }
  }
};
template <int kRows, int kVectors>
struct SumsQ8 : MatrixSums<kRows, kVectors> {};
template <int kVectors>
struct SumsQ8<1, kVectors> : DotSums<1, kVectors> {};

#elif defined(__ARM_FEATURE_DOTPROD)

template <int kRows, int kVectors>
struct SumsQ8 : DotSums<kRows, kVectors> {};

#else

constexpr bool kQ8Eights = true;
#if defined(__aarch64__)
constexpr bool kLoadsPairs = true;  // two vectors side by side are one load
#else
constexpr bool kLoadsPairs = false;
#endif
// Of a tile's columns: the sums of the weights in the last four of every eight steps of a tap.
static PEN_OUTER void sum_odd_fours(const int8_t* b, int64_t taps, const int32_t* places, int64_t tap_k, int32_t* sums) {
  int32x4_t sum[kQ8Vectors];
  PEN_UNROLL for (int j = 0; j < kQ8Vectors; ++j) sum[j] = vdupq_n_s32(0);
  for (int64_t tap = 0; tap < taps; ++tap) {
    const int8_t *p = b + (places ? places[tap] : tap) * tap_k * kPanel, *end = p + (tap_k & ~int64_t{7}) * kPanel;
    for (; p != end; p += 8 * kPanel) {
      PEN_UNROLL for (int j = 0; j < kQ8Vectors; ++j) sum[j] = vpadalq_s16(sum[j], vpaddlq_s8(vld1q_s8(p + 4 * kPanel + 4 * kLanes * j)));
    }
  }
  PEN_UNROLL for (int j = 0; j < kQ8Vectors; ++j) vst1q_s32(sums + j * kLanes, sum[j]);
}

// i8 times i8 is 16 bits, and two such products have room in 16 if the second is subtracted: two of -128 by -128 would not fit. So of every
// eight steps of K the last four multiply 127 - x, where the others multiply x - 128: what that adds to a sum, the weights of those steps,
// sum_odd_fours finds for all rows of a block. A row alone goes by fours. Each column has two sums, of the first and of the last two bytes
// in four.
template <int kRows, int kVectors>
struct SumsQ8 {
  static constexpr bool kEights = kRows > 1;
  int32x4_t acc[kRows][kVectors][2];

  PEN_INLINE void begin(const I (&start)[kVectors]) {
    PEN_UNROLL for (int j = 0; j < kVectors; ++j) {
      const int32x4x2_t halves = vzipq_s32(start[j].v, vdupq_n_s32(0));
      PEN_UNROLL for (int r = 0; r < kRows; ++r) {
        acc[r][j][0] = halves.val[0];
        acc[r][j][1] = halves.val[1];
      }
    }
  }
  static PEN_INLINE int16x8_t low_products(int8x16_t w, int8x16_t x) { return vmull_s8(vget_low_s8(w), vget_low_s8(x)); }
  static PEN_INLINE int16x8_t low_products(int16x8_t less, int8x16_t w, int8x16_t x) {
    return vmlsl_s8(less, vget_low_s8(w), vget_low_s8(x));
  }
#if defined(__aarch64__)
  static PEN_INLINE int16x8_t high_products(int8x16_t w, int8x16_t x) { return vmull_high_s8(w, x); }
  static PEN_INLINE int16x8_t high_products(int16x8_t less, int8x16_t w, int8x16_t x) { return vmlsl_high_s8(less, w, x); }
#else
  static PEN_INLINE int16x8_t high_products(int8x16_t w, int8x16_t x) { return vmull_s8(vget_high_s8(w), vget_low_s8(x)); }
  static PEN_INLINE int16x8_t high_products(int16x8_t less, int8x16_t w, int8x16_t x) {
    return vmlsl_s8(less, vget_high_s8(w), vget_low_s8(x));
  }
#endif
  // Four bytes of a row for all columns. A whole vector: Clang would take half of it for both halves of w, and move those.
  template <int kLane>
  static PEN_INLINE int8x16_t four_of(uint8x8_t x) {
    uint8x16_t four = vreinterpretq_u8_u32(vdupq_lane_u32(vreinterpret_u32_u8(x), kLane));
#if defined(__aarch64__)
    __asm__("" : "+w"(four));
#endif
    return vreinterpretq_s8_u8(four);
  }
  PEN_INLINE const int8_t* add(const uint8_t* const (&a)[kRows], const int8_t* b, int64_t, int64_t k) {
    Rows<kRows> rows;
    PEN_UNROLL for (int r = 0; r < kRows; ++r) rows.p[r] = a[r];
    const int8_t* end = b + k * kPanel;
    if constexpr (kEights) {
      const uint8x8_t flips = vcreate_u8(0x7F7F7F7F80808080u);
      for (const int8_t* eights = b + (k & ~int64_t{7}) * kPanel; b != eights;) {
        int8x16_t x[kRows][2];
        PEN_UNROLL for (int r = 0; r < kRows; ++r) {
          const uint8x8_t eight = veor_u8(vld1_u8(rows.p[r]), flips);
          x[r][0] = four_of<0>(eight);
          x[r][1] = four_of<1>(eight);
          rows.step(r, 8);
        }
        constexpr int kAtOnce = kLoadsPairs && kVectors % 2 == 0 ? 2 : 1;
        PEN_UNROLL for (int j = 0; j < kVectors; j += kAtOnce) {
          int8x16_t w[kAtOnce][2];
          PEN_UNROLL for (int i = 0; i < kAtOnce; ++i) w[i][0] = vld1q_s8(b + 4 * kLanes * (j + i));
          PEN_UNROLL for (int i = 0; i < kAtOnce; ++i) w[i][1] = vld1q_s8(b + 4 * kPanel + 4 * kLanes * (j + i));
          if (j + kAtOnce == kVectors) b += 8 * kPanel;
          PEN_UNROLL for (int i = 0; i < kAtOnce; ++i) {
            PEN_UNROLL for (int r = 0; r < kRows; ++r) {
              int32x4_t(&sums)[2] = acc[r][j + i];
              sums[0] = vpadalq_s16(sums[0], low_products(low_products(w[i][0], x[r][0]), w[i][1], x[r][1]));
              sums[1] = vpadalq_s16(sums[1], high_products(high_products(w[i][0], x[r][0]), w[i][1], x[r][1]));
            }
            PEN_UNROLL for (int r = 0; r < kRows; ++r) after(b, acc[r][j + i]);
          }
        }
      }
    }
    while (b != end) {
      int8x16_t x[kRows];
      PEN_UNROLL for (int r = 0; r < kRows; ++r) {
        uint32_t four = four_bytes(rows.p[r]) ^ 0x80808080u;
        __asm__("" : "+r"(four));  // flipped before it is a vector: no register for what flips it
        x[r] = four_of<0>(vcreate_u8(four));
        rows.step(r, 4);
      }
      PEN_UNROLL for (int j = 0; j < kVectors; ++j) {
        const int8x16_t w = vld1q_s8(b);
        b += step_after<4>(j, kVectors);
        PEN_UNROLL for (int r = 0; r < kRows; ++r) {
          acc[r][j][0] = vpadalq_s16(acc[r][j][0], low_products(w, x[r]));
          acc[r][j][1] = vpadalq_s16(acc[r][j][1], high_products(w, x[r]));
        }
        PEN_UNROLL for (int r = 0; r < kRows; ++r) after(b, acc[r][j]);
      }
    }
    return b;
  }
  PEN_INLINE void end(I (&sums)[kRows][kVectors]) const {
    PEN_UNROLL for (int r = 0; r < kRows; ++r) {
      PEN_UNROLL for (int j = 0; j < kVectors; ++j) {
        const int32x4_t left = acc[r][j][0], right = acc[r][j][1];
#if defined(__aarch64__)
        sums[r][j].v = vpaddq_s32(left, right);
#else
        sums[r][j].v =
            vcombine_s32(vpadd_s32(vget_low_s32(left), vget_high_s32(left)), vpadd_s32(vget_low_s32(right), vget_high_s32(right)));
#endif
      }
    }
  }
};

#endif

#else

template <int kRows, int kVectors>
struct SumsQ8 {
  static constexpr bool kEights = false;
  I acc[kRows][kVectors];

  PEN_INLINE void begin(const I (&start)[kVectors]) {
    PEN_UNROLL for (int r = 0; r < kRows; ++r) { PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[r][j] = start[j]; }
  }
  PEN_INLINE const int8_t* add(const uint8_t* const (&a)[kRows], const int8_t* b, int64_t panel_step, int64_t k_end) {
    for (int64_t k = 0; k < k_end; k += 4, b += 4 * kPanel) {
      Quads w[kVectors];
      PEN_UNROLL for (int j = 0; j < kVectors; ++j) w[j] = load_quads(b + vector_offset(j, panel_step));
      PEN_UNROLL for (int r = 0; r < kRows; ++r) {
        Four x = load_four(a[r] + k);
        PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[r][j] = dot(acc[r][j], x, w[j]);
      }
    }
    return b;
  }
  PEN_INLINE void end(I (&sums)[kRows][kVectors]) const {
    PEN_UNROLL for (int r = 0; r < kRows; ++r) { PEN_UNROLL for (int j = 0; j < kVectors; ++j) sums[r][j] = acc[r][j]; }
  }
};

#endif

#if !defined(__ARM_NEON) || defined(__ARM_FEATURE_DOTPROD)
constexpr bool kQ8Eights = false;
static PEN_INLINE void sum_odd_fours(const int8_t*, int64_t, const int32_t*, int64_t, int32_t*) {}
#endif

}  // namespace PEN_ISA
}  // namespace pen
