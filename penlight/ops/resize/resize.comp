#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
// Linear and cubic resizing of [N, C, H, W]: a thread has one number of the output, the sum of its window. Places are torch's, in its order
// of f32 operations; a side that keeps its size is not mixed along.
layout(constant_id = 0) const uint CUBIC = 0;
layout(constant_id = 1) const uint ALIGN = 0;
layout(constant_id = 2) const uint SMOOTH = 0;  // antialias
layout(constant_id = 3) const uint CHANNELS_LAST = 0;
layout(local_size_x = 64) in;
layout(push_constant) uniform Push {
  uint n, channels, ih, iw, oh, ow;
  float step_y, step_x;  // input pixels for one of the output
  uint x_strides[4];
  uint y_strides[4];
  uint x_at, y_at;
};
READ(0, x);
WRITE(1, y);

float near_part(float d, float a) { return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0; }
float far_part(float d, float a) { return ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a; }
float kernel(float d, float a) { return d < 1.0 ? near_part(d, a) : d < 2.0 ? far_part(d, a) : 0.0; }

// Inputs from `begin` on, `count` of them; those beyond an edge are the edge. `center`: what weights are measured from.
struct Side {
  int begin, count;
  float center, scale;
};

float weight(Side s, int j) {
  if (SMOOTH != 0) {
    float d = abs((float(j + s.begin) - s.center + 0.5) * s.scale);
    return CUBIC != 0 ? kernel(d, -0.5) : max(1.0 - d, 0.0);
  }
  if (s.count == 1) return 1.0;
  if (CUBIC == 0) return j == 0 ? 1.0 - s.center : s.center;
  return kernel(abs(s.center + 1.0 - float(j)), -0.75);
}

Side side(uint o, uint inputs, uint outputs, float step) {
  Side s = Side(int(o), 1, 0.0, 1.0);
  if (SMOOTH != 0) {
    precise float reach = (CUBIC != 0 ? 2.0 : 1.0) * max(step, 1.0), center = step * (float(o) + 0.5);
    precise float low = center - reach + 0.5, high = center + reach + 0.5;
    s.begin = low > 0.0 ? int(min(low, float(inputs))) : 0;
    int end = high < float(inputs) ? int(high) : int(inputs);
    s.count = max(end - s.begin, 0);
    s.center = center;
    s.scale = step >= 1.0 ? 1.0 / step : 1.0;
    return s;
  }
  if (CUBIC == 0 && inputs == outputs) return s;
  precise float product = ALIGN != 0 ? step * float(o) : step * (float(o) + 0.5), at = ALIGN != 0 ? product : product - 0.5;
  if (CUBIC == 0) at = max(at, 0.0);
  float whole = floor(at);
  int first = whole < float(inputs) ? int(whole) : int(inputs) - 1;
  s.center = clamp(at - float(first), 0.0, 1.0);
  s.begin = CUBIC != 0 ? first - 1 : first;
  s.count = CUBIC != 0 ? 4 : first < int(inputs) - 1 ? 2 : 1;
  return s;
}

void main() {
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uint rest = i, c, ox, oy;
    if (CHANNELS_LAST != 0) c = rest % channels, rest /= channels;
    ox = rest % ow, rest /= ow;
    oy = rest % oh, rest /= oh;
    if (CHANNELS_LAST == 0) c = rest % channels, rest /= channels;
    uint outs[2] = {oy, ox}, image = x_at + rest * x_strides[0] + c * x_strides[1];
    Side sides[2];
    for (uint k = 0; k < 2; ++k) sides[k] = side(outs[k], k == 0 ? ih : iw, k == 0 ? oh : ow, k == 0 ? step_y : step_x);
    float sum = 0.0, row = 0.0, down = 0.0, across = 0.0;  // sums of weights, which are not 1 where an image is made smooth
    int taps = sides[0].count * sides[1].count;
    for (int t = 0; t < taps; ++t) {
      int at[2] = {t / sides[1].count, t % sides[1].count};
      float w[2];
      uint from = image;
      for (uint k = 0; k < 2; ++k) {
        w[k] = weight(sides[k], at[k]);
        from += uint(clamp(sides[k].begin + at[k], 0, int(k == 0 ? ih : iw) - 1)) * x_strides[2 + k];
      }
      if (at[0] == 0) across += w[1];
      row = at[1] == 0 ? w[1] * float(x[from]) : row + w[1] * float(x[from]);
      if (at[1] + 1 < sides[1].count) continue;
      sum += w[0] * row;
      down += w[0];
    }
    if (SMOOTH != 0 && down * across != 0.0) sum /= down * across;
    y[y_at + rest * y_strides[0] + c * y_strides[1] + oy * y_strides[2] + ox * y_strides[3]] = T(sum);
  }
}
