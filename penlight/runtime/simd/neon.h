// NEON, arm64 and armv7 (vfpv4): 4 lanes, 32 or 16 registers. Included by simd.h, which documents the functions. armv7
// has no vector division, square root or rounding; there those go through the lanes.

constexpr int kLanes = 4;
struct V {
  float32x4_t v;
};
struct I {
  int32x4_t v;
};
struct M {
  uint32x4_t v;  // all bits of a lane, or none
};
typedef int32_t Lanes32 __attribute__((vector_size(16)));

static PEN_INLINE V load(const float* p) { return {vld1q_f32(p)}; }
static PEN_INLINE void store(float* p, V a) { vst1q_f32(p, a.v); }
static PEN_INLINE V load_partial(const float* p, int64_t n) {
  if (n >= 4) return load(p);
  float32x4_t r = vdupq_n_f32(0);
  if (n > 0) r = vld1q_lane_f32(p, r, 0);
  if (n > 1) r = vld1q_lane_f32(p + 1, r, 1);
  if (n > 2) r = vld1q_lane_f32(p + 2, r, 2);
  return {r};
}
static PEN_INLINE void store_partial(float* p, V a, int64_t n) {
  if (n >= 4) return store(p, a);
  if (n > 0) vst1q_lane_f32(p, a.v, 0);
  if (n > 1) vst1q_lane_f32(p + 1, a.v, 1);
  if (n > 2) vst1q_lane_f32(p + 2, a.v, 2);
}
static PEN_INLINE V set1(float f) { return {vdupq_n_f32(f)}; }
static PEN_INLINE V zero() { return {vdupq_n_f32(0)}; }

static PEN_INLINE V operator+(V a, V b) { return {vaddq_f32(a.v, b.v)}; }
static PEN_INLINE V operator-(V a, V b) { return {vsubq_f32(a.v, b.v)}; }
static PEN_INLINE V operator*(V a, V b) { return {vmulq_f32(a.v, b.v)}; }
static PEN_INLINE V operator-(V a) { return {vnegq_f32(a.v)}; }
#if defined(__ARM_FEATURE_FMA)
static PEN_INLINE V fma(V a, V b, V c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
#else
static PEN_INLINE V fma(V a, V b, V c) { return {vaddq_f32(vmulq_f32(a.v, b.v), c.v)}; }
#endif
static PEN_INLINE V min(V a, V b) { return {vbslq_f32(vcltq_f32(a.v, b.v), a.v, b.v)}; }
static PEN_INLINE V max(V a, V b) { return {vbslq_f32(vcgtq_f32(a.v, b.v), a.v, b.v)}; }
static PEN_INLINE V abs(V a) { return {vabsq_f32(a.v)}; }
// The instructions give NaN for any NaN, which is wrong for min and max and right here.
static PEN_INLINE V clamp(V x, V lo, V hi) { return {vminq_f32(vmaxq_f32(x.v, lo.v), hi.v)}; }

// fma(lane kLane of a, b, c). armv7 has no fused multiply-add by a lane, but one that rounds the product first.
#if defined(__aarch64__)
template <int kLane>
static PEN_INLINE V fma_lane(V a, V b, V c) {
  return {vfmaq_laneq_f32(c.v, b.v, a.v, kLane)};
}
#else
template <int kLane>
static PEN_INLINE V fma_lane(V a, V b, V c) {
  return {vmlaq_lane_f32(c.v, b.v, kLane < 2 ? vget_low_f32(a.v) : vget_high_f32(a.v), kLane % 2)};
}
#endif

#if defined(__aarch64__)
static PEN_INLINE V operator/(V a, V b) { return {vdivq_f32(a.v, b.v)}; }
static PEN_INLINE V sqrt(V a) { return {vsqrtq_f32(a.v)}; }
static PEN_INLINE V floor(V a) { return {vrndmq_f32(a.v)}; }
static PEN_INLINE V ceil(V a) { return {vrndpq_f32(a.v)}; }
static PEN_INLINE V trunc(V a) { return {vrndq_f32(a.v)}; }
static PEN_INLINE V round(V a) { return {vrndnq_f32(a.v)}; }
#else
#define PEN_BY_LANE(declaration, expression)              \
  static PEN_INLINE V declaration {                       \
    V r = a;                                              \
    for (int i = 0; i < kLanes; ++i) r.v[i] = expression; \
    return r;                                             \
  }
PEN_BY_LANE(operator/(V a, V b), a.v[i] / b.v[i])
PEN_BY_LANE(sqrt(V a), __builtin_sqrtf(a.v[i]))
PEN_BY_LANE(floor(V a), floorf(a.v[i]))
PEN_BY_LANE(ceil(V a), ceilf(a.v[i]))
PEN_BY_LANE(trunc(V a), truncf(a.v[i]))
PEN_BY_LANE(round(V a), nearbyintf(a.v[i]))
#undef PEN_BY_LANE
#endif

static PEN_INLINE M lt(V a, V b) { return {vcltq_f32(a.v, b.v)}; }
static PEN_INLINE M le(V a, V b) { return {vcleq_f32(a.v, b.v)}; }
static PEN_INLINE M gt(V a, V b) { return {vcgtq_f32(a.v, b.v)}; }
static PEN_INLINE M ge(V a, V b) { return {vcgeq_f32(a.v, b.v)}; }
static PEN_INLINE M eq(V a, V b) { return {vceqq_f32(a.v, b.v)}; }
static PEN_INLINE M ne(V a, V b) { return {vmvnq_u32(vceqq_f32(a.v, b.v))}; }
static PEN_INLINE M isnan(V a) { return {vmvnq_u32(vceqq_f32(a.v, a.v))}; }
static PEN_INLINE V select(M m, V a, V b) { return {vbslq_f32(m.v, a.v, b.v)}; }
static PEN_INLINE M operator&(M a, M b) { return {vandq_u32(a.v, b.v)}; }
static PEN_INLINE M operator|(M a, M b) { return {vorrq_u32(a.v, b.v)}; }
static PEN_INLINE M operator!(M a) { return {vmvnq_u32(a.v)}; }

static PEN_INLINE float reduce_add(V a) { return (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]); }
static PEN_INLINE float reduce_max(V a) {
  V q = max(a, {vextq_f32(a.v, a.v, 2)});
  return q.v[0] > q.v[1] ? q.v[0] : q.v[1];
}
static PEN_INLINE float reduce_min(V a) {
  V q = min(a, {vextq_f32(a.v, a.v, 2)});
  return q.v[0] < q.v[1] ? q.v[0] : q.v[1];
}

static PEN_INLINE I to_int(V a) { return {vcvtq_s32_f32(a.v)}; }
static PEN_INLINE V to_float(I a) { return {vcvtq_f32_s32(a.v)}; }
static PEN_INLINE I bits(V a) { return {vreinterpretq_s32_f32(a.v)}; }
static PEN_INLINE V from_bits(I a) { return {vreinterpretq_f32_s32(a.v)}; }
static PEN_INLINE I set1i(int32_t n) { return {vdupq_n_s32(n)}; }
static PEN_INLINE I operator+(I a, I b) { return {vaddq_s32(a.v, b.v)}; }
static PEN_INLINE I operator-(I a, I b) { return {vsubq_s32(a.v, b.v)}; }
static PEN_INLINE I operator&(I a, I b) { return {vandq_s32(a.v, b.v)}; }
static PEN_INLINE I operator|(I a, I b) { return {vorrq_s32(a.v, b.v)}; }
static PEN_INLINE I operator^(I a, I b) { return {veorq_s32(a.v, b.v)}; }
// Vector-extension shifts: the intrinsics want a literal, which a parameter is not without optimization.
static PEN_INLINE I operator<<(I a, int n) { return {(int32x4_t)((Lanes32)a.v << n)}; }
static PEN_INLINE I operator>>(I a, int n) { return {(int32x4_t)((Lanes32)a.v >> n)}; }
#if defined(__aarch64__)
constexpr bool kHasF16 = true;
static PEN_INLINE V load_f16(const uint16_t* p) { return {vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)))}; }
static PEN_INLINE void store_f16(uint16_t* p, V a) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a.v))); }
#endif
