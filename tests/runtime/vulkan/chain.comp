// y = x * factor + i, in a workgroup that takes its time: whoever does not wait for it reads something else.
#version 450
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint rounds = 1;
layout(binding = 0) readonly buffer X { uint x[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(push_constant) uniform Push { uint n, factor; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= n) return;
  uint v = x[i];
  for (uint k = 0; k < rounds; ++k) v = v * 1664525u + 1013904223u;
  y[i] = v * factor + i;
}
