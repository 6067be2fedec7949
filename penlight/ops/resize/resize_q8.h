// Bilinear resizing of quantized bytes: an output pixel is a mix of four, by torch's formula in f32 over the stored integers. Where the
// four lie, and their shares, is computed at bind.
#pragma once
#include "penlight/ops/resize/places.h"

namespace pen {

// Along one side: two pixels (the last one has itself as its next), and what they count.
struct Neighbours {
  int64_t first, next;  // elements from the beginning of the side, and from the first to the second
  float w0, w1;
};

struct ResizeBytes {
  Planes x, y;
  int64_t height, width, rows, tasks;
  bool same;          // scale and zero point stay
  float zero, ratio;  // of the input; its scale over the output's
  int32_t after;      // added to the rounded number
  // after this: neighbours of H, neighbours of W
  PEN_INLINE Neighbours* places(int side) { return reinterpret_cast<Neighbours*>(this + 1) + (side ? height : 0); }
  PEN_INLINE const Neighbours* places(int side) const { return const_cast<ResizeBytes*>(this)->places(side); }
};

// ratio: input pixels per output pixel; step: elements from one to the next. `copied`: torch copies a map that keeps its size.
static PEN_INLINE Neighbours neighbours(int64_t in, int64_t i, float ratio, bool align, int64_t step, bool copied) {
  if (copied) return {i * step, 0, 1.0f, 0.0f};
  float at = align ? ratio * static_cast<float>(i) : ratio * (static_cast<float>(i) + 0.5f) - 0.5f;
  if (!(at > 0.0f)) at = 0.0f;
  int64_t place = at < static_cast<float>(in - 1) ? static_cast<int64_t>(at) : in - 1;
  float rest = at - static_cast<float>(place);
  if (!(rest < 1e6f)) rest = 0.0f;  // a factor so tiny that torch's numbers mean nothing
  return {place * step, place < in - 1 ? step : 0, 1.0f - rest, rest};
}

}  // namespace pen
