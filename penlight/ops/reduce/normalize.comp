#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "math.glsl"
// softmax, log_softmax, layer_norm, rms_norm, group_norm, and var_mean, which gives the moments themselves: rows.glsl says how the work is
// cut. A row is read three times: what comes second is relative to what came first (maximum, mean), so no digits are lost.
layout(constant_id = 0) const uint COLUMNS = 1;
layout(constant_id = 1) const uint KIND = 0;      // 0 softmax, 1 log_softmax, 2 softmax that gives 0 for a row of -inf, 3 norm, 4 rms_norm, 5 var_mean
layout(constant_id = 2) const uint SCALED = 0;    // there is a w
layout(constant_id = 3) const uint SHIFTED = 0;   // there is a b
layout(constant_id = 4) const uint CHANNELS = 0;  // w and b: 0 by place in the row, else by channel, which is the 1 outer, 2 inner dim of a row

layout(push_constant) uniform Push {
  uint rows, count;
  uint across[4], across_in[4], across_out[4], along[4], along_in[4], along_out[4];
  uint x_at, w_at, b_at, y_at, mean_at;
  float number;  // norms: eps; var_mean: what the squares are divided by
};
READ(0, x);
READ(1, w);
READ(2, b);
WRITE(3, y);
WRITE(4, mean);
#include "rows.glsl"
shared vec2 parts[128];

// The sum, or the maximum, of all that share a row.
vec2 together(vec2 v, bool maximum) {
  uint thread = gl_LocalInvocationID.x;
  parts[thread] = v;
  barrier();
  for (uint half_ = SHARERS / 2; half_ > 0; half_ /= 2) {
    if (sharer < half_) {
      vec2 other = parts[thread + half_ * COLUMNS];
      parts[thread] = maximum ? vec2(p_maximum(parts[thread].x, other.x), 0) : parts[thread] + other;
    }
    barrier();
  }
  vec2 all_ = parts[column];
  barrier();
  return all_;
}

float value(uint from, uint i) { return float(x[from + place(i, along, along_in)]); }

void softmax(uint from, uint to, uint n) {
  float top = uintBitsToFloat(0xff800000u), sum = 0.0;
  for (uint i = sharer; i < n; i += SHARERS) top = p_maximum(top, value(from, i));
  top = together(vec2(top, 0), true).x;
  bool hidden = KIND == 2 && p_isinf(top) && p_signbit(top), wrong = !hidden && (p_isnan(top) || p_isinf(top));
  for (uint i = sharer; i < n; i += SHARERS) sum += exp(value(from, i) - top);
  sum = together(vec2(sum, 0), false).x;
  float factor = 1.0 / sum, under = log(sum);
  for (uint i = sharer; i < n; i += SHARERS) {
    float v = value(from, i) - top;
    v = KIND == 1 ? v - under : exp(v) * factor;
    y[to + place(i, along, along_out)] = T(wrong ? p_nan() : hidden ? 0.0 : v);
  }
}

void norm(uint from, uint to, uint row, uint n) {
  float middle = 0.0;
  vec2 sums = vec2(0);  // of the distances from the middle, of their squares
  if (KIND != 4) {
    for (uint i = sharer; i < n; i += SHARERS) sums.x += value(from, i);
    middle = together(sums, false).x / float(count);
    sums = vec2(0);
  }
  for (uint i = sharer; i < n; i += SHARERS) {
    float d = value(from, i) - middle;
    sums += vec2(d, d * d);
  }
  sums = together(sums, false);
  if (KIND != 4) {  // what rounding left of the mean
    float rest = sums.x / float(count);
    if (!p_isnan(rest)) middle += rest;
    sums.y = p_maximum(sums.y - sums.x * rest, 0.0);
  }
  if (KIND == 5) {
    if (sharer != 0 || row >= rows) return;
    y[to] = T(count == 0 ? p_nan() : sums.y / number);
    mean[mean_at + to - y_at] = T(count == 0 ? p_nan() : middle);
    return;
  }
  float factor = 1.0 / sqrt(sums.y / float(count) + number);
  uint group = row % across[0];
  for (uint i = sharer; i < n; i += SHARERS) {
    uint c = CHANNELS == 1 ? group * along[1] + i / along[0] : CHANNELS == 2 ? group * along[0] + i % along[0] : i;
    float v = (value(from, i) - middle) * factor;
    if (SCALED != 0) v *= float(w[w_at + c]);
    if (SHIFTED != 0) v += float(b[b_at + c]);
    y[to + place(i, along, along_out)] = T(v);
  }
}

void main() {
  for (FIRST_ROW; first < rows; NEXT_ROWS) {
    uint row = first + column, from = x_at + place(row, across, across_in), to = y_at + place(row, across, across_out);
    uint n = row < rows ? count : 0;
    if (KIND < 3)
      softmax(from, to, n);
    else
      norm(from, to, row, n);
  }
}
