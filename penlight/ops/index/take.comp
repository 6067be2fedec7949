#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "faults.glsl"
// y from x, at places that places.comp found. dims: merged, innermost first.
layout(constant_id = 0) const uint KIND = 0;
layout(constant_id = 1) const uint RANK = 7;
layout(local_size_x = 128) in;
layout(push_constant) uniform Push {
  uint n;
  uint dims[7];
  uint x_strides[7];
  uint place_strides[7];
  uint y_strides[7];
  uint x_at, places_at, y_at;
};
READ_ANY(0, x);
READ_WORDS(1, places);
WRITE_ANY(2, y);

void main() {
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uint rest = i, from = x_at, at = places_at, to = y_at;
    for (uint d = 0; d < RANK; ++d) {
      uint k = rest % dims[d];
      rest /= dims[d];
      from += k * x_strides[d];
      at += k * place_strides[d];
      to += k * y_strides[d];
    }
    if (places[at] == NOWHERE) continue;
    from += places[at];
    MOVE(y, to, x, from)
  }
}
