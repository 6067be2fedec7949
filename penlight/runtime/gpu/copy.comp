#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
// Values laid another way. dims: merged, innermost first.
layout(constant_id = 0) const uint RANK = 8;
layout(constant_id = 1) const uint FOURS = 0;  // both lie alike, at multiples of four
layout(local_size_x = 128) in;
layout(push_constant) uniform Push { uint n, words; uint dims[8]; uint x_strides[8]; uint y_strides[8]; uint x_at, y_at; };
READ(0, x);
WRITE(1, y);

void main() {
  uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
  if (FOURS != 0) {
    for (uint i = gl_GlobalInvocationID.x; i < n / 4; i += step) y_4[(y_at >> 2) + i] = x_4[(x_at >> 2) + i];
    return;
  }
  for (uint i = gl_GlobalInvocationID.x; i < n; i += step) {
    uint rest = i, from = x_at, to = y_at;
    for (uint d = 0; d < RANK; ++d) {
      uint k = rest % dims[d];
      rest /= dims[d];
      from += k * x_strides[d];
      to += k * y_strides[d];
    }
    y[to] = x[from];
  }
}
