#version 450
#extension GL_GOOGLE_include_directive : require
#define ONLY_F16
#include "gpu.glsl"
// Values of the device to an output as the host has it, f32.
layout(local_size_x = 128) in;
layout(push_constant) uniform Push { uint n; };
READ(0, x);
WRITE_F32(1, y);

void main() {
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) y[i] = float(x[i]);
}
