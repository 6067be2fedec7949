#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
// Convolutions over up to three dims, transposed ones too, from the definition: a thread has four output channels of a pixel, or one where
// groups are small. Sides are depth, height, width. Weights: PANELS [groups][ceil(co / 16)][taps][ci][16]; else [ceil(C / 16)][taps][ci][16]
// over all groups, or with one input and one output of each (DEPTHWISE) [taps][C]. An activation follows as a dispatch of its own.
layout(constant_id = 0) const uint BIAS = 0;
layout(constant_id = 1) const uint RESIDUAL = 0;
layout(constant_id = 2) const uint PANELS = 0;
layout(constant_id = 3) const uint DEPTHWISE = 0;
layout(constant_id = 4) const uint TURNED = 0;  // transposed
layout(constant_id = 5) const uint KD = 1;
layout(constant_id = 6) const uint KH = 1;
layout(constant_id = 7) const uint KW = 1;
layout(constant_id = 8) const uint SD = 1;
layout(constant_id = 9) const uint SH = 1;
layout(constant_id = 10) const uint SW = 1;
layout(constant_id = 11) const uint DD = 1;
layout(constant_id = 12) const uint DH = 1;
layout(constant_id = 13) const uint DW = 1;

layout(local_size_x = 64) in;

layout(push_constant) uniform Push {
  uint n, channels, ci, co;  // pieces of work; all output channels; of a group: in and out
  uint sizes[3];
  uint outputs[3];
  int pads[3];
  uint x_strides[3];
  uint x_image, y_pitch, y_image, r_pitch, r_image;
  uint x_at, w_at, bias_at, residual_at, y_at;
};

READ(0, x);
READ(1, w);
READ(2, bias);
READ(3, residual);
WRITE(4, y);

// What a tap of output o reads along a side; below 0: nothing.
int tap(uint o, uint k, uint stride, uint dilation, uint side) {
  int at = TURNED == 0 ? int(o * stride + k * dilation) - pads[side] : int(o) + pads[side] - int(k * dilation);
  if (TURNED != 0) at = at >= 0 && at % int(stride) == 0 ? at / int(stride) : -1;
  return at < int(sizes[side]) ? at : -1;
}

void main() {
  uint width = PANELS != 0 ? 4 : 1, units = (co + width - 1) / width, all = channels / co * units, taps = KD * KH * KW;
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uint unit = i % all, pixel = i / all, group = unit / units, inside = unit % units * width, c = group * co + inside;
    uint ow = pixel % outputs[2], rest = pixel / outputs[2], oh = rest % outputs[1];
    rest /= outputs[1];
    uint od = rest % outputs[0], image = rest / outputs[0];
    uint panel = PANELS != 0 ? group * ((co + 15) / 16) + inside / 16 : c / 16, lane = PANELS != 0 ? inside % 16 : c % 16;
    uint start = x_at + image * x_image + group * ci;
    vec4 sum = vec4(0);
    for (uint kd = 0; kd < KD; ++kd) {
      int id = tap(od, kd, SD, DD, 0);
      for (uint kh = 0; kh < KH && id >= 0; ++kh) {
        int ih = tap(oh, kh, SH, DH, 1);
        for (uint kw = 0; kw < KW && ih >= 0; ++kw) {
          int iw = tap(ow, kw, SW, DW, 2);
          if (iw < 0) continue;
          uint from = start + uint(id) * x_strides[0] + uint(ih) * x_strides[1] + uint(iw) * x_strides[2], t = (kd * KH + kh) * KW + kw;
          if (DEPTHWISE != 0) {
            sum[0] = fma(float(x[from]), float(w[w_at + t * channels + c]), sum[0]);
            continue;
          }
          uint at = w_at + (panel * taps + t) * ci * 16 + lane;
          for (uint k = 0; k < ci; ++k) {
            float v = float(x[from + k]);
            if (PANELS != 0)
              sum = fma(vec4(v), vec4(w_4[(at + k * 16) >> 2]), sum);
            else
              sum[0] = fma(v, float(w[at + k * 16]), sum[0]);
          }
        }
      }
    }
    uint place = (od * outputs[1] + oh) * outputs[2] + ow;
    uint to = y_at + image * y_image + place * y_pitch + c, add = residual_at + image * r_image + place * r_pitch + c;
    for (uint e = 0; e < min(co - inside, width); ++e) {
      if (BIAS != 0) sum[e] += float(bias[bias_at + c + e]);
      if (RESIDUAL != 0) sum[e] += float(residual[add + e]);
      y[to + e] = T(sum[e]);
    }
  }
}
