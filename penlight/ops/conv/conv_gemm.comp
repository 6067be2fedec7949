#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "math.glsl"
#include "activations.glsl"
// conv2d as a matrix product that never writes the matrix down, and linear, which is one of 1 x 1: a workgroup computes TY * TM pixels by
// TX * 4 * TN channels of the output, BK values of the sum at a time, through shared memory. x is NHWC with any pitch; weights are panels
// of 16 output channels, [group][panel][K][16], K in the order kh, kw, ci.
layout(constant_id = 0) const uint TX = 16;  // threads over channels
layout(constant_id = 1) const uint TY = 16;  // threads over pixels
layout(constant_id = 2) const uint TM = 4;   // pixels of a thread
layout(constant_id = 3) const uint TN = 1;   // fours of channels of a thread
layout(constant_id = 4) const uint BK = 16;
layout(constant_id = 5) const uint ACT = 0;
layout(constant_id = 6) const uint BIAS = 0;
layout(constant_id = 7) const uint RESIDUAL = 0;
layout(constant_id = 8) const uint POINTWISE = 0;  // 1 x 1, stride 1, no padding: a pixel of the output is one of the input
layout(constant_id = 9) const uint FOURS = 0;      // x can be read four channels at a time
layout(constant_id = 10) const uint FOURS_OUT = 0;  // y, residual and bias too

layout(local_size_x_id = 0, local_size_y_id = 1) in;

layout(push_constant) uniform Push {
  uint pixels, channels, depth;  // of the matrix product: M, N, K; channels and depth of a group
  uint ci, ih, iw, oh, ow, kw;
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

const uint PITCH = TY * TM + 4;
shared vec4 tile_w[BK * TX * TN];
shared float tile_x[BK * PITCH];

float x_value(uint pixel, uint k, uint group) {
  if (POINTWISE != 0) return float(x[x_at + pixel / (oh * ow) * x_image + pixel % (oh * ow) * x_pitch + group * ci + k]);
  uint c = k % ci, tap = k / ci, ox = pixel % ow, line = pixel / ow, oy = line % oh;
  int iy = int(oy * sy + tap / kw * dy) - py, ix = int(ox * sx + tap % kw * dx) - px;
  if (iy < 0 || ix < 0 || iy >= int(ih) || ix >= int(iw)) return 0.0;
  return float(x[x_at + line / oh * x_image + uint(iy) * x_row + uint(ix) * x_pitch + group * ci + c]);
}

vec4 x_four(uint pixel, uint k, uint group) {
  uint at;
  if (POINTWISE != 0) {
    at = pixel / (oh * ow) * x_image + pixel % (oh * ow) * x_pitch + k;
  } else {
    uint c = k % ci, tap = k / ci, ox = pixel % ow, line = pixel / ow, oy = line % oh;
    int iy = int(oy * sy + tap / kw * dy) - py, ix = int(ox * sx + tap % kw * dx) - px;
    if (iy < 0 || ix < 0 || iy >= int(ih) || ix >= int(iw)) return vec4(0);
    at = line / oh * x_image + uint(iy) * x_row + uint(ix) * x_pitch + c;
  }
  return vec4(x_4[(x_at + at + group * ci) >> 2]);
}

#include "epilogue.glsl"

const uint BM = TY * TM, BN = TX * 4 * TN;

void compute(uint m0) {
  uint tx = gl_LocalInvocationID.x, ty = gl_LocalInvocationID.y, thread = ty * TX + tx, threads = TX * TY;
  uint n0 = gl_WorkGroupID.x * BN, group = gl_WorkGroupID.z;
  uint panels = (channels + 15) / 16, w0 = w_at + group * panels * depth * 16;
  vec4 sum[TM * TN];
  for (uint i = 0; i < TM * TN; ++i) sum[i] = vec4(0);

  for (uint k0 = 0; k0 < depth; k0 += BK) {
    if (FOURS != 0) {
      for (uint i = thread; i < BM * (BK / 4); i += threads) {
        uint k = i % (BK / 4) * 4, m = i / (BK / 4);
        vec4 v = vec4(0);
        if (k0 + k < depth && m0 + m < pixels) v = x_four(m0 + m, k0 + k, group);
        for (uint j = 0; j < 4; ++j) tile_x[(k + j) * PITCH + m] = v[j];
      }
    } else {
      for (uint i = thread; i < BM * BK; i += threads) {
        uint k = i % BK, m = i / BK;
        tile_x[k * PITCH + m] = k0 + k < depth && m0 + m < pixels ? x_value(m0 + m, k0 + k, group) : 0.0;
      }
    }
    for (uint i = thread; i < BK * TX * TN; i += threads) {
      uint four = i % (TX * TN), k = i / (TX * TN), n = n0 + four * 4;
      vec4 v = vec4(0);
      if (k0 + k < depth && n < panels * 16) v = vec4(w_4[(w0 + (n / 16 * depth + k0 + k) * 16 + n % 16) >> 2]);
      tile_w[i] = v;
    }
    barrier();
    for (uint k = 0; k < BK; ++k) {
      float pixel[TM];
      for (uint i = 0; i < TM; ++i) pixel[i] = tile_x[k * PITCH + ty * TM + i];
      for (uint j = 0; j < TN; ++j) {
        vec4 v = tile_w[k * TX * TN + j * TX + tx];
        for (uint i = 0; i < TM; ++i) sum[i * TN + j] = fma(vec4(pixel[i]), v, sum[i * TN + j]);
      }
    }
    barrier();
  }

  for (uint j = 0; j < TN; ++j) {
    uint n = n0 + (j * TX + tx) * 4, c = group * channels + n;
    if (n >= channels) continue;
    for (uint i = 0; i < TM; ++i) {
      uint pixel = m0 + ty * TM + i;
      if (pixel >= pixels) break;
      uint image = pixel / (oh * ow), inside = pixel % (oh * ow);
      uint to = y_at + image * y_image + inside * y_pitch + c, from = residual_at + image * r_image + inside * r_pitch + c;
      vec4 v = sum[i * TN + j];
      finish(v, c, from, to, min(channels - n, 4u));
    }
  }
}

void main() {
  for (uint m0 = gl_WorkGroupID.y * BM; m0 < pixels; m0 += gl_NumWorkGroups.y * BM) compute(m0);
}
