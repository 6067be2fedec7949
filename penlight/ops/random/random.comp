#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "math.glsl"
// Random numbers by Philox (philox.h), the same words as on the CPU: element i has word i of its node's stream. Normal ones are made of two
// words each, the radius and the angle of two numbers that lie 128 apart.
layout(constant_id = 0) const uint NORMAL = 0;
layout(constant_id = 1) const uint OPEN = 0;  // from (0, 1]
layout(local_size_x = 128) in;
layout(push_constant) uniform Push { uint n, stream; float from, by, below; uint seed_at, y_at; };
READ_WORDS(0, seed);  // of this run: seed, and the number of the run
WRITE(1, y);

uint word(uint i) {
  uvec4 counter = uvec4(i / 4, stream << 16, seed[seed_at + 2], seed[seed_at + 3]);
  uvec2 key = uvec2(seed[seed_at], seed[seed_at + 1]);
  for (int round = 0; round < 10; ++round) {
    uvec2 a, b;
    umulExtended(0xD2511F53u, counter.x, a.y, a.x);
    umulExtended(0xCD9E8D57u, counter.z, b.y, b.x);
    counter = uvec4(b.y ^ counter.y ^ key.x, b.x, a.y ^ counter.w ^ key.y, a.x);
    key += uvec2(0x9E3779B9u, 0xBB67AE85u);
  }
  return counter[i % 4];
}

float fraction(uint bits) { return fma(float(bits >> 1), 4.65661287e-10, 2.32830644e-10); }

void main() {
  for (uint i = gl_GlobalInvocationID.x; i < n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
    float v;
    uint words[2];
    for (uint k = 0; k < (NORMAL != 0 ? 2 : 1); ++k) words[k] = word(NORMAL == 0 ? i : k == 0 ? i & ~128u : i | 128u);
    if (NORMAL != 0) {
      float turn = float(int(words[1])) * 2.32830644e-10 - ((i & 128u) != 0 ? 0.25 : 0.0);  // a quarter back: the sine
      v = fma(sqrt(-2.0 * p_log(fraction(words[0]))) * by, p_cos(turn * 6.28318531), from);
    } else if (OPEN != 0) {
      v = fraction(words[0]);
    } else {
      v = fma(float(words[0] >> 8) * 5.96046448e-8, by, from);
      if (!(float(T(v)) < below)) v = from;  // as it will be stored
    }
    y[y_at + i] = T(v);
  }
}
