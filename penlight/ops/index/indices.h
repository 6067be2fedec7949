// Index tensors: i64 (or i32), read one at a time; whoever uses one compares it with its range first.
#pragma once
#include "penlight/ops/shape/runs.h"

namespace pen {

static PEN_INLINE Status indices_bind(Bind& b, int input) {
  DType dtype = b.in(input).dtype;
  if (dtype != DType::i64 && dtype != DType::i32) return b.fail(input, "indices of i64 or i32", "dtype code %d", static_cast<int>(dtype));
  return b.need(input, Need::dense);
}

static PEN_INLINE int64_t index_at(const Tensor& indices, int64_t i) {
  return indices.dtype == DType::i64 ? indices.as<int64_t>()[i] : indices.as<int32_t>()[i];
}

// i64, read by its strides.
static PEN_INLINE Status index_tensor(Bind& b, int input) {
  if (b.in(input).dtype != DType::i64) return b.fail(input, "indices of i64", "dtype %s", kDTypeNames[static_cast<int>(b.in(input).dtype)]);
  return need_unpacked(b, input);
}

}  // namespace pen
