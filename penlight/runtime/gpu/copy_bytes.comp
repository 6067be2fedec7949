#version 450
#extension GL_GOOGLE_include_directive : require
#define ANY_VALUES  // the same, however values are stored
#include "gpu.glsl"
// Bytes laid another way: four to a thread where the target's lie one after the other, else each by itself, so that those beside it in
// its word stay as they are. dims: merged, innermost first.
layout(constant_id = 0) const uint RANK = 8;
layout(constant_id = 1) const uint APART = 0;
layout(local_size_x = 128) in;
layout(push_constant) uniform Push { uint n, words; uint dims[8]; uint x_strides[8]; uint y_strides[8]; uint x_at, y_at; };
READ_BYTES(0, x);
WRITE_WORDS(1, y);

uint place(uint i, uint strides[8]) {
  uint at = 0;
  for (uint d = 0; d < RANK; ++d) {
    at += i % dims[d] * strides[d];
    i /= dims[d];
  }
  return at;
}

void main() {
  uint each = APART != 0 ? 1 : 4, step = gl_NumWorkGroups.x * gl_WorkGroupSize.x * each;
  for (uint i = gl_GlobalInvocationID.x * each; i < n; i += step) {
    uint word = 0;
    for (uint j = 0; j < each && i + j < n; ++j) word |= BYTE(x, x_at + place(i + j, x_strides)) << (8 * j);
    if (APART == 0) {
      y[(y_at + i) >> 2] = word;
      continue;
    }
    uint to = y_at + place(i, y_strides), shift = (to & 3) * 8;
    atomicAnd(y[to >> 2], ~(255u << shift));
    atomicOr(y[to >> 2], word << shift);
  }
}
