// What all pooling operators share: the bind rule of windows that slide or adapt, and where a window lies. NHWC or NDHWC: a
// pixel's channels are contiguous; rows, pixels and batch may lie at any stride on both sides. Padding is not read: windows
// are cut to the image beforehand. Kernels: pool.cc (f32, vectors over channels), pool_plain.cc (i64, f64), pool_q8.cc.
#pragma once
#include "penlight/runtime/exec/kernel.h"

namespace pen {

// Averages of quantized bytes: round((sum - pixels * center) * m + before) + after, where m is `multiplier`, or `ratio` over the divisor
// if that is 0.
struct ByteAverage {
  int32_t center, after;
  float multiplier, ratio, before;
};

// Index 0 is H, 1 is W, 2 is D, of size 1 where there are only two dims.
struct PoolParams {
  int64_t kernel[3], stride[3], pad[3], pad_end[3], dilation[3];
  bool adaptive;                                   // windows follow from the sizes; dilation is 1
  int64_t in[3], out[3];                           // sizes
  int64_t in_step[3], out_step[3], index_step[3];  // elements from one to the next: of x, of the output, of the indices
  int64_t index_image;                             // the same from image to image
  int64_t divisor;                                 // 0: the window's size
  bool count_include_pad, indices;
  int64_t rows, tasks;  // N * OD * OH output rows, cut into tasks
  ByteAverage bytes;    // of quantized bytes
};

// The taps of output `o` that lie in the image: `count` of them, the first at input index `start`.
struct PoolSpan {
  int64_t start, count, padded;  // padded: taps that lie in the image or its padding
};
static PEN_INLINE PoolSpan pool_span(const PoolParams& p, int side, int64_t o) {
  int64_t k = p.kernel[side], d = p.dilation[side], in = p.in[side];
  if (p.adaptive) {
    int64_t out = p.out[side], start = o * in / out, count = ((o + 1) * in + out - 1) / out - start;
    return {start, count, count};
  }
  int64_t at = o * p.stride[side] - p.pad[side];
  int64_t skip = at < 0 ? (-at + d - 1) / d : 0;
  int64_t left = in - 1 - at;  // the last tap that may be read is at most this far from the first
  int64_t last = left < 0 ? -1 : left / d;
  int64_t end = last + 1 < k ? last + 1 : k;
  int64_t fit = in + p.pad_end[side] - at;
  return {at + skip * d, end > skip ? end - skip : 0, fit < k ? fit : k};
}

static __attribute__((noinline, unused)) bool row_ends(Patience* patience, int64_t width) { return patience->ends(width); }

// The part of one output's window that lies in the image.
template <class T>
struct PoolWindow {
  const T* x;                                       // its first pixel
  int64_t depth, height, width;                     // pixels
  int64_t plane, row, column;                       // elements from one to the next
  int64_t first;                                    // the first pixel's number in the image
  int64_t plane_number, row_number, column_number;  // from one's number to the next
  int64_t divisor;
  Patience* patience;  // null: it takes no time
  // Asked at each row: of a window that is a whole image too.
  PEN_INLINE bool ends() const { return kAsks && PEN_UNLIKELY(patience) && row_ends(patience, width); }
};
constexpr int64_t kLargeWindow = 1 << 20;

// Calls pixel(window, output, index) for every output pixel of the tasks; the last two are offsets into r.out.
template <class T, class Pixel>
static PEN_INLINE void pool_windows(const Run& r, const Pixel& pixel) {
  const PoolParams& p = r.as<PoolParams>();
  int64_t h = p.in[0], w = p.in[1];
  PoolWindow<T> window;
  window.plane = p.dilation[2] * p.in_step[2];
  window.row = p.dilation[0] * p.in_step[0];
  window.column = p.dilation[1] * p.in_step[1];
  window.plane_number = p.dilation[2] * h * w;
  window.row_number = p.dilation[0] * w;
  window.column_number = p.dilation[1];
  Patience patience(r);
  int64_t begin = part(p.rows, p.tasks, r.begin).begin, end = part(p.rows, p.tasks, r.end - 1).end;
  for (int64_t row = begin; row < end; ++row) {
    int64_t oy = row % p.out[0], plane = row / p.out[0], oz = plane % p.out[2], n = plane / p.out[2];
    PoolSpan sz = pool_span(p, 2, oz), sy = pool_span(p, 0, oy);
    const T* in = r.in[0].as<T>() + n * r.in[0].strides[0] + sz.start * p.in_step[2] + sy.start * p.in_step[0];
    int64_t out = n * r.out[0].strides[0] + oz * p.out_step[2] + oy * p.out_step[0];
    int64_t index = n * p.index_image + oz * p.index_step[2] + oy * p.index_step[0];
    window.depth = sz.count;
    window.height = sy.count;
    for (int64_t ox = 0; ox < p.out[1]; ++ox, out += p.out_step[1], index += p.index_step[1]) {
      PoolSpan sx = pool_span(p, 1, ox);
      const int64_t pixels = sz.count * sy.count * sx.count;
      if (patience.ends(pixels * r.out[0].dims[1])) return;
      window.patience = pixels < kLargeWindow ? nullptr : &patience;
      window.x = in + sx.start * p.in_step[1];
      window.width = sx.count;
      window.first = (sz.start * h + sy.start) * w + sx.start;
      int64_t size = p.count_include_pad ? sz.padded * sy.padded * sx.padded : sz.count * sy.count * sx.count;
      window.divisor = p.divisor != 0 ? p.divisor : size > 0 ? size : 1;
      pixel(window, out, index);
    }
  }
}

}  // namespace pen
