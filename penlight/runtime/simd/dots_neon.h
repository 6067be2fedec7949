// NEON, arm64 and armv7. Included by dots.h, which documents the functions. Products of bytes are the tile's (cpu/tile_q8.h): they differ
// in shape between processors, so there is no dot of one vector here. Only the matrix instructions take bytes of x as they are.

#if defined(__ARM_FEATURE_MATMUL_INT8)
constexpr bool kFlipped = false;
#else
constexpr bool kFlipped = true;
#endif

struct Bytes {
  uint8x16_t v;
};
struct Limits {
  int16x8_t zero;
  uint8x16_t low, high;
};
static PEN_INLINE Limits make_limits(int zero, int low, int high) {
  return {vdupq_n_s16(static_cast<int16_t>(zero)), vdupq_n_u8(static_cast<uint8_t>(low)), vdupq_n_u8(static_cast<uint8_t>(high))};
}
static PEN_INLINE Bytes pack(I a, I b, I c, I d, const Limits& l) {
#if defined(__aarch64__)
  const int16x8_t ab = vqaddq_s16(vqmovn_high_s32(vqmovn_s32(a.v), b.v), l.zero),
                  cd = vqaddq_s16(vqmovn_high_s32(vqmovn_s32(c.v), d.v), l.zero);
  const uint8x16_t v = vqmovun_high_s16(vqmovun_s16(ab), cd);
#else
  const int16x8_t ab = vqaddq_s16(vcombine_s16(vqmovn_s32(a.v), vqmovn_s32(b.v)), l.zero);
  const int16x8_t cd = vqaddq_s16(vcombine_s16(vqmovn_s32(c.v), vqmovn_s32(d.v)), l.zero);
  const uint8x16_t v = vcombine_u8(vqmovun_s16(ab), vqmovun_s16(cd));
#endif
  return {vmaxq_u8(vminq_u8(v, l.high), l.low)};
}
static PEN_INLINE void store_all(uint8_t* p, const Bytes& b) { vst1q_u8(p, b.v); }
static PEN_INLINE void store_half(uint8_t* p, const Bytes& b, int i) { vst1_u8(p, i == 0 ? vget_low_u8(b.v) : vget_high_u8(b.v)); }
static PEN_INLINE void store_quarter(uint8_t* p, const Bytes& b, int i) {
  const uint32x4_t v = vreinterpretq_u32_u8(b.v);
  const uint32_t four = i == 0   ? vgetq_lane_u32(v, 0)
                        : i == 1 ? vgetq_lane_u32(v, 1)
                        : i == 2 ? vgetq_lane_u32(v, 2)
                                 : vgetq_lane_u32(v, 3);
  __builtin_memcpy(p, &four, 4);
}
