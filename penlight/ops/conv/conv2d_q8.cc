// conv2d.q8.gemm, and the same of conv3d: convolution of quantized bytes as a matrix product whose rows are pointers to
// pixels (gather.h, runtime/cpu/gemm_q8.h). Where a group's channels are no multiple of 4, as of an image, windows are copied instead.
// Layout: NHWC in and out, any pitch; weights "quads16"; the bias is what lowering makes of it (lower/columns.py).
#include "penlight/runtime/cpu/gemm_q8.h"

#include "penlight/ops/conv/conv2d_q8.h"
#include "penlight/ops/conv/gather.h"

namespace pen {
namespace PEN_ISA {

static_assert(kQ8Rows <= kPixelUnit && sizeof(RowTileQ8) <= kTileBytes, "bind sized scratch for these");

template <int kSixteens>
static PEN_INLINE void copy_lines(const uint8_t* from, int64_t from_step, uint8_t* to, int64_t run, int64_t lines) {
  for (; lines > 0; --lines, to += run, from += from_step) {
    PEN_UNROLL for (int i = 0; i < kSixteens; ++i) __builtin_memcpy(to + 16 * i, from + 16 * i, 16);
  }
}
// The whole windows of pixels [begin, end), one after another in g.copies, `pitch` bytes apart: of the group whose channels begin at
// `channel`. For bytes of few channels, of which a tap would be too short to read in place. Where a kernel row is one run of bytes it goes
// by sixteens, over its end: what comes next in the window is written later, and there is room behind the last.
static PEN_OUTER void copy_windows(const Conv2d& p, const Tensor& x, const Tensor& y, int64_t begin, int64_t end, int64_t channel,
                                   int64_t pitch, const uint8_t* padding, uint8_t* copies, const uint8_t** rows) {
  int64_t h = map_side(x, 0), w = map_side(x, 1), d = map_side(x, 2), pixel = pixel_pitch(x);
  int64_t oh = map_side(y, 0), ow = map_side(y, 1), od = map_side(y, 2);
  int64_t lines = p.kernel[2] * p.kernel[0], run = p.kernel[1] * p.ci_g, sixteens = (run + 15) / 16, step = p.dilation[0] * w * pixel;
  bool dense = p.dilation[1] == 1 && pixel == p.ci_g && p.kernel[2] == 1 && run <= 32;
  for (int64_t i = begin; i < end;) {
    int64_t ox = i % ow, line = i / ow, oy = line % oh, plane = line / oh, oz = plane % od, n = plane / od;
    const uint8_t* image = x.as<uint8_t>() + n * x.strides[0] + channel;
    const int64_t y0 = tap_at(p, 0, oy, 0), last = y0 + (p.kernel[0] - 1) * p.dilation[0];
    const bool inside = dense && y0 >= 0 && last < h;
    for (; ox < ow && i < end; ++ox, ++i) {
      uint8_t* to = copies + (i - begin) * pitch;
      rows[i - begin] = to;
      const int64_t x0 = tap_at(p, 1, ox, 0);
      if (inside && x0 >= 0 && x0 + p.kernel[1] <= w && (last * w + x0) * pixel + 16 * sixteens <= h * w * pixel) {
        const uint8_t* from = image + (y0 * w + x0) * pixel;
        sixteens == 1 ? copy_lines<1>(from, step, to, run, lines) : copy_lines<2>(from, step, to, run, lines);
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
