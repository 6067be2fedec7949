// AVX2 with FMA: 8 lanes, 16 registers. Included by simd.h, which documents the functions.

constexpr int kLanes = 8;
struct V {
  __m256 v;
};
struct I {
  __m256i v;
};
struct M {
  __m256 v;  // all bits of a lane, or none
};
typedef int32_t Lanes32 __attribute__((vector_size(32)));

static PEN_INLINE __m256i first_lanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static PEN_INLINE V load(const float* p) { return {_mm256_loadu_ps(p)}; }
static PEN_INLINE void store(float* p, V a) { _mm256_storeu_ps(p, a.v); }
static PEN_INLINE V load_partial(const float* p, int64_t n) { return {_mm256_maskload_ps(p, first_lanes(n))}; }
static PEN_INLINE void store_partial(float* p, V a, int64_t n) { _mm256_maskstore_ps(p, first_lanes(n), a.v); }
static PEN_INLINE V set1(float f) { return {_mm256_set1_ps(f)}; }
static PEN_INLINE V zero() { return {_mm256_setzero_ps()}; }

static PEN_INLINE V operator+(V a, V b) { return {_mm256_add_ps(a.v, b.v)}; }
static PEN_INLINE V operator-(V a, V b) { return {_mm256_sub_ps(a.v, b.v)}; }
static PEN_INLINE V operator*(V a, V b) { return {_mm256_mul_ps(a.v, b.v)}; }
static PEN_INLINE V operator/(V a, V b) { return {_mm256_div_ps(a.v, b.v)}; }
static PEN_INLINE V operator-(V a) { return {_mm256_xor_ps(a.v, _mm256_set1_ps(-0.0f))}; }
static PEN_INLINE V fma(V a, V b, V c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
static PEN_INLINE V min(V a, V b) { return {_mm256_min_ps(a.v, b.v)}; }
static PEN_INLINE V max(V a, V b) { return {_mm256_max_ps(a.v, b.v)}; }
static PEN_INLINE V abs(V a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
static PEN_INLINE V sqrt(V a) { return {_mm256_sqrt_ps(a.v)}; }
static PEN_INLINE V floor(V a) { return {_mm256_floor_ps(a.v)}; }
static PEN_INLINE V ceil(V a) { return {_mm256_ceil_ps(a.v)}; }
static PEN_INLINE V trunc(V a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)}; }
static PEN_INLINE V round(V a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }

static PEN_INLINE M lt(V a, V b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
static PEN_INLINE M le(V a, V b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ)}; }
static PEN_INLINE M gt(V a, V b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ)}; }
static PEN_INLINE M ge(V a, V b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GE_OQ)}; }
static PEN_INLINE M eq(V a, V b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
static PEN_INLINE M ne(V a, V b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_NEQ_UQ)}; }
static PEN_INLINE M isnan(V a) { return {_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q)}; }
static PEN_INLINE V select(M m, V a, V b) { return {_mm256_blendv_ps(b.v, a.v, m.v)}; }
static PEN_INLINE M operator&(M a, M b) { return {_mm256_and_ps(a.v, b.v)}; }
static PEN_INLINE M operator|(M a, M b) { return {_mm256_or_ps(a.v, b.v)}; }
static PEN_INLINE M operator!(M a) { return {_mm256_xor_ps(a.v, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))}; }

// Halves folded onto each other until one lane is left: the order is fixed, so results repeat exactly.
#define PEN_REDUCE(name, op)                                                              \
  static PEN_INLINE float name(V a) {                                                     \
    __m128 q = _mm_##op##_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1)); \
    q = _mm_##op##_ps(q, _mm_movehl_ps(q, q));                                            \
    return _mm_cvtss_f32(_mm_##op##_ss(q, _mm_shuffle_ps(q, q, 1)));                      \
  }
PEN_REDUCE(reduce_add, add)
PEN_REDUCE(reduce_max, max)
PEN_REDUCE(reduce_min, min)
#undef PEN_REDUCE

static PEN_INLINE I to_int(V a) { return {_mm256_cvttps_epi32(a.v)}; }
static PEN_INLINE V to_float(I a) { return {_mm256_cvtepi32_ps(a.v)}; }
static PEN_INLINE I bits(V a) { return {_mm256_castps_si256(a.v)}; }
static PEN_INLINE V from_bits(I a) { return {_mm256_castsi256_ps(a.v)}; }
static PEN_INLINE I load_ints(const int32_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
static PEN_INLINE void store_ints(int32_t* p, I a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v); }
constexpr bool kHasPermute = true;
static PEN_INLINE V gather(const float* p, I index) {
  __m256i inside = _mm256_xor_si256(index.v, _mm256_set1_epi32(-1));  // the sign says which lanes to load
  return {_mm256_mask_i32gather_ps(_mm256_setzero_ps(), p, index.v, _mm256_castsi256_ps(inside), 4)};
}
static PEN_INLINE V permute(V a, I index) { return {_mm256_permutevar8x32_ps(a.v, index.v)}; }
static PEN_INLINE V permute(V a, V b, I index) {
  __m256 second = _mm256_castsi256_ps(_mm256_slli_epi32(index.v, 28));  // blendv looks at the sign: 8 and above
  return {_mm256_blendv_ps(_mm256_permutevar8x32_ps(a.v, index.v), _mm256_permutevar8x32_ps(b.v, index.v), second)};
}
static PEN_INLINE I set1i(int32_t n) { return {_mm256_set1_epi32(n)}; }
static PEN_INLINE I operator+(I a, I b) { return {_mm256_add_epi32(a.v, b.v)}; }
static PEN_INLINE I operator-(I a, I b) { return {_mm256_sub_epi32(a.v, b.v)}; }
static PEN_INLINE I operator&(I a, I b) { return {_mm256_and_si256(a.v, b.v)}; }
static PEN_INLINE I operator|(I a, I b) { return {_mm256_or_si256(a.v, b.v)}; }
static PEN_INLINE I operator^(I a, I b) { return {_mm256_xor_si256(a.v, b.v)}; }
// Vector-extension shifts: the intrinsics want a literal, which a parameter is not without optimization.
static PEN_INLINE I operator<<(I a, int n) { return {(__m256i)((Lanes32)a.v << n)}; }
static PEN_INLINE I operator>>(I a, int n) { return {(__m256i)((Lanes32)a.v >> n)}; }
constexpr bool kHasF16 = true;  // F16C: isa.cc asks for it together with AVX2
static PEN_INLINE V load_f16(const uint16_t* p) { return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))}; }
static PEN_INLINE void store_f16(uint16_t* p, V a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
