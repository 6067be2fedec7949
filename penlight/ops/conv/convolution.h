// A convolution of the VM, whatever operator asked for it: torch's arguments, in its order of dims.
#pragma once
#include "penlight/runtime/vm/planes.h"

namespace pen {

struct Convolution {
  int64_t stride[3], dilation[3];  // of each side of the planes
  int64_t before[3], after[3];     // padding; of a transposed one: what is cut off
  int64_t groups;
  bool transposed;
  bool limited;  // results are cut to low … high
  double low, high;
};
// w: [Co, Ci / groups, …], transposed [Ci, Co / groups, …], of one to three spatial dims; b: [Co] or null. Gives result 0.
Status convolve(Call& c, const TensorObject& x, const TensorObject& w, const TensorObject* b, const Convolution& v);

}  // namespace pen
