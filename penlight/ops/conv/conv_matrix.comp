#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#pragma use_vulkan_memory_model
#define ONLY_F16
#include "gpu.glsl"
#include "math.glsl"
#include "activations.glsl"
// conv_gemm.comp on devices that multiply matrices of 16 x 16: a workgroup computes 16 pixels by FN * 16 channels. Its subgroups cut the
// sum, not the output: each takes every WARPS-th block of 16 values of it through shared memory of its own, the next block on its way while
// this one is multiplied, and none waits for another until all are added up at the end. So products with few outputs and long sums, which
// is what small images have, keep a large device busy. Channels come in eights.
layout(constant_id = 0) const uint THREADS = 256;
layout(constant_id = 1) const uint WARPS = 8;
layout(constant_id = 2) const uint FN = 2;
layout(constant_id = 3) const uint ACT = 0;
layout(constant_id = 4) const uint BIAS = 0;
layout(constant_id = 5) const uint RESIDUAL = 0;
layout(constant_id = 6) const uint POINTWISE = 0;
layout(constant_id = 7) const uint FOURS_OUT = 0;

layout(local_size_x_id = 0) in;

layout(push_constant) uniform Push {
  uint pixels, channels, depth;  // of the matrix product: M, N, K; channels and depth of a group
  uint ci, ih, iw, oh, ow, kw;
  uint sy, sx;
  int py, px;
  uint dy, dx;
  uint x_pitch, x_row, x_image, y_pitch, y_image, r_pitch, r_image;
  uint x_at, w_at, bias_at, residual_at, y_at;
  float args[4];
};

READ(0, x);
READ(1, w);
READ(2, bias);
READ(3, residual);
WRITE(4, y);
layout(std430, set = 0, binding = 0) readonly buffer Eights_x { uvec4 x_8[]; };
layout(std430, set = 0, binding = 1) readonly buffer Eights_w { uvec4 w_8[]; };

const uint LINE = 3;  // uvec4 from a row of 16 numbers to the next: one more than they take, so that rows lie in different banks
const uint STAGE = (1 + FN) * 16 * LINE, SUMS = 16 * FN * 4;  // a tile of x and those of w; sums
shared uvec4 room[WARPS * (STAGE > SUMS ? STAGE : SUMS)];

#include "epilogue.glsl"

void compute(uint m0) {
  uint warp = gl_SubgroupID, lane = gl_SubgroupInvocationID, chunk = lane % 2, row = lane / 2;
  uint n0 = gl_WorkGroupID.x * FN * 16, group = gl_WorkGroupID.z;
  uint panels = (channels + 15) / 16, stage = warp * STAGE;
  uint w0 = w_at / 8 + group * panels * depth * 2;

  // This lane's pixel: where its window begins.
  uint mine = m0 + row, base;
  int top, left;
  if (POINTWISE != 0) {
    base = x_at + mine / (oh * ow) * x_image + mine % (oh * ow) * x_pitch + group * ci;
    top = mine < pixels ? 0 : -1;
  } else {
    uint ox = mine % ow, line = mine / ow;
    base = x_at + line / oh * x_image + group * ci;
    top = mine < pixels ? int(line % oh * sy) - py : -0x40000000;
    left = int(ox * sx) - px;
  }

  fcoopmatNV<32, gl_ScopeSubgroup, 16, 16> sum[FN];
  for (uint j = 0; j < FN; ++j) sum[j] = fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>(0.0);

  uvec4 next_x, next_w[FN];
  uint blocks = (depth + 15) / 16;
  for (uint block = warp; block < blocks + WARPS; block += WARPS) {
    // What was fetched in the last round goes to shared memory, and the next block is on its way.
    bool have = block >= warp + WARPS;
    if (have) {
      room[stage + row * LINE + chunk] = next_x;
      for (uint j = 0; j < FN; ++j) room[stage + ((1 + j) * 16 + row) * LINE + chunk] = next_w[j];
      subgroupMemoryBarrierShared();
      subgroupBarrier();
    }
    if (block < blocks) {
      uint k = block * 16 + chunk * 8;
      bool inside = k < depth;
      if (POINTWISE != 0) {
        next_x = inside && top == 0 ? x_8[(base + k) >> 3] : uvec4(0);
      } else {
        uint tap = k / ci, c = k % ci;
        int iy = top + int(tap / kw * dy), ix = left + int(tap % kw * dx);
        bool there = inside && iy >= 0 && ix >= 0 && iy < int(ih) && ix < int(iw);
        next_x = there ? x_8[(base + uint(iy) * x_row + uint(ix) * x_pitch + c) >> 3] : uvec4(0);
      }
      uint at = block * 16 + row;
      for (uint j = 0; j < FN; ++j) {
        uint panel = n0 / 16 + j;
        next_w[j] = at < depth && panel < panels ? w_8[w0 + (panel * depth + at) * 2 + chunk] : uvec4(0);
      }
    }
    if (have) {
      fcoopmatNV<16, gl_ScopeSubgroup, 16, 16> a, b;
      coopMatLoadNV(a, room, stage, LINE, false);
      for (uint j = 0; j < FN; ++j) {
        coopMatLoadNV(b, room, stage + (1 + j) * 16 * LINE, LINE, false);
        sum[j] = coopMatMulAddNV(a, b, sum[j]);
      }
      subgroupBarrier();
    }
  }

  // All sums side by side, then added up, four channels of a pixel to a thread.
  barrier();
  for (uint j = 0; j < FN; ++j) coopMatStoreNV(sum[j], room, warp * SUMS + j * 4, FN * 4, false);
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < SUMS; i += THREADS) {
    uint pixel = m0 + i / (FN * 4), n = n0 + i % (FN * 4) * 4, c = group * channels + n;
    if (pixel >= pixels || n >= channels) continue;
    vec4 v = vec4(0);
    for (uint s = 0; s < WARPS; ++s) v += uintBitsToFloat(room[s * SUMS + i]);
    uint image = pixel / (oh * ow), within = pixel % (oh * ow);
    uint to = y_at + image * y_image + within * y_pitch + c, from = residual_at + image * r_image + within * r_pitch + c;
    finish(v, c, from, to, min(channels - n, 4u));
  }
}

void main() {
  for (uint m0 = gl_WorkGroupID.y * 16; m0 < pixels; m0 += gl_NumWorkGroups.y * 16) {
    compute(m0);
    barrier();  // the sums were read from where the next blocks go
  }
}
