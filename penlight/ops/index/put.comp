#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "math.glsl"
#include "whole.glsl"
#include "faults.glsl"
// x into y, at places that places.comp found, or combined with what is there. A thread goes through all indices of its line one by one, so
// that those which meet come in their order. dims: of the lines, merged, innermost first.
layout(constant_id = 0) const uint KIND = 0;
layout(constant_id = 1) const uint RANK = 6;
layout(constant_id = 2) const uint HOW = 0;  // put, add, mul, max, min
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n, count, x_step, place_step;  // lines; indices of each, and what lies between them
  uint dims[6];
  uint x_strides[6];
  uint place_strides[6];
  uint y_strides[6];
  uint x_at, places_at, y_at;
};
READ_ANY(0, x);
READ_WORDS(1, places);
WRITE_ANY(2, y);

float combined(float a, float b) {
  if (HOW == 1) return a + b;
  if (HOW == 2) return a * b;
  return HOW == 3 ? p_maximum(a, b) : p_minimum(a, b);
}
uvec2 combined(uvec2 a, uvec2 b) {
  if (HOW == 1) return p_add(a, b);
  if (HOW == 2) return p_mul(a, b);
  return HOW == 3 ? p_maximum(a, b) : p_minimum(a, b);
}
uvec2 extended(uint low) { return uvec2(low, int(low) < 0 ? ~0u : 0u); }

void main() {
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uint rest = i, from = x_at, at = places_at, line = y_at;
    for (uint d = 0; d < RANK; ++d) {
      uint k = rest % dims[d];
      rest /= dims[d];
      from += k * x_strides[d];
      at += k * place_strides[d];
      line += k * y_strides[d];
    }
    for (uint j = 0; j < count; ++j, from += x_step, at += place_step) {
      if (places[at] == NOWHERE) continue;
      uint to = line + places[at];
      if (HOW == 0) {
        MOVE(y, to, x, from)
      } else if (KIND == 0) {
        y[to] = T(combined(float(y[to]), float(x[from])));
      } else {
        uvec2 a = KIND == 2 ? uvec2(y_words[to * 2], y_words[to * 2 + 1]) : extended(y_words[to]);
        uvec2 b = KIND == 2 ? uvec2(x_words[from * 2], x_words[from * 2 + 1]) : extended(x_words[from]);
        uvec2 bits = combined(a, b);
        PUT(y, to, bits)
      }
    }
  }
}
