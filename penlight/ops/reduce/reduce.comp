#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "math.glsl"
// sum, mean, prod, amax, amin, nansum, norms over any dims: rows.glsl says how the work is cut.
layout(constant_id = 0) const uint KIND = 0;     // 0 sum, 1 product, 2 maximum, 3 minimum
layout(constant_id = 1) const uint MAP = 0;      // 0 as it is, 1 NaN is 0, 2 magnitude, 3 square, 4 is it not zero
layout(constant_id = 2) const uint FINISH = 0;   // 1 over the count, 2 root
layout(constant_id = 3) const uint COLUMNS = 1;

layout(push_constant) uniform Push {
  uint rows, count;
  uint across[4], across_in[4], across_out[4], along[4], along_in[4];
  uint x_at, y_at;
};
READ(0, x);
WRITE(1, y);
#include "rows.glsl"
shared float parts[128];

float start() { return KIND == 1 ? 1.0 : KIND == 2 ? uintBitsToFloat(0xff800000u) : KIND == 3 ? uintBitsToFloat(0x7f800000u) : 0.0; }
float join(float a, float b) {
  switch (KIND) {
    case 1: return a * b;
    case 2: return p_maximum(a, b);
    case 3: return p_minimum(a, b);
  }
  return a + b;
}
float mapped(float v) {
  switch (MAP) {
    case 1: return p_isnan(v) ? 0.0 : v;
    case 2: return p_abs(v);
    case 3: return v * v;
    case 4: return v != 0.0 ? 1.0 : 0.0;
  }
  return v;
}

void main() {
  uint thread = gl_LocalInvocationID.x;
  for (FIRST_ROW; first < rows; NEXT_ROWS) {
    uint row = first + column, from = x_at + place(row, across, across_in);
    bool live = row < rows;
    float v = start();
    for (uint i = sharer; live && i < count; i += SHARERS) v = join(v, mapped(float(x[from + place(i, along, along_in)])));
    parts[thread] = v;
    barrier();
    for (uint half_ = SHARERS / 2; half_ > 0; half_ /= 2) {
      if (sharer < half_) parts[thread] = join(parts[thread], parts[thread + half_ * COLUMNS]);
      barrier();
    }
    if (sharer == 0 && live) {
      v = parts[thread];
      if (FINISH == 1) v /= float(count);
      if (FINISH == 2) v = sqrt(v);
      y[y_at + place(row, across, across_out)] = T(v);
    }
    barrier();
  }
}
