#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "math.glsl"
// Maximum or average of windows that slide or follow from the output's size: a thread has four channels (one, where they do not come in
// fours) of a pixel. Padding is not read. NaN wins.
layout(constant_id = 0) const uint MAXIMUM = 0;
layout(constant_id = 1) const uint ADAPTIVE = 0;
layout(constant_id = 2) const uint FOURS = 0;
layout(constant_id = 3) const uint INCLUDE_PAD = 0;

layout(local_size_x = 64) in;

layout(push_constant) uniform Push {
  uint n, channels, ih, iw, oh, ow, kh, kw, sy, sx;
  int py, px, ey, ex;  // padding before and after
  uint dy, dx;
  int divisor;  // 0: the window's size
  uint x_pitch, x_row, x_image, y_pitch, y_row, y_image;
  uint x_at, y_at;
};

READ(0, x);
WRITE(1, y);

// First tap, number of taps inside of the image, and of those in the image or its padding.
ivec3 span(uint o, uint k, uint stride, int before, int after, uint dilation, uint size, uint outputs) {
  if (ADAPTIVE != 0) {
    int start = int(o * size / outputs), count = int(((o + 1) * size + outputs - 1) / outputs) - start;
    return ivec3(start, count, count);
  }
  int at = int(o * stride) - before, d = int(dilation), skip = at < 0 ? (-at + d - 1) / d : 0;
  int left = int(size) - 1 - at, last = left < 0 ? -1 : left / d, end = min(last + 1, int(k)), fit = int(size) + after - at;
  return ivec3(at + skip * d, max(end - skip, 0), min(fit, int(k)));
}

void main() {
  uint fours = FOURS != 0 ? channels / 4 : channels;
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uint c = FOURS != 0 ? i % fours * 4 : i % fours, pixel = i / fours, ox = pixel % ow, line = pixel / ow, oy = line % oh, image = line / oh;
    ivec3 ys = span(oy, kh, sy, py, ey, dy, ih, oh), xs = span(ox, kw, sx, px, ex, dx, iw, ow);
    uint down = (ADAPTIVE != 0 ? 1 : dy) * x_row, right = (ADAPTIVE != 0 ? 1 : dx) * x_pitch;
    uint from = x_at + image * x_image + uint(ys.x) * x_row + uint(xs.x) * x_pitch + c;
    vec4 v = vec4(MAXIMUM != 0 ? uintBitsToFloat(0xff800000u) : 0.0);
    for (int a = 0; a < ys.y; ++a)
      for (int b = 0; b < xs.y; ++b) {
        uint at = from + uint(a) * down + uint(b) * right;
        vec4 t = FOURS != 0 ? vec4(x_4[at >> 2]) : vec4(float(x[at]));
        if (MAXIMUM != 0)
          for (uint e = 0; e < 4; ++e) v[e] = p_maximum(t[e], v[e]);
        else
          v += t;
      }
    if (MAXIMUM == 0) {
      int size = INCLUDE_PAD != 0 ? ys.z * xs.z : ys.y * xs.y;
      v /= float(divisor != 0 ? divisor : max(size, 1));
    }
    uint to = y_at + image * y_image + oy * y_row + ox * y_pitch + c;
    if (FOURS != 0)
      y_4[to >> 2] = T4(v);
    else
      y[to] = T(v.x);
  }
}
