// What matmul's bind rule tells its kernels.
#pragma once
#include "penlight/ops/matmul/panels.h"
#include "penlight/runtime/cpu/result_q8.h"

namespace pen {

struct MatmulParams {
  BatchDims batch;  // operands: a, packed b (in matrices), out, b itself
  PackedBatch packed;
  int64_t m, k, n, panels;
  int64_t a_pitch, out_pitch, b_row, b_column;
  bool direct;  // no packing
  int64_t pack_tasks;
  int64_t row_blocks, column_blocks, columns;  // columns of a block
};

constexpr int64_t kMatmulRowsQ8 = 56;      // of a block, whose pointers are held at a time
constexpr int64_t kMatmulColumnsQ8 = 512;  // of a block, at most

// Of quantized bytes. A packed matrix is its panels, and behind them i32[2][16 * panels]: starts and sums of its columns.
struct MatmulQ8 : MatmulParams {
  int64_t padded_k;         // K, filled up to whole quads
  int64_t matrix_bytes;     // of a packed matrix
  int64_t copy_pitch;       // where rows of a end within a quad, they are copied this many bytes apart; else 0
  uint32_t a_zero, b_zero;  // zero points, b's as of i8; unsigned: products with them wrap
  ResultQ8 result;
  float scale[kMatmulColumnsQ8];  // of a block's columns: the same for all
  float bias[kMatmulColumnsQ8];   // none
};

}  // namespace pen
