#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
// conv2d as a matrix product that never writes the matrix down, and linear, which is one of 1 x 1: tiles of BM pixels by BN channels of
// the output are computed by a workgroup, BK values of the sum at a time, through shared memory. x is NHWC with any pitch, weights are
// panels of 16 output channels, [panel][K][16], K in the order kh, kw, ci.
layout(constant_id = 0) const uint THREADS_X = 16;  // over channels
layout(constant_id = 1) const uint THREADS_Y = 16;  // over pixels
layout(constant_id = 2) const uint TM = 4;          // pixels of a thread
layout(constant_id = 3) const uint BK = 16;
layout(constant_id = 4) const uint ACT = 0;
layout(constant_id = 5) const uint BIAS = 0;
layout(constant_id = 6) const uint RESIDUAL = 0;
layout(constant_id = 7) const uint POINTWISE = 0;   // 1 x 1, stride 1, no padding: a pixel of the output is one of the input
layout(constant_id = 8) const uint FOURS = 0;       // channels, pitches and offsets are multiples of 4

layout(local_size_x_id = 0, local_size_y_id = 1) in;

layout(push_constant) uniform Push {
  uint pixels, channels, depth;  // of the matrix product: M, N, K
  uint ci, ih, iw, oh, ow, kw;
  uint sy, sx;
  int py, px;
  uint dy, dx;
  uint x_pitch, x_row, x_image, y_pitch, r_pitch;
  uint x_at, y_at, r_at;
  float a, b;
};

BUFFER(0, x);
BUFFER(1, w);
BUFFER(2, bias);
BUFFER(3, residual);
WRITTEN(4, y);

const uint TN = 4;
shared vec4 tile_w[BK * THREADS_X];                  // BK rows of THREADS_X fours of channels
shared float tile_x[BK * (THREADS_Y * TM + 1)];

void main() {
  const uint BM = THREADS_Y * TM, BN = THREADS_X * TN, PITCH = BM + 1;
  uint tx = gl_LocalInvocationID.x, ty = gl_LocalInvocationID.y, thread = ty * THREADS_X + tx, threads = THREADS_X * THREADS_Y;
  uint m0 = gl_WorkGroupID.y * BM, n0 = gl_WorkGroupID.x * BN;
  vec4 sum[TM];
  for (uint i = 0; i < TM; ++i) sum[i] = vec4(0);

  for (uint k0 = 0; k0 < depth; k0 += BK) {
    // x: a row of the matrix is the window of a pixel
    for (uint i = thread; i < BM * BK; i += threads) {
      uint k = i % BK, m = i / BK, kk = k0 + k, pixel = m0 + m;
      float v = 0;
      if (kk < depth && pixel < pixels) {
        if (POINTWISE != 0) {
          v = float(x[x_at + pixel * x_pitch + kk]);
        } else {
          uint c = kk % ci, tap = kk / ci, ox = pixel % ow, line = pixel / ow, oy = line % oh, image = line / oh;
          int iy = int(oy * sy + tap / kw * dy) - py, ix = int(ox * sx + tap % kw * dx) - px;
          if (iy >= 0 && ix >= 0 && iy < int(ih) && ix < int(iw)) v = float(x[x_at + image * x_image + uint(iy) * x_row + uint(ix) * x_pitch + c]);
        }
      }
      tile_x[k * PITCH + m] = v;
    }
    for (uint i = thread; i < BK * THREADS_X; i += threads) {
      uint four = i % THREADS_X, k = i / THREADS_X, n = n0 + four * 4;
      vec4 v = vec4(0);
      if (k0 + k < depth && n < (channels + 15) / 16 * 16) v = vec4(w4[((n / 16 * depth + k0 + k) * 16 + n % 16) / 4]);
      tile_w[i] = v;
    }
    barrier();
    for (uint k = 0; k < BK; ++k) {
      vec4 v = tile_w[k * THREADS_X + tx];
      for (uint i = 0; i < TM; ++i) sum[i] = fma(vec4(tile_x[k * PITCH + ty * TM + i]), v, sum[i]);
    }
    barrier();
  }

  uint n = n0 + tx * 4;
  if (n >= channels) return;
  vec4 start = vec4(0);
  if (BIAS != 0)
    for (uint j = 0; j < 4; ++j)
      if (n + j < channels) start[j] = float(bias[n + j]);
  for (uint i = 0; i < TM; ++i) {
    uint pixel = m0 + ty * TM + i;
    if (pixel >= pixels) break;
    vec4 v = sum[i] + start;
    for (uint j = 0; j < 4; ++j) {
      if (n + j >= channels) break;
      float one = v[j];
      if (RESIDUAL != 0) one += float(residual[r_at + pixel * r_pitch + n + j]);
      y[y_at + pixel * y_pitch + n + j] = T(activate(ACT, one, a, b));
    }
  }
}
