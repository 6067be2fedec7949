// Where output pixels lie in the input: torch's arithmetic, in f32 (f64 for f64) and in its order, so that a place which falls on a
// boundary falls on the same side. Computed at bind, once per set of shapes.
//
// Both resizes see [N, C, H, W] as [outer][H][W][inner] with `inner` values side by side: the channels of an nhwc image,
// or one value of a plain one, whose channels are outer.
#pragma once
#include "penlight/runtime/exec/kernel.h"

namespace pen {

constexpr int64_t kMaxSide = 1 << 24;  // f32 counts exactly up to here, as torch must rely on too

struct Planes {
  int64_t channels, inner;           // outer = batch * channels; channels is 1 where they are inside
  int64_t batch_step, channel_step;  // in elements
  int64_t row_step, pitch;           // of H and of W
};
static PEN_INLINE Planes planes_of(const Tensor& t, bool nhwc) {
  return {nhwc ? 1 : t.dims[1], nhwc ? t.dims[1] : 1, t.strides[0], nhwc ? 0 : t.strides[1], t.strides[2], nhwc ? t.strides[3] : 1};
}
static PEN_INLINE int64_t plane_offset(const Planes& p, int64_t outer) {
  return outer / p.channels * p.batch_step + outer % p.channels * p.channel_step;
}

// What both resizes share.
static PEN_INLINE Status resize_shapes(Shapes& s) {
  const Tensor& x = s.in(0);
  if (x.rank != 4) return s.fail(0, "a tensor of rank 4", "rank %d", x.rank);
  IntList size = s.ints("size");
  FloatList scales = s.floats("scales");
  if (size.count != 2 || (scales.count != 0 && scales.count != 2))
    return s.fail(-1, "2 sizes and 0 or 2 scales", "%d and %d", size.count, scales.count);
  Shape out = shape_of(x);
  for (int i = 0; i < 2; ++i) {
    int64_t in = x.dims[2 + i];
    if (in < 1 || in > kMaxSide || size[i] < 1 || size[i] > kMaxSide)
      return s.fail(-1, "sides from 1 to 16777216", "%lld to %lld", static_cast<long long>(in), static_cast<long long>(size[i]));
    out.dims[2 + i] = size[i];
    if (scales.count == 2 && !(scales[i] <= 0 || (scales[i] >= 1e-30 && scales[i] <= 1e30)))  // NaN, or inf in f32
      return s.fail(-1, "scales from 1e-30 to 1e30", "%g", scales[i]);
  }
  return s.output(0, x.dtype, out);
}

// factors: for H and W, 0 where none was given.
static PEN_INLINE Status resize_maps(Bind& b, double* factors) {
  FloatList scales = b.floats("scales");
  for (int i = 0; i < 2; ++i) factors[i] = scales.count == 2 && scales[i] > 0 ? scales[i] : 0;
  Need need = b.out_is_nhwc(0) ? Need::channels : Need::rows;
  PEN_TRY(b.need(0, need));
  PEN_TRY(b.output(0));
  return b.need_out(0, need);
}

// Input pixels for one step of the output.
template <class T>
static PEN_INLINE T resize_step(int64_t in, int64_t out, double factor) {
  return factor > 0 ? static_cast<T>(1.0 / factor) : static_cast<T>(in) / static_cast<T>(out);
}

}  // namespace pen
