// How a camera's picture is walked: for every column and row of the result, where the bytes of its pixel lie in each plane. Columns and
// rows add up, whatever the rotation: one of them is the picture's x and the other its y.
#pragma once
#include "penlight/runtime/base/platform.h"

namespace pen::image {

struct Axis {
  int32_t start, sign;  // the picture's coordinate of column or row i is start + sign * floor(i * scale) …
  int32_t size;         // … but inside the picture
  float scale;
  int64_t step[3];  // bytes between neighbours in Y, U and V; the latter two have every second one
};

static PEN_INLINE int32_t place(const Axis& axis, int64_t i) {
  int32_t at = axis.start + axis.sign * static_cast<int32_t>(static_cast<float>(i) * axis.scale);
  return at < 0 ? 0 : at >= axis.size ? axis.size - 1 : at;
}
static PEN_INLINE int64_t offset(const Axis& axis, int32_t place, int plane) { return (plane ? place >> 1 : place) * axis.step[plane]; }

// value = colour * scale + shift, by red, green and blue
struct Factors {
  float scale[3], shift[3];
  bool channels_last;
};

typedef void ArgbFn(const uint32_t* pixels, int64_t stride, int64_t width, int64_t height, int64_t plane, const Factors& f, float* out);
typedef void YuvFn(const uint8_t* const planes[3], const Axis& columns, const Axis& rows, int64_t width, int64_t height, const Factors& f,
                   float* out);

}  // namespace pen::image
