// Transposes of small blocks of 4-byte elements, in registers: what layout conversions are made of.
#pragma once
#include "penlight/runtime/simd/simd.h"

namespace pen {
namespace PEN_ISA {

// transpose_block: out[i][j] = in[j][i] for a block of kTransposeBlock x kTransposeBlock; strides between rows, in
// elements.
#if defined(__AVX2__)
constexpr int kTransposeBlock = 8;
static PEN_INLINE void transpose_block(const uint32_t* in, int64_t in_stride, uint32_t* out, int64_t out_stride) {
  __m256 a[8], b[8];
#define PEN_ROWS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define PEN_LOAD(i) a[i] = _mm256_loadu_ps(reinterpret_cast<const float*>(in + (i) * in_stride));
  PEN_ROWS(PEN_LOAD)
#define PEN_PAIRS(i)                                  \
  b[2 * (i)] = _mm256_unpacklo_ps(a[2 * (i)], a[2 * (i) + 1]); \
  b[2 * (i) + 1] = _mm256_unpackhi_ps(a[2 * (i)], a[2 * (i) + 1]);
  PEN_PAIRS(0) PEN_PAIRS(1) PEN_PAIRS(2) PEN_PAIRS(3)
  // a[i], i < 4: elements i and i + 4 of rows 0 to 3; a[i + 4]: of rows 4 to 7
#define PEN_FOURS(i)                                                 \
  a[(i) + 0] = _mm256_shuffle_ps(b[(i) + 0], b[(i) + 2], 0x44);      \
  a[(i) + 1] = _mm256_shuffle_ps(b[(i) + 0], b[(i) + 2], 0xee);      \
  a[(i) + 2] = _mm256_shuffle_ps(b[(i) + 1], b[(i) + 3], 0x44);      \
  a[(i) + 3] = _mm256_shuffle_ps(b[(i) + 1], b[(i) + 3], 0xee);
  PEN_FOURS(0) PEN_FOURS(4)
#define PEN_STORE(i)                                                                                    \
  _mm256_storeu_ps(reinterpret_cast<float*>(out + (i) * out_stride), _mm256_permute2f128_ps(a[(i) % 4], a[(i) % 4 + 4], (i) < 4 ? 0x20 : 0x31));
  PEN_ROWS(PEN_STORE)
#undef PEN_ROWS
#undef PEN_LOAD
#undef PEN_PAIRS
#undef PEN_FOURS
#undef PEN_STORE
}
#elif defined(__SSE4_1__)
constexpr int kTransposeBlock = 4;
static PEN_INLINE void transpose_block(const uint32_t* in, int64_t in_stride, uint32_t* out, int64_t out_stride) {
  __m128 a = _mm_loadu_ps(reinterpret_cast<const float*>(in)), b = _mm_loadu_ps(reinterpret_cast<const float*>(in + in_stride));
  __m128 c = _mm_loadu_ps(reinterpret_cast<const float*>(in + 2 * in_stride)), d = _mm_loadu_ps(reinterpret_cast<const float*>(in + 3 * in_stride));
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
#else
constexpr int kTransposeBlock = 1;
static PEN_INLINE void transpose_block(const uint32_t* in, int64_t, uint32_t* out, int64_t) { *out = *in; }
#endif

// interleave_block: out[3 * i + c] = in[c][i] for kInterleavePixels pixels of three planes. May write one element past
// them: the caller must have another pixel to write after.
#if defined(__SSE4_1__)
constexpr int kInterleavePixels = 4;
static PEN_INLINE void interleave_block(const uint32_t* in, int64_t plane, uint32_t* out) {
  __m128 a = _mm_loadu_ps(reinterpret_cast<const float*>(in)), b = _mm_loadu_ps(reinterpret_cast<const float*>(in + plane));
  __m128 c = _mm_loadu_ps(reinterpret_cast<const float*>(in + 2 * plane));
  __m128 ab_low = _mm_unpacklo_ps(a, b), ab_high = _mm_unpackhi_ps(a, b), cc_low = _mm_unpacklo_ps(c, c), cc_high = _mm_unpackhi_ps(c, c);
  _mm_storeu_ps(reinterpret_cast<float*>(out), _mm_movelh_ps(ab_low, cc_low));
  _mm_storeu_ps(reinterpret_cast<float*>(out + 3), _mm_movehl_ps(cc_low, ab_low));
  _mm_storeu_ps(reinterpret_cast<float*>(out + 6), _mm_movelh_ps(ab_high, cc_high));
  _mm_storeu_ps(reinterpret_cast<float*>(out + 9), _mm_movehl_ps(cc_high, ab_high));
}
#elif defined(__ARM_NEON)
constexpr int kInterleavePixels = 4;
static PEN_INLINE void interleave_block(const uint32_t* in, int64_t plane, uint32_t* out) {
  uint32x4x3_t planes = {{vld1q_u32(in), vld1q_u32(in + plane), vld1q_u32(in + 2 * plane)}};
  vst3q_u32(out, planes);
}
#else
constexpr int kInterleavePixels = 1;
static PEN_INLINE void interleave_block(const uint32_t* in, int64_t plane, uint32_t* out) {
  for (int c = 0; c < 3; ++c) out[c] = in[c * plane];
}
#endif

}  // namespace PEN_ISA
}  // namespace pen
