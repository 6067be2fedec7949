// cat, for other operators too.
#pragma once
#include "penlight/ops/shape/views.h"

namespace pen {

// The tensors joined along a dim, promoted to one dtype.
Status cat(const Call& c, const Value* items, int64_t count, int64_t dim, Value* made);

}  // namespace pen
