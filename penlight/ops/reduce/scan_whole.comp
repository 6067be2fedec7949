#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "math.glsl"
#include "whole.glsl"
// Sum or product of the i64, which is two words, of a row so far: as scan.comp does it.
layout(constant_id = 0) const uint COLUMNS = 1;
layout(constant_id = 1) const uint PRODUCT = 0;

layout(push_constant) uniform Push {
  uint rows, count;
  uint across[4], across_in[4], across_out[4], along[4], along_in[4];
  uint y_step, x_at, y_at;
};
READ_WORDS(0, x);
WRITE_WORDS(1, y);
#include "rows.glsl"
shared uvec2 values[128];

void main() {
  uint thread = gl_LocalInvocationID.x, last = column + (SHARERS - 1) * COLUMNS;
  uvec2 start = uvec2(PRODUCT, 0);
  for (FIRST_ROW; first < rows; NEXT_ROWS) {
    uint row = first + column, n = row < rows ? count : 0;
    uint from = x_at + place(row, across, across_in), to = y_at + place(row, across, across_out);
    uvec2 before = start;
    for (uint i0 = 0; i0 < count; i0 += SHARERS) {
      uint i = i0 + sharer, at = from + place(i, along, along_in);
      uvec2 v = i < n ? uvec2(x[at * 2], x[at * 2 + 1]) : start;
      for (uint reach = 1; reach <= SHARERS; reach *= 2) {  // at last, onto what was before
        values[thread] = v;
        barrier();
        uvec2 other = reach == SHARERS ? before : sharer >= reach ? values[thread - reach * COLUMNS] : start;
        v = PRODUCT != 0 ? p_mul(other, v) : p_add(other, v);
        barrier();
      }
      values[thread] = v;
      barrier();
      before = values[last];
      barrier();
      if (i >= n) continue;
      y[(to + i * y_step) * 2] = v.x;
      y[(to + i * y_step) * 2 + 1] = v.y;
    }
  }
}
