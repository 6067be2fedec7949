// The primitives of elementwise rules on whole numbers, and conversions: 64 bits as two words, low first, in two's complement. What wraps,
// wraps as on the CPU; i32 is computed so too, and its low word is the result.
uvec2 p_add(uvec2 a, uvec2 b) {
  uint carry, low = uaddCarry(a.x, b.x, carry);
  return uvec2(low, a.y + b.y + carry);
}
uvec2 p_neg(uvec2 a) { return p_add(~a, uvec2(1, 0)); }
uvec2 p_sub(uvec2 a, uvec2 b) { return p_add(a, p_neg(b)); }
uvec2 p_mul(uvec2 a, uvec2 b) {
  uint high, low;
  umulExtended(a.x, b.x, high, low);
  return uvec2(low, high + a.x * b.y + a.y * b.x);
}
bool p_lt(uvec2 a, uvec2 b) { return a.y != b.y ? int(a.y) < int(b.y) : a.x < b.x; }
bool p_eq(uvec2 a, uvec2 b) { return a == b; }
bool p_le(uvec2 a, uvec2 b) { return !p_lt(b, a); }
bool p_gt(uvec2 a, uvec2 b) { return p_lt(b, a); }
bool p_ge(uvec2 a, uvec2 b) { return !p_lt(a, b); }
bool p_ne(uvec2 a, uvec2 b) { return a != b; }
bool p_signbit(uvec2 a) { return int(a.y) < 0; }
bool p_isnan(uvec2 a) { return false; }
uvec2 p_abs(uvec2 a) { return p_signbit(a) ? p_neg(a) : a; }
uvec2 p_select(bool m, uvec2 a, uvec2 b) { return m ? a : b; }
uvec2 p_maximum(uvec2 a, uvec2 b) { return p_lt(a, b) ? b : a; }
uvec2 p_minimum(uvec2 a, uvec2 b) { return p_lt(b, a) ? b : a; }
uvec2 p_bit_and(uvec2 a, uvec2 b) { return a & b; }
uvec2 p_bit_or(uvec2 a, uvec2 b) { return a | b; }
uvec2 p_bit_xor(uvec2 a, uvec2 b) { return a ^ b; }
uvec2 p_bit_not(uvec2 a) { return ~a; }
uvec2 p_shift_left(uvec2 a, uvec2 b) {
  if (b.y != 0 || b.x >= 64) return uvec2(0);
  uint n = b.x;
  return n >= 32 ? uvec2(0, a.x << (n - 32)) : uvec2(a.x << n, (a.y << n) | (a.x >> 1 >> (31 - n)));
}
uvec2 p_shift_right(uvec2 a, uvec2 b) {
  uint n = b.y != 0 || b.x >= 64 ? 63 : b.x, high = uint(int(a.y) >> min(n, 31u));
  return n >= 32 ? uvec2(uint(int(a.y) >> (n - 32)), uint(int(a.y) >> 31)) : uvec2((a.x >> n) | (a.y << 1 << (31 - n)), high);
}
// Bit by bit; by 0: 0.
uvec2 divided(uvec2 a, uvec2 b) {
  if (b == uvec2(0)) return b;
  uvec2 x = p_abs(a), y = p_abs(b), q = uvec2(0), r = uvec2(0);
  if (x.y == 0 && y.y == 0) {
    q.x = x.x / y.x;
  } else {
    for (int i = 0; i < 64; ++i) {
      bool carried = p_signbit(r);
      r = uvec2((r.x << 1) | (x.y >> 31), (r.y << 1) | (r.x >> 31));
      x = uvec2(x.x << 1, (x.y << 1) | (x.x >> 31));
      q = uvec2(q.x << 1, (q.y << 1) | (q.x >> 31));
      if (carried || r.y > y.y || (r.y == y.y && r.x >= y.x)) {
        r = p_sub(r, y);
        q.x |= 1u;
      }
    }
  }
  return p_signbit(a) != p_signbit(b) ? p_neg(q) : q;
}
// Rules divide their two inputs and nothing else: that is done once before them, as compilers would copy it into each.
uvec2 quotient;
uvec2 p_trunc_divide(uvec2 a, uvec2 b) { return quotient; }
uvec2 p_fmod(uvec2 a, uvec2 b) { return p_sub(a, p_mul(p_trunc_divide(a, b), b)); }
bool other_side(uvec2 r, uvec2 b) { return r != uvec2(0) && p_signbit(r) != p_signbit(b); }
uvec2 p_remainder(uvec2 a, uvec2 b) {
  uvec2 r = p_fmod(a, b);
  return other_side(r, b) ? p_add(r, b) : r;
}
uvec2 p_floor_divide(uvec2 a, uvec2 b) {
  uvec2 q = p_trunc_divide(a, b), r = p_sub(a, p_mul(q, b));
  return other_side(r, b) ? p_sub(q, uvec2(1, 0)) : q;
}

// The nearest f32, the even one of two: made of the 24 highest bits, as a sum of two roundings may be another.
float to_float(uvec2 a) {
  bool negative = int(a.y) < 0;
  uvec2 m = negative ? p_neg(a) : a;
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
uvec2 to_whole(float f) {
  float m = trunc(abs(f));
  if (!(m < 9223372036854775808.0)) return uvec2(0, 0x80000000u);
  uint bits = floatBitsToUint(m), mantissa = (bits & 0x7fffffu) | 0x800000u;
  int shift = int(bits >> 23) - 150;
  if (m < 1.0) return uvec2(0);
  uvec2 a = shift <= 0 ? uvec2(mantissa >> -shift, 0) : shift < 32 ? uvec2(mantissa << shift, mantissa >> 1 >> (31 - shift)) : uvec2(0, mantissa << (shift - 32));
  return f < 0.0 ? p_neg(a) : a;
}
