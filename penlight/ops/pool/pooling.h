// Pooling of the VM: torch's windows, for each side of the planes.
#pragma once
#include "penlight/runtime/vm/planes.h"

namespace pen {

struct Window {
  int64_t kernel[3], stride[3], padding[3], dilation[3];
  int64_t divisor;  // of a mean; 0: the window's size
  bool ceil_mode, count_padding;
};
// Attributes of a node that slides a window, and of one that divides by its size.
void add_window(Graph* g, const Window& w, int sides, bool dilated);
void add_divisor(Graph* g, const Window& w);
Status need_pool_dtype(const Call& c, const TensorObject& x, bool integers, DType* carrier);

}  // namespace pen
