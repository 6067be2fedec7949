// conv2d.q8.gemm, and the same of conv3d: convolution of quantized bytes as a matrix product whose rows are pointers to
// pixels (gather.h, runtime/cpu/gemm_q8.h). Where a group's channels are no multiple of 4, as of an image, windows are copied instead.
// Layout: NHWC in and out, any pitch; weights "quads16"; the bias is what lowering makes of it (lower/columns.py).
#include "penlight/runtime/cpu/gemm_q8.h"

#include "penlight/ops/conv/conv2d_q8.h"
#include "penlight/ops/conv/gather.h"

namespace pen {
namespace PEN_ISA {

static_assert(kQ8Rows <= kPixelUnit && sizeof(RowTileQ8) <= kTileBytes, "bind sized scratch for these");

// Lines of windows, by 16 or 32 bytes: over a line's end. What comes next in the window is written later, and there is room behind the
// last.
template <int kBytes>
static PEN_INLINE void copy_lines(const uint8_t* from, int64_t step, uint8_t* to, int64_t run, int64_t lines) {
  for (; lines > 0; --lines, to += run, from += step) __builtin_memcpy(to, from, kBytes);
}
// The same of a window that the image's edge cuts: of its lines those in `inside` are there, and of these the bytes in `cut`.
template <int kBytes>
static PEN_INLINE void copy_cut_lines(const uint8_t* from, int64_t step, uint8_t* to, int64_t run, int64_t lines, Range inside, Range cut,
                                      const uint8_t* padding) {
  for (int64_t k = 0; k < lines; ++k, to += run) {
    __builtin_memcpy(to, padding, kBytes);
    if (k < inside.begin || k >= inside.end) continue;
    __builtin_memcpy(to + cut.begin, from + k * step, kBytes);
    __builtin_memcpy(to + cut.end, padding, kBytes);
  }
}
// Which of `count` places from `at` on, `apart` from each other, are in [0, size).
static PEN_INLINE Range places_inside(int64_t at, int64_t apart, int64_t count, int64_t size) {
  const int64_t before = at < 0 ? (-at + apart - 1) / apart : 0, upto = at < size ? (size - at + apart - 1) / apart : 0;
  const int64_t end = upto < count ? upto : count;
  return {before < end ? before : end, end};
}
// The whole windows of pixels [begin, end), one after another in g.copies, `pitch` bytes apart: of the group whose channels begin at
// `channel`. For bytes of few channels, of which a tap would be too short to read in place.
static PEN_OUTER void copy_windows(const Conv2d& p, const Tensor& x, const Tensor& y, int64_t begin, int64_t end, int64_t channel,
                                   int64_t pitch, const uint8_t* padding, uint8_t* copies, const uint8_t** rows) {
  int64_t h = map_side(x, 0), w = map_side(x, 1), d = map_side(x, 2), pixel = pixel_pitch(x);
  int64_t oh = map_side(y, 0), ow = map_side(y, 1), od = map_side(y, 2);
  int64_t lines = p.kernel[2] * p.kernel[0], run = p.kernel[1] * p.ci_g, bytes = run > 16 ? 32 : 16, step = p.dilation[0] * w * pixel;
  bool dense = p.dilation[1] == 1 && pixel == p.ci_g && p.kernel[2] == 1 && run <= 32;  // a kernel row is one run of bytes
  for (int64_t i = begin; i < end;) {
    int64_t ox = i % ow, line = i / ow, oy = line % oh, plane = line / oh, oz = plane % od, n = plane / od;
    const uint8_t* image = x.as<uint8_t>() + n * x.strides[0] + channel;
    const int64_t y0 = tap_at(p, 0, oy, 0);
    const Range inside = places_inside(y0, p.dilation[0], lines, h);
    const int64_t last = y0 + (inside.end - 1) * p.dilation[0];
    for (; ox < ow && i < end; ++ox, ++i) {
      uint8_t* to = copies + (i - begin) * pitch;
      rows[i - begin] = to;
      const int64_t x0 = tap_at(p, 1, ox, 0), left = x0 < 0 ? 0 : x0;
      if (dense && (last * w + left) * pixel + bytes <= h * w * pixel) {  // nothing is read behind the image
        const uint8_t* from = image + (y0 * w + left) * pixel;
        if (x0 >= 0 && x0 + p.kernel[1] <= w && inside.end - inside.begin == lines) {
          run > 16 ? copy_lines<32>(from, step, to, run, lines) : copy_lines<16>(from, step, to, run, lines);
          continue;
        }
        const Range taps = places_inside(x0, 1, p.kernel[1], w), cut = {taps.begin * pixel, taps.end * pixel};
        run > 16 ? copy_cut_lines<32>(from, step, to, run, lines, inside, cut, padding)
                 : copy_cut_lines<16>(from, step, to, run, lines, inside, cut, padding);
        continue;
      }
      for (int64_t k = 0; k < lines; ++k) {
        int64_t iz = tap_at(p, 2, oz, k / p.kernel[0]), iy = tap_at(p, 0, oy, k % p.kernel[0]);
        bool there = iz >= 0 && iz < d && iy >= 0 && iy < h;
        for (int64_t kx = 0; kx < p.kernel[1]; ++kx, to += p.ci_g) {
          int64_t ix = tap_at(p, 1, ox, kx);
          const uint8_t* from = there && ix >= 0 && ix < w ? image + ((iz * h + iy) * w + ix) * pixel : padding;
          for (int64_t c = 0; c < p.ci_g; ++c) to[c] = from[c];
        }
      }
    }
  }
}

struct Q8Gemm {
  using Element = uint8_t;
  using Tile = RowTileQ8;
  using Block = BlockQ8;
  static constexpr int kRows = kQ8Rows;
  static constexpr bool kEven = kExactHeights;
  static constexpr bool kCopies = true;
  static PEN_INLINE int64_t size_of(const Tensor& t) { return dtype_size(t.dtype); }
  static PEN_INLINE int padding(const Run& r) { return static_cast<int>(r.in[0].quant->zero); }
  // What padding adds to a sum is part of its start: it may be left out only where that is nothing.
  static PEN_INLINE bool may_skip(const Run& r) { return !kFlipped && r.in[0].quant->zero == 0; }
  static PEN_INLINE const int8_t* weights(const Run& r) { return r.in[1].as<int8_t>(); }
  static PEN_INLINE void begin(const Run&, const Conv2d& p, Block* block) {
    block->result = &static_cast<const ConvQ8&>(p).result;
    block->act = &p.act;
  }
  static PEN_INLINE void copy_windows(const Conv2d& p, const Tensor& x, const Tensor& y, int64_t begin, int64_t end, int64_t group,
                                      int64_t pitch, const Gathered<Q8Gemm>& g) {
    PEN_ISA::copy_windows(p, x, y, begin, end, group * p.ci_g, pitch, g.zeros, g.copies, g.rows);
  }
  static PEN_INLINE void group(const Run& r, const Conv2d& p, int64_t group, Block* block) {
    block->columns = columns_q8(static_cast<const ConvQ8&>(p).result, r.in[2], group * ((p.co_g + kPanel - 1) / kPanel * kPanel));
  }
};

}  // namespace PEN_ISA

PEN_KERNEL(conv2d, q8, gemm) { PEN_ISA::conv_gemm<PEN_ISA::Q8Gemm>(r); }
PEN_KERNEL(conv3d, q8, gemm) { PEN_ISA::conv_gemm<PEN_ISA::Q8Gemm>(r); }

}  // namespace pen
