#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "math.glsl"
// sum, mean, prod, amax, amin, nansum, norms over any dims: a workgroup reduces one output (THREADS threads share its elements, COLUMNS
// outputs side by side in memory are taken together), each thread some of them, then all together through shared memory.
layout(constant_id = 0) const uint KIND = 0;     // 0 sum, 1 product, 2 maximum, 3 minimum
layout(constant_id = 1) const uint MAP = 0;      // 0 as it is, 1 NaN is 0, 2 magnitude, 3 square, 4 is it not zero
layout(constant_id = 2) const uint FINISH = 0;   // 1 over the count, 2 root
layout(constant_id = 3) const uint COLUMNS = 1;  // threads over outputs, THREADS / COLUMNS over what is reduced
layout(local_size_x = 128) in;

layout(push_constant) uniform Push {
  uint outputs, count;
  uint kept[4], kept_in[4], kept_out[4];  // dims and strides, innermost first
  uint reduced[4], reduced_in[4];
  uint x_at, y_at;
};
READ(0, x);
WRITE(1, y);
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
  uint thread = gl_LocalInvocationID.x, column = thread % COLUMNS, row = thread / COLUMNS, rows = 128 / COLUMNS;
  for (uint first = gl_WorkGroupID.x * COLUMNS; first < outputs; first += gl_NumWorkGroups.x * COLUMNS) {
    uint output_ = first + column, rest = output_, from = x_at, to = y_at;
    bool live = output_ < outputs;
    for (uint d = 0; d < 4; ++d) {
      uint k = d < 3 ? rest % kept[d] : rest;
      rest /= kept[d];
      from += k * kept_in[d];
      to += k * kept_out[d];
    }
    float v = start();
    for (uint i = row; live && i < count; i += rows) {
      uint left = i, at = from;
      for (uint d = 0; d < 4; ++d) {
        at += (d < 3 ? left % reduced[d] : left) * reduced_in[d];
        left /= reduced[d];
      }
      v = join(v, mapped(float(x[at])));
    }
    parts[thread] = v;
    barrier();
    for (uint half_ = rows / 2; half_ > 0; half_ /= 2) {
      if (row < half_) parts[thread] = join(parts[thread], parts[thread + half_ * COLUMNS]);
      barrier();
    }
    if (row == 0 && live) {
      v = parts[thread];
      if (FINISH == 1) v /= float(count);
      if (FINISH == 2) v = sqrt(v);
      y[to] = T(v);
    }
    barrier();
  }
}
