#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "math.glsl"
#include "whole.glsl"
// sum, prod, amax, amin of i64, which is two words, and of bool, which is a byte: rows.glsl says how the work is cut.
layout(constant_id = 0) const uint KIND = 0;  // 0 sum, 1 product, 2 maximum, 3 minimum
layout(constant_id = 1) const uint COLUMNS = 1;
layout(constant_id = 2) const uint BYTES_IN = 0;
layout(constant_id = 3) const uint BYTES_OUT = 0;

layout(push_constant) uniform Push {
  uint rows, count;
  uint across[4], across_in[4], across_out[4], along[4], along_in[4];
  uint x_at, y_at;
};
READ_WORDS(0, x);
WRITE_WORDS(1, y);
#include "rows.glsl"
shared uvec2 parts[128];

uvec2 join(uvec2 a, uvec2 b) {
  switch (KIND) {
    case 1: return p_mul(a, b);
    case 2: return p_maximum(a, b);
    case 3: return p_minimum(a, b);
  }
  return p_add(a, b);
}

void main() {
  uint thread = gl_LocalInvocationID.x;
  uvec2 start = KIND == 1 ? uvec2(1, 0) : KIND == 2 ? uvec2(0, 0x80000000u) : KIND == 3 ? uvec2(~0u, 0x7fffffffu) : uvec2(0);
  for (FIRST_ROW; first < rows; NEXT_ROWS) {
    uint row = first + column, from = x_at + place(row, across, across_in), n = row < rows ? count : 0;
    uvec2 v = start;
    for (uint i = sharer; i < n; i += SHARERS) {
      uint at = from + place(i, along, along_in);
      v = join(v, BYTES_IN != 0 ? uvec2(min(BYTE(x, at), 1u), 0) : uvec2(x[at * 2], x[at * 2 + 1]));
    }
    parts[thread] = v;
    barrier();
    for (uint half_ = SHARERS / 2; half_ > 0; half_ /= 2) {
      if (sharer < half_) parts[thread] = join(parts[thread], parts[thread + half_ * COLUMNS]);
      barrier();
    }
    if (sharer == 0 && row < rows) {
      uint to = y_at + place(row, across, across_out);
      v = parts[thread];
      if (BYTES_OUT != 0) {
        PUT_BYTE(y, to, v.x)
      } else {
        y[to * 2] = v.x;
        y[to * 2 + 1] = v.y;
      }
    }
    barrier();
  }
}
