#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "math.glsl"
// One step of lstm, gru or rnn, or lstm's projection: a thread has one unit of one row of the batch, and multiplies the state before by
// the weights of its gates. w: panels of 16 gates, [panel][state][16].
layout(constant_id = 0) const uint KIND = 0;  // 0 lstm, 1 gru, 2 tanh, 3 relu, 4 a product alone
layout(constant_id = 1) const uint BIAS = 0;  // gru: there is one
layout(local_size_x = 64) in;

layout(push_constant) uniform Push {
  uint n, units, state;
  uint x_row, h_row, c_row, y_row;
  uint x_at, w_at, h_at, c_at, bias_at, y_at, c_new_at;
};
READ(0, x);
READ(1, w);
READ(2, h);
READ(3, c);
READ(4, bias);
WRITE(5, y);
WRITE(6, c_new);
const uint GATES = KIND == 0 ? 4 : KIND == 1 ? 3 : 1;

void main() {
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uint unit = i % units, row = i / units, before = h_at + row * h_row, from[4];
    float sum[4], given[4];
    for (uint g = 0; g < GATES; ++g) {
      uint gate = g * units + unit;
      from[g] = w_at + gate / 16 * state * 16 + gate % 16;
      given[g] = KIND == 4 ? 0.0 : float(x[x_at + row * x_row + gate]);
      sum[g] = BIAS != 0 ? float(bias[bias_at + gate]) : 0.0;
    }
    for (uint k = 0; k < state; ++k) {
      float v = float(h[before + k]);
      for (uint g = 0; g < GATES; ++g) sum[g] = fma(v, float(w[from[g] + k * 16]), sum[g]);
    }
    float result = sum[0] + given[0];
    if (KIND == 0) {
      float cell = p_sigmoid(sum[1] + given[1]) * float(c[c_at + row * c_row + unit]) + p_sigmoid(result) * p_tanh(sum[2] + given[2]);
      c_new[c_new_at + row * units + unit] = T(cell);
      result = p_sigmoid(sum[3] + given[3]) * p_tanh(cell);
    } else if (KIND == 1) {
      // The state's share of the candidate is reset before the input's is added.
      float candidate = p_tanh(p_sigmoid(result) * sum[2] + given[2]), update = p_sigmoid(sum[1] + given[1]);
      result = candidate + update * (float(h[before + unit]) - candidate);
    } else if (KIND == 2) {
      result = p_tanh(result);
    } else if (KIND == 3) {
      result = p_maximum(result, 0.0);
    }
    y[y_at + row * y_row + unit] = T(result);
  }
}
