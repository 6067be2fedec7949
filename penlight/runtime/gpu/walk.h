// Operands of one shape walked together: dims that all of them pass in one go are merged, innermost first.
#pragma once
#include "penlight/runtime/gpu/gpu.h"

namespace pen {

struct GpuWalk {
  static constexpr int kMost = 5;  // operands
  int rank = 0, count = 0;         // of operands
  int64_t n = 1;
  int64_t dims[kMaxRank] = {};
  int64_t strides[kMost][kMaxRank] = {};

  // Whether operand i passes its elements one after the other.
  bool dense(int i) const { return n <= 1 || (rank == 1 && strides[i][0] == 1); }
  // The same, of dims that others keep from being merged.
  bool in_order(int i) const {
    int64_t expected = 1;
    for (int d = 0; d < rank; ++d) {
      if (strides[i][d] != expected && n > 1) return false;
      expected *= dims[d];
    }
    return true;
  }
};

// `shape`: dims of all; strides of each operand by it, 0 where broadcast. The order is that of the last operand's memory.
GpuWalk walk_together(const Shape& shape, const int64_t (*strides)[kMaxRank], int operands);
// Strides of `t` seen as `shape`, of the same rank or a higher one: 0 in dims that it repeats.
void broadcast_strides(const Tensor& t, const Shape& shape, int64_t* strides);

// `from` laid as `to`, which has its dims: any strides, any dtype of both. `first`: where in `source` the first element lies, for strides
// below 0. `part`: what lies around `target` must stay.
Status dispatch_copy(Gpu& b, const Tensor& from, const Operand& source, const Tensor& to, const Operand& target, int64_t first = 0,
                     bool part = false);

// KIND of shaders that move elements.
static inline uint32_t gpu_kind(DType dtype) {
  return dtype == DType::f32 ? 0 : dtype_size(dtype) == 1 ? 4 : static_cast<uint32_t>(dtype_size(dtype) / 4);
}

}  // namespace pen
