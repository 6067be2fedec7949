#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "math.glsl"
// lstm, gru and rnn, one layer in one direction: a workgroup has one row of the batch with all its steps, and its state in shared memory as
// f32. A thread has hidden units THREADS apart. Weights: [ceil(rows / 16)][columns][16].
layout(constant_id = 0) const uint CELL = 0;  // lstm, gru, tanh, relu
layout(constant_id = 1) const uint PROJECTED = 0;
layout(constant_id = 2) const uint BIAS = 0;  // gru: the state's
layout(constant_id = 3) const uint REVERSE = 0;
const uint THREADS = 128, MOST = 2048, GATES = CELL == 0 ? 4 : CELL == 1 ? 3 : 1;
layout(local_size_x = 128) in;
layout(push_constant) uniform Push {
  uint steps, batch, hidden, width;  // width: of the state
  uint x_step, x_row, y_step, y_row, h_row, c_row;
  uint x_at, w_at, h_at, c_at, projection_at, y_at, last_at, last_c_at;
};
READ(0, x);
READ(1, w);
READ(2, h);
READ(3, c);  // gru: the bias
READ(4, projection);
WRITE(5, y);
WRITE(6, last);
WRITE(7, last_c);

shared float state[MOST];
shared float made[MOST];

float gate(uint row) {
  float sum = 0.0;
  uint at = w_at + row / 16 * width * 16 + row % 16;
  for (uint k = 0; k < width; ++k) sum = fma(state[k], float(w[at + k * 16]), sum);
  return sum;
}

void main() {
  uint me = gl_LocalInvocationID.x;
  for (uint row = gl_WorkGroupID.x; row < batch; row += gl_NumWorkGroups.x) {
    float cells[MOST / THREADS];
    for (uint k = me; k < width; k += THREADS) state[k] = float(h[h_at + row * h_row + k]);
    if (CELL == 0)
      for (uint j = me, i = 0; j < hidden; j += THREADS, ++i) cells[i] = float(c[c_at + row * c_row + j]);
    barrier();
    for (uint t = 0; t < steps; ++t) {
      uint now = REVERSE != 0 ? steps - 1 - t : t, from = x_at + now * x_step + row * x_row, to = y_at + now * y_step + row * y_row;
      for (uint j = me, i = 0; j < hidden; j += THREADS, ++i) {
        float result, given[4], own[4];
        for (uint g = 0; g < GATES; ++g) {
          given[g] = float(x[from + g * hidden + j]);
          own[g] = gate(g * hidden + j) + (BIAS != 0 ? float(c[c_at + g * hidden + j]) : 0.0);
        }
        if (CELL == 3) {
          result = p_maximum(given[0] + own[0], 0.0);
        } else if (CELL == 2) {
          result = p_tanh(given[0] + own[0]);
        } else {
          float first = p_sigmoid(given[0] + own[0]), second = p_sigmoid(given[1] + own[1]);
          float candidate = p_tanh(given[2] + (CELL == 1 ? first * own[2] : own[2]));
          if (CELL == 1) {
            result = fma(second, state[j] - candidate, candidate);
          } else {
            cells[i] = fma(second, cells[i], first * candidate);
            result = p_sigmoid(given[3] + own[3]) * p_tanh(cells[i]);
          }
        }
        made[j] = result;
      }
      barrier();
      for (uint k = me; k < width; k += THREADS) {
        float v = made[k];
        if (PROJECTED != 0) {
          v = 0.0;
          uint at = projection_at + k / 16 * hidden * 16 + k % 16;
          for (uint j = 0; j < hidden; ++j) v = fma(made[j], float(projection[at + j * 16]), v);
        }
        state[k] = v;
        y[to + k] = T(v);
      }
      barrier();
    }
    for (uint k = me; k < width; k += THREADS) last[last_at + row * width + k] = T(state[k]);
    if (CELL == 0)
      for (uint j = me, i = 0; j < hidden; j += THREADS, ++i) last_c[last_c_at + row * hidden + j] = T(cells[i]);
    barrier();
  }
}
