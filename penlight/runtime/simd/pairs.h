// Products of 16-bit integers, summed by twos into 32 bits: what quantized matrix products are made of. Included by files
// that are compiled once per instruction set.
//
//   P  kLanes pairs of i16      load_pairs(p): from 2 * kLanes i8
//   dot(acc, b, a)              lane j: acc[j] + b[2 j] * a[0] + b[2 j + 1] * a[1]; sums wrap, products are exact for |a| <= 255
//   store_ints(p, v)
#pragma once
#include "penlight/runtime/simd/simd.h"

namespace pen {
namespace PEN_ISA {

#if defined(__AVX512F__)
struct P {
  __m512i v;
};
static PEN_INLINE P load_pairs(const int8_t* p) {
  return {_mm512_maskz_cvtepi8_epi16(0xffffffffu, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
static PEN_INLINE I dot(I acc, P b, const int16_t* a) {
  int32_t both;
  __builtin_memcpy(&both, a, 4);
#if defined(__AVX512VNNI__)
  return {_mm512_dpwssd_epi32(acc.v, b.v, _mm512_set1_epi32(both))};
#else
  return {_mm512_add_epi32(acc.v, _mm512_madd_epi16(b.v, _mm512_set1_epi32(both)))};
#endif
}
#elif defined(__AVX2__)
struct P {
  __m256i v;
};
static PEN_INLINE P load_pairs(const int8_t* p) { return {_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))}; }
static PEN_INLINE I dot(I acc, P b, const int16_t* a) {
  int32_t both;
  __builtin_memcpy(&both, a, 4);
  return {_mm256_add_epi32(acc.v, _mm256_madd_epi16(b.v, _mm256_set1_epi32(both)))};
}
#elif defined(__SSE4_1__)
struct P {
  __m128i v;
};
static PEN_INLINE P load_pairs(const int8_t* p) { return {_mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))}; }
static PEN_INLINE I dot(I acc, P b, const int16_t* a) {
  int32_t both;
  __builtin_memcpy(&both, a, 4);
  return {_mm_add_epi32(acc.v, _mm_madd_epi16(b.v, _mm_set1_epi32(both)))};
}
#elif defined(__ARM_NEON)
struct P {
  int16x4_t even, odd;
};
static PEN_INLINE P load_pairs(const int8_t* p) {
  int16x8_t wide = vmovl_s8(vld1_s8(p));
  int16x4x2_t apart = vuzp_s16(vget_low_s16(wide), vget_high_s16(wide));
  return {apart.val[0], apart.val[1]};
}
static PEN_INLINE I dot(I acc, P b, const int16_t* a) { return {vmlal_n_s16(vmlal_n_s16(acc.v, b.even, a[0]), b.odd, a[1])}; }
#elif defined(__wasm_simd128__)
struct P {
  v128_t v;
};
static PEN_INLINE P load_pairs(const int8_t* p) { return {wasm_i16x8_load8x8(p)}; }
static PEN_INLINE I dot(I acc, P b, const int16_t* a) {
  return {wasm_i32x4_add(acc.v, wasm_i32x4_dot_i16x8(b.v, wasm_v128_load32_splat(a)))};
}
#else
struct P {
  int32_t even, odd;
};
static PEN_INLINE P load_pairs(const int8_t* p) { return {p[0], p[1]}; }
static PEN_INLINE I dot(I acc, P b, const int16_t* a) {
  return {static_cast<int32_t>(static_cast<uint32_t>(acc.v) + static_cast<uint32_t>(b.even * a[0] + b.odd * a[1]))};
}
#endif

#if defined(__AVX512F__)  // a copy by its address would keep sums in memory, all the while they are added up
static PEN_INLINE void store_ints(int32_t* p, I v) { _mm512_storeu_si512(p, v.v); }
#elif defined(__AVX2__)
static PEN_INLINE void store_ints(int32_t* p, I v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v.v); }
#elif defined(__SSE4_1__)
static PEN_INLINE void store_ints(int32_t* p, I v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v.v); }
#else
static PEN_INLINE void store_ints(int32_t* p, I v) { __builtin_memcpy(p, &v, sizeof v); }
#endif

}  // namespace PEN_ISA
}  // namespace pen
