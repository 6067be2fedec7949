// c = a * scale + b + bias: a specialization constant of each kind, and push constants.
#version 450
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const float scale = 1.0;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) readonly buffer B { float b[]; };
layout(binding = 2) writeonly buffer C { float c[]; };
layout(push_constant) uniform Push { uint n; float bias; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < n) c[i] = a[i] * scale + b[i] + bias;
}
