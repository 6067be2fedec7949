#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "faults.glsl"
// Means of an image at sample points of each bin of each region: a thread has one channel of a bin. The image that a region names is data: one
// that is not there is a fault.
layout(constant_id = 0) const uint ALIGNED = 0;
layout(constant_id = 1) const uint SENSITIVE = 0;  // each bin has input channels of its own
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n, images, channels, height, width, bins_h, bins_w, sampling, step;
  float scale;
  uint x_image, x_row, x_pitch, y_image, y_row, y_pitch, roi_row;
  uint x_at, rois_at, y_at, faults_at;
};
READ(0, x);
READ(1, rois);
WRITE(2, y);
WRITE_WORDS(3, faults);

uint samples(float side, uint bins) {
  if (sampling > 0) return sampling;
  float wanted = side / float(bins);
  return wanted > 0.0 && wanted < 1e6 ? uint(ceil(wanted)) : 0;
}

// Two pixels around a place, and the weight of the second; below 0: outside.
struct Pair {
  int near, far;
  float rest;
};
Pair pair_at(float at, uint size) {
  if (!(at >= -1.0 && at <= float(size))) return Pair(-1, -1, 0.0);
  at = max(at, 0.0);
  int near = int(at), end = int(size) - 1;
  return near >= end ? Pair(end, end, 0.0) : Pair(near, near + 1, at - float(near));
}

void main() {
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uint c = i % channels, bin = i / channels, bw = bin % bins_w, bh = bin / bins_w % bins_h, region = bin / bins_w / bins_h;
    uint roi = rois_at + region * roi_row;
    float named = float(rois[roi]);
    if (!(named > -1.0 && named < float(images))) {
      bool fits = abs(named) < 2147483648.0;
      int got = fits ? int(named) : -1;
      uvec2 words = fits ? uvec2(uint(got), got < 0 ? ~0u : 0u) : uvec2(~0u, 0x7fffffffu);
      report(faults_at, step, 1u, words, 0u, images)
      continue;
    }
    float shift = ALIGNED != 0 ? 0.5 : 0.0;
    precise float x0 = float(rois[roi + 1]) * scale - shift, y0 = float(rois[roi + 2]) * scale - shift;
    precise float across = float(rois[roi + 3]) * scale - shift - x0, down = float(rois[roi + 4]) * scale - shift - y0;
    if (ALIGNED == 0) across = max(across, 1.0), down = max(down, 1.0);
    precise float bin_h = down / float(bins_h), bin_w = across / float(bins_w);
    uint rows = samples(down, bins_h), columns = samples(across, bins_w);
    uint from = x_at + uint(int(named)) * x_image + (SENSITIVE != 0 ? (c * bins_h + bh) * bins_w + bw : c);
    float sum = 0.0;
    for (uint r = 0; r < rows; ++r) {
      precise float v = y0 + float(bh) * bin_h + (float(r) + 0.5) * bin_h / float(rows);
      Pair a = pair_at(v, height);
      if (a.near < 0) continue;
      for (uint k = 0; k < columns; ++k) {
        precise float h = x0 + float(bw) * bin_w + (float(k) + 0.5) * bin_w / float(columns);
        Pair b = pair_at(h, width);
        if (b.near < 0) continue;
        uint top = from + uint(a.near) * x_row, bottom = from + uint(a.far) * x_row, left = uint(b.near) * x_pitch, right = uint(b.far) * x_pitch;
        sum += (1.0 - a.rest) * ((1.0 - b.rest) * float(x[top + left]) + b.rest * float(x[top + right])) +
               a.rest * ((1.0 - b.rest) * float(x[bottom + left]) + b.rest * float(x[bottom + right]));
      }
    }
    y[y_at + region * y_image + bh * y_row + bw * y_pitch + c] = T(sum / float(max(rows * columns, 1u)));
  }
}
