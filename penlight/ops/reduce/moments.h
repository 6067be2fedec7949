// Sums that the norms are made of: over one contiguous row, in four chains of vectors.
#pragma once
#include "penlight/runtime/simd/simd.h"

namespace pen {
namespace PEN_ISA {

// Sum of x[i] - shift (kSquare: of its square).
template <bool kSquare>
static PEN_INLINE float shifted_sum(const float* x, int64_t n, float shift) {
  V s = set1(shift), acc[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) {
      V d = load(x + i + u * kLanes) - s;
      acc[u] = kSquare ? fma(d, d, acc[u]) : acc[u] + d;
    }
  }
  for (; i + kLanes <= n; i += kLanes) {
    V d = load(x + i) - s;
    acc[0] = kSquare ? fma(d, d, acc[0]) : acc[0] + d;
  }
  float sum = reduce_add((acc[0] + acc[1]) + (acc[2] + acc[3]));
  for (; i < n; ++i) {
    float d = x[i] - shift;
    sum += kSquare ? d * d : d;
  }
  return sum;
}

}  // namespace PEN_ISA
}  // namespace pen
