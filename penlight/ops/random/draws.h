// Random tensors for the VM's operators: new numbers with every call.
#pragma once
#include "penlight/ops/shape/views.h"

namespace pen {

Status draw_normal(const Call& c, const Shape& shape, double mean, double std, DType dtype, Value* made);
// From low up to, not including, high; open: above 0 up to 1.
Status draw_uniform(const Call& c, const Shape& shape, double low, double high, bool open, DType dtype, Value* made);
Status draw_integers(const Call& c, const Shape& shape, int64_t low, int64_t high, DType dtype, Value* made);

}  // namespace pen
