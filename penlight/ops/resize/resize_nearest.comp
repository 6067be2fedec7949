#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
// The nearest pixel of [N, C, H, W], by torch's rule: a thread moves one element.
layout(constant_id = 0) const uint KIND = 0;
layout(constant_id = 1) const uint EXACT = 0;
layout(constant_id = 2) const uint CHANNELS_LAST = 0;
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n, channels, ih, iw, oh, ow;
  float step_y, step_x;  // input pixels for one of the output
  uint x_strides[4];
  uint y_strides[4];
  uint x_at, y_at;
};
READ_ANY(0, x);
WRITE_ANY(1, y);

uint place(uint o, uint inputs, uint outputs, float step) {
  if (EXACT == 0 && inputs == outputs) return o;
  if (EXACT == 0 && outputs == 2 * inputs) return o / 2;
  precise float at = floor((float(o) + (EXACT != 0 ? 0.5 : 0.0)) * step);
  return at < float(inputs) ? min(uint(at), inputs - 1) : inputs - 1;
}

void main() {
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uint rest = i, c, ox, oy;
    if (CHANNELS_LAST != 0) c = rest % channels, rest /= channels;
    ox = rest % ow, rest /= ow;
    oy = rest % oh, rest /= oh;
    if (CHANNELS_LAST == 0) c = rest % channels, rest /= channels;
    uint from = x_at + rest * x_strides[0] + c * x_strides[1] + place(oy, ih, oh, step_y) * x_strides[2] + place(ox, iw, ow, step_x) * x_strides[3];
    uint to = y_at + rest * y_strides[0] + c * y_strides[1] + oy * y_strides[2] + ox * y_strides[3];
    MOVE(y, to, x, from)
  }
}
