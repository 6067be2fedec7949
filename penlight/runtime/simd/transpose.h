// Transposes of small blocks in registers: what layout conversions are made of. 4-byte elements have the widest
// registers; the others are zipped in those of 16 bytes.
#pragma once
#include "penlight/runtime/simd/simd.h"

namespace pen {
namespace PEN_ISA {

// transpose_block: out[i][j] = in[j][i] for a block of kTransposeBlock x kTransposeBlock; strides between rows, in
// elements.
// clang-format off: it takes macros that end in a semicolon for the start of a statement
#if defined(__AVX2__)
constexpr int kTransposeBlock = 8;
static PEN_INLINE void transpose_block(const uint32_t* in, int64_t in_stride, uint32_t* out, int64_t out_stride) {
  __m256 a[8], b[8];
#define PEN_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define PEN_LOAD(i) a[i] = _mm256_loadu_ps(reinterpret_cast<const float*>(in + (i) * in_stride));
  PEN_ROWS(PEN_LOAD)
#define PEN_PAIRS(i)                                           \
  b[2 * (i)] = _mm256_unpacklo_ps(a[2 * (i)], a[2 * (i) + 1]); \
  b[2 * (i) + 1] = _mm256_unpackhi_ps(a[2 * (i)], a[2 * (i) + 1]);
  PEN_PAIRS(0)
  PEN_PAIRS(1)
  PEN_PAIRS(2)
  PEN_PAIRS(3)
  // a[i], i < 4: elements i and i + 4 of rows 0 to 3; a[i + 4]: of rows 4 to 7
#define PEN_FOURS(i)                                            \
  a[(i) + 0] = _mm256_shuffle_ps(b[(i) + 0], b[(i) + 2], 0x44); \
  a[(i) + 1] = _mm256_shuffle_ps(b[(i) + 0], b[(i) + 2], 0xee); \
  a[(i) + 2] = _mm256_shuffle_ps(b[(i) + 1], b[(i) + 3], 0x44); \
  a[(i) + 3] = _mm256_shuffle_ps(b[(i) + 1], b[(i) + 3], 0xee);
  PEN_FOURS(0)
  PEN_FOURS(4)
#define PEN_STORE(i)                                                 \
  _mm256_storeu_ps(reinterpret_cast<float*>(out + (i) * out_stride), \
                   _mm256_permute2f128_ps(a[(i) % 4], a[(i) % 4 + 4], (i) < 4 ? 0x20 : 0x31));
  PEN_ROWS(PEN_STORE)
#undef PEN_ROWS
#undef PEN_LOAD
#undef PEN_PAIRS
#undef PEN_FOURS
#undef PEN_STORE
}
// clang-format on
#elif defined(__SSE4_1__)
constexpr int kTransposeBlock = 4;
static PEN_INLINE void transpose_block(const uint32_t* in, int64_t in_stride, uint32_t* out, int64_t out_stride) {
  __m128 a = _mm_loadu_ps(reinterpret_cast<const float*>(in)), b = _mm_loadu_ps(reinterpret_cast<const float*>(in + in_stride));
  __m128 c = _mm_loadu_ps(reinterpret_cast<const float*>(in + 2 * in_stride)),
         d = _mm_loadu_ps(reinterpret_cast<const float*>(in + 3 * in_stride));
  __m128 ab_low = _mm_unpacklo_ps(a, b), ab_high = _mm_unpackhi_ps(a, b), cd_low = _mm_unpacklo_ps(c, d), cd_high = _mm_unpackhi_ps(c, d);
  _mm_storeu_ps(reinterpret_cast<float*>(out), _mm_movelh_ps(ab_low, cd_low));
  _mm_storeu_ps(reinterpret_cast<float*>(out + out_stride), _mm_movehl_ps(cd_low, ab_low));
  _mm_storeu_ps(reinterpret_cast<float*>(out + 2 * out_stride), _mm_movelh_ps(ab_high, cd_high));
  _mm_storeu_ps(reinterpret_cast<float*>(out + 3 * out_stride), _mm_movehl_ps(cd_high, ab_high));
}
#elif defined(__ARM_NEON)
constexpr int kTransposeBlock = 4;
static PEN_INLINE void transpose_block(const uint32_t* in, int64_t in_stride, uint32_t* out, int64_t out_stride) {
  uint32x4x2_t ab = vtrnq_u32(vld1q_u32(in), vld1q_u32(in + in_stride));
  uint32x4x2_t cd = vtrnq_u32(vld1q_u32(in + 2 * in_stride), vld1q_u32(in + 3 * in_stride));
  vst1q_u32(out, vcombine_u32(vget_low_u32(ab.val[0]), vget_low_u32(cd.val[0])));
  vst1q_u32(out + out_stride, vcombine_u32(vget_low_u32(ab.val[1]), vget_low_u32(cd.val[1])));
  vst1q_u32(out + 2 * out_stride, vcombine_u32(vget_high_u32(ab.val[0]), vget_high_u32(cd.val[0])));
  vst1q_u32(out + 3 * out_stride, vcombine_u32(vget_high_u32(ab.val[1]), vget_high_u32(cd.val[1])));
}
#elif defined(__wasm_simd128__)
constexpr int kTransposeBlock = 4;
static PEN_INLINE void transpose_block(const uint32_t* in, int64_t in_stride, uint32_t* out, int64_t out_stride) {
  v128_t a = wasm_v128_load(in), b = wasm_v128_load(in + in_stride);
  v128_t c = wasm_v128_load(in + 2 * in_stride), d = wasm_v128_load(in + 3 * in_stride);
  v128_t ab_low = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), ab_high = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7);
  v128_t cd_low = wasm_i32x4_shuffle(c, d, 0, 4, 1, 5), cd_high = wasm_i32x4_shuffle(c, d, 2, 6, 3, 7);
  wasm_v128_store(out, wasm_i64x2_shuffle(ab_low, cd_low, 0, 2));
  wasm_v128_store(out + out_stride, wasm_i64x2_shuffle(ab_low, cd_low, 1, 3));
  wasm_v128_store(out + 2 * out_stride, wasm_i64x2_shuffle(ab_high, cd_high, 0, 2));
  wasm_v128_store(out + 3 * out_stride, wasm_i64x2_shuffle(ab_high, cd_high, 1, 3));
}
#else
constexpr int kTransposeBlock = 1;
static PEN_INLINE void transpose_block(const uint32_t* in, int64_t, uint32_t* out, int64_t) { *out = *in; }
#endif

// Registers of 16 bytes, by the compiler: elements of two taken in turns, low halves and high halves; and back.
template <class T>
struct Sixteen {
  typedef T Lanes __attribute__((vector_size(16)));
  static constexpr int kCount = 16 / sizeof(T);
  static PEN_INLINE Lanes load(const T* p) {
    Lanes a;
    __builtin_memcpy(&a, p, 16);
    return a;
  }
  static PEN_INLINE void store(T* p, Lanes a) { __builtin_memcpy(p, &a, 16); }
  static PEN_INLINE void zip(Lanes a, Lanes b, Lanes* low, Lanes* high) {
    if constexpr (kCount == 16) {
      *low = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      *high = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    } else if constexpr (kCount == 8) {
      *low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
      *high = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    } else if constexpr (kCount == 4) {
      *low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      *high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    } else {
      *low = __builtin_shufflevector(a, b, 0, 2);
      *high = __builtin_shufflevector(a, b, 1, 3);
    }
  }
  static PEN_INLINE void unzip(Lanes a, Lanes b, Lanes* even, Lanes* odd) {
    if constexpr (kCount == 16) {
      *even = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
      *odd = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    } else if constexpr (kCount == 8) {
      *even = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
      *odd = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
    } else if constexpr (kCount == 4) {
      *even = __builtin_shufflevector(a, b, 0, 2, 4, 6);
      *odd = __builtin_shufflevector(a, b, 1, 3, 5, 7);
    } else {
      zip(a, b, even, odd);
    }
  }
};

// transpose_block for the other sizes, kCount x kCount: rows of the upper half and of the lower half zipped, as often as
// kCount can be halved.
template <class T>
static PEN_INLINE void transpose_block(const T* in, int64_t in_stride, T* out, int64_t out_stride) {
  using S = Sixteen<T>;
  constexpr int kCount = S::kCount;
  typename S::Lanes a[kCount], b[kCount];
  PEN_UNROLL
  for (int i = 0; i < kCount; ++i) a[i] = S::load(in + i * in_stride);
  PEN_UNROLL
  for (int stage = 1; stage < kCount; stage *= 2) {
    PEN_UNROLL
    for (int i = 0; i < kCount / 2; ++i) S::zip(a[i], a[i + kCount / 2], &b[2 * i], &b[2 * i + 1]);
    PEN_UNROLL
    for (int i = 0; i < kCount; ++i) a[i] = b[i];
  }
  PEN_UNROLL
  for (int i = 0; i < kCount; ++i) S::store(out + i * out_stride, a[i]);
}
template <class T>
constexpr int transpose_block_size() {
  return sizeof(T) == 4 ? kTransposeBlock : Sixteen<T>::kCount;
}

// Four pixels of three channels. interleave_pixels: out[3 * i + c] = in[c][i]; it may write one element past them, so
// the caller must have another pixel to write after. deinterleave_pixels: out[c][i] = in[3 * i + c].
#if defined(__SSE4_1__)
#define PEN_FOUR_PIXELS 1
static PEN_INLINE void interleave_pixels(const uint32_t* in, int64_t plane, uint32_t* out) {
  __m128 a = _mm_loadu_ps(reinterpret_cast<const float*>(in));
  __m128 b = _mm_loadu_ps(reinterpret_cast<const float*>(in + plane));
  __m128 c = _mm_loadu_ps(reinterpret_cast<const float*>(in + 2 * plane));
  __m128 ab_low = _mm_unpacklo_ps(a, b), ab_high = _mm_unpackhi_ps(a, b);
  __m128 cc_low = _mm_unpacklo_ps(c, c), cc_high = _mm_unpackhi_ps(c, c);
  _mm_storeu_ps(reinterpret_cast<float*>(out), _mm_movelh_ps(ab_low, cc_low));
  _mm_storeu_ps(reinterpret_cast<float*>(out + 3), _mm_movehl_ps(cc_low, ab_low));
  _mm_storeu_ps(reinterpret_cast<float*>(out + 6), _mm_movelh_ps(ab_high, cc_high));
  _mm_storeu_ps(reinterpret_cast<float*>(out + 9), _mm_movehl_ps(cc_high, ab_high));
}
static PEN_INLINE void deinterleave_pixels(const uint32_t* in, uint32_t* out, int64_t plane) {
  __m128 a = _mm_loadu_ps(reinterpret_cast<const float*>(in));      // x0 y0 z0 x1
  __m128 b = _mm_loadu_ps(reinterpret_cast<const float*>(in + 4));  // y1 z1 x2 y2
  __m128 c = _mm_loadu_ps(reinterpret_cast<const float*>(in + 8));  // z2 x3 y3 z3
  __m128 x = _mm_blend_ps(_mm_blend_ps(a, b, 4), c, 2);             // x0 x3 x2 x1
  __m128 y = _mm_blend_ps(_mm_blend_ps(b, a, 2), c, 4);             // y1 y0 y3 y2
  __m128 z = _mm_blend_ps(_mm_blend_ps(c, b, 2), a, 4);             // z2 z1 z0 z3
  _mm_storeu_ps(reinterpret_cast<float*>(out), _mm_shuffle_ps(x, x, _MM_SHUFFLE(1, 2, 3, 0)));
  _mm_storeu_ps(reinterpret_cast<float*>(out + plane), _mm_shuffle_ps(y, y, _MM_SHUFFLE(2, 3, 0, 1)));
  _mm_storeu_ps(reinterpret_cast<float*>(out + 2 * plane), _mm_shuffle_ps(z, z, _MM_SHUFFLE(3, 0, 1, 2)));
}
#elif defined(__ARM_NEON)
#define PEN_FOUR_PIXELS 1
static PEN_INLINE void interleave_pixels(const uint32_t* in, int64_t plane, uint32_t* out) {
  uint32x4x3_t planes = {{vld1q_u32(in), vld1q_u32(in + plane), vld1q_u32(in + 2 * plane)}};
  vst3q_u32(out, planes);
}
static PEN_INLINE void deinterleave_pixels(const uint32_t* in, uint32_t* out, int64_t plane) {
  uint32x4x3_t planes = vld3q_u32(in);
  vst1q_u32(out, planes.val[0]);
  vst1q_u32(out + plane, planes.val[1]);
  vst1q_u32(out + 2 * plane, planes.val[2]);
}
#elif defined(__wasm_simd128__)
#define PEN_FOUR_PIXELS 1
static PEN_INLINE void interleave_pixels(const uint32_t* in, int64_t plane, uint32_t* out) {
  v128_t a = wasm_v128_load(in), b = wasm_v128_load(in + plane), c = wasm_v128_load(in + 2 * plane);
  v128_t ab_low = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), ab_high = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7);
  wasm_v128_store(out, wasm_i32x4_shuffle(ab_low, c, 0, 1, 4, 2));
  wasm_v128_store(out + 4, wasm_i32x4_shuffle(wasm_i32x4_shuffle(ab_low, c, 3, 3, 5, 5), ab_high, 0, 2, 4, 5));
  wasm_v128_store(out + 8, wasm_i32x4_shuffle(ab_high, c, 6, 2, 3, 7));
}
static PEN_INLINE void deinterleave_pixels(const uint32_t* in, uint32_t* out, int64_t plane) {
  v128_t a = wasm_v128_load(in), b = wasm_v128_load(in + 4), c = wasm_v128_load(in + 8);  // x0 y0 z0 x1, y1 z1 x2 y2, z2 x3 y3 z3
  wasm_v128_store(out, wasm_i32x4_shuffle(wasm_i32x4_shuffle(a, b, 0, 3, 6, 6), c, 0, 1, 2, 5));
  wasm_v128_store(out + plane, wasm_i32x4_shuffle(wasm_i32x4_shuffle(a, b, 1, 4, 7, 7), c, 0, 1, 2, 6));
  wasm_v128_store(out + 2 * plane, wasm_i32x4_shuffle(wasm_i32x4_shuffle(a, b, 2, 5, 5, 5), c, 0, 1, 4, 7));
}
#else
#define PEN_FOUR_PIXELS 0
#endif

}  // namespace PEN_ISA
}  // namespace pen
