// SSE4.1: 4 lanes, 16 registers, no fused multiply-add. Included by simd.h, which documents the functions.

constexpr int kLanes = 4;
struct V {
  __m128 v;
};
struct I {
  __m128i v;
};
struct M {
  __m128 v;  // all bits of a lane, or none
};
typedef int32_t Lanes32 __attribute__((vector_size(16)));

static PEN_INLINE V load(const float* p) { return {_mm_loadu_ps(p)}; }
static PEN_INLINE void store(float* p, V a) { _mm_storeu_ps(p, a.v); }
// There are no masked moves: tails go lane by lane.
static PEN_INLINE V load_partial(const float* p, int64_t n) {
  switch (n) {
    case 0:
      return {_mm_setzero_ps()};
    case 1:
      return {_mm_load_ss(p)};
    case 2:
      return {_mm_setr_ps(p[0], p[1], 0, 0)};
    case 3:
      return {_mm_setr_ps(p[0], p[1], p[2], 0)};
    default:
      return load(p);
  }
}
static PEN_INLINE void store_partial(float* p, V a, int64_t n) {
  if (n >= 4) return store(p, a);
  if (n > 0) _mm_store_ss(p, a.v);
  if (n > 1) _mm_store_ss(p + 1, _mm_shuffle_ps(a.v, a.v, 1));
  if (n > 2) _mm_store_ss(p + 2, _mm_movehl_ps(a.v, a.v));
}
static PEN_INLINE V set1(float f) { return {_mm_set1_ps(f)}; }
static PEN_INLINE V zero() { return {_mm_setzero_ps()}; }

static PEN_INLINE V operator+(V a, V b) { return {_mm_add_ps(a.v, b.v)}; }
static PEN_INLINE V operator-(V a, V b) { return {_mm_sub_ps(a.v, b.v)}; }
static PEN_INLINE V operator*(V a, V b) { return {_mm_mul_ps(a.v, b.v)}; }
static PEN_INLINE V operator/(V a, V b) { return {_mm_div_ps(a.v, b.v)}; }
static PEN_INLINE V operator-(V a) { return {_mm_xor_ps(a.v, _mm_set1_ps(-0.0f))}; }
static PEN_INLINE V fma(V a, V b, V c) { return {_mm_add_ps(_mm_mul_ps(a.v, b.v), c.v)}; }
static PEN_INLINE V min(V a, V b) { return {_mm_min_ps(a.v, b.v)}; }
static PEN_INLINE V max(V a, V b) { return {_mm_max_ps(a.v, b.v)}; }
static PEN_INLINE V abs(V a) { return {_mm_andnot_ps(_mm_set1_ps(-0.0f), a.v)}; }
static PEN_INLINE V sqrt(V a) { return {_mm_sqrt_ps(a.v)}; }
static PEN_INLINE V floor(V a) { return {_mm_floor_ps(a.v)}; }
static PEN_INLINE V ceil(V a) { return {_mm_ceil_ps(a.v)}; }
static PEN_INLINE V trunc(V a) { return {_mm_round_ps(a.v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)}; }
static PEN_INLINE V round(V a) { return {_mm_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }

static PEN_INLINE M lt(V a, V b) { return {_mm_cmplt_ps(a.v, b.v)}; }
static PEN_INLINE M le(V a, V b) { return {_mm_cmple_ps(a.v, b.v)}; }
static PEN_INLINE M gt(V a, V b) { return {_mm_cmplt_ps(b.v, a.v)}; }
static PEN_INLINE M ge(V a, V b) { return {_mm_cmple_ps(b.v, a.v)}; }
static PEN_INLINE M eq(V a, V b) { return {_mm_cmpeq_ps(a.v, b.v)}; }
static PEN_INLINE M ne(V a, V b) { return {_mm_cmpneq_ps(a.v, b.v)}; }
static PEN_INLINE M isnan(V a) { return {_mm_cmpunord_ps(a.v, a.v)}; }
static PEN_INLINE V select(M m, V a, V b) { return {_mm_blendv_ps(b.v, a.v, m.v)}; }
static PEN_INLINE M operator&(M a, M b) { return {_mm_and_ps(a.v, b.v)}; }
static PEN_INLINE M operator|(M a, M b) { return {_mm_or_ps(a.v, b.v)}; }
static PEN_INLINE M operator!(M a) { return {_mm_xor_ps(a.v, _mm_castsi128_ps(_mm_set1_epi32(-1)))}; }

#define PEN_REDUCE(name, op)                                         \
  static PEN_INLINE float name(V a) {                                \
    __m128 q = _mm_##op##_ps(a.v, _mm_movehl_ps(a.v, a.v));          \
    return _mm_cvtss_f32(_mm_##op##_ss(q, _mm_shuffle_ps(q, q, 1))); \
  }
PEN_REDUCE(reduce_add, add)
PEN_REDUCE(reduce_max, max)
PEN_REDUCE(reduce_min, min)
#undef PEN_REDUCE

static PEN_INLINE I to_int(V a) { return {_mm_cvttps_epi32(a.v)}; }
static PEN_INLINE V to_float(I a) { return {_mm_cvtepi32_ps(a.v)}; }
static PEN_INLINE I bits(V a) { return {_mm_castps_si128(a.v)}; }
static PEN_INLINE V from_bits(I a) { return {_mm_castsi128_ps(a.v)}; }
static PEN_INLINE I set1i(int32_t n) { return {_mm_set1_epi32(n)}; }
static PEN_INLINE I operator+(I a, I b) { return {_mm_add_epi32(a.v, b.v)}; }
static PEN_INLINE I operator-(I a, I b) { return {_mm_sub_epi32(a.v, b.v)}; }
static PEN_INLINE I operator&(I a, I b) { return {_mm_and_si128(a.v, b.v)}; }
static PEN_INLINE I operator|(I a, I b) { return {_mm_or_si128(a.v, b.v)}; }
static PEN_INLINE I operator^(I a, I b) { return {_mm_xor_si128(a.v, b.v)}; }
// Vector-extension shifts: the intrinsics want a literal, which a parameter is not without optimization.
static PEN_INLINE I operator<<(I a, int n) { return {(__m128i)((Lanes32)a.v << n)}; }
static PEN_INLINE I operator>>(I a, int n) { return {(__m128i)((Lanes32)a.v >> n)}; }
