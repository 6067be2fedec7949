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
// attention.comp on devices that multiply matrices of 16 x 16, for up to 384 keys: a workgroup of eight subgroups has 16 queries of one batch.
// Subgroups share the keys for the scores, which stand in shared memory as f32; eight to sixteen threads make a row of probabilities of them,
// as f16; then subgroups share the columns of the result, and halves of the keys. Keys and values are read where they lie, but for the last tile,
// which may end outside of them.
layout(constant_id = 0) const uint DEPTH = 64;  // of queries and keys: a multiple of 16, at most 128
layout(constant_id = 1) const uint WIDTH = 64;  // of values: the same
layout(constant_id = 2) const uint TILES = 24;  // of 16 keys
layout(constant_id = 3) const uint MASKED = 0;
layout(constant_id = 4) const uint CAUSAL = 0;
layout(local_size_x = 256) in;

layout(push_constant) uniform Push {
  uint queries, keys;
  uint dims[2];  // batch: three dims, innermost first, of which the last needs no size
  uint q_batch[3], k_batch[3], v_batch[3], mask_batch[3], y_batch[3];
  uint q_row, k_row, v_row, mask_row, mask_column, y_row;
  float scale;
  uint q_at, k_at, v_at, mask_at, y_at;
};
READ(0, q);
READ(1, k);
READ(2, v);
READ(3, mask);
WRITE(4, y);

const uint WARPS = 8, SHARERS = 16;
const uint COLUMNS = WIDTH / 16, SPLIT = COLUMNS >= WARPS ? 1 : COLUMNS > 4 ? 1 : COLUMNS > 2 ? 2 : 4;  // parts of the keys
const uint Q_LINE = DEPTH + 8, S_LINE = TILES * 16 + 4, P_LINE = TILES * 16 + 8;
const uint WIDER = DEPTH > WIDTH ? DEPTH : WIDTH, E_LINE = WIDER + 8;
const uint SUMS = 16 * WIDTH * SPLIT, SCORES = 16 * S_LINE;
shared float16_t tile_q[16 * Q_LINE];
shared float16_t edge[16 * E_LINE];                    // the last tile of keys, then of values
shared float scores[SCORES > SUMS ? SCORES : SUMS];    // then the parts of the result
shared float16_t chances[16 * P_LINE];
shared float shares[16 * SHARERS];

#include "batch.glsl"

void main() {
  uint thread = gl_LocalInvocationID.x, warp = gl_SubgroupID, first = gl_WorkGroupID.x * 16, batch = gl_WorkGroupID.y;
  uint from_q = q_at + place(batch, q_batch), from_k = k_at + place(batch, k_batch), from_v = v_at + place(batch, v_batch);
  uint full = keys / 16;  // tiles that end inside
  for (uint i = thread; i < 16 * DEPTH; i += 256) {
    uint r = i / DEPTH, d = i % DEPTH;
    tile_q[r * Q_LINE + d] = first + r < queries ? q[from_q + (first + r) * q_row + d] : float16_t(0);
    if (full < TILES) edge[r * E_LINE + d] = full * 16 + r < keys ? k[from_k + (full * 16 + r) * k_row + d] : float16_t(0);
  }
  barrier();

  for (uint t = warp; t < TILES; t += WARPS) {
    fcoopmatNV<32, gl_ScopeSubgroup, 16, 16> sum = fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>(0.0);
    fcoopmatNV<16, gl_ScopeSubgroup, 16, 16> b[DEPTH / 16];
    for (uint d = 0; d < DEPTH / 16; ++d) {
      if (t < full)
        coopMatLoadNV(b[d], k, from_k + t * 16 * k_row + d * 16, k_row, true);
      else
        coopMatLoadNV(b[d], edge, d * 16, E_LINE, true);
    }
    for (uint d = 0; d < DEPTH / 16; ++d) {
      fcoopmatNV<16, gl_ScopeSubgroup, 16, 16> a;
      coopMatLoadNV(a, tile_q, d * 16, Q_LINE, false);
      sum = coopMatMulAddNV(a, b[d], sum);
    }
    coopMatStoreNV(sum, scores, t * 16, S_LINE, false);
  }
  barrier();

  uint row = thread / SHARERS, sharer = thread % SHARERS, query = first + row;
  uint from_mask = mask_at + place(batch, mask_batch) + query * mask_row;
  float most = -p_inf(), total = 0.0;
  for (uint key = sharer; key < keys; key += SHARERS) {
    float s = scores[row * S_LINE + key] * scale;
    if (MASKED != 0 && query < queries) s += float(mask[from_mask + key * mask_column]);
    if (CAUSAL != 0 && key > query) s = -p_inf();
    scores[row * S_LINE + key] = s;
    most = p_maximum(most, s);
  }
  shares[thread] = most;
  // The edge of the keys is not needed any more.
  for (uint i = thread; i < 16 * WIDTH && full < TILES; i += 256) {
    uint r = i / WIDTH, e = i % WIDTH;
    edge[r * E_LINE + e] = full * 16 + r < keys ? v[from_v + (full * 16 + r) * v_row + e] : float16_t(0);
  }
  barrier();
  for (uint i = 0; i < SHARERS; ++i) most = p_maximum(most, shares[row * SHARERS + i]);
  bool none = p_isinf(most) && p_signbit(most);
  barrier();
  for (uint key = sharer; key < TILES * 16; key += SHARERS) {
    float p = key < keys && !none ? exp(scores[row * S_LINE + key] - most) : 0.0;
    chances[row * P_LINE + key] = float16_t(p);
    total += float(float16_t(p));
  }
  shares[thread] = total;
  barrier();
  total = 0.0;
  for (uint i = 0; i < SHARERS; ++i) total += shares[row * SHARERS + i];

  for (uint job = warp; job < COLUMNS * SPLIT; job += WARPS) {
    uint e = job % COLUMNS * 16, part = job / COLUMNS;
    fcoopmatNV<32, gl_ScopeSubgroup, 16, 16> sum = fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>(0.0);
    for (uint t0 = part; t0 < TILES; t0 += 4 * SPLIT) {  // four on their way at a time
      fcoopmatNV<16, gl_ScopeSubgroup, 16, 16> b[4];
      for (uint i = 0; i < 4; ++i) {
        uint t = t0 + i * SPLIT;
        if (t < full)
          coopMatLoadNV(b[i], v, from_v + t * 16 * v_row + e, v_row, false);
        else if (t < TILES)
          coopMatLoadNV(b[i], edge, e, E_LINE, false);
      }
      for (uint i = 0; i < 4; ++i) {
        uint t = t0 + i * SPLIT;
        if (t >= TILES) break;
        fcoopmatNV<16, gl_ScopeSubgroup, 16, 16> a;
        coopMatLoadNV(a, chances, t * 16, P_LINE, false);
        sum = coopMatMulAddNV(a, b[i], sum);
      }
    }
    coopMatStoreNV(sum, scores, part * 16 * WIDTH + e, WIDTH, false);
  }
  barrier();
  if (query >= queries) return;
  uint to = y_at + place(batch, y_batch) + query * y_row;
  for (uint e = sharer; e < WIDTH; e += SHARERS) {
    float r = 0.0;
    for (uint part = 0; part < SPLIT; ++part) r += scores[part * 16 * WIDTH + row * WIDTH + e];
    y[to + e] = T(none ? 0.0 : r / total);
  }
}
