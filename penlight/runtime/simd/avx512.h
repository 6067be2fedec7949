// AVX-512 (F, BW, VL, DQ): 16 lanes, 32 registers, masks in registers of their own. Included by simd.h, which documents
// the functions. GCC's plain forms of some intrinsics start from an uninitialized register and warn (bug 105593), so
// those are spelled as their zero-masked forms, which compile to the same instruction.

constexpr int kLanes = 16;
constexpr bool kHasPermute = true;
constexpr bool kHasHalves = true;  // half a vector takes half the time: 256-bit registers
struct V {
  __m512 v;
};
struct I {
  __m512i v;
};
struct M {
  __mmask16 v;
};
typedef int32_t Lanes32 __attribute__((vector_size(64)));
constexpr __mmask16 kAll = 0xffff;

static PEN_INLINE __mmask16 first_lanes(int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }

static PEN_INLINE V load(const float* p) { return {_mm512_loadu_ps(p)}; }
static PEN_INLINE void store(float* p, V a) { _mm512_storeu_ps(p, a.v); }
static PEN_INLINE V load_partial(const float* p, int64_t n) { return {_mm512_maskz_loadu_ps(first_lanes(n), p)}; }
static PEN_INLINE void store_partial(float* p, V a, int64_t n) { _mm512_mask_storeu_ps(p, first_lanes(n), a.v); }
#if defined(__clang__)  // which has no %t for registers past the fifteenth
static PEN_INLINE V load_half(const float* p) { return {_mm512_castps256_ps512(_mm256_loadu_ps(p))}; }
static PEN_INLINE void store_half(float* p, V a) { _mm256_storeu_ps(p, _mm512_castps512_ps256(a.v)); }
static PEN_INLINE V fma_half(V a, V b, V c) {
  return {_mm512_castps256_ps512(_mm256_fmadd_ps(_mm512_castps512_ps256(a.v), _mm512_castps512_ps256(b.v), _mm512_castps512_ps256(c.v)))};
}
#else
// Half vectors are the same registers by their 256-bit names (%t). Casting back and forth, as
// above, would do, if GCC did not warn of the upper half that it leaves undefined.
struct Half {
  float lanes[kLanes / 2];
};
static PEN_INLINE V load_half(const float* p) {
  V a;
  __asm__("vmovups %1, %t0" : "=v"(a.v) : "m"(*reinterpret_cast<const Half*>(p)));
  return a;
}
static PEN_INLINE void store_half(float* p, V a) { __asm__("vmovups %t1, %0" : "=m"(*reinterpret_cast<Half*>(p)) : "v"(a.v)); }
static PEN_INLINE V fma_half(V a, V b, V c) {
  __asm__("vfmadd231ps %t2, %t1, %t0" : "+v"(c.v) : "v"(a.v), "v"(b.v));
  return c;
}
#endif
static PEN_INLINE V load_halves(const float* p, const float* q) {
  if (p == q) return {_mm512_maskz_broadcast_f32x8(kAll, _mm256_loadu_ps(p))};
  return {_mm512_maskz_insertf32x8(kAll, load_half(p).v, _mm256_loadu_ps(q), 1)};
}
static PEN_INLINE void store_halves(float* p, float* q, V a) {
  store_half(p, a);
  _mm256_storeu_ps(q, _mm512_maskz_extractf32x8_ps(0xff, a.v, 1));
}
static PEN_INLINE V halves(V a, V b) { return {_mm512_mask_blend_ps(0xff00, a.v, b.v)}; }
static PEN_INLINE V twice(V a) { return {_mm512_maskz_shuffle_f32x4(kAll, a.v, a.v, 0x44)}; }
static PEN_INLINE V set1(float f) { return {_mm512_set1_ps(f)}; }
static PEN_INLINE V zero() { return {_mm512_setzero_ps()}; }

static PEN_INLINE V operator+(V a, V b) { return {_mm512_add_ps(a.v, b.v)}; }
static PEN_INLINE V operator-(V a, V b) { return {_mm512_sub_ps(a.v, b.v)}; }
static PEN_INLINE V operator*(V a, V b) { return {_mm512_mul_ps(a.v, b.v)}; }
static PEN_INLINE V operator/(V a, V b) { return {_mm512_div_ps(a.v, b.v)}; }
static PEN_INLINE V operator-(V a) { return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f))}; }
static PEN_INLINE V fma(V a, V b, V c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
static PEN_INLINE V min(V a, V b) { return {_mm512_maskz_min_ps(kAll, a.v, b.v)}; }
static PEN_INLINE V max(V a, V b) { return {_mm512_maskz_max_ps(kAll, a.v, b.v)}; }
static PEN_INLINE V abs(V a) { return {_mm512_andnot_ps(_mm512_set1_ps(-0.0f), a.v)}; }
static PEN_INLINE V sqrt(V a) { return {_mm512_maskz_sqrt_ps(kAll, a.v)}; }
static PEN_INLINE V floor(V a) { return {_mm512_maskz_roundscale_ps(kAll, a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }
static PEN_INLINE V ceil(V a) { return {_mm512_maskz_roundscale_ps(kAll, a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }
static PEN_INLINE V trunc(V a) { return {_mm512_maskz_roundscale_ps(kAll, a.v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)}; }
static PEN_INLINE V round(V a) { return {_mm512_maskz_roundscale_ps(kAll, a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }

static PEN_INLINE M lt(V a, V b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
static PEN_INLINE M le(V a, V b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
static PEN_INLINE M gt(V a, V b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
static PEN_INLINE M ge(V a, V b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)}; }
static PEN_INLINE M eq(V a, V b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
static PEN_INLINE M ne(V a, V b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_NEQ_UQ)}; }
static PEN_INLINE M isnan(V a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
static PEN_INLINE V select(M m, V a, V b) { return {_mm512_mask_blend_ps(m.v, b.v, a.v)}; }
static PEN_INLINE M operator&(M a, M b) { return {static_cast<__mmask16>(a.v & b.v)}; }
static PEN_INLINE M operator|(M a, M b) { return {static_cast<__mmask16>(a.v | b.v)}; }
static PEN_INLINE M operator!(M a) { return {static_cast<__mmask16>(~a.v)}; }

// Halves folded onto each other until four lanes are left: the order is fixed, so results repeat exactly.
static PEN_INLINE __m256 low_half(V a) { return _mm512_maskz_extractf32x8_ps(0xff, a.v, 0); }
static PEN_INLINE __m256 high_half(V a) { return _mm512_maskz_extractf32x8_ps(0xff, a.v, 1); }
#define PEN_REDUCE(name, op)                                                          \
  static PEN_INLINE float name(V a) {                                                 \
    __m256 h = _mm256_##op##_ps(low_half(a), high_half(a));                           \
    __m128 q = _mm_##op##_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1)); \
    q = _mm_##op##_ps(q, _mm_movehl_ps(q, q));                                        \
    return _mm_cvtss_f32(_mm_##op##_ss(q, _mm_shuffle_ps(q, q, 1)));                  \
  }
PEN_REDUCE(reduce_add, add)
PEN_REDUCE(reduce_max, max)
PEN_REDUCE(reduce_min, min)
#undef PEN_REDUCE

static PEN_INLINE I to_int(V a) { return {_mm512_maskz_cvttps_epi32(kAll, a.v)}; }
static PEN_INLINE V to_float(I a) { return {_mm512_maskz_cvtepi32_ps(kAll, a.v)}; }
static PEN_INLINE I bits(V a) { return {_mm512_castps_si512(a.v)}; }
static PEN_INLINE V from_bits(I a) { return {_mm512_castsi512_ps(a.v)}; }
static PEN_INLINE I load_ints(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
static PEN_INLINE void store_ints(int32_t* p, I a) { _mm512_storeu_si512(p, a.v); }
static PEN_INLINE V gather(const float* p, I index) {
  return {_mm512_mask_i32gather_ps(_mm512_setzero_ps(), _mm512_cmpge_epi32_mask(index.v, _mm512_setzero_si512()), index.v, p, 4)};
}
static PEN_INLINE V permute(V a, I index) { return {_mm512_maskz_permutexvar_ps(kAll, index.v, a.v)}; }
static PEN_INLINE V permute(V a, V b, I index) { return {_mm512_permutex2var_ps(a.v, index.v, b.v)}; }
static PEN_INLINE I set1i(int32_t n) { return {_mm512_set1_epi32(n)}; }
static PEN_INLINE I operator+(I a, I b) { return {_mm512_add_epi32(a.v, b.v)}; }
static PEN_INLINE I operator-(I a, I b) { return {_mm512_sub_epi32(a.v, b.v)}; }
static PEN_INLINE I operator&(I a, I b) { return {_mm512_and_si512(a.v, b.v)}; }
static PEN_INLINE I operator|(I a, I b) { return {_mm512_or_si512(a.v, b.v)}; }
static PEN_INLINE I operator^(I a, I b) { return {_mm512_xor_si512(a.v, b.v)}; }
// Vector-extension shifts: the intrinsics want a literal, which a parameter is not without optimization.
static PEN_INLINE I operator<<(I a, int n) { return {(__m512i)((Lanes32)a.v << n)}; }
static PEN_INLINE I operator>>(I a, int n) { return {(__m512i)((Lanes32)a.v >> n)}; }
constexpr bool kHasF16 = true;
static PEN_INLINE V load_f16(const uint16_t* p) {
  return {_mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
static PEN_INLINE void store_f16(uint16_t* p, V a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_maskz_cvtps_ph(kAll, a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
