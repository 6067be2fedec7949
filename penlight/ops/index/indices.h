// Index tensors: i64 (or i32), read one at a time; whoever uses one compares it with its range first.
#pragma once
#include "penlight/ops/shape/runs.h"

namespace pen {

static PEN_INLINE Status check_indices(const Given& g, int input) {
  DType dtype = g.in(input).dtype;
  if (dtype == DType::i64 || dtype == DType::i32) return PEN_OK;
  return g.fail(input, "indices of i64 or i32", "dtype code %d", static_cast<int>(dtype));
}

static PEN_INLINE int64_t index_at(const Tensor& indices, int64_t i) {
  return indices.dtype == DType::i64 ? indices.as<int64_t>()[i] : indices.as<int32_t>()[i];
}

// For operators that read i64 only.
static PEN_INLINE Status check_long_indices(const Given& g, int input) {
  DType dtype = g.in(input).dtype;
  return dtype == DType::i64 ? PEN_OK : g.fail(input, "indices of i64", "dtype %s", kDTypeNames[static_cast<int>(dtype)]);
}

}  // namespace pen
