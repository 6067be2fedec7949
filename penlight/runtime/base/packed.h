// The packed layouts of convolution and linear weights (file/SPEC.md, Layouts), and how many bytes each takes. Logical
// dims are [Co, Ci / groups, kh, kw], [Co, Ci / groups, kd, kh, kw], or [N, K] for linear; K runs in the order kd, kh, kw, ci.
//   panel16  [groups][ceil(Co_g / 16)][K][16], missing columns zero      matrix kernels
//   taps     [kh * kw][Co]                                                depthwise: one input channel a group; f32, or i8
//   grouped  [ceil(Co / 16)][kh * kw][Ci_g][16], missing outputs zero     groups with few outputs each
//   winograd2, winograd4, winograd6: [(m + 2)^2][ceil(Co / 16)][Ci][16]   3 x 3 weights, transformed (winograd.py)
//   quads16  [groups][ceil(Co_g / 16)][ceil(K / 4)][16][4] i8, zeros where Co_g or K ends   integer matrix kernels
#pragma once
#include "penlight/runtime/base/tensor.h"

namespace pen {

// m of layout "winograd<m>"; 0 for others.
static PEN_INLINE int64_t winograd_outputs(const char* layout) {
  if (strlen(layout) != 9 || memcmp(layout, "winograd", 8) != 0) return 0;
  const char m = layout[8];
  return m == '2' || m == '4' || m == '6' ? m - '0' : 0;
}

// -1: these dims or groups have no such layout, or it would be too large.
int64_t packed_bytes(const char* layout, const Tensor& w, int64_t groups);

// What is needed to find the numbers of a packed weight again. VM code may have it the other way round, as transposed
// convolutions [Ci, Co / groups, ...] and products [K, N] do: "panel16t" and "groupedt" are the same bytes, with dims in that order.
struct Packed {
  const char* layout;  // "panel16", "taps" or "grouped"; null: it is not packed
  bool turned;
  int64_t groups;
  int64_t outputs, inputs, taps;  // Co, Ci / groups, and kernel positions
};

// The bytes that a weight of these dims takes in a layout that can be undone (transforms cannot); -1: it is none, or is empty.
int64_t describe_packed(const char* layout, int rank, const int64_t* dims, int64_t groups, Packed* to);

// The weight as it was, in the order of its dims, by its bits: 4 bytes an element.
void unpack_weight(const Packed& p, const uint32_t* from, uint32_t* to);

}  // namespace pen
