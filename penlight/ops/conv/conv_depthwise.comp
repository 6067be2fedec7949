#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "math.glsl"
#include "activations.glsl"
// Depthwise conv2d, and small groups: a thread has four channels (one, where they do not come in fours) of a pixel.
// Weights: depthwise [kh * kw][C]; grouped [ceil(Co / 16)][kh * kw][ci][16], a thread an output channel of its own.
layout(constant_id = 0) const uint ACT = 0;
layout(constant_id = 1) const uint BIAS = 0;
layout(constant_id = 2) const uint RESIDUAL = 0;
layout(constant_id = 3) const uint FOURS_OUT = 0;  // x, y, weights and the rest
layout(constant_id = 4) const uint GROUPED = 0;
layout(constant_id = 5) const uint KW = 0;  // 0: kw, which is not known

layout(local_size_x = 64) in;

layout(push_constant) uniform Push {
  uint n, channels, ci, co;  // threads; all channels; of a group: in and out
  uint ih, iw, oh, ow, kh, kw;
  uint sy, sx;
  int py, px;
  uint dy, dx;
  uint x_pitch, x_row, x_image, y_pitch, y_image, r_pitch, r_image;
  uint x_at, w_at, bias_at, residual_at, y_at;
  float args[4];
};

READ(0, x);
READ(1, w);
READ(2, bias);
READ(3, residual);
WRITE(4, y);

// The row or column that a tap of output o reads; below 0: none.
int tap(uint o, uint k, uint stride, int pad, uint dilation, uint size) {
  int at = int(o * stride + k * dilation) - pad;
  return at < int(size) ? at : -1;
}

#include "epilogue.glsl"

void main() {
  uint width = KW != 0 ? KW : kw;
  uint fours = FOURS_OUT != 0 ? channels / 4 : channels;
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uint c = FOURS_OUT != 0 ? i % fours * 4 : i % fours, pixel = i / fours, ox = pixel % ow, line = pixel / ow, oy = line % oh, image = line / oh;
    vec4 sum = vec4(0);
    for (uint ky = 0; ky < kh; ++ky) {
      int iy = tap(oy, ky, sy, py, dy, ih);
      if (iy < 0) continue;
      for (uint kx = 0; kx < width; ++kx) {
        int ix = tap(ox, kx, sx, px, dx, iw);
        if (ix < 0) continue;
        uint from = x_at + image * x_image + uint(iy) * x_row + uint(ix) * x_pitch, t = ky * width + kx;
        if (GROUPED != 0) {
          uint first = c / co * ci;
          uint at = w_at + ((c / 16 * kh * width + t) * ci) * 16 + c % 16;
          for (uint k = 0; k < ci; ++k) sum[0] = fma(float(x[from + first + k]), float(w[at + k * 16]), sum[0]);
        } else if (FOURS_OUT != 0) {
          sum = fma(vec4(x_4[(from + c) >> 2]), vec4(w_4[(w_at + t * channels + c) >> 2]), sum);
        } else {
          sum[0] = fma(float(x[from + c]), float(w[w_at + t * channels + c]), sum[0]);
        }
      }
    }
    uint inside = pixel % (oh * ow), to = y_at + image * y_image + inside * y_pitch + c;
    uint add = residual_at + image * r_image + inside * r_pitch + c;
    finish(sum, c, add, to, 1);
  }
}
