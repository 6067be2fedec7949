// The loop of all elementwise shaders: four numbers to a thread and round. dims: merged, innermost first; DENSE: one dim.
layout(local_size_x = 128) in;

#include "merged.glsl"

#ifdef CONDITION
#define GET0(i) float(BYTE(x0, x0_at + (i)))
#else
#define GET0(i) float(x0[x0_at + (i)])
#endif
#define GET(x, i) float(x[x##_at + (i)])
#define GET4(x, i) vec4(x##_4[(x##_at + (i)) >> 2])

void main() {
  uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x * 4;
  for (uint i = gl_GlobalInvocationID.x * 4; i < n; i += step) {
    vec4 a = vec4(0), b = vec4(0), c = vec4(0), r;
    uint count = min(4u, n - i);
    if (DENSE != 0) {
#ifdef CONDITION
      for (uint j = 0; j < 4; ++j) a[j] = GET0(i + j);
#else
      a = GET4(x0, i);
#endif
#if INPUTS > 1
      b = GET4(x1, i);
#endif
#if INPUTS > 2
      c = GET4(x2, i);
#endif
    } else {
      for (uint j = 0; j < count; ++j) {
        a[j] = GET0(place(i + j, x0_strides));
#if INPUTS > 1
        b[j] = GET(x1, place(i + j, x1_strides));
#endif
#if INPUTS > 2
        c[j] = GET(x2, place(i + j, x2_strides));
#endif
      }
    }
    for (uint j = 0; j < 4; ++j) r[j] = rule(a[j], b[j], c[j]);
#ifdef TRUTH
    uint word = 0;
    for (uint j = 0; j < count; ++j) word |= uint(r[j] != 0.0) << (8 * j);
    y[(y_at + i) >> 2] = word;
#else
    if (DENSE != 0)
      y_4[(y_at + i) >> 2] = T4(r);
    else
      for (uint j = 0; j < count; ++j) y[y_at + place(i + j, y_strides)] = T(r[j]);
#endif
  }
}
