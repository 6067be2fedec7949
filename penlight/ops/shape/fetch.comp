#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
// Each element of y from the place of x that MODE tells, or a number: padding, repeats, triangles. dims: y's, innermost first; those of x
// are `sizes`, and `before` is where x begins in y. A triangle's rows and columns are dims 1 and 0, and before[0] its diagonal.
layout(constant_id = 0) const uint KIND = 0;
layout(constant_id = 1) const uint MODE = 0;  // number, reflect, replicate, around, lower, upper
layout(constant_id = 2) const uint RANK = 5;
layout(local_size_x = 128) in;
layout(push_constant) uniform Push {
  uint n, low, high;  // words of the number
  uint dims[5];
  int sizes[5];
  int before[5];
  uint x_strides[5];
  uint y_strides[5];
  uint x_at, y_at;
};
READ_ANY(0, x);
WRITE_ANY(1, y);

void main() {
  uvec2 bits = uvec2(low, high);
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uint rest = i, from = x_at, to = y_at;
    bool inside = true;
    int places[2] = {0, 0};
    for (uint d = 0; d < RANK; ++d) {
      uint k = rest % dims[d];
      rest /= dims[d];
      to += k * y_strides[d];
      int at = int(k), size = sizes[d];
      if (MODE >= 4) {
        if (d < 2) places[d] = at;
      } else {
        at -= before[d];
        if (MODE == 1) at = at < 0 ? -at : at >= size ? 2 * (size - 1) - at : at;
        if (MODE == 2) at = clamp(at, 0, size - 1);
        if (MODE == 3) at = at < 0 ? at + size : int(uint(at) % uint(size));
        inside = inside && at >= 0 && at < size;
      }
      from += uint(at) * x_strides[d];
    }
    if (MODE >= 4) inside = MODE == 5 ? places[0] - places[1] >= before[0] : places[0] - places[1] <= before[0];
    if (inside) {
      MOVE(y, to, x, from)
    } else {
      PUT(y, to, bits)
    }
  }
}
