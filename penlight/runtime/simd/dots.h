// Products of bytes, summed by fours into 32 bits: what integer matrix products are made of. Included by files that are compiled once
// per instruction set.
//
//   Quads  four i8 (weights, four steps of K) for each of kLanes columns      load_quads(p): 4 * kLanes bytes
//   Four   four u8 of a row, the same for all columns                          load_four(p)
//                      (none of these three on NEON, whose products are the tile's: cpu/tile_q8.h)
//   dot(acc, x, w)     lane j: acc[j] + x[0] * w[4 j] + ... + x[3] * w[4 j + 3]; exact, never the multiply-add that saturates
//   kFlipped           the set multiplies i8 by i8: dot sees x - 128, and whoever starts the sums adds 128 times those of the weights
//   Bytes              4 * kLanes u8: pack(a, b, c, d, limits) adds the zero point to four vectors of i32, limits them, and puts them one
//                      behind the other; store_quarter(p, bytes, i) and store_half(p, bytes, i) store vector i, or two, store_all all
#pragma once
#include "penlight/runtime/simd/bytes.h"

namespace pen {
namespace PEN_ISA {

#if !defined(__ARM_NEON) && !defined(__wasm_simd128__)
constexpr bool kFlipped = false;
#endif

#if defined(__AVX512VNNI__)
struct Quads {
  __m512i v;
};
struct Four {
  __m512i v;
};
static PEN_INLINE Quads load_quads(const int8_t* p) { return {_mm512_loadu_si512(p)}; }
static PEN_INLINE Four load_four(const uint8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  return {_mm512_set1_epi32(four)};
}
static PEN_INLINE I dot(I acc, Four x, Quads w) { return {_mm512_dpbusd_epi32(acc.v, x.v, w.v)}; }
struct Bytes {
  __m512i v;
};
struct Limits {
  __m512i zero, low, high;
};
static PEN_INLINE Limits make_limits(int zero, int low, int high) {
  return {_mm512_set1_epi16(static_cast<short>(zero)), _mm512_set1_epi8(static_cast<char>(low)), _mm512_set1_epi8(static_cast<char>(high))};
}
static PEN_INLINE Bytes pack(I a, I b, I c, I d, const Limits& l) {
  __m512i ab = _mm512_adds_epi16(_mm512_packs_epi32(a.v, b.v), l.zero), cd = _mm512_adds_epi16(_mm512_packs_epi32(c.v, d.v), l.zero);
  __m512i v = _mm512_max_epu8(_mm512_min_epu8(_mm512_packus_epi16(ab, cd), l.high), l.low);
  // packing goes by quarters of the registers: each has four bytes of a, b, c and d
  return {_mm512_maskz_permutexvar_epi32(kAll, _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), v)};
}
// The lower parts of a register by their own names (%x, %t): see avx512.h.
static PEN_INLINE void store_low(__m128i* p, __m512i v) {
#if defined(__clang__)
  _mm_storeu_si128(p, _mm512_castsi512_si128(v));
#else
  __asm__("vmovdqu32 %x1, %0" : "=m"(*p) : "v"(v));
#endif
}
static PEN_INLINE void store_low(__m256i* p, __m512i v) {
#if defined(__clang__)
  _mm256_storeu_si256(p, _mm512_castsi512_si256(v));
#else
  __asm__("vmovdqu32 %t1, %0" : "=m"(*p) : "v"(v));
#endif
}
static PEN_INLINE void store_quarter(uint8_t* p, const Bytes& b, int i) {
  __m128i* to = reinterpret_cast<__m128i*>(p);
  i == 0   ? store_low(to, b.v)
  : i == 1 ? _mm_storeu_si128(to, _mm512_maskz_extracti32x4_epi32(15, b.v, 1))
  : i == 2 ? _mm_storeu_si128(to, _mm512_maskz_extracti32x4_epi32(15, b.v, 2))
           : _mm_storeu_si128(to, _mm512_maskz_extracti32x4_epi32(15, b.v, 3));
}
static PEN_INLINE void store_half(uint8_t* p, const Bytes& b, int i) {
  __m256i* to = reinterpret_cast<__m256i*>(p);
  i == 0 ? store_low(to, b.v) : _mm256_storeu_si256(to, _mm512_maskz_extracti64x4_epi64(15, b.v, 1));
}
static PEN_INLINE void store_half_partial(uint8_t* p, const Bytes& b, int i, int64_t n) {
  const __m512i half = i == 0 ? b.v : _mm512_maskz_shuffle_i64x2(255, b.v, b.v, 0x4E);
  _mm512_mask_storeu_epi8(p, (uint64_t{1} << n) - 1, half);
}
#elif defined(__AVX2__)
#if defined(__AVXVNNI__)
struct Quads {
  __m256i v;
};
struct Four {
  __m256i v;
};
static PEN_INLINE Quads load_quads(const int8_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
static PEN_INLINE Four load_four(const uint8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  return {_mm256_set1_epi32(four)};
}
static PEN_INLINE I dot(I acc, Four x, Quads w) { return {_mm256_dpbusd_avx_epi32(acc.v, x.v, w.v)}; }
#else
// Even and odd bytes apart, widened to 16 bits: two exact multiply-adds of pairs.
struct Quads {
  __m256i even, odd;
};
struct Four {
  __m256i even, odd;
};
static PEN_INLINE Quads load_quads(const int8_t* p) {
  __m256i w = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8), _mm256_srai_epi16(w, 8)};
}
static PEN_INLINE Four load_four(const uint8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  __m256i x = _mm256_set1_epi32(four);
  return {_mm256_and_si256(x, _mm256_set1_epi16(255)), _mm256_srli_epi16(x, 8)};
}
static PEN_INLINE I dot(I acc, Four x, Quads w) {
  return {_mm256_add_epi32(acc.v, _mm256_add_epi32(_mm256_madd_epi16(x.even, w.even), _mm256_madd_epi16(x.odd, w.odd)))};
}
#endif
struct Bytes {
  __m256i v;
};
struct Limits {
  __m256i zero, low, high;
};
static PEN_INLINE Limits make_limits(int zero, int low, int high) {
  return {_mm256_set1_epi16(static_cast<short>(zero)), _mm256_set1_epi8(static_cast<char>(low)), _mm256_set1_epi8(static_cast<char>(high))};
}
static PEN_INLINE Bytes pack(I a, I b, I c, I d, const Limits& l) {
  __m256i ab = _mm256_adds_epi16(_mm256_packs_epi32(a.v, b.v), l.zero), cd = _mm256_adds_epi16(_mm256_packs_epi32(c.v, d.v), l.zero);
  __m256i v = _mm256_max_epu8(_mm256_min_epu8(_mm256_packus_epi16(ab, cd), l.high), l.low);
  return {_mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))};
}
static PEN_INLINE void store_half(uint8_t* p, const Bytes& b, int i) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), i == 0 ? _mm256_castsi256_si128(b.v) : _mm256_extracti128_si256(b.v, 1));
}
static PEN_INLINE void store_quarter(uint8_t* p, const Bytes& b, int i) {
  __m128i half = i < 2 ? _mm256_castsi256_si128(b.v) : _mm256_extracti128_si256(b.v, 1);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), i % 2 == 0 ? half : _mm_unpackhi_epi64(half, half));
}
#elif defined(__SSE4_1__)
struct Quads {
  __m128i even, odd;
};
struct Four {
  __m128i even, odd;
};
static PEN_INLINE Quads load_quads(const int8_t* p) {
  __m128i w = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm_srai_epi16(_mm_slli_epi16(w, 8), 8), _mm_srai_epi16(w, 8)};
}
static PEN_INLINE Four load_four(const uint8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  __m128i x = _mm_set1_epi32(four);
  return {_mm_and_si128(x, _mm_set1_epi16(255)), _mm_srli_epi16(x, 8)};
}
static PEN_INLINE I dot(I acc, Four x, Quads w) {
  return {_mm_add_epi32(acc.v, _mm_add_epi32(_mm_madd_epi16(x.even, w.even), _mm_madd_epi16(x.odd, w.odd)))};
}
struct Bytes {
  __m128i v;
};
struct Limits {
  __m128i zero, low, high;
};
static PEN_INLINE Limits make_limits(int zero, int low, int high) {
  return {_mm_set1_epi16(static_cast<short>(zero)), _mm_set1_epi8(static_cast<char>(low)), _mm_set1_epi8(static_cast<char>(high))};
}
static PEN_INLINE Bytes pack(I a, I b, I c, I d, const Limits& l) {
  __m128i ab = _mm_adds_epi16(_mm_packs_epi32(a.v, b.v), l.zero), cd = _mm_adds_epi16(_mm_packs_epi32(c.v, d.v), l.zero);
  return {_mm_max_epu8(_mm_min_epu8(_mm_packus_epi16(ab, cd), l.high), l.low)};
}
static PEN_INLINE void store_half(uint8_t* p, const Bytes& b, int i) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), i == 0 ? b.v : _mm_unpackhi_epi64(b.v, b.v));
}
static PEN_INLINE void store_quarter(uint8_t* p, const Bytes& b, int i) {
  int32_t four = i == 0   ? _mm_cvtsi128_si32(b.v)
                 : i == 1 ? _mm_extract_epi32(b.v, 1)
                 : i == 2 ? _mm_extract_epi32(b.v, 2)
                          : _mm_extract_epi32(b.v, 3);
  __builtin_memcpy(p, &four, 4);
}
#elif defined(__ARM_NEON)
#include "penlight/runtime/simd/dots_neon.h"
#elif defined(__wasm_simd128__)
#include "penlight/runtime/simd/dots_wasm.h"
#else
struct Quads {
  int8_t v[4 * kLanes];
};
struct Four {
  uint8_t v[4];
};
static PEN_INLINE Quads load_quads(const int8_t* p) {
  Quads w;
  __builtin_memcpy(w.v, p, sizeof w.v);
  return w;
}
static PEN_INLINE Four load_four(const uint8_t* p) { return {{p[0], p[1], p[2], p[3]}}; }
static PEN_INLINE I dot(I acc, Four x, Quads w) {
  int32_t lanes[kLanes];
  __builtin_memcpy(lanes, &acc, sizeof lanes);
  for (int j = 0; j < kLanes; ++j)
    for (int i = 0; i < 4; ++i)
      lanes[j] = static_cast<int32_t>(static_cast<uint32_t>(lanes[j]) + static_cast<uint32_t>(x.v[i] * w.v[4 * j + i]));
  __builtin_memcpy(&acc, lanes, sizeof lanes);
  return acc;
}
struct Bytes {
  uint8_t v[4 * kLanes];
};
struct Limits {
  int32_t zero, low, high;
};
static PEN_INLINE Limits make_limits(int zero, int low, int high) { return {zero, low, high}; }
static PEN_INLINE Bytes pack(I a, I b, I c, I d, const Limits& l) {
  int32_t lanes[4 * kLanes];
  __builtin_memcpy(lanes, &a, sizeof a);
  __builtin_memcpy(lanes + kLanes, &b, sizeof b);
  __builtin_memcpy(lanes + 2 * kLanes, &c, sizeof c);
  __builtin_memcpy(lanes + 3 * kLanes, &d, sizeof d);
  Bytes bytes;
  for (int i = 0; i < 4 * kLanes; ++i) {
    // in 16 bits first, as vector registers do
    int32_t x = lanes[i] < -32768 ? -32768 : lanes[i] > 32767 ? 32767 : lanes[i];
    x += l.zero;
    bytes.v[i] = static_cast<uint8_t>(x < l.low ? l.low : x > l.high ? l.high : x);
  }
  return bytes;
}
static PEN_INLINE void store_half(uint8_t* p, const Bytes& b, int i) { __builtin_memcpy(p, b.v + 2 * kLanes * i, 2 * kLanes); }
static PEN_INLINE void store_quarter(uint8_t* p, const Bytes& b, int i) { __builtin_memcpy(p, b.v + kLanes * i, kLanes); }
#endif

#if !defined(__ARM_NEON) && !defined(__wasm_simd128__)
static PEN_INLINE void store_all(uint8_t* p, const Bytes& b) {
  store_half(p, b, 0);
  store_half(p + 2 * kLanes, b, 1);
}
#endif
#if !defined(__AVX512VNNI__)
static PEN_INLINE void store_half_partial(uint8_t* p, const Bytes& b, int i, int64_t n) {
  uint8_t half[2 * kLanes];
  store_half(half, b, i);
  for (int64_t k = 0; k < n; ++k) p[k] = half[k];
}
#endif

}  // namespace PEN_ISA
}  // namespace pen
