// The loop of the shader for whole numbers and casts. How elements are stored: 0: T; 1: i32; 2: i64; 3: bool; 4: u8; 5: i8.
layout(local_size_x = 128) in;

#include "merged.glsl"

uvec2 extended(uint low) { return uvec2(low, int(low) < 0 ? ~0u : 0u); }
uvec2 of_byte(uint stored, uint byte) { return stored == 3 ? uvec2(byte != 0, 0) : stored == 5 ? extended(uint(int(byte << 24) >> 24)) : uvec2(byte, 0); }
#define LOAD(x, stored, i)                                       \
  (stored == 2   ? uvec2(x##_words[(i)*2], x##_words[(i)*2 + 1]) \
   : stored == 1 ? extended(x##_words[i])                        \
                 : of_byte(stored, BYTE(x##_words, i)))

// A float that becomes whole is cut towards zero; i32 and what is smaller come through i32.
uvec2 whole_of(float f) {
  if (OUT == 3) return uvec2(f != 0.0, 0);
  uvec2 v = to_whole(f);
  return OUT == 2 || v == extended(v.x) ? v : uvec2(0x80000000u, ~0u);
}

void main() {
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uint at0 = x0_at + place(i, x0_strides), at1 = x1_at + place(i, x1_strides), at2 = x2_at + place(i, x2_strides);
    uint to = y_at + place(i, y_strides);
    uvec2 v;
    if (FIRST == 0) {
      v = whole_of(float(x0[at0]));
    } else {
      uvec2 a = LOAD(x0, FIRST, at0), b = INPUTS > 1 ? LOAD(x1, OTHERS, at1) : uvec2(0), c = INPUTS > 2 ? LOAD(x2, OTHERS, at2) : uvec2(0);
      if (DIVIDES) quotient = divided(a, b);
      v = rule(a, b, c);
    }
    if (OUT == 0) {
      y[to] = T(to_float(v));
    } else if (OUT >= 3) {
      PUT_BYTE(y_words, to, OUT == 3 ? uint(v != uvec2(0)) : v.x & 255u)
    } else {
      for (uint word = 0; word < OUT; ++word) y_words[to * OUT + word] = v[word];
    }
  }
}
