// WebAssembly's 128-bit vectors: 4 lanes, no fused multiply-add (relaxed ones round as the machine likes, so that one file would
// give other bits on each). Included by simd.h, which documents the functions.

constexpr int kLanes = 4;
struct V {
  v128_t v;
};
struct I {
  v128_t v;
};
struct M {
  v128_t v;  // all bits of a lane, or none
};

static PEN_INLINE V load(const float* p) { return {wasm_v128_load(p)}; }
static PEN_INLINE void store(float* p, V a) { wasm_v128_store(p, a.v); }
// There are no masked moves: tails go lane by lane.
static PEN_INLINE V load_partial(const float* p, int64_t n) {
  if (n >= 4) return load(p);
  v128_t r = n > 0 ? wasm_v128_load32_zero(p) : wasm_f32x4_const_splat(0);
  if (n > 1) r = wasm_v128_load32_lane(p + 1, r, 1);
  if (n > 2) r = wasm_v128_load32_lane(p + 2, r, 2);
  return {r};
}
static PEN_INLINE void store_partial(float* p, V a, int64_t n) {
  if (n >= 4) return store(p, a);
  if (n > 0) wasm_v128_store32_lane(p, a.v, 0);
  if (n > 1) wasm_v128_store32_lane(p + 1, a.v, 1);
  if (n > 2) wasm_v128_store32_lane(p + 2, a.v, 2);
}
static PEN_INLINE V set1(float f) { return {wasm_f32x4_splat(f)}; }
static PEN_INLINE V zero() { return {wasm_f32x4_const_splat(0)}; }

static PEN_INLINE V operator+(V a, V b) { return {wasm_f32x4_add(a.v, b.v)}; }
static PEN_INLINE V operator-(V a, V b) { return {wasm_f32x4_sub(a.v, b.v)}; }
static PEN_INLINE V operator*(V a, V b) { return {wasm_f32x4_mul(a.v, b.v)}; }
static PEN_INLINE V operator/(V a, V b) { return {wasm_f32x4_div(a.v, b.v)}; }
static PEN_INLINE V operator-(V a) { return {wasm_f32x4_neg(a.v)}; }
static PEN_INLINE V fma(V a, V b, V c) { return {wasm_f32x4_add(wasm_f32x4_mul(a.v, b.v), c.v)}; }
// pmin(a, b) is b < a ? b : a, so what comes second here goes first there.
static PEN_INLINE V min(V a, V b) { return {wasm_f32x4_pmin(b.v, a.v)}; }
static PEN_INLINE V max(V a, V b) { return {wasm_f32x4_pmax(b.v, a.v)}; }
static PEN_INLINE V abs(V a) { return {wasm_f32x4_abs(a.v)}; }
static PEN_INLINE V sqrt(V a) { return {wasm_f32x4_sqrt(a.v)}; }
static PEN_INLINE V floor(V a) { return {wasm_f32x4_floor(a.v)}; }
static PEN_INLINE V ceil(V a) { return {wasm_f32x4_ceil(a.v)}; }
static PEN_INLINE V trunc(V a) { return {wasm_f32x4_trunc(a.v)}; }
static PEN_INLINE V round(V a) { return {wasm_f32x4_nearest(a.v)}; }

static PEN_INLINE M lt(V a, V b) { return {wasm_f32x4_lt(a.v, b.v)}; }
static PEN_INLINE M le(V a, V b) { return {wasm_f32x4_le(a.v, b.v)}; }
static PEN_INLINE M gt(V a, V b) { return {wasm_f32x4_gt(a.v, b.v)}; }
static PEN_INLINE M ge(V a, V b) { return {wasm_f32x4_ge(a.v, b.v)}; }
static PEN_INLINE M eq(V a, V b) { return {wasm_f32x4_eq(a.v, b.v)}; }
static PEN_INLINE M ne(V a, V b) { return {wasm_f32x4_ne(a.v, b.v)}; }
static PEN_INLINE M isnan(V a) { return {wasm_f32x4_ne(a.v, a.v)}; }
static PEN_INLINE V select(M m, V a, V b) { return {wasm_v128_bitselect(a.v, b.v, m.v)}; }
static PEN_INLINE M operator&(M a, M b) { return {wasm_v128_and(a.v, b.v)}; }
static PEN_INLINE M operator|(M a, M b) { return {wasm_v128_or(a.v, b.v)}; }
static PEN_INLINE M operator!(M a) { return {wasm_v128_not(a.v)}; }

#define PEN_REDUCE(name, combine)                         \
  static PEN_INLINE float name(V a) {                     \
    V b = {wasm_i32x4_shuffle(a.v, a.v, 2, 3, 0, 1)};     \
    V q = combine(a, b);                                  \
    V r = {wasm_i32x4_shuffle(q.v, q.v, 1, 0, 3, 2)};     \
    return wasm_f32x4_extract_lane((combine(q, r)).v, 0); \
  }
PEN_REDUCE(reduce_add, operator+)
PEN_REDUCE(reduce_max, max)
PEN_REDUCE(reduce_min, min)
#undef PEN_REDUCE

static PEN_INLINE I to_int(V a) { return {wasm_i32x4_trunc_sat_f32x4(a.v)}; }
static PEN_INLINE V to_float(I a) { return {wasm_f32x4_convert_i32x4(a.v)}; }
static PEN_INLINE I bits(V a) { return {a.v}; }
static PEN_INLINE V from_bits(I a) { return {a.v}; }
static PEN_INLINE I set1i(int32_t n) { return {wasm_i32x4_splat(n)}; }
static PEN_INLINE I operator+(I a, I b) { return {wasm_i32x4_add(a.v, b.v)}; }
static PEN_INLINE I operator-(I a, I b) { return {wasm_i32x4_sub(a.v, b.v)}; }
static PEN_INLINE I operator&(I a, I b) { return {wasm_v128_and(a.v, b.v)}; }
static PEN_INLINE I operator|(I a, I b) { return {wasm_v128_or(a.v, b.v)}; }
static PEN_INLINE I operator^(I a, I b) { return {wasm_v128_xor(a.v, b.v)}; }
static PEN_INLINE I operator<<(I a, int n) { return {wasm_i32x4_shl(a.v, static_cast<uint32_t>(n))}; }
static PEN_INLINE I operator>>(I a, int n) { return {wasm_i32x4_shr(a.v, static_cast<uint32_t>(n))}; }
