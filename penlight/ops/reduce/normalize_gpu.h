// The shader of softmax, norms and moments, filled: for these, and for attention.
#pragma once
#include "penlight/runtime/gpu/rows.h"

namespace pen {

enum class Normalize : uint32_t { softmax, log_softmax, softmax_or_zero, norm, rms_norm, var_mean };  // as normalize.comp counts

static inline shader::Normalize normalize_shader(const GpuRows& rows, Normalize kind) {
  shader::Normalize s;
  fill_rows(rows, &s.push);
  for (int d = 0; d < GpuRows::kDims; ++d) s.push.along_out[d] = static_cast<uint32_t>(d < rows.along.rank ? rows.along.strides[0][d] : 0);
  s.COLUMNS = rows.columns();
  s.KIND = static_cast<uint32_t>(kind);
  return s;
}

}  // namespace pen
