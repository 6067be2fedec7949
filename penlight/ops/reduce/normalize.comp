#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "gpu.glsl"
#include "math.glsl"
// softmax, log_softmax, layer_norm, rms_norm, group_norm, and var_mean, which gives the moments themselves: rows.glsl says how the work is
// cut. A row is read three times: what comes second is relative to what came first (maximum, mean), so no digits are lost. One that
// lies densely and is not too long is read once, four elements at a time, and held.
layout(constant_id = 0) const uint COLUMNS = 1;
layout(constant_id = 1) const uint KIND = 0;      // 0 softmax, 1 log_softmax, 2 softmax that is 0 for a row of -inf; 3 norm, 4 rms_norm, 5 var_mean
layout(constant_id = 2) const uint SCALED = 0;    // there is a w
layout(constant_id = 3) const uint SHIFTED = 0;   // there is a b
layout(constant_id = 4) const uint CHANNELS = 0;  // w and b: 0 by place in the row; by channel, a row's 1 outer, 2 inner dim
layout(constant_id = 5) const uint HELD = 0;      // fours of a row that a thread holds; 0: the row is read anew in every pass

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

vec2 joined(vec2 a, vec2 b, bool maximum) { return maximum ? vec2(p_maximum(a.x, b.x), 0) : a + b; }

// The sum, or the maximum, of all that share a row: at most sixteen of them put together what the others have, then all look at those.
vec2 together(vec2 v, bool maximum) {
  const uint FEW = 16;
  parts[gl_LocalInvocationID.x] = v;
  barrier();
  if (SHARERS > FEW) {
    for (uint i = sharer + FEW; sharer < FEW && i < SHARERS; i += FEW) v = joined(v, parts[i * COLUMNS + column], maximum);
    barrier();
    parts[gl_LocalInvocationID.x] = v;
    barrier();
  }
  v = parts[column];
  for (uint i = 1; i < min(SHARERS, FEW); ++i) v = joined(v, parts[i * COLUMNS + column], maximum);
  barrier();
  return v;
}

float middle, factor, under;  // result: (x - middle) * factor, for softmax e to it, less `under`
bool hidden, wrong;           // softmax: a row of nothing; one with NaN or infinity in it
vec2 sums;

// One element's share in the pass: what the middle is (the maximum, the mean), what lies around it, then the result.
void first_pass(float v) { sums.x = KIND < 3 ? p_maximum(sums.x, v) : sums.x + v; }
void second_pass(float v) {
  v -= middle;
  sums += KIND < 3 ? vec2(exp(v), 0) : vec2(v, v * v);
}
float result(float v, uint row, uint i) {
  v -= middle;
  if (KIND < 3) {
    v = KIND == 1 ? v - under : exp(v) * factor;
    return wrong ? p_nan() : hidden ? 0.0 : v;
  }
  v *= factor;
  uint group = row % across[0];
  uint c = CHANNELS == 1 ? group * along[1] + i / along[0] : CHANNELS == 2 ? group * along[0] + i % along[0] : i;
  if (SCALED != 0) v *= float(w[w_at + c]);
  if (SHIFTED != 0) v += float(b[b_at + c]);
  return v;
}

// What the next pass goes by, of what all threads of the row found in this one.
void settle(uint pass) {
  sums = together(sums, pass == 0 && KIND < 3);
  if (KIND < 3 && pass == 0) {
    middle = sums.x;
    hidden = KIND == 2 && p_isinf(middle) && p_signbit(middle);
    wrong = p_isnan(middle) || p_isinf(middle) && !hidden;
  } else if (KIND < 3) {
    factor = 1.0 / sums.x;
    under = log(sums.x);
  } else if (pass == 0) {
    middle = sums.x / float(count);
  } else {
    if (KIND != 4) {
      float rest = sums.x / float(count);  // what rounding left of the mean
      if (!p_isnan(rest)) middle += rest;
      sums.y = p_maximum(sums.y - sums.x * rest, 0.0);
    }
    factor = KIND == 5 ? sums.y / number : 1.0 / sqrt(sums.y / float(count) + number);
  }
}

void main() {
  for (FIRST_ROW; first < rows; NEXT_ROWS) {
    uint row = first + column, from = x_at + place(row, across, across_in), to = place(row, across, across_out);
    uint n = row < rows ? count : 0;
    middle = 0.0, factor = 1.0, under = 0.0, hidden = false, wrong = false;
    vec4 held[HELD == 0 ? 1 : HELD];
    [[unroll]] for (uint j = 0; j < HELD; ++j) {
      uint i = (sharer + j * SHARERS) * 4;
      if (i < n) held[j] = vec4(x_4[(from + i) >> 2]);
    }
    for (uint pass = KIND == 4 ? 1 : 0; pass < 2; ++pass) {
      sums = vec2(pass == 0 && KIND < 3 ? -p_inf() : 0.0, 0.0);
      if (HELD == 0)
        for (uint i = sharer; i < n; i += SHARERS) {
          float v = float(x[from + place(i, along, along_in)]);
          if (pass == 0)
            first_pass(v);
          else
            second_pass(v);
        }
      [[unroll]] for (uint j = 0; j < HELD; ++j)
        if ((sharer + j * SHARERS) * 4 < n)
          for (uint k = 0; k < 4; ++k) {
            if (pass == 0)
              first_pass(held[j][k]);
            else
              second_pass(held[j][k]);
          }
      settle(pass);
    }
    if (KIND == 5) {
      if (sharer == 0 && row < rows) {
        y[y_at + to] = T(count == 0 ? p_nan() : factor);
        mean[mean_at + to] = T(count == 0 ? p_nan() : middle);
      }
      continue;
    }
    if (HELD == 0)
      for (uint i = sharer; i < n; i += SHARERS)
        y[y_at + to + place(i, along, along_out)] = T(result(float(x[from + place(i, along, along_in)]), row, i));
    [[unroll]] for (uint j = 0; j < HELD; ++j) {
      uint i = (sharer + j * SHARERS) * 4;
      if (i >= n) continue;
      for (uint k = 0; k < 4; ++k) held[j][k] = result(held[j][k], row, i + k);
      y_4[(y_at + to + i) >> 2] = T4(held[j]);
    }
  }
}
