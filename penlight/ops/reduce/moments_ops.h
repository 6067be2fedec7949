// Means and variances for the norms of the VM.
#pragma once
#include "penlight/runtime/vm/flat.h"

namespace pen {

// Mean and (biased) variance of each row over `dims`, as arrays of doubles [outer].
Status moments_of(const Call& c, const TensorObject& x, const DimSet& dims, Value* mean, Value* var);
// x * scale + shift, both one number a channel (dim 1), doubles. Gives result 0, in x's dtype and memory format.
Status give_affine(Call& c, const TensorObject& x, const double* scale, const double* shift);
Status need_channel_numbers(const Call& c, int arg, int64_t channels);

}  // namespace pen
