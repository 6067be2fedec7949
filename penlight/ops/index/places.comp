#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "faults.glsl"
// Where index tensors point: for each index, its number times a stride, and of several tensors the sum. NOWHERE for one out of range, which
// is a fault. dims: of the indices, innermost first; places lie one after the other.
layout(constant_id = 0) const uint WORDS = 2;     // of an index
layout(constant_id = 1) const uint FIRST = 1;     // else added to what is there
layout(constant_id = 2) const uint NEGATIVE = 0;  // those below 0 count from the end
layout(constant_id = 3) const uint RANK = 8;
layout(local_size_x = 128) in;
layout(push_constant) uniform Push {
  uint n, size, stride, step, input_number;
  uint dims[8];
  uint strides[8];
  uint index_at, places_at, faults_at;
};
READ_WORDS(0, index);
WRITE_WORDS(1, places);
WRITE_WORDS(2, faults);

void main() {
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    uint rest = i, at = index_at;
    for (uint d = 0; d < RANK; ++d) {
      at += rest % dims[d] * strides[d];
      rest /= dims[d];
    }
    uint low = index[at * WORDS], high = WORDS == 2 ? index[at * WORDS + 1] : int(low) < 0 ? ~0u : 0u;
    bool below = NEGATIVE != 0 && high == ~0u && low >= 0u - size && size != 0;
    uint before = FIRST != 0 ? 0u : places[places_at + i], place = NOWHERE;
    if (below || (high == 0 && low < size))
      place = before == NOWHERE ? NOWHERE : before + (below ? low + size : low) * stride;
    else
      report(faults_at, step, input_number, uvec2(low, high), NEGATIVE != 0 ? 0u - size : 0u, size);
    places[places_at + i] = place;
  }
}
