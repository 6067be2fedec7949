// Whether a copy would change anything: for the rules of copy on every device.
#pragma once
#include "penlight/runtime/exec/kernel.h"

namespace pen {

// Whether `x` lies as a fresh output would, whatever its pixel pitch.
[[maybe_unused]] static PEN_SMALL bool lies_so(const Tensor& x, bool nhwc) {
  int64_t expected = 1;
  bool pitch_known = !nhwc;
  for (int k = x.rank - 1; k >= 0; --k) {
    int d = !nhwc || k == 0 ? k : k == x.rank - 1 ? 1 : k + 1;  // innermost first: nhwc begins with dim 1
    if (x.dims[d] == 1) continue;
    if (d != 1 && !pitch_known) {
      if (x.strides[d] < expected) return false;
      expected = x.strides[d];
      pitch_known = true;
    }
    if (x.strides[d] != expected) return false;
    expected *= x.dims[d];
  }
  return true;
}

}  // namespace pen
