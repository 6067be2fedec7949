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
const uint THREADS = 128, MOST = 2048;
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
        float result, first = float(x[from + j]), a = gate(j);
        if (CELL == 0) {
          float enter = p_sigmoid(first + a), keep = p_sigmoid(float(x[from + hidden + j]) + gate(hidden + j));
          float candidate = p_tanh(float(x[from + 2 * hidden + j]) + gate(2 * hidden + j));
          float leave = p_sigmoid(float(x[from + 3 * hidden + j]) + gate(3 * hidden + j));
          cells[i] = fma(keep, cells[i], enter * candidate);
          result = leave * p_tanh(cells[i]);
        } else if (CELL == 1) {
          vec3 own = vec3(a, gate(hidden + j), gate(2 * hidden + j));
          if (BIAS != 0) own += vec3(float(c[c_at + j]), float(c[c_at + hidden + j]), float(c[c_at + 2 * hidden + j]));
          float reset = p_sigmoid(first + own.x), update = p_sigmoid(float(x[from + hidden + j]) + own.y);
          float candidate = p_tanh(fma(reset, own.z, float(x[from + 2 * hidden + j])));
          result = fma(update, state[j] - candidate, candidate);
        } else {
          float sum = first + a;
          result = CELL == 2 ? p_tanh(sum) : p_maximum(sum, 0.0);
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
