#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "math.glsl"
// argmax, argmin: the place of the first extreme in a row, a NaN before all: rows.glsl says how the work is cut. y: i64, two words.
layout(constant_id = 0) const uint COLUMNS = 1;
layout(constant_id = 1) const uint LEAST = 0;

layout(push_constant) uniform Push {
  uint rows, count;
  uint across[4], across_in[4], across_out[4], along[4], along_in[4];
  uint x_at, y_at;
};
READ(0, x);
WRITE_WORDS(1, y);
#include "rows.glsl"
shared float bests[128];
shared uint places[128];

bool better(float v, uint at, float best, uint best_at) {
  bool nan = p_isnan(v), best_nan = p_isnan(best);
  if (nan || best_nan) return nan && (!best_nan || at < best_at);
  return v == best ? at < best_at : LEAST != 0 ? v < best : v > best;
}

void main() {
  uint thread = gl_LocalInvocationID.x;
  for (FIRST_ROW; first < rows; NEXT_ROWS) {
    uint row = first + column, from = x_at + place(row, across, across_in), n = row < rows ? count : 0, at = ~0u;
    float best = uintBitsToFloat(LEAST != 0 ? 0x7f800000u : 0xff800000u);
    for (uint i = sharer; i < n; i += SHARERS) {
      float v = float(x[from + place(i, along, along_in)]);
      if (better(v, i, best, at)) best = v, at = i;
    }
    bests[thread] = best;
    places[thread] = at;
    barrier();
    for (uint half_ = SHARERS / 2; half_ > 0; half_ /= 2) {
      uint other = thread + half_ * COLUMNS;
      if (sharer < half_ && better(bests[other], places[other], bests[thread], places[thread])) {
        bests[thread] = bests[other];
        places[thread] = places[other];
      }
      barrier();
    }
    if (sharer == 0 && n != 0) {
      uint to = (y_at + place(row, across, across_out)) * 2;
      y[to] = places[thread];
      y[to + 1] = 0;
    }
    barrier();
  }
}
