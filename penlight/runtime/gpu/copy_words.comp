#version 450
#extension GL_GOOGLE_include_directive : require
#define ANY_VALUES  // the same, however values are stored
#include "gpu.glsl"
// Words laid another way: elements of one or of two of them. dims: merged, innermost first.
layout(constant_id = 0) const uint RANK = 8;
layout(local_size_x = 128) in;
layout(push_constant) uniform Push { uint n, words; uint dims[8]; uint x_strides[8]; uint y_strides[8]; uint x_at, y_at; };
READ_WORDS(0, x);
WRITE_WORDS(1, y);

void main() {
  uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
  for (uint i = gl_GlobalInvocationID.x; i < n; i += step) {
    uint rest = i / words, from = x_at * words + i % words, to = y_at * words + i % words;
    for (uint d = 0; d < RANK; ++d) {
      uint k = rest % dims[d];
      rest /= dims[d];
      from += k * x_strides[d];
      to += k * y_strides[d];
    }
    y[to] = x[from];
  }
}
