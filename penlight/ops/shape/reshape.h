// Whether a tensor can be seen in another shape without being copied: for the rules of reshape on every device.
#pragma once
#include "penlight/runtime/exec/kernel.h"

namespace pen {

// Strides with which `x` can be seen as `shape`. First, dims of x that continue each other become groups; then each
// group is cut into new dims, innermost first. A new dim across two groups has no stride.
static inline bool view_strides(const Tensor& x, const Shape& shape, int64_t* strides) {
  int64_t sizes[kMaxRank + 1], steps[kMaxRank + 1];
  int groups = 0;  // innermost first
  for (int d = x.rank - 1; d >= 0; --d) {
    if (x.dims[d] == 1) continue;
    if (groups > 0 && x.strides[d] == steps[groups - 1] * sizes[groups - 1]) {
      sizes[groups - 1] *= x.dims[d];
    } else {
      sizes[groups] = x.dims[d];
      steps[groups++] = x.strides[d];
    }
  }
  int group = 0;
  int64_t taken = 1;  // of the current group
  for (int d = shape.rank - 1; d >= 0; --d) {
    if (shape.dims[d] == 1) {
      strides[d] = group < groups ? steps[group] * taken : 0;
      continue;
    }
    if (group == groups || sizes[group] % (taken * shape.dims[d]) != 0) return false;
    strides[d] = steps[group] * taken;
    taken *= shape.dims[d];
    if (taken == sizes[group]) {
      ++group;
      taken = 1;
    }
  }
  return true;
}

// The product of sizes, -1 where one is negative or 64 bits do not hold it (a view with stride 0 can be of any size).
static inline int64_t element_count(const int64_t* dims, int rank) {
  int64_t n = 1;
  for (int d = 0; d < rank; ++d) {
    if (dims[d] == 0) return 0;
    if (dims[d] < 0 || __builtin_mul_overflow(n, dims[d], &n)) return -1;
  }
  return n;
}

}  // namespace pen
