// Bytes of four image rows, interleaved so that few instructions multiply and sum them: what a depthwise convolution of u8 activations by
// i8 weights is made of. Included by files that are compiled once per instruction set; kBlock is the widest block that it has.
//
//   Rows4<B>      a block of B channels, in four quarters; place p of quarter j is channel 16 (p / 4) + 4 j + p % 4, which is how unpacking
//                 within lanes of 16 bytes leaves them, and packing puts them back
//   Q, W, S       a quarter of one column's pixels, of weights, of i32 sums
//   interleave    a column: B bytes from each of 3 or 4 rows; where there are 3, the fourth weight must be 0. fill: the same of one byte
//   prepare       weights of a block, B i8 from each of 4 rows, into kWeightBytes for each quarter, aligned, as `weight` loads them
//   dot           s + the sum over rows of (q - kOffset) * w, of quarter j: exact (nothing saturates at 16 bits), sums wrap
//   kByRows       dot is one instruction for each row: row(p) has a column of one, dot_row adds its products to quarter j, by weights in
//                 registers or of kRowBytes that lie in the first weight of their four rows
//   requantize    bytes clamp(round_to_even(s * m) + zero, low, high) of four quarters, in the order of channels; |s * m| < 2^31. Zero,
//                 low and high are what prepare_levels made of them, 3 B bytes: registers are too few
//   order         sums of four quarters, in the order of channels
//   hold          s is computed here: compilers would move sums to where they are read, and keep what they are made of instead
#pragma once
#include "penlight/runtime/simd/simd.h"

// All of this that 16 bytes need is in SSE2, which the base set of x86-64 has (simd.h wants SSE4.1).
#if defined(__SSE2__) && !defined(__SSE4_1__)
#define _MM_MALLOC_H_INCLUDED
#define __MM_MALLOC_H
#include <emmintrin.h>
#endif

namespace pen {
namespace PEN_ISA {

template <int B>
struct Rows4;

#if defined(__SSE2__) || defined(__wasm_simd128__)
// What a register of B bytes can do; unpacking and packing stay within lanes of 16 bytes.
template <int B>
struct ByteLanes;

#if defined(__AVX512VL__)
#define PEN_X "v"  // any of 32 registers
#else
#define PEN_X "x"
#endif

#if defined(__AVX512F__) && defined(__AVX512VNNI__)
constexpr int kBlock = 64;
constexpr bool kByteDot = true;  // one instruction multiplies four bytes and sums them in 32 bits
#elif defined(__AVX2__)
constexpr int kBlock = 32;
constexpr bool kByteDot = false;
#else
constexpr int kBlock = 16;
constexpr bool kByteDot = false;
#endif

#if defined(__AVX512F__)
// Zero-masked forms: see avx512.h.
template <>
struct ByteLanes<64> {
  using T = __m512i;
  static PEN_INLINE void hold(T& a) { __asm__ volatile("" : "+v"(a)); }
  static constexpr __mmask64 k8 = ~__mmask64{0};
  static constexpr __mmask32 k16 = ~__mmask32{0};
  static PEN_INLINE T load(const void* p) { return _mm512_loadu_si512(p); }
  static PEN_INLINE void store(void* p, T a) { _mm512_storeu_si512(p, a); }
  template <int kFrom>
  static PEN_INLINE T lanes(T a, T b) {
    return _mm512_maskz_shuffle_i32x4(kAll, a, b, kFrom);
  }
  static PEN_INLINE void order(const T (&s)[4], T (&to)[4]) {
    const T a = lanes<0x44>(s[0], s[1]), b = lanes<0x44>(s[2], s[3]), c = lanes<0xee>(s[0], s[1]), d = lanes<0xee>(s[2], s[3]);
    to[0] = lanes<0x88>(a, b), to[1] = lanes<0xdd>(a, b), to[2] = lanes<0x88>(c, d), to[3] = lanes<0xdd>(c, d);
  }
  static PEN_INLINE T set8(int n) { return _mm512_set1_epi8(static_cast<char>(n)); }
  static PEN_INLINE T set16(int n) { return _mm512_set1_epi16(static_cast<short>(n)); }
  static PEN_INLINE T low8(T a, T b) { return _mm512_maskz_unpacklo_epi8(k8, a, b); }
  static PEN_INLINE T high8(T a, T b) { return _mm512_maskz_unpackhi_epi8(k8, a, b); }
  static PEN_INLINE T low16(T a, T b) { return _mm512_maskz_unpacklo_epi16(k16, a, b); }
  static PEN_INLINE T high16(T a, T b) { return _mm512_maskz_unpackhi_epi16(k16, a, b); }
  static PEN_INLINE T even(T a) { return _mm512_maskz_srai_epi16(k16, _mm512_maskz_slli_epi16(k16, a, 8), 8); }
  static PEN_INLINE T odd(T a) { return _mm512_maskz_srai_epi16(k16, a, 8); }
  static PEN_INLINE T scaled(T sum, const float* m) {
    return _mm512_maskz_cvtps_epi32(kAll, _mm512_mul_ps(_mm512_maskz_cvtepi32_ps(kAll, sum), _mm512_loadu_ps(m)));
  }
  static PEN_INLINE T pack32(T a, T b) { return _mm512_maskz_packs_epi32(k16, a, b); }
  static PEN_INLINE T add16(T a, T b) { return _mm512_maskz_adds_epi16(k16, a, b); }
  static PEN_INLINE T pack16(T a, T b) { return _mm512_maskz_packus_epi16(k8, a, b); }
  static PEN_INLINE T clamp8(T a, T low, T high) { return _mm512_maskz_min_epu8(k8, _mm512_maskz_max_epu8(k8, a, low), high); }
#if defined(__AVX512VNNI__)
  static PEN_INLINE T dot4(T sum, T q, T w) { return _mm512_dpbusd_epi32(sum, q, w); }
#endif
};
#endif

#if defined(__AVX2__)
template <>
struct ByteLanes<32> {
  using T = __m256i;
  static PEN_INLINE void hold(T& a) { __asm__ volatile("" : "+" PEN_X ""(a)); }
  static PEN_INLINE T load(const void* p) { return _mm256_loadu_si256(static_cast<const T*>(p)); }
  static PEN_INLINE void store(void* p, T a) { _mm256_storeu_si256(static_cast<T*>(p), a); }
  static PEN_INLINE void order(const T (&s)[4], T (&to)[4]) {
    to[0] = _mm256_permute2x128_si256(s[0], s[1], 0x20), to[1] = _mm256_permute2x128_si256(s[2], s[3], 0x20);
    to[2] = _mm256_permute2x128_si256(s[0], s[1], 0x31), to[3] = _mm256_permute2x128_si256(s[2], s[3], 0x31);
  }
  static PEN_INLINE T set8(int n) { return _mm256_set1_epi8(static_cast<char>(n)); }
  static PEN_INLINE T set16(int n) { return _mm256_set1_epi16(static_cast<short>(n)); }
  static PEN_INLINE T low8(T a, T b) { return _mm256_unpacklo_epi8(a, b); }
  static PEN_INLINE T high8(T a, T b) { return _mm256_unpackhi_epi8(a, b); }
  static PEN_INLINE T low16(T a, T b) { return _mm256_unpacklo_epi16(a, b); }
  static PEN_INLINE T high16(T a, T b) { return _mm256_unpackhi_epi16(a, b); }
  static PEN_INLINE T low_bytes(T a) { return _mm256_and_si256(a, _mm256_set1_epi16(255)); }
  static PEN_INLINE T high_bytes(T a) { return _mm256_srli_epi16(a, 8); }
  static PEN_INLINE T even(T a) { return _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8); }
  static PEN_INLINE T odd(T a) { return _mm256_srai_epi16(a, 8); }
  static PEN_INLINE T pairs(T a, T b) { return _mm256_madd_epi16(a, b); }
  static PEN_INLINE T add32(T a, T b) { return _mm256_add_epi32(a, b); }
  static PEN_INLINE T scaled(T sum, const float* m) {
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_loadu_ps(m)));
  }
  static PEN_INLINE T pack32(T a, T b) { return _mm256_packs_epi32(a, b); }
  static PEN_INLINE T add16(T a, T b) { return _mm256_adds_epi16(a, b); }
  static PEN_INLINE T pack16(T a, T b) { return _mm256_packus_epi16(a, b); }
  static PEN_INLINE T clamp8(T a, T low, T high) { return _mm256_min_epu8(_mm256_max_epu8(a, low), high); }
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
  static PEN_INLINE T dot4(T sum, T q, T w) { return _mm256_dpbusd_epi32(sum, q, w); }
#endif
};
#endif

#if defined(__SSE2__)
template <>
struct ByteLanes<16> {
  using T = __m128i;
  static PEN_INLINE void hold(T& a) { __asm__ volatile("" : "+" PEN_X ""(a)); }
  static PEN_INLINE T load(const void* p) { return _mm_loadu_si128(static_cast<const T*>(p)); }
  static PEN_INLINE void store(void* p, T a) { _mm_storeu_si128(static_cast<T*>(p), a); }
  static PEN_INLINE T set8(int n) { return _mm_set1_epi8(static_cast<char>(n)); }
  static PEN_INLINE T set16(int n) { return _mm_set1_epi16(static_cast<short>(n)); }
  static PEN_INLINE T low8(T a, T b) { return _mm_unpacklo_epi8(a, b); }
  static PEN_INLINE T high8(T a, T b) { return _mm_unpackhi_epi8(a, b); }
  static PEN_INLINE T low16(T a, T b) { return _mm_unpacklo_epi16(a, b); }
  static PEN_INLINE T high16(T a, T b) { return _mm_unpackhi_epi16(a, b); }
  static PEN_INLINE T low_bytes(T a) { return _mm_and_si128(a, _mm_set1_epi16(255)); }
  static PEN_INLINE T high_bytes(T a) { return _mm_srli_epi16(a, 8); }
  static PEN_INLINE T even(T a) { return _mm_srai_epi16(_mm_slli_epi16(a, 8), 8); }
  static PEN_INLINE T odd(T a) { return _mm_srai_epi16(a, 8); }
  static PEN_INLINE T pairs(T a, T b) { return _mm_madd_epi16(a, b); }
  static PEN_INLINE T add32(T a, T b) { return _mm_add_epi32(a, b); }
  static PEN_INLINE T scaled(T sum, const float* m) { return _mm_cvtps_epi32(_mm_mul_ps(_mm_cvtepi32_ps(sum), _mm_loadu_ps(m))); }
  static PEN_INLINE T pack32(T a, T b) { return _mm_packs_epi32(a, b); }
  static PEN_INLINE T add16(T a, T b) { return _mm_adds_epi16(a, b); }
  static PEN_INLINE T pack16(T a, T b) { return _mm_packus_epi16(a, b); }
  static PEN_INLINE T clamp8(T a, T low, T high) { return _mm_min_epu8(_mm_max_epu8(a, low), high); }
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
  static PEN_INLINE T dot4(T sum, T q, T w) { return _mm_dpbusd_epi32(sum, q, w); }
#endif
};
#else
template <>
struct ByteLanes<16> {
  using T = v128_t;
  static PEN_INLINE void hold(T&) {}
  static PEN_INLINE T load(const void* p) { return wasm_v128_load(p); }
  static PEN_INLINE void store(void* p, T a) { wasm_v128_store(p, a); }
  static PEN_INLINE T set8(int n) { return wasm_i8x16_splat(static_cast<int8_t>(n)); }
  static PEN_INLINE T set16(int n) { return wasm_i16x8_splat(static_cast<int16_t>(n)); }
  static PEN_INLINE T low8(T a, T b) { return wasm_i8x16_shuffle(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23); }
  static PEN_INLINE T high8(T a, T b) { return wasm_i8x16_shuffle(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31); }
  static PEN_INLINE T low16(T a, T b) { return wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
  static PEN_INLINE T high16(T a, T b) { return wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
  static PEN_INLINE T low_bytes(T a) { return wasm_v128_and(a, wasm_i16x8_splat(255)); }
  static PEN_INLINE T high_bytes(T a) { return wasm_u16x8_shr(a, 8); }
  static PEN_INLINE T even(T a) { return wasm_i16x8_shr(wasm_i16x8_shl(a, 8), 8); }
  static PEN_INLINE T odd(T a) { return wasm_i16x8_shr(a, 8); }
  static PEN_INLINE T pairs(T a, T b) { return wasm_i32x4_dot_i16x8(a, b); }
  static PEN_INLINE T add32(T a, T b) { return wasm_i32x4_add(a, b); }
  static PEN_INLINE T scaled(T sum, const float* m) {
    return wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(wasm_f32x4_mul(wasm_f32x4_convert_i32x4(sum), wasm_v128_load(m))));
  }
  static PEN_INLINE T pack32(T a, T b) { return wasm_i16x8_narrow_i32x4(a, b); }
  static PEN_INLINE T add16(T a, T b) { return wasm_i16x8_add_sat(a, b); }
  static PEN_INLINE T pack16(T a, T b) { return wasm_u8x16_narrow_i16x8(a, b); }
  static PEN_INLINE T clamp8(T a, T low, T high) { return wasm_u8x16_min(wasm_u8x16_max(a, low), high); }
};
#endif

// Without a product of bytes, quarters are pairs of 16-bit integers: rows 0 and 2, rows 1 and 3. (vpmaddubsw takes bytes, but saturates.)
template <int B, bool kDot>
struct Quarter4;
template <int B>
struct Quarter4<B, true> {
  using R = ByteLanes<B>;
  typename R::T v;
  static constexpr int kBytes = B;
  static PEN_INLINE Quarter4 of(typename R::T v) { return {v}; }
  static PEN_INLINE void prepare(typename R::T v, char* to) { R::store(to, v); }
  static PEN_INLINE Quarter4 weight(const char* p) { return {R::load(p)}; }
  static PEN_INLINE typename R::T dot(typename R::T s, Quarter4 q, Quarter4 w) { return R::dot4(s, q.v, w.v); }
};
template <int B>
struct Quarter4<B, false> {
  using R = ByteLanes<B>;
  typename R::T even, odd;
  static constexpr int kBytes = 2 * B;
  static PEN_INLINE Quarter4 of(typename R::T v) { return {R::low_bytes(v), R::high_bytes(v)}; }
  static PEN_INLINE void prepare(typename R::T v, char* to) {
    R::store(to, R::even(v));
    R::store(to + B, R::odd(v));
  }
  static PEN_INLINE Quarter4 weight(const char* p) { return {R::load(p), R::load(p + B)}; }
  static PEN_INLINE typename R::T dot(typename R::T s, Quarter4 q, Quarter4 w) {
    return R::add32(s, R::add32(R::pairs(q.even, w.even), R::pairs(q.odd, w.odd)));
  }
};

// Vectors of sums that follow each other, as vectors of kLanes of them. Not through memory: a load that is wider than the stores before it
// waits for those.
#if defined(__SSE4_1__) || defined(__wasm_simd128__)
template <class T>
static PEN_INLINE void join_sums(const T (&t)[4], I (&to)[4]) {
  PEN_UNROLL for (int j = 0; j < 4; ++j) to[j].v = t[j];
}
#endif
#if defined(__AVX2__)
static PEN_INLINE __m256i join(__m128i a, __m128i b) { return _mm256_inserti128_si256(_mm256_zextsi128_si256(a), b, 1); }
#endif
#if defined(__AVX512F__)
static PEN_INLINE __m512i join(__m256i a, __m256i b) {  // zero-masked forms: see avx512.h
  return _mm512_maskz_inserti64x4(0xff, _mm512_maskz_inserti64x4(0xff, _mm512_setzero_si512(), a, 0), b, 1);
}
static PEN_INLINE void join_sums(const __m256i (&t)[4], I (&to)[2]) { to[0].v = join(t[0], t[1]), to[1].v = join(t[2], t[3]); }
static PEN_INLINE void join_sums(const __m128i (&t)[4], I (&to)[1]) { to[0].v = join(join(t[0], t[1]), join(t[2], t[3])); }
#elif defined(__AVX2__)
static PEN_INLINE void join_sums(const __m128i (&t)[4], I (&to)[2]) { to[0].v = join(t[0], t[1]), to[1].v = join(t[2], t[3]); }
#endif

template <int B>
struct Rows4 {
  using R = ByteLanes<B>;
  using T = typename R::T;
  using Q = Quarter4<B, kByteDot>;
  using W = Q;
  struct S {
    T v;
  };
  static constexpr bool kByRows = false;
  static constexpr int kWeightBytes = Q::kBytes;
  static constexpr int32_t kOffset = 0;
  static PEN_INLINE W weight(const char* p, int) { return Q::weight(p); }
  static PEN_INLINE void prepare(const char* const (&rows)[4], char* to) {
    T a = R::load(rows[0]), b = R::load(rows[1]), c = R::load(rows[2]), d = R::load(rows[3]);
    T ab = R::low8(a, b), cd = R::low8(c, d);
    Q::prepare(R::low16(ab, cd), to);
    Q::prepare(R::high16(ab, cd), to + kWeightBytes);
    ab = R::high8(a, b), cd = R::high8(c, d);
    Q::prepare(R::low16(ab, cd), to + 2 * kWeightBytes);
    Q::prepare(R::high16(ab, cd), to + 3 * kWeightBytes);
  }
  static PEN_INLINE S sums(const int32_t* p) { return {R::load(p)}; }
  static PEN_INLINE void order(const S (&s)[4], I (&to)[B / kLanes]) {
    T t[4] = {s[0].v, s[1].v, s[2].v, s[3].v};
    if constexpr (B > 16) R::order({s[0].v, s[1].v, s[2].v, s[3].v}, t);
#if defined(__SSE4_1__) || defined(__wasm_simd128__)
    join_sums(t, to);
#else
    int32_t all[B];
    PEN_UNROLL for (int j = 0; j < 4; ++j) R::store(all + j * (B / 4), t[j]);
    PEN_UNROLL for (int j = 0; j < B / kLanes; ++j) to[j] = load_ints(all + j * kLanes);
#endif
  }
  template <int kRows>
  static PEN_INLINE void interleave(const uint8_t* r0, const uint8_t* r1, const uint8_t* r2, const uint8_t* r3, Q (&q)[4]) {
    T a = R::load(r0), b = R::load(r1), c = R::load(r2);
    if (kRows == 3) R::hold(a), R::hold(b), R::hold(c);  // GCC would load them once for each use
    T d = kRows == 3 ? c : R::load(r3);
    T ab = R::low8(a, b), cd = R::low8(c, d);
    q[0] = Q::of(R::low16(ab, cd));
    q[1] = Q::of(R::high16(ab, cd));
    ab = R::high8(a, b), cd = R::high8(c, d);
    q[2] = Q::of(R::low16(ab, cd));
    q[3] = Q::of(R::high16(ab, cd));
  }
  static PEN_INLINE void fill(uint8_t byte, Q (&q)[4]) { q[0] = q[1] = q[2] = q[3] = Q::of(R::set8(byte)); }
  template <int kRows>
  static PEN_INLINE S dot(S s, const Q& q, const W& w, int) {
    return {Q::dot(s.v, q, w)};
  }
  static PEN_INLINE void hold(S& s) { R::hold(s.v); }
  static PEN_INLINE void prepare_levels(int32_t zero, int32_t low, int32_t high, char* to) {
    R::store(to, R::set16(zero));
    R::store(to + B, R::set8(low));
    R::store(to + 2 * B, R::set8(high));
  }
  static PEN_INLINE void requantize(const S (&s)[4], const float* m, const char* levels, uint8_t* y) {
    constexpr int n = B / 4;
    T zero = R::load(levels);
    T low = R::add16(R::pack32(R::scaled(s[0].v, m), R::scaled(s[1].v, m + n)), zero);
    T high = R::add16(R::pack32(R::scaled(s[2].v, m + 2 * n), R::scaled(s[3].v, m + 3 * n)), zero);
    R::store(y, R::clamp8(R::pack16(low, high), R::load(levels + B), R::load(levels + 2 * B)));
  }
};

#elif defined(__ARM_NEON)
constexpr int kBlock = 16;
#if defined(__aarch64__)
static PEN_INLINE int32x4_t scaled(int32x4_t s, const float* m) { return vcvtnq_s32_f32(vmulq_f32(vcvtq_f32_s32(s), vld1q_f32(m))); }
#else
// armv7 cannot round to even: adding 1.5 * 2^23 does, and the low bits of the sum are the integer.
static PEN_INLINE int32x4_t scaled(int32x4_t s, const float* m) {
  float32x4_t f = vmulq_f32(vcvtq_f32_s32(s), vld1q_f32(m));
  f = vminq_f32(vmaxq_f32(f, vdupq_n_f32(-1024.0f)), vdupq_n_f32(1024.0f));
  return vsubq_s32(vreinterpretq_s32_f32(vaddq_f32(f, vdupq_n_f32(12582912.0f))), vdupq_n_s32(0x4B400000));
}
#endif

template <>
struct Rows4<16> {
  struct S {
    int32x4_t v;
  };
  static PEN_INLINE S sums(const int32_t* p) { return {vld1q_s32(p)}; }
  static PEN_INLINE void order(const S (&s)[4], I (&to)[4]) { PEN_UNROLL for (int j = 0; j < 4; ++j) to[j].v = s[j].v; }
#if defined(__ARM_FEATURE_DOTPROD)
  struct Q {
    int8x16_t v;
  };
  using W = Q;
  static constexpr bool kByRows = false;
  static constexpr int kWeightBytes = 16;
  static constexpr int32_t kOffset = 128;  // the instruction multiplies signed bytes
  static PEN_INLINE W weight(const char* p, int) { return {vld1q_s8(reinterpret_cast<const int8_t*>(p))}; }
  static PEN_INLINE void prepare(const char* const (&rows)[4], char* to) {
    int8x16x4_t v;
    PEN_UNROLL for (int i = 0; i < 4; ++i) v.val[i] = vld1q_s8(reinterpret_cast<const int8_t*>(rows[i]));
    vst4q_s8(reinterpret_cast<int8_t*>(to), v);
  }
  template <int kRows>
  static PEN_INLINE void interleave(const uint8_t* r0, const uint8_t* r1, const uint8_t* r2, const uint8_t* r3, Q (&q)[4]) {
    uint8x16_t flip = vdupq_n_u8(128), c = veorq_u8(vld1q_u8(r2), flip), d = kRows == 3 ? c : veorq_u8(vld1q_u8(r3), flip);
    uint8x16x2_t ab = vzipq_u8(veorq_u8(vld1q_u8(r0), flip), veorq_u8(vld1q_u8(r1), flip)), cd = vzipq_u8(c, d);
    for (int i = 0; i < 2; ++i) {
      int16x8x2_t both = vzipq_s16(vreinterpretq_s16_u8(ab.val[i]), vreinterpretq_s16_u8(cd.val[i]));
      q[2 * i].v = vreinterpretq_s8_s16(both.val[0]);
      q[2 * i + 1].v = vreinterpretq_s8_s16(both.val[1]);
    }
  }
  static PEN_INLINE void fill(uint8_t byte, Q (&q)[4]) {
    int8x16_t v = vdupq_n_s8(static_cast<int8_t>(byte ^ 128));
    __asm__ volatile("" : "+w"(v));  // here: Clang would fill every column before it looks
    q[0] = q[1] = q[2] = q[3] = {v};
  }
  template <int kRows>
  static PEN_INLINE S dot(S s, const Q& q, const W& w, int) {
    return {vdotq_s32(s.v, q.v, w.v)};
  }
#else
  // Rows stay apart, as 16-bit integers: one instruction a row multiplies four channels and adds the products to 32-bit sums. Two
  // quarters are the halves of a register, of weights too.
  struct Q {
    int16x8_t row[4];
  };
  using W = Q;
  struct Row {
    int16x8_t half[2];
  };
  static constexpr bool kByRows = true;
  static constexpr int kWeightBytes = 32, kRowBytes = 32;
  static constexpr int32_t kOffset = 0;
  static PEN_INLINE W weight(const char* p, int j) {
    const int16_t* w = reinterpret_cast<const int16_t*>(p - j * kWeightBytes) + j / 2 * 8;
    return {{ vld1q_s16(w), vld1q_s16(w + 16), vld1q_s16(w + 32), vld1q_s16(w + 48) }};
  }
  static PEN_INLINE void prepare(const char* const (&rows)[4], char* to) {
    int16_t* row = reinterpret_cast<int16_t*>(to);
    PEN_UNROLL for (int i = 0; i < 4; ++i, row += 16) {
      int8x16_t v = vld1q_s8(reinterpret_cast<const int8_t*>(rows[i]));
      vst1q_s16(row, vmovl_s8(vget_low_s8(v)));
      vst1q_s16(row + 8, vmovl_s8(vget_high_s8(v)));
    }
  }
  static PEN_INLINE Row row(const uint8_t* p) {
    uint8x16_t v = vld1q_u8(p);
    return {{ vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(v))), vreinterpretq_s16_u16(vmovl_u8(vget_high_u8(v))) }};
  }
  static PEN_INLINE S product(S s, int16x8_t x, int16x8_t w, int j) {
#if defined(__aarch64__)
    if (j % 2 == 1) return {vmlal_high_s16(s.v, x, w)};
#else
    if (j % 2 == 1) return {vmlal_s16(s.v, vget_high_s16(x), vget_high_s16(w))};
#endif
    return {vmlal_s16(s.v, vget_low_s16(x), vget_low_s16(w))};
  }
  static PEN_INLINE S dot_row(S s, const Row& x, const W& w, int i, int j) { return product(s, x.half[j / 2], w.row[i], j); }
  static PEN_INLINE void dot_row(S (&s)[4], const Row& x, const char* p) {
    const int16_t* w = reinterpret_cast<const int16_t*>(p);
    const int16x8_t by[2] = {vld1q_s16(w), vld1q_s16(w + 8)};
    PEN_UNROLL for (int j = 0; j < 4; ++j) s[j] = product(s[j], x.half[j / 2], by[j / 2], j);
  }
  // The next row is loaded after this: there are no registers for all three.
  static PEN_INLINE void hold_row(const uint8_t*& next, S& s) { __asm__("" : "+r"(next), "+w"(s.v)); }
  template <int kRows>
  static PEN_INLINE void interleave(const uint8_t* r0, const uint8_t* r1, const uint8_t* r2, const uint8_t* r3, Q (&q)[4]) {
    const uint8_t* rows[4] = {r0, r1, r2, r3};
    PEN_UNROLL for (int i = 0; i < 4; ++i) {
      if (i >= kRows) continue;  // dot does not read it
      const Row x = row(rows[i]);
      PEN_UNROLL for (int j = 0; j < 4; ++j) q[j].row[i] = x.half[j / 2];
    }
  }
  static PEN_INLINE void fill(uint8_t byte, Q (&q)[4]) {
    PEN_UNROLL for (int j = 0; j < 4; ++j) { PEN_UNROLL for (int i = 0; i < 4; ++i) q[j].row[i] = vdupq_n_s16(byte); }
  }
  template <int kRows>
  static PEN_INLINE S dot(S s, const Q& q, const W& w, int j) {
    PEN_UNROLL for (int i = 0; i < 4; ++i) {
      if (i < kRows) s = product(s, q.row[i], w.row[i], j);
    }
    return s;
  }
#endif
  static PEN_INLINE void hold(S& s) { __asm__ volatile("" : "+w"(s.v)); }
  static PEN_INLINE void prepare_levels(int32_t zero, int32_t low, int32_t high, char* to) {
    vst1q_s16(reinterpret_cast<int16_t*>(to), vdupq_n_s16(static_cast<int16_t>(zero)));
    memset(to + 16, low, 16);
    memset(to + 32, high, 16);
  }
  static PEN_INLINE void requantize(const S (&s)[4], const float* m, const char* levels, uint8_t* y) {
    int16x8_t zero = vld1q_s16(reinterpret_cast<const int16_t*>(levels));
    int16x8_t low = vcombine_s16(vqmovn_s32(scaled(s[0].v, m)), vqmovn_s32(scaled(s[1].v, m + 4)));
    int16x8_t high = vcombine_s16(vqmovn_s32(scaled(s[2].v, m + 8)), vqmovn_s32(scaled(s[3].v, m + 12)));
    uint8x16_t r = vcombine_u8(vqmovun_s16(vqaddq_s16(low, zero)), vqmovun_s16(vqaddq_s16(high, zero)));
    r = vmaxq_u8(r, vld1q_u8(reinterpret_cast<const uint8_t*>(levels + 16)));
    vst1q_u8(y, vminq_u8(r, vld1q_u8(reinterpret_cast<const uint8_t*>(levels + 32))));
  }
};

#else
// Vectors of the language: what a processor has no register for, compilers take apart.
constexpr int kBlock = 16;
typedef int32_t Ints4 __attribute__((vector_size(16)));
typedef uint32_t Unsigned4 __attribute__((vector_size(16)));
template <>
struct Rows4<16> {
  struct S {
    Ints4 v;
  };
  struct Q {
    Ints4 row[4];
  };
  using W = Q;
  static constexpr bool kByRows = false;
  static constexpr int kWeightBytes = 64;
  static constexpr int32_t kOffset = 0;
  static PEN_INLINE W weight(const char* p, int) {
    W w;
    __builtin_memcpy(&w, p, sizeof w);
    return w;
  }
  static PEN_INLINE void prepare(const char* const (&rows)[4], char* to) {
    int32_t turned[64];
    for (int i = 0; i < 64; ++i) turned[i] = static_cast<int8_t>(rows[i / 4 % 4][i / 16 * 4 + i % 4]);
    __builtin_memcpy(to, turned, sizeof turned);
  }
  static PEN_INLINE S sums(const int32_t* p) { return {Ints4{p[0], p[1], p[2], p[3]}}; }
  static PEN_INLINE void order(const S (&s)[4], I (&to)[16 / kLanes]) {
    int32_t all[16];
    __builtin_memcpy(all, s, sizeof all);
    for (int j = 0; j < 16 / kLanes; ++j) to[j] = load_ints(all + j * kLanes);
  }
  template <int kRows>
  static PEN_INLINE void interleave(const uint8_t* r0, const uint8_t* r1, const uint8_t* r2, const uint8_t* r3, Q (&q)[4]) {
    const uint8_t* rows[4] = {r0, r1, r2, r3};
    PEN_UNROLL for (int j = 0; j < 4; ++j) {
      PEN_UNROLL for (int i = 0; i < kRows; ++i) {
        const uint8_t* p = rows[i] + 4 * j;
        q[j].row[i] = Ints4{p[0], p[1], p[2], p[3]};
      }
    }
  }
  static PEN_INLINE void fill(uint8_t byte, Q (&q)[4]) {
    PEN_UNROLL for (int j = 0; j < 4; ++j) { PEN_UNROLL for (int i = 0; i < 4; ++i) q[j].row[i] = Ints4{byte, byte, byte, byte}; }
  }
  template <int kRows>
  static PEN_INLINE S dot(S s, const Q& q, const W& w, int) {
    PEN_UNROLL for (int i = 0; i < kRows; ++i) s.v = (Ints4)((Unsigned4)s.v + (Unsigned4)(q.row[i] * w.row[i]));  // sums wrap
    return s;
  }
  static PEN_INLINE void hold(S&) {}
  static PEN_INLINE void prepare_levels(int32_t zero, int32_t low, int32_t high, char* to) {
    const int32_t levels[3] = {zero, low - zero, high - zero};
    __builtin_memcpy(to, levels, sizeof levels);
  }
  static PEN_INLINE void requantize(const S (&s)[4], const float* m, const char* levels, uint8_t* y) {
    int32_t l[3];
    __builtin_memcpy(l, levels, sizeof l);
    float low = static_cast<float>(l[1]), high = static_cast<float>(l[2]);
    for (int i = 0; i < 16; ++i) {
      float f = static_cast<float>(s[i / 4].v[i % 4]) * m[i];
      f = f < low ? low : f;
      f = (f > high ? high : f) + 12582912.0f;  // rounds to even: the low bits are the integer
      int32_t bits;
      __builtin_memcpy(&bits, &f, 4);
      y[i] = static_cast<uint8_t>(bits - 0x4B400000 + l[0]);
    }
  }
};
#endif

}  // namespace PEN_ISA
}  // namespace pen
