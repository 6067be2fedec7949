// Packs a matrix that is known only in a run into panels of 16 columns, [ceil(N / 16)][K][16] with zeros past N: the
// layout "panel16" of constants. Used by matmul (its second matrix) and attention (keys and values).
#pragma once
#include "penlight/ops/shape/runs.h"
#include "penlight/runtime/cpu/copy.h"
#include "penlight/runtime/cpu/gemm.h"

namespace pen {

// Leading dims of a batched product, broadcast: outermost first, strides in elements of each operand.
constexpr int kBatchOperands = 5;
struct BatchDims {
  int rank;
  int64_t dims[kMaxRank];
  int64_t strides[kMaxRank][kBatchOperands];
  int64_t count;
};

// Offsets of batch `index` in each operand.
static PEN_INLINE void batch_offsets(const BatchDims& d, int64_t index, int64_t* offsets, int operands) {
  for (int o = 0; o < operands; ++o) offsets[o] = 0;
  for (int i = d.rank - 1; i >= 0; --i) {
    int64_t at = index % d.dims[i];
    index /= d.dims[i];
    for (int o = 0; o < operands; ++o) offsets[o] += at * d.strides[i][o];
  }
}

// A packed operand holds each distinct matrix once: its batch dims, numbered, 0 where the matrix repeats.
struct PackedBatch {
  BatchDims source;          // operand 0: offset in the tensor; `count` matrices
  int64_t number[kMaxRank];  // of batch dim i: how many packed matrices further
};
static PEN_INLINE PackedBatch packed_batch(const Shape& shape, const Tensor& x, int matrix) {
  PackedBatch p = {};
  p.source.count = 1;
  for (int i = shape.rank - 1; i >= 0; --i) {
    int64_t stride = broadcast_stride(shape, i, x, x.rank - matrix);
    if (stride == 0 || shape.dims[i] == 1) continue;
    p.number[i] = p.source.count;
    p.source.count *= shape.dims[i];
  }
  for (int i = 0; i < shape.rank; ++i) {
    if (p.number[i] == 0) continue;
    p.source.dims[p.source.rank] = shape.dims[i];
    p.source.strides[p.source.rank++][0] = broadcast_stride(shape, i, x, x.rank - matrix);
  }
  return p;
}

static PEN_INLINE int64_t panel_count(int64_t n) { return (n + 15) / 16; }

namespace PEN_ISA {

// Rows [0, k) of 16 columns of a matrix with strides (row, column); `columns` of them exist.
static PEN_INLINE void pack_panel(const float* from, int64_t k, int64_t columns, int64_t row, int64_t column, float* to) {
  if (column == 1 && columns >= 16) {
    for (int64_t i = 0; i < k; ++i) __builtin_memcpy(to + i * 16, from + i * row, 64);
    return;
  }
  if (columns < 16) memset(to, 0, static_cast<size_t>(k) * 64);
  int64_t n = columns < 16 ? columns : 16;
  if (row == 1)  // a transposed matrix
    return transpose_rest(reinterpret_cast<const uint32_t*>(from), column, reinterpret_cast<uint32_t*>(to), 16, n, k);
  for (int64_t i = 0; i < k; ++i) {
    for (int64_t j = 0; j < n; ++j) to[i * 16 + j] = from[i * row + j * column];
  }
}

constexpr int64_t kMaxBlockRows = 84;  // a multiple of most tile heights

// C = A x B, or C += A x B, for at most kMaxBlockRows rows of A and columns [begin, end) of n (begin on a multiple of
// 32). B is one packed matrix of k rows.
struct PanelProduct {
  const float* a;
  int64_t rows, a_pitch;
  const float* b;
  int64_t k, begin, end, n;
  float* c;
  int64_t c_pitch;
  bool add;
};

static PEN_INLINE void panel_product(const PanelProduct& p) {
  static const uint8_t live[1] = {1};
  static const Activation none = {};
  const float* rows[kMaxBlockRows];
  RowTile tiles[(kMaxBlockRows + kTileRows - 1) / kTileRows] = {};
  for (int64_t i = 0; i < p.rows; ++i) rows[i] = p.a + i * p.a_pitch;
  int count = cut_row_tiles(rows, p.rows, live, p.c, p.c_pitch, p.add ? p.c : nullptr, p.c_pitch, tiles);
  Block block = {};
  block.tiles = tiles;
  block.tile_count = count;
  block.taps = 1;
  block.tap_k = p.k;
  block.b = p.b;
  block.n_begin = p.begin;
  block.n_end = p.end;
  block.n = p.n;
  block.c_pitch = block.residual_pitch = p.c_pitch;
  block.act = &none;
  run_block(block);
}

}  // namespace PEN_ISA
}  // namespace pen
