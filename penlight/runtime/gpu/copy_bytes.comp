#version 450
#extension GL_GOOGLE_include_directive : require
#define ANY_VALUES  // the same, however values are stored
#include "gpu.glsl"
// Bytes laid one after the other, four to a thread, or STRIDED one by one. dims: merged, innermost first.
layout(constant_id = 0) const uint RANK = 8;
layout(constant_id = 1) const uint STRIDED = 0;
layout(local_size_x = 128) in;
layout(push_constant) uniform Push { uint n, words; uint dims[8]; uint x_strides[8]; uint y_strides[8]; uint x_at, y_at; };
READ_BYTES(0, x);
WRITE_WORDS(1, y);

void main() {
  uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
  if (STRIDED != 0) {
    for (uint i = gl_GlobalInvocationID.x; i < n; i += step) {
      uint rest = i, from = x_at, to = y_at;
      for (uint d = 0; d < RANK; ++d) {
        from += rest % dims[d] * x_strides[d];
        to += rest % dims[d] * y_strides[d];
        rest /= dims[d];
      }
      PUT_BYTE(y, to, BYTE(x, from))
    }
    return;
  }
  for (uint i = gl_GlobalInvocationID.x * 4; i < n; i += step * 4) {
    uint word = 0;
    for (uint j = 0; j < 4 && i + j < n; ++j) {
      uint rest = i + j, from = x_at;
      for (uint d = 0; d < RANK; ++d) {
        from += rest % dims[d] * x_strides[d];
        rest /= dims[d];
      }
      word |= BYTE(x, from) << (8 * j);
    }
    y[(y_at + i) >> 2] = word;
  }
}
