// Reductions of f32 alone on a GPU. shader::Reduce: see reduce_gpu.h.
#include "penlight/ops/reduce/reduce_gpu.h"

namespace pen {

PEN_GPU(mean, "f32") { return reduce_on_gpu(b, kSum, kAsItIs, 1); }
PEN_GPU(nansum, "f32") { return reduce_on_gpu(b, kSum, kNanIsZero, 0); }
PEN_GPU(norm, "f32") {
  double p = b.number("p");
  if (p == 2) return reduce_on_gpu(b, kSum, kSquare, 2);
  if (p == 1) return reduce_on_gpu(b, kSum, kMagnitude, 0);
  if (p == 0) return reduce_on_gpu(b, kSum, kNotZero, 0);
  return reduce_on_gpu(b, p > 0 ? kMaximum : kMinimum, kMagnitude, 0);
}

}  // namespace pen
