// Where output pixels lie in the input: torch's arithmetic, in f32 and in its order, so that a place which falls on a
// boundary falls on the same side. Computed at bind, once per set of shapes.
#pragma once
#include "penlight/runtime/exec/kernel.h"

namespace pen {

constexpr int64_t kMaxSide = 1 << 24;  // f32 counts exactly up to here, as torch must rely on too

// Checks what both resizes share and makes the output. factors: for H and W, 0 where none was given.
static PEN_INLINE Status resize_bind(Bind& b, double* factors) {
  if (b.in(0).rank != 4) return b.fail(0, "a tensor of rank 4", "rank %d", b.in(0).rank);
  IntList size = b.ints("size");
  FloatList scales = b.floats("scales");
  if (size.count != 2 || (scales.count != 0 && scales.count != 2))
    return b.fail(-1, "2 sizes and 0 or 2 scales", "%d and %d", size.count, scales.count);
  Shape out;
  out.rank = 4;
  out.dims[0] = b.in(0).dims[0];
  out.dims[1] = b.in(0).dims[1];
  for (int i = 0; i < 2; ++i) {
    int64_t in = b.in(0).dims[2 + i];
    if (in < 1 || in > kMaxSide || size[i] < 1 || size[i] > kMaxSide)
      return b.fail(-1, "sides from 1 to 16777216", "%lld to %lld", static_cast<long long>(in), static_cast<long long>(size[i]));
    out.dims[2 + i] = size[i];
    if (scales.count == 2 && !(scales[i] <= 0 || (scales[i] >= 1e-30 && scales[i] <= 1e30)))  // NaN, or inf in f32
      return b.fail(-1, "scales from 1e-30 to 1e30", "%g", scales[i]);
    factors[i] = scales.count == 2 && scales[i] > 0 ? scales[i] : 0;
  }
  PEN_TRY(b.need(0, Need::channels));
  PEN_TRY(b.output(0, b.in(0).dtype, out));
  return b.need_out(0, Need::channels);
}

// Input pixels for one step of the output.
static PEN_INLINE float resize_step(int64_t in, int64_t out, double factor) {
  return factor > 0 ? static_cast<float>(1.0 / factor) : static_cast<float>(in) / static_cast<float>(out);
}

}  // namespace pen
