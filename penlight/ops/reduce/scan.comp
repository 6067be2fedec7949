#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "math.glsl"
// Sum, product, log-sum-exp, or extreme with its last place, of the elements of a row so far: rows.glsl says how the work is cut. Those
// that share a row take as many elements as they are, put theirs and all before it together in steps that double, and go on from the last.
layout(constant_id = 0) const uint COLUMNS = 1;
layout(constant_id = 1) const uint KIND = 0;  // 0 sum, 1 product, 2 log-sum-exp, 3 largest, 4 smallest

layout(push_constant) uniform Push {
  uint rows, count;
  uint across[4], across_in[4], across_out[4], along[4], along_in[4];
  uint y_step, x_at, y_at, where_at;
};
READ(0, x);
WRITE(1, y);
WRITE_WORDS(2, where);
#include "rows.glsl"
shared float values[128];
shared uint places[128];

float start() { return KIND == 1 ? 1.0 : KIND == 2 || KIND == 3 ? -p_inf() : KIND == 4 ? p_inf() : 0.0; }

// What follows (b) onto what was before (a). Equal ones move the place on; NaN wins, and a later NaN moves it on too.
void join(float a, uint a_at, inout float b, inout uint b_at) {
  if (KIND >= 3) {
    bool takes = p_isnan(b) || (!p_isnan(a) && (KIND == 3 ? b >= a : b <= a));
    if (!takes) b = a, b_at = a_at;
  } else if (KIND == 2) {
    if (p_isnan(a) || p_isnan(b)) {
      b = p_nan();
    } else {
      float most = max(a, b), least = min(a, b);
      b = most == least && p_isinf(most) ? most : p_isinf(least) ? most : most + p_log1p(exp(least - most));
    }
  } else {
    b = KIND == 1 ? a * b : a + b;
  }
}

void main() {
  uint thread = gl_LocalInvocationID.x;
  for (FIRST_ROW; first < rows; NEXT_ROWS) {
    uint row = first + column, n = row < rows ? count : 0, before_at = 0;
    uint from = x_at + place(row, across, across_in), to = place(row, across, across_out);
    float before = start();
    for (uint i0 = 0; i0 < count; i0 += SHARERS) {
      uint i = i0 + sharer, at = i;
      float v = i < n ? float(x[from + place(i, along, along_in)]) : start();
      for (uint reach = 1; reach <= SHARERS; reach *= 2) {  // at last, onto what was before
        values[thread] = v;
        places[thread] = at;
        barrier();
        bool own = reach < SHARERS;
        uint other = own ? thread - reach * COLUMNS : thread;
        if (own ? sharer >= reach : i0 != 0) join(own ? values[other] : before, own ? places[other] : before_at, v, at);
        barrier();
      }
      values[thread] = v;
      places[thread] = at;
      barrier();
      uint last = column + (SHARERS - 1) * COLUMNS;
      before = values[last];
      before_at = places[last];
      barrier();
      if (i >= n) continue;
      y[y_at + to + i * y_step] = T(v);
      if (KIND >= 3) {
        where[(where_at + to + i * y_step) * 2] = at;
        where[(where_at + to + i * y_step) * 2 + 1] = 0;
      }
    }
  }
}
