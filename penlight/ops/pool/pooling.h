// Pooling of the VM: torch's windows, for each side of the planes.
#pragma once
#include "penlight/runtime/vm/planes.h"

namespace pen {

struct Window {
  int64_t kernel[3], stride[3], padding[3], dilation[3];
  int64_t out[3];   // adaptive: the result's sizes, which windows follow from
  int64_t divisor;  // of a mean; 0: the window's size
  bool ceil_mode, count_padding, adaptive;
};
enum class PoolKind { maximum, mean };
// In double precision, for which there are no kernels. Gives result 0, and with `indices` the places as result 1.
Status pool_doubles(Call& c, const Planes& p, const Window& w, PoolKind kind, bool indices);
Status need_pool_dtype(const Call& c, const TensorObject& x, bool integers, DType* carrier);

}  // namespace pen
