#version 450
#extension GL_GOOGLE_include_directive : require
#include "gpu.glsl"
// y = a x b * scale + mask, of batches of matrices with any strides: a workgroup computes TY * TM rows by TX * TN columns, BK values of the
// sum at a time, through shared memory. CAUSAL: -inf right of the diagonal.
layout(constant_id = 0) const uint TX = 16;  // threads over columns
layout(constant_id = 1) const uint TY = 16;  // threads over rows
layout(constant_id = 2) const uint TM = 4;   // rows of a thread
layout(constant_id = 3) const uint TN = 4;   // columns of a thread, TX apart
layout(constant_id = 4) const uint BK = 16;
layout(constant_id = 5) const uint A_DOWN = 0;    // a is read along its columns, as its memory lies
layout(constant_id = 6) const uint B_DOWN = 0;    // b too
layout(constant_id = 7) const uint MASKED = 0;
layout(constant_id = 8) const uint CAUSAL = 0;

layout(local_size_x_id = 0, local_size_y_id = 1) in;

layout(push_constant) uniform Push {
  uint batches, m, n, depth;
  uint dims[2];  // batch: three dims, innermost first, of which the last needs no size
  uint a_batch[3], b_batch[3], mask_batch[3], y_batch[3];
  uint a_row, a_column, b_row, b_column, mask_row, mask_column, y_row, y_column;
  float scale;
  uint a_at, b_at, mask_at, y_at;
};
READ(0, a);
READ(1, b);
READ(2, mask);
WRITE(3, y);

const uint BM = TY * TM, BN = TX * TN;
shared float tile_a[BK * (BM + 1)];
shared float tile_b[BK * (BN + 1)];

#include "batch.glsl"

void main() {
  uint tx = gl_LocalInvocationID.x, ty = gl_LocalInvocationID.y, thread = ty * TX + tx, threads = TX * TY;
  uint tiles = (m + BM - 1) / BM, n0 = gl_WorkGroupID.x * BN;
  for (uint job = gl_WorkGroupID.y; job < batches * tiles; job += gl_NumWorkGroups.y) {
    uint batch = job / tiles, m0 = job % tiles * BM;
    uint from_a = a_at + place(batch, a_batch), from_b = b_at + place(batch, b_batch);
    float sum[TM * TN];
    for (uint i = 0; i < TM * TN; ++i) sum[i] = 0.0;
    for (uint k0 = 0; k0 < depth; k0 += BK) {
      for (uint i = thread; i < BM * BK; i += threads) {
        uint k = A_DOWN != 0 ? i / BM : i % BK, row = A_DOWN != 0 ? i % BM : i / BK;
        bool inside = k0 + k < depth && m0 + row < m;
        tile_a[k * (BM + 1) + row] = inside ? float(a[from_a + (m0 + row) * a_row + (k0 + k) * a_column]) : 0.0;
      }
      for (uint i = thread; i < BN * BK; i += threads) {
        uint k = B_DOWN != 0 ? i % BK : i / BN, column = B_DOWN != 0 ? i / BK : i % BN;
        bool inside = k0 + k < depth && n0 + column < n;
        tile_b[k * (BN + 1) + column] = inside ? float(b[from_b + (k0 + k) * b_row + (n0 + column) * b_column]) : 0.0;
      }
      barrier();
      for (uint k = 0; k < BK; ++k) {
        float right[TN];
        for (uint j = 0; j < TN; ++j) right[j] = tile_b[k * (BN + 1) + j * TX + tx];
        for (uint i = 0; i < TM; ++i) {
          float left = tile_a[k * (BM + 1) + ty * TM + i];
          for (uint j = 0; j < TN; ++j) sum[i * TN + j] = fma(left, right[j], sum[i * TN + j]);
        }
      }
      barrier();
    }
    uint to = y_at + place(batch, y_batch), over = mask_at + place(batch, mask_batch);
    for (uint i = 0; i < TM; ++i) {
      for (uint j = 0; j < TN; ++j) {
        uint row = m0 + ty * TM + i, column = n0 + j * TX + tx;
        if (row >= m || column >= n) continue;
        float v = sum[i * TN + j] * scale;
        if (MASKED != 0) v += float(mask[over + row * mask_row + column * mask_column]);
        if (CAUSAL != 0 && column > row) v = uintBitsToFloat(0xff800000u);
        y[to + row * y_row + column * y_column] = T(v);
      }
    }
  }
}
