#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
// A weight [C][ci][taps] that a run computes, as kernels read it: [groups][panels][taps][ci][16] with `outputs` channels of each group, zeros
// after the last; or TAPS [taps][C].
layout(constant_id = 0) const uint TAPS = 0;
layout(local_size_x = 128) in;
layout(push_constant) uniform Push { uint n, channels, outputs, ci, taps, x_at, y_at; };
READ(0, x);
WRITE(1, y);

void main() {
  uint panels = (outputs + 15) / 16;
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uint lane = i % 16, rest = i / 16, c = rest % ci, t = rest / ci % taps, panel = rest / ci / taps;
    uint inside = panel % panels * 16 + lane, channel = panel / panels * outputs + inside;
    if (TAPS != 0) c = 0, t = i / channels, channel = i % channels, inside = 0;
    y[y_at + i] = inside < outputs ? x[x_at + (channel * ci + c) * taps + t] : T(0.0);
  }
}
