// The shader of softmax, norms and moments, filled: for these, and for attention.
#pragma once
#include "penlight/runtime/gpu/rows.h"

namespace pen {

enum class Normalize : uint32_t { softmax, log_softmax, softmax_or_zero, norm, rms_norm, var_mean };  // as normalize.comp counts

static inline shader::Normalize normalize_shader(const GpuRows& rows, Normalize kind, const Operand& x, const Operand& y) {
  const Operand* const at[] = {&y, &x};
  shader::Normalize s;
  fill_rows(rows, &s.push);
  for (int d = 0; d < GpuRows::kDims; ++d) s.push.along_out[d] = static_cast<uint32_t>(d < rows.along.rank ? rows.along.strides[0][d] : 0);
  s.COLUMNS = rows.columns();
  // Rows of fours, side by side in memory: the places of all their firsts are multiples of four.
  constexpr int64_t kMostHeld = 8;
  int64_t held = ceil_div(rows.along.n, kRowThreads / s.COLUMNS * 4);
  bool fours = rows.along.rank == 1 && rows.along.n % 4 == 0 && held <= kMostHeld;
  for (int side = 0; side < 2; ++side) {
    fours &= rows.along.strides[side][0] == 1 && at[side]->offset % (4 * dtype_size(DType::f32)) == 0;
    for (int d = 0; d < rows.across.rank; ++d) fours &= rows.across.strides[side][d] % 4 == 0;
  }
  if (fours && kind != Normalize::var_mean) s.HELD = static_cast<uint32_t>(held);
  s.KIND = static_cast<uint32_t>(kind);
  return s;
}

}  // namespace pen
