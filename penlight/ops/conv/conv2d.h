// What the kernels of conv2d share: what bind found out, and the walk from output pixels to rows of input pixels.
// Everything is NHWC with any pixel pitch and batch stride; output pixels are numbered in the order n, y, x.
#pragma once
#include "penlight/runtime/cpu/epilogue.h"

namespace pen {

// Index 0 is H, 1 is W.
struct Conv2d {
  int64_t kernel[2], stride[2], pad[2], dilation[2];  // pad: top and left
  int64_t groups, ci_g, co_g;
  Activation act;
  // Tasks are a grid: parts of the output pixels by parts of the columns (or of the groups, where there are several).
  // Pixels are cut at multiples of a unit: for the matrix kernel whole tiles, for the others an output row.
  int64_t pixels, pixel_unit, pixel_units, pixel_tasks, column_tasks;
  bool columns_outer;  // neighbouring tasks share columns (weights), not pixels
  bool by_rows;        // tiles end where an output row ends, so that taps which fall on padding are skipped whole
  bool runs;           // a kernel row is one run of kw * ci floats in memory
};

// Tiles of the matrix kernels are cut from blocks of output pixels. 14 is the tallest tile of any instruction set and
// divides the maps of networks for 224 x 224 images; blocks are whole multiples of it.
constexpr int64_t kPixelUnit = 14;
constexpr int64_t kBlockPixels = 4 * kPixelUnit;
constexpr int64_t kColumnUnit = 32;  // output channels are cut at multiples of the widest tile

// What a worker of the matrix kernel keeps in scratch, in bytes from its start. Bind has bounded all factors (conv2d.cc,
// kLimit; runs have at most 32 channels), so no sum here overflows.
struct GatherSizes {
  int64_t taps;                            // rows of pointers: kernel positions, or kernel rows where each is one run
  int64_t tiles, rows, runs, live, total;  // zeros that stand for padding come first
};
constexpr int64_t kTileBytes = 64;  // no less than sizeof(RowTile)
static PEN_INLINE GatherSizes gather_sizes(const Conv2d& p, int64_t channels) {
  GatherSizes s;
  int64_t run = p.runs ? p.kernel[1] * p.ci_g : 0;
  s.taps = p.runs ? p.kernel[0] : p.kernel[0] * p.kernel[1];
  s.tiles = (run > channels ? run : channels) * 4 / 64 * 64 + 64;
  s.rows = s.tiles + kBlockPixels * kTileBytes;
  s.runs = s.rows + kBlockPixels * s.taps * 8;
  s.live = s.runs + kBlockPixels * p.kernel[0] * run * 4;
  s.total = s.live + kBlockPixels * s.taps;
  return s;
}

// Floats from a pixel to the next, of a tensor that lies as Need::channels. Images of one pixel are each other's
// neighbours.
static PEN_INLINE int64_t pixel_pitch(const Tensor& t) {
  for (int d = 3; d >= 2; --d)
    if (t.dims[d] > 1) return t.strides[d];
  return t.dims[0] > 1 ? t.strides[0] : t.dims[1];
}

// The image row or column that tap `k` of output `o` reads; may lie outside.
static PEN_INLINE int64_t tap_at(const Conv2d& p, int side, int64_t o, int64_t k) {
  return o * p.stride[side] - p.pad[side] + k * p.dilation[side];
}

}  // namespace pen
