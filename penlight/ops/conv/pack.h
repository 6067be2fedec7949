// The packed layouts of convolution and linear weights (file/SPEC.md, Layouts), and how many bytes each takes. Logical
// dims are [Co, Ci / groups, kh, kw], [Co, Ci / groups, kd, kh, kw], or [N, K] for linear; K runs in the order kd, kh, kw, ci.
//   panel16  [groups][ceil(Co_g / 16)][K][16], missing columns zero      matrix kernels
//   taps     [kh * kw][Co]                                                depthwise: one input channel a group
//   grouped  [ceil(Co / 16)][kh * kw][Ci_g][16], missing outputs zero     groups with few outputs each
//   winograd2, winograd4, winograd6: [(m + 2)^2][ceil(Co / 16)][Ci][16]   3 x 3 weights, transformed (winograd.py)
#pragma once
#include "penlight/runtime/base/tensor.h"

namespace pen {

// m of layout "winograd<m>"; 0 for others.
static PEN_INLINE int64_t winograd_outputs(const char* layout) {
  bool known = strcmp(layout, "winograd2") == 0 || strcmp(layout, "winograd4") == 0 || strcmp(layout, "winograd6") == 0;
  return known ? layout[8] - '0' : 0;
}

// -1: these dims or groups have no such layout, or it would be too large.
static PEN_INLINE int64_t packed_bytes(const char* layout, const Tensor& w, int64_t groups) {
  if (w.rank < 2 || groups < 1 || w.dims[0] % groups != 0) return -1;
  int64_t outputs = winograd_outputs(layout);
  bool panels = strcmp(layout, "panel16") == 0 || outputs, taps = strcmp(layout, "taps") == 0;
  if (!panels && !taps && strcmp(layout, "grouped") != 0) return -1;
  if (taps && (w.dims[1] != 1 || w.dims[0] < groups)) return -1;
  if (outputs && (groups != 1 || w.rank != 4 || w.dims[2] != 3 || w.dims[3] != 3)) return -1;
  int64_t columns = w.dims[0] / groups, bytes = 4;
  if (panels) columns = columns / 16 * 16 + (columns % 16 ? 16 : 0);
  if (__builtin_mul_overflow(columns, groups, &columns)) return -1;
  if (!panels && !taps) columns = columns / 16 * 16 + (columns % 16 ? 16 : 0);
  if (__builtin_mul_overflow(bytes, columns, &bytes)) return -1;
  for (int d = 1; d < w.rank; ++d) {
    int64_t size = outputs && d >= 2 ? outputs + 2 : w.dims[d];
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return -1;
  }
  return bytes;
}

}  // namespace pen
