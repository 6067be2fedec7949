#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "math.glsl"
// The maximum of each window and its number in the image, over up to three dims; a thread has one. The first of equal ones counts, and of
// NaN the last, as in torch. Sides are depth, height, width.
layout(constant_id = 0) const uint ADAPTIVE = 0;
layout(constant_id = 1) const uint KD = 1;
layout(constant_id = 2) const uint KH = 1;
layout(constant_id = 3) const uint KW = 1;
layout(constant_id = 4) const uint SD = 1;
layout(constant_id = 5) const uint SH = 1;
layout(constant_id = 6) const uint SW = 1;
layout(constant_id = 7) const uint DD = 1;
layout(constant_id = 8) const uint DH = 1;
layout(constant_id = 9) const uint DW = 1;
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n, channels;
  uint sizes[3];
  uint outputs[3];
  int pads[3];
  uint x_strides[4];  // of images, then of sides; channels lie side by side
  uint y_strides[4];
  uint i_strides[4];
  uint x_at, y_at, numbers_at;
};
READ(0, x);
WRITE(1, y);
WRITE_WORDS(2, numbers);

// The first tap inside of the image, and how many follow.
ivec2 span(uint o, uint k, uint stride, uint dilation, uint side) {
  uint size = sizes[side], outs = outputs[side];
  if (ADAPTIVE != 0) {
    int start = int(o * size / outs);
    return ivec2(start, int(((o + 1) * size + outs - 1) / outs) - start);
  }
  int at = int(o * stride) - pads[side], d = int(dilation), skip = at < 0 ? (-at + d - 1) / d : 0;
  int left = int(size) - 1 - at, last = left < 0 ? -1 : left / d;
  return ivec2(at + skip * d, max(min(last + 1, int(k)) - skip, 0));
}

void main() {
  uint da = ADAPTIVE != 0 ? 1 : DD, db = ADAPTIVE != 0 ? 1 : DH, dc = ADAPTIVE != 0 ? 1 : DW;
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uint c = i % channels, rest = i / channels, ow = rest % outputs[2];
    rest /= outputs[2];
    uint oh = rest % outputs[1];
    rest /= outputs[1];
    uint od = rest % outputs[0], image = rest / outputs[0];
    ivec2 ds = span(od, KD, SD, DD, 0), hs = span(oh, KH, SH, DH, 1), ws = span(ow, KW, SW, DW, 2);
    uint found = (uint(ds.x) * sizes[1] + uint(hs.x)) * sizes[2] + uint(ws.x);
    float most = uintBitsToFloat(0xff800000u);
    for (uint a = 0; a < uint(ds.y); ++a)
      for (uint b = 0; b < uint(hs.y); ++b)
        for (uint e = 0; e < uint(ws.y); ++e) {
          uint z = uint(ds.x) + a * da, v = uint(hs.x) + b * db, h = uint(ws.x) + e * dc;
          float t = float(x[x_at + image * x_strides[0] + z * x_strides[1] + v * x_strides[2] + h * x_strides[3] + c]);
          if (t > most || p_isnan(t)) {
            most = t;
            found = (z * sizes[1] + v) * sizes[2] + h;
          }
        }
    y[y_at + image * y_strides[0] + od * y_strides[1] + oh * y_strides[2] + ow * y_strides[3] + c] = T(most);
    uint to = (numbers_at + image * i_strides[0] + od * i_strides[1] + oh * i_strides[2] + ow * i_strides[3] + c) * 2;
    numbers[to] = found;
    numbers[to + 1] = 0;
  }
}
