// How many windows a kernel has along one side of an image, by torch's rules: for the shape rules of convolution, pooling and im2col,
// planned or in the VM, of floats or integers. Callers have bounded the numbers, so that nothing overflows.
#pragma once
#include "penlight/runtime/base/platform.h"

namespace pen {

// Which side dim 2 + i of an image is, and number i of an attribute: those go D, H, W, and sides H, W, D.
static PEN_INLINE int side_of(int i, int spatial) { return spatial == 2 ? i : (i + 2) % 3; }

struct WindowSide {
  int64_t size, kernel, stride, dilation;
  int64_t before, after;  // padding; of a transposed convolution: what is cut off its result
};

// From a window's first tap to its last.
static PEN_INLINE int64_t window_reach(const WindowSide& w) { return (w.kernel - 1) * w.dilation + 1; }

// 0: the window is larger than the padded image. With ceil_mode a last window may reach past the end, but it must begin inside the
// image or the padding before it.
static PEN_INLINE int64_t window_count(const WindowSide& w, bool ceil_mode = false) {
  int64_t room = w.size + w.before + w.after - window_reach(w) + (ceil_mode ? w.stride - 1 : 0);
  if (room < 0) return 0;
  int64_t n = room / w.stride + 1;
  return ceil_mode && (n - 1) * w.stride >= w.size + w.before ? n - 1 : n;
}

// The other way round: what a transposed convolution gives, every input pixel a window of outputs. May be below 1.
static PEN_INLINE int64_t transposed_size(const WindowSide& w) { return (w.size - 1) * w.stride + window_reach(w) - w.before - w.after; }

}  // namespace pen
