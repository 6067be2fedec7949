// What matmul's bind rule tells its kernels.
#pragma once
#include "penlight/ops/matmul/panels.h"

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

}  // namespace pen
