// Bytes in memory, numbers in registers: what integer kernels read, round and store. Included by files that are compiled once per
// instruction set. What lies in memory is u8; a vector holds kLanes of them.
//
//   load_bytes_i(p) -> I   load_bytes(p) -> V        kLanes bytes, as integers or as f32
//   store_bytes(p, I)                                kLanes bytes, saturated to 0 .. 255
//   load_bytes_i_partial(p, n) load_bytes_partial(p, n) store_bytes_partial(p, v, n)
//                                                    the first n < kLanes of them; touches no memory beyond, the rest is 0
//   round_to_int(V) -> I                             the nearest integer, ties to even, of what lies within ±2^22; from there to
//                                                    ±2^30, one that lies beyond ±2^22 as well
//   fused(a, b, c)                                   a * b + c of f32, rounded when it is summed up; where kHasFused
//   sum_bytes(p, n)                                  of n bytes, below 2^31
//   store_bytes4(p, I, I, I, I)                      4 * kLanes bytes, saturated: a third of the work of four stores
//   I: * (the low 32 bits) min(a, b) max(a, b)
//
//   B  a vector of kBytes u8     load_whole(p) store_whole(p, b) max(a, b)
#pragma once
#include "penlight/runtime/simd/simd.h"

namespace pen {
namespace PEN_ISA {

// Tails, in as many moves as n has bits: a call of memcpy takes longer than what it moves.
static PEN_INLINE uint64_t load_few(const uint8_t* p, int64_t n) {  // n < 8
  uint64_t v = 0;
  int at = 0;
  if (n & 4) {
    uint32_t four;
    __builtin_memcpy(&four, p, 4);
    v = four;
    at = 4;
  }
  if (n & 2) {
    uint16_t two;
    __builtin_memcpy(&two, p + at, 2);
    v |= static_cast<uint64_t>(two) << (8 * at);
    at += 2;
  }
  if (n & 1) v |= static_cast<uint64_t>(p[at]) << (8 * at);
  return v;
}
static PEN_INLINE void store_few(uint8_t* p, uint64_t v, int64_t n) {  // n < 8
  if (n & 4) {
    uint32_t four = static_cast<uint32_t>(v);
    __builtin_memcpy(p, &four, 4);
    v >>= 32;
    p += 4;
  }
  if (n & 2) {
    uint16_t two = static_cast<uint16_t>(v);
    __builtin_memcpy(p, &two, 2);
    v >>= 16;
    p += 2;
  }
  if (n & 1) *p = static_cast<uint8_t>(v);
}

#if defined(__AVX512F__)
static PEN_INLINE I operator*(I a, I b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
static PEN_INLINE I min(I a, I b) { return {_mm512_maskz_min_epi32(kAll, a.v, b.v)}; }
static PEN_INLINE I max(I a, I b) { return {_mm512_maskz_max_epi32(kAll, a.v, b.v)}; }
static PEN_INLINE I round_to_int(V a) { return {_mm512_maskz_cvtps_epi32(kAll, a.v)}; }
static PEN_INLINE I load_bytes_i(const uint8_t* p) {
  return {_mm512_maskz_cvtepu8_epi32(kAll, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
static PEN_INLINE I load_bytes_i_partial(const uint8_t* p, int64_t n) {
  return {_mm512_maskz_cvtepu8_epi32(kAll, _mm_maskz_loadu_epi8(first_lanes(n), p))};
}
// The instruction takes its operand as unsigned: what is below zero must be gone.
static PEN_INLINE __m128i narrow(I a) { return _mm512_maskz_cvtusepi32_epi8(kAll, max(a, {_mm512_setzero_si512()}).v); }
static PEN_INLINE void store_bytes(uint8_t* p, I a) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow(a)); }
static PEN_INLINE void store_bytes_partial(uint8_t* p, I a, int64_t n) { _mm_mask_storeu_epi8(p, first_lanes(n), narrow(a)); }
static PEN_INLINE void store_bytes4(uint8_t* p, I a, I b, I c, I d) {
  // packing works on each quarter of the registers by itself: their fours come out as a0 b0 c0 d0 a1 b1 ...
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i bytes = _mm512_packus_epi16(_mm512_packs_epi32(a.v, b.v), _mm512_packs_epi32(c.v, d.v));
  _mm512_storeu_si512(p, _mm512_maskz_permutexvar_epi32(kAll, order, bytes));
}
constexpr int kBytes = 64;
struct B {
  __m512i v;
};
static PEN_INLINE B load_whole(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
static PEN_INLINE void store_whole(uint8_t* p, B a) { _mm512_storeu_si512(p, a.v); }
static PEN_INLINE B max(B a, B b) { return {_mm512_max_epu8(a.v, b.v)}; }
#elif defined(__AVX2__) || defined(__SSE4_1__)
static PEN_INLINE __m128i few_bytes(uint64_t v) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(&v)); }
static PEN_INLINE uint64_t few_bytes(__m128i v) {
  uint64_t r;
  _mm_storel_epi64(reinterpret_cast<__m128i*>(&r), v);
  return r;
}
#if defined(__AVX2__)
static PEN_INLINE I operator*(I a, I b) { return {_mm256_mullo_epi32(a.v, b.v)}; }
static PEN_INLINE I min(I a, I b) { return {_mm256_min_epi32(a.v, b.v)}; }
static PEN_INLINE I max(I a, I b) { return {_mm256_max_epi32(a.v, b.v)}; }
static PEN_INLINE I round_to_int(V a) { return {_mm256_cvtps_epi32(a.v)}; }
static PEN_INLINE I load_bytes_i(const uint8_t* p) { return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)))}; }
static PEN_INLINE I load_bytes_i_partial(const uint8_t* p, int64_t n) { return {_mm256_cvtepu8_epi32(few_bytes(load_few(p, n)))}; }
static PEN_INLINE __m128i narrow(I a) {
  __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1));
  return _mm_packus_epi16(words, words);
}
static PEN_INLINE void store_bytes(uint8_t* p, I a) { _mm_storel_epi64(reinterpret_cast<__m128i*>(p), narrow(a)); }
static PEN_INLINE void store_bytes4(uint8_t* p, I a, I b, I c, I d) {
  // packing works on each half of the registers by itself: their fours come out as a0 b0 c0 d0 a1 b1 c1 d1
  __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(a.v, b.v), _mm256_packs_epi32(c.v, d.v));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
}
constexpr int kBytes = 32;
struct B {
  __m256i v;
};
static PEN_INLINE B load_whole(const uint8_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
static PEN_INLINE void store_whole(uint8_t* p, B a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v); }
static PEN_INLINE B max(B a, B b) { return {_mm256_max_epu8(a.v, b.v)}; }
#else
static PEN_INLINE I operator*(I a, I b) { return {_mm_mullo_epi32(a.v, b.v)}; }
static PEN_INLINE I min(I a, I b) { return {_mm_min_epi32(a.v, b.v)}; }
static PEN_INLINE I max(I a, I b) { return {_mm_max_epi32(a.v, b.v)}; }
static PEN_INLINE I round_to_int(V a) { return {_mm_cvtps_epi32(a.v)}; }
static PEN_INLINE I load_bytes_i(const uint8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  return {_mm_cvtepu8_epi32(_mm_cvtsi32_si128(four))};
}
static PEN_INLINE I load_bytes_i_partial(const uint8_t* p, int64_t n) { return {_mm_cvtepu8_epi32(few_bytes(load_few(p, n)))}; }
static PEN_INLINE __m128i narrow(I a) {
  __m128i words = _mm_packs_epi32(a.v, a.v);
  return _mm_packus_epi16(words, words);
}
static PEN_INLINE void store_bytes(uint8_t* p, I a) {
  int32_t four = _mm_cvtsi128_si32(narrow(a));
  __builtin_memcpy(p, &four, 4);
}
static PEN_INLINE void store_bytes4(uint8_t* p, I a, I b, I c, I d) {
  __m128i bytes = _mm_packus_epi16(_mm_packs_epi32(a.v, b.v), _mm_packs_epi32(c.v, d.v));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
constexpr int kBytes = 16;
struct B {
  __m128i v;
};
static PEN_INLINE B load_whole(const uint8_t* p) { return {_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))}; }
static PEN_INLINE void store_whole(uint8_t* p, B a) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), a.v); }
static PEN_INLINE B max(B a, B b) { return {_mm_max_epu8(a.v, b.v)}; }
#endif
static PEN_INLINE void store_bytes_partial(uint8_t* p, I a, int64_t n) { store_few(p, few_bytes(narrow(a)), n); }
#elif defined(__ARM_NEON)
static PEN_INLINE I operator*(I a, I b) { return {vmulq_s32(a.v, b.v)}; }
static PEN_INLINE I min(I a, I b) { return {vminq_s32(a.v, b.v)}; }
static PEN_INLINE I max(I a, I b) { return {vmaxq_s32(a.v, b.v)}; }
#if defined(__aarch64__)
static PEN_INLINE I round_to_int(V a) { return {vcvtnq_s32_f32(a.v)}; }
#else
static PEN_INLINE I round_to_int(V a) {
  const V most = set1(4194303.0f);  // beyond this, 1.5 * 2^23 is not where the last bit counts ones
  return bits(max(min(a, most), -most) + set1(12582912.0f)) - set1i(0x4B400000);
}
#endif
static PEN_INLINE I widen(uint32_t four) {
  return {vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four))))))};
}
static PEN_INLINE uint32_t narrow(I a) {
  uint16x4_t words = vqmovun_s32(a.v);
  return vget_lane_u32(vreinterpret_u32_u8(vqmovn_u16(vcombine_u16(words, words))), 0);
}
static PEN_INLINE I load_bytes_i(const uint8_t* p) {
  uint32_t four;
  __builtin_memcpy(&four, p, 4);
  return widen(four);
}
static PEN_INLINE I load_bytes_i_partial(const uint8_t* p, int64_t n) { return widen(static_cast<uint32_t>(load_few(p, n))); }
static PEN_INLINE void store_bytes(uint8_t* p, I a) {
  uint32_t four = narrow(a);
  __builtin_memcpy(p, &four, 4);
}
static PEN_INLINE void store_bytes_partial(uint8_t* p, I a, int64_t n) { store_few(p, narrow(a), n); }
static PEN_INLINE void store_bytes4(uint8_t* p, I a, I b, I c, I d) {
  uint16x8_t low = vcombine_u16(vqmovun_s32(a.v), vqmovun_s32(b.v)), high = vcombine_u16(vqmovun_s32(c.v), vqmovun_s32(d.v));
  vst1q_u8(p, vcombine_u8(vqmovn_u16(low), vqmovn_u16(high)));
}
constexpr int kBytes = 16;
struct B {
  uint8x16_t v;
};
static PEN_INLINE B load_whole(const uint8_t* p) { return {vld1q_u8(p)}; }
static PEN_INLINE void store_whole(uint8_t* p, B a) { vst1q_u8(p, a.v); }
static PEN_INLINE B max(B a, B b) { return {vmaxq_u8(a.v, b.v)}; }
#elif defined(__wasm_simd128__)
static PEN_INLINE I operator*(I a, I b) { return {wasm_i32x4_mul(a.v, b.v)}; }
static PEN_INLINE I min(I a, I b) { return {wasm_i32x4_min(a.v, b.v)}; }
static PEN_INLINE I max(I a, I b) { return {wasm_i32x4_max(a.v, b.v)}; }
static PEN_INLINE I round_to_int(V a) { return {wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(a.v))}; }
static PEN_INLINE I widen(v128_t bytes) { return {wasm_u32x4_extend_low_u16x8(wasm_u16x8_extend_low_u8x16(bytes))}; }
static PEN_INLINE v128_t narrow(I a) {
  v128_t words = wasm_i16x8_narrow_i32x4(a.v, a.v);
  return wasm_u8x16_narrow_i16x8(words, words);
}
static PEN_INLINE I load_bytes_i(const uint8_t* p) { return widen(wasm_v128_load32_zero(p)); }
static PEN_INLINE I load_bytes_i_partial(const uint8_t* p, int64_t n) {
  return widen(wasm_i32x4_make(static_cast<int32_t>(load_few(p, n)), 0, 0, 0));
}
static PEN_INLINE void store_bytes(uint8_t* p, I a) { wasm_v128_store32_lane(p, narrow(a), 0); }
static PEN_INLINE void store_bytes_partial(uint8_t* p, I a, int64_t n) {
  store_few(p, static_cast<uint32_t>(wasm_i32x4_extract_lane(narrow(a), 0)), n);
}
static PEN_INLINE void store_bytes4(uint8_t* p, I a, I b, I c, I d) {
  wasm_v128_store(p, wasm_u8x16_narrow_i16x8(wasm_i16x8_narrow_i32x4(a.v, b.v), wasm_i16x8_narrow_i32x4(c.v, d.v)));
}
constexpr int kBytes = 16;
struct B {
  v128_t v;
};
static PEN_INLINE B load_whole(const uint8_t* p) { return {wasm_v128_load(p)}; }
static PEN_INLINE void store_whole(uint8_t* p, B a) { wasm_v128_store(p, a.v); }
static PEN_INLINE B max(B a, B b) { return {wasm_u8x16_max(a.v, b.v)}; }
#else
static PEN_INLINE I operator*(I a, I b) { return {static_cast<int32_t>(static_cast<uint32_t>(a.v) * static_cast<uint32_t>(b.v))}; }
static PEN_INLINE I min(I a, I b) { return {a.v < b.v ? a.v : b.v}; }
static PEN_INLINE I max(I a, I b) { return {a.v > b.v ? a.v : b.v}; }
static PEN_INLINE I round_to_int(V a) {
  const V most = set1(4194303.0f);  // beyond this, 1.5 * 2^23 is not where the last bit counts ones
  return bits(max(min(a, most), -most) + set1(12582912.0f)) - set1i(0x4B400000);
}
static PEN_INLINE I load_bytes_i(const uint8_t* p) { return {*p}; }
static PEN_INLINE I load_bytes_i_partial(const uint8_t*, int64_t) { return {0}; }
static PEN_INLINE void store_bytes(uint8_t* p, I a) { *p = static_cast<uint8_t>(a.v < 0 ? 0 : a.v > 255 ? 255 : a.v); }
static PEN_INLINE void store_bytes_partial(uint8_t*, I, int64_t) {}
static PEN_INLINE void store_bytes4(uint8_t* p, I a, I b, I c, I d) {
  store_bytes(p, a);
  store_bytes(p + 1, b);
  store_bytes(p + 2, c);
  store_bytes(p + 3, d);
}
constexpr int kBytes = 1;
struct B {
  uint8_t v;
};
static PEN_INLINE B load_whole(const uint8_t* p) { return {*p}; }
static PEN_INLINE void store_whole(uint8_t* p, B a) { *p = a.v; }
static PEN_INLINE B max(B a, B b) { return {a.v > b.v ? a.v : b.v}; }
#endif

// Where nothing multiplies and adds at once, f64 has room for any product of two f32.
constexpr bool kHasFused = kLanes > 1
#if defined(__ARM_NEON) && !defined(__aarch64__)
                           && false
#endif
    ;
static PEN_INLINE V fused(V a, V b, V c) {
#if defined(__SSE4_1__) && !defined(__AVX2__)
  auto half = [](__m128 x, __m128 y, __m128 z) {
    return _mm_cvtpd_ps(_mm_add_pd(_mm_mul_pd(_mm_cvtps_pd(x), _mm_cvtps_pd(y)), _mm_cvtps_pd(z)));
  };
  return {_mm_movelh_ps(half(a.v, b.v, c.v), half(_mm_movehl_ps(a.v, a.v), _mm_movehl_ps(b.v, b.v), _mm_movehl_ps(c.v, c.v)))};
#elif defined(__wasm_simd128__)
  auto half = [](v128_t x, v128_t y, v128_t z) {
    return wasm_f32x4_demote_f64x2_zero(
        wasm_f64x2_add(wasm_f64x2_mul(wasm_f64x2_promote_low_f32x4(x), wasm_f64x2_promote_low_f32x4(y)), wasm_f64x2_promote_low_f32x4(z)));
  };
  auto high = [](v128_t x) { return wasm_i64x2_shuffle(x, x, 1, 1); };
  return {wasm_i64x2_shuffle(half(a.v, b.v, c.v), half(high(a.v), high(b.v), high(c.v)), 0, 2)};
#else
  return fma(a, b, c);
#endif
}

static PEN_INLINE V load_bytes(const uint8_t* p) { return to_float(load_bytes_i(p)); }
static PEN_INLINE V load_bytes_partial(const uint8_t* p, int64_t n) { return to_float(load_bytes_i_partial(p, n)); }

// As pairs of 16 bits, by the compiler: 128 times two bytes fit one.
static PEN_INLINE int32_t sum_bytes(const uint8_t* p, int64_t n) {
  typedef uint16_t Pairs __attribute__((vector_size(16)));
  typedef uint32_t Fours __attribute__((vector_size(16)));
  Fours fours = {};
  const uint8_t* const last = p + n / 16 * 16;
  while (p != last) {
    Pairs pairs = {};
    for (const uint8_t* end = last - p < 128 * 16 ? last : p + 128 * 16; p != end; p += 16) {
      Pairs bytes;
      __builtin_memcpy(&bytes, p, 16);
      pairs += (bytes & 255) + (bytes >> 8);
    }
    const Fours sums = reinterpret_cast<Fours>(pairs);
    fours += (sums & 65535) + (sums >> 16);
  }
  uint32_t total = fours[0] + fours[1] + fours[2] + fours[3];
  for (int64_t i = 0; i < n % 16; ++i) total += p[i];
  return static_cast<int32_t>(total);
}

}  // namespace PEN_ISA
}  // namespace pen
