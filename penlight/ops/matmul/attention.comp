#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
#include "math.glsl"
// softmax(q k^T * scale + mask) v, whatever strides they have: a workgroup has 16 queries of one batch, and goes over the keys 32 at a time.
// What it has summed up so far is scaled down when a larger score comes (the running maximum of a row), so scores are never stored. A row
// whose scores are all -inf gives 0. Eight threads share a row: of the scores each has four, of the result every eighth number.
layout(constant_id = 0) const uint DEPTH = 64;   // of queries and keys, at most 128
layout(constant_id = 1) const uint WIDTH = 64;   // of values, at most 128
layout(constant_id = 2) const uint MASKED = 0;
layout(constant_id = 3) const uint CAUSAL = 0;
layout(local_size_x = 128) in;

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

const uint ROWS = 16, KEYS = 32, SHARERS = 8, MINE = KEYS / SHARERS;
const uint WIDER = DEPTH > WIDTH ? DEPTH : WIDTH, LINE = WIDER + 1;
shared float tile_q[ROWS * (DEPTH + 1)];
shared float tile[KEYS * LINE];          // of keys, then of values
shared float scores[ROWS * (KEYS + 1)];
shared float shares[ROWS * (SHARERS + 1)];

#include "batch.glsl"

void main() {
  uint thread = gl_LocalInvocationID.x, row = thread / SHARERS, sharer = thread % SHARERS;
  uint first = gl_WorkGroupID.x * ROWS, batch = gl_WorkGroupID.y, query = first + row;
  uint from_q = q_at + place(batch, q_batch), from_k = k_at + place(batch, k_batch), from_v = v_at + place(batch, v_batch);
  uint from_mask = mask_at + place(batch, mask_batch);
  for (uint i = thread; i < ROWS * DEPTH; i += 128) {
    uint r = i / DEPTH, d = i % DEPTH;
    tile_q[r * (DEPTH + 1) + d] = first + r < queries ? float(q[from_q + (first + r) * q_row + d]) * scale : 0.0;
  }
  float sum[16], largest = -p_inf(), total = 0.0;
  for (uint e = 0; e < 16; ++e) sum[e] = 0.0;

  for (uint key0 = 0; key0 < keys; key0 += KEYS) {
    barrier();
    for (uint i = thread; i < KEYS * DEPTH; i += 128) {
      uint r = i / DEPTH, d = i % DEPTH;
      tile[r * LINE + d] = key0 + r < keys ? float(k[from_k + (key0 + r) * k_row + d]) : 0.0;
    }
    barrier();
    float s[MINE];
    for (uint j = 0; j < MINE; ++j) s[j] = 0.0;
    for (uint d = 0; d < DEPTH; ++d) {
      float a = tile_q[row * (DEPTH + 1) + d];
      for (uint j = 0; j < MINE; ++j) s[j] = fma(a, tile[(j * SHARERS + sharer) * LINE + d], s[j]);
    }
    float most = -p_inf();
    for (uint j = 0; j < MINE; ++j) {
      uint key = key0 + j * SHARERS + sharer;
      if (MASKED != 0 && key < keys && query < queries) s[j] += float(mask[from_mask + query * mask_row + key * mask_column]);
      if (key >= keys || (CAUSAL != 0 && key > query)) s[j] = -p_inf();
      most = p_maximum(most, s[j]);
    }
    shares[row * (SHARERS + 1) + sharer] = most;
    barrier();
    for (uint i = 0; i < SHARERS; ++i) most = p_maximum(most, shares[row * (SHARERS + 1) + i]);
    float before = largest;
    largest = p_maximum(largest, most);
    bool none = p_isinf(largest) && p_signbit(largest);  // nothing to see yet
    float down = none ? 1.0 : exp(before - largest);
    total *= down;
    for (uint e = 0; e < 16; ++e) sum[e] *= down;
    for (uint j = 0; j < MINE; ++j) {
      float p = none ? 0.0 : exp(s[j] - largest);
      scores[row * (KEYS + 1) + j * SHARERS + sharer] = p;
      total += p;
    }
    // The values take the place of the keys.
    for (uint i = thread; i < KEYS * WIDTH; i += 128) {
      uint r = i / WIDTH, e = i % WIDTH;
      tile[r * LINE + e] = key0 + r < keys ? float(v[from_v + (key0 + r) * v_row + e]) : 0.0;
    }
    barrier();
    uint here = min(KEYS, keys - key0);
    for (uint key = 0; key < here; ++key) {
      float p = scores[row * (KEYS + 1) + key];
      for (uint e = 0; e * SHARERS < WIDTH; ++e)
        if (e * SHARERS + sharer < WIDTH) sum[e] = fma(p, tile[key * LINE + e * SHARERS + sharer], sum[e]);
    }
  }
  barrier();
  shares[row * (SHARERS + 1) + sharer] = total;
  barrier();
  total = 0.0;
  for (uint i = 0; i < SHARERS; ++i) total += shares[row * (SHARERS + 1) + i];
  bool none = p_isinf(largest) && p_signbit(largest);
  if (query >= queries) return;
  uint to = y_at + place(batch, y_batch) + query * y_row;
  for (uint e = 0; e * SHARERS + sharer < WIDTH; ++e) y[to + e * SHARERS + sharer] = T(none ? 0.0 : sum[e] / total);
}
