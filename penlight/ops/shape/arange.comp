#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "whole.glsl"
// start + i * step, in 64 bits.
layout(constant_id = 0) const uint KIND = 0;
layout(local_size_x = 128) in;
layout(push_constant) uniform Push { uint n; uint start[2]; uint step[2]; uint y_at; };
WRITE_ANY(0, y);

void main() {
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uvec2 bits = p_add(uvec2(start[0], start[1]), p_mul(uvec2(step[0], step[1]), uvec2(i, 0)));
    if (KIND == 0) bits.x = floatBitsToUint(to_float(bits));
    PUT(y, y_at + i, bits)
  }
}
