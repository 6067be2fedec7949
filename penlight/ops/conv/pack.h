// The packed layouts of convolution and linear weights (file/SPEC.md, Layouts), and how many bytes each takes. Logical
// dims are [Co, Ci / groups, kh, kw], or [N, K] for linear; K runs in the order kh, kw, ci.
//   panel16  [groups][ceil(Co_g / 16)][K][16], missing columns zero      matrix kernels
//   taps     [kh * kw][Co]                                                depthwise: one input channel a group
//   grouped  [groups][kh * kw][Ci_g][Co_g]                                groups with few outputs each
#pragma once
#include "penlight/runtime/base/tensor.h"

namespace pen {

// -1: these dims or groups have no such layout, or it would be too large.
static PEN_INLINE int64_t packed_bytes(const char* layout, const Tensor& w, int64_t groups) {
  if (w.rank < 2 || groups < 1 || w.dims[0] % groups != 0) return -1;
  bool panels = strcmp(layout, "panel16") == 0, taps = strcmp(layout, "taps") == 0;
  if (!panels && !taps && strcmp(layout, "grouped") != 0) return -1;
  if (taps && (w.dims[1] != 1 || w.dims[0] < groups)) return -1;
  int64_t columns = w.dims[0] / groups, bytes = 4;
  if (panels) columns = columns / 16 * 16 + (columns % 16 ? 16 : 0);
  if (__builtin_mul_overflow(columns, groups, &columns) || __builtin_mul_overflow(bytes, columns, &bytes)) return -1;
  for (int d = 1; d < w.rank; ++d)
    if (w.dims[d] < 0 || __builtin_mul_overflow(bytes, w.dims[d], &bytes)) return -1;
  return bytes;
}

}  // namespace pen
