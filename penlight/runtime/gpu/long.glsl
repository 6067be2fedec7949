// Whole numbers of 64 bits as two words, low first, in two's complement: what wraps, wraps as on the CPU.
uvec2 l_add(uvec2 a, uvec2 b) {
  uint carry, low = uaddCarry(a.x, b.x, carry);
  return uvec2(low, a.y + b.y + carry);
}
uvec2 l_neg(uvec2 a) { return l_add(~a, uvec2(1, 0)); }
uvec2 l_sub(uvec2 a, uvec2 b) { return l_add(a, l_neg(b)); }
uvec2 l_mul(uvec2 a, uvec2 b) {
  uint high, low;
  umulExtended(a.x, b.x, high, low);
  return uvec2(low, high + a.x * b.y + a.y * b.x);
}
bool l_lt(uvec2 a, uvec2 b) { return a.y != b.y ? int(a.y) < int(b.y) : a.x < b.x; }
bool l_eq(uvec2 a, uvec2 b) { return a == b; }
uvec2 l_int(int a) { return uvec2(uint(a), a < 0 ? ~0u : 0u); }

// The nearest f32, the even one of two: made of the 24 highest bits, as a sum of two roundings may be another.
float l_float(uvec2 a) {
  bool negative = int(a.y) < 0;
  uvec2 m = negative ? l_neg(a) : a;
  int top = m.y != 0 ? 32 + findMSB(m.y) : m.x != 0 ? findMSB(m.x) : 0, cut = top - 23;
  float f;
  if (cut <= 0) {
    f = float(m.x);
  } else {
    uint kept = cut < 32 ? (m.x >> cut) | (m.y << 1 << (31 - cut)) : m.y >> (cut - 32);
    uint half_bit = cut <= 32 ? m.x >> (cut - 1) & 1u : m.y >> (cut - 33) & 1u;
    uint below = cut <= 32 ? m.x & ((1u << (cut - 1)) - 1u) : m.x | (m.y & ((1u << (cut - 33)) - 1u));
    kept += half_bit & uint(below != 0 || (kept & 1u) != 0);
    f = float(kept) * uintBitsToFloat(uint(127 + cut) << 23);
  }
  return negative ? -f : f;
}
// Towards zero; what does not fit, and NaN, is the smallest number, as conversions of x86 have it.
uvec2 l_trunc(float f) {
  float m = trunc(abs(f));
  if (!(m < 9223372036854775808.0)) return uvec2(0, 0x80000000u);
  uint bits = floatBitsToUint(m), mantissa = (bits & 0x7fffffu) | 0x800000u;
  int shift = int(bits >> 23) - 150;
  if (m < 1.0) return uvec2(0);
  uvec2 a = shift <= 0 ? uvec2(mantissa >> -shift, 0) : shift < 32 ? uvec2(mantissa << shift, mantissa >> 1 >> (31 - shift)) : uvec2(0, mantissa << (shift - 32));
  return f < 0.0 ? l_neg(a) : a;
}
