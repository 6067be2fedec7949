// WebAssembly's 128-bit vectors. Included by dots.h, which documents the functions. Even and odd bytes apart, widened to 16 bits: two exact
// multiply-adds of pairs. The relaxed product of bytes is not used: it takes seven bits of x, or saturates, as the machine likes.

constexpr bool kFlipped = false;

struct Quads {
  v128_t even, odd;
};
struct Four {
  v128_t even, odd;
};
static PEN_INLINE Quads load_quads(const int8_t* p) {
  v128_t w = wasm_v128_load(p);
  return {wasm_i16x8_shr(wasm_i16x8_shl(w, 8), 8), wasm_i16x8_shr(w, 8)};
}
static PEN_INLINE Four load_four(const uint8_t* p) {
  v128_t x = wasm_v128_load32_splat(p);
  return {wasm_v128_and(x, wasm_i16x8_const_splat(255)), wasm_u16x8_shr(x, 8)};
}
static PEN_INLINE I dot(I acc, Four x, Quads w) {
  return {wasm_i32x4_add(acc.v, wasm_i32x4_add(wasm_i32x4_dot_i16x8(x.even, w.even), wasm_i32x4_dot_i16x8(x.odd, w.odd)))};
}

struct Bytes {
  v128_t v;
};
struct Limits {
  v128_t zero, low, high;
};
static PEN_INLINE Limits make_limits(int zero, int low, int high) {
  return {wasm_i16x8_splat(static_cast<int16_t>(zero)), wasm_i8x16_splat(static_cast<int8_t>(low)),
          wasm_i8x16_splat(static_cast<int8_t>(high))};
}
static PEN_INLINE Bytes pack(I a, I b, I c, I d, const Limits& l) {
  v128_t ab = wasm_i16x8_add_sat(wasm_i16x8_narrow_i32x4(a.v, b.v), l.zero),
         cd = wasm_i16x8_add_sat(wasm_i16x8_narrow_i32x4(c.v, d.v), l.zero);
  return {wasm_u8x16_max(wasm_u8x16_min(wasm_u8x16_narrow_i16x8(ab, cd), l.high), l.low)};
}
static PEN_INLINE void store_all(uint8_t* p, const Bytes& b) { wasm_v128_store(p, b.v); }
static PEN_INLINE void store_half(uint8_t* p, const Bytes& b, int i) {
  i == 0 ? wasm_v128_store64_lane(p, b.v, 0) : wasm_v128_store64_lane(p, b.v, 1);
}
static PEN_INLINE void store_quarter(uint8_t* p, const Bytes& b, int i) {
  i == 0   ? wasm_v128_store32_lane(p, b.v, 0)
  : i == 1 ? wasm_v128_store32_lane(p, b.v, 1)
  : i == 2 ? wasm_v128_store32_lane(p, b.v, 2)
           : wasm_v128_store32_lane(p, b.v, 3);
}
