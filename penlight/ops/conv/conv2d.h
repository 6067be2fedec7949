// What the kernels of conv2d, conv3d and the transposed convolutions share: what bind found out, and the walk from output
// pixels to input pixels. Everything is NHWC (NDHWC) with any pixel pitch and batch stride; output pixels are numbered in
// the order n, z, y, x.
//
// A transposed convolution is several plain ones. Output o takes tap k from input (o + pad - k * dilation) / stride, where
// that is a whole number: outputs a stride apart have the same taps and read neighbouring inputs. So the outputs of one
// phase (o % stride, in each dim) are a convolution of stride 1 with some of the kernel's taps. A plain convolution has
// one phase.
#pragma once
#include "penlight/ops/conv/windows.h"
#include "penlight/runtime/cpu/epilogue.h"

namespace pen {

// Index 0 is H, 1 is W, 2 is D, of size 1 where there are only two dims.
struct Conv2d {
  int64_t kernel[3], stride[3], pad[3], dilation[3];  // pad: at the beginning; of a transposed one: what is cut off there
  bool transposed;
  int64_t groups, ci_g, co_g;
  Activation act;
  // Tasks are a grid: parts of the output pixels by parts of the columns (or of the groups, where there are several).
  // Pixels are cut at multiples of a unit: for the matrix kernel whole tiles, for the others an output row.
  int64_t pixels, pixel_unit, pixel_units, pixel_tasks, column_tasks;
  bool columns_outer;  // neighbouring tasks share columns (weights), not pixels
  bool by_rows;        // tiles end where an output row (of a phase) ends: taps which fall on padding are skipped whole
  bool runs;           // a kernel row is one run of kw * ci elements in memory
  bool copied;         // windows are copied, each as one row: bytes of channels that are no multiple of 4
};

// Tiles of the matrix kernels are cut from blocks of output pixels. 14 is the tallest tile of any instruction set and
// divides the maps of networks for 224 x 224 images; blocks are whole multiples of it.
constexpr int64_t kPixelUnit = 14;
constexpr int64_t kBlockPixels = 4 * kPixelUnit;
constexpr int64_t kColumnUnit = 32;   // output channels are cut at multiples of the widest tile
constexpr int64_t kColumnPanel = 16;  // those of the matrix kernel, where that shares them evenly, at multiples of its panels

// Size of a map along H, W or D.
static PEN_INLINE int64_t map_side(const Tensor& t, int side) { return side < 2 ? t.dims[t.rank - 2 + side] : t.rank == 5 ? t.dims[2] : 1; }

// Bind has seen as many weights.
static PEN_INLINE int64_t kernel_taps(const Conv2d& p) { return p.kernel[0] * p.kernel[1] * p.kernel[2]; }

// What columns of the matrix kernel are cut by.
static PEN_INLINE int64_t gemm_units(const Conv2d& p) { return p.groups > 1 ? p.groups : (p.co_g + kColumnPanel - 1) / kColumnPanel; }

// What a worker of the matrix kernel keeps in scratch, in bytes from its start. The rules have bounded all factors (conv_shapes.cc,
// kConvLimit; runs have few channels), so no sum here overflows.
struct GatherSizes {
  int64_t taps;                                      // rows of pointers: kernel positions, or kernel rows where each is one run
  int64_t window;                                    // elements of a copied window, whole fours
  int64_t tiles, rows, copies, places, live, total;  // what stands for padding comes first
};
constexpr int64_t kTileBytes = 64;  // no less than sizeof(RowTile)
constexpr int64_t kRunBytes = 128;  // of a pixel in a run
static PEN_INLINE GatherSizes gather_sizes(const Conv2d& p, int64_t channels, int64_t element_size) {
  GatherSizes s;
  int64_t run = p.runs ? p.kernel[1] * p.ci_g : 0;
  const bool copied = kHasBytes && p.copied;
  s.taps = copied ? 1 : p.runs ? p.kernel[2] * p.kernel[0] : kernel_taps(p);
  s.window = copied ? (kernel_taps(p) * p.ci_g + 3) / 4 * 4 : 0;
  s.tiles = (run > channels ? run : channels) * element_size / 64 * 64 + 64;
  s.rows = s.tiles + kBlockPixels * kTileBytes;
  s.copies = s.rows + kBlockPixels * s.taps * 8;
  s.places = s.copies + (copied ? kBlockPixels * s.window * element_size / 64 * 64 + 128 : kBlockPixels * s.taps * run * element_size);
  s.live = s.places + (p.transposed ? s.taps * 4 : 0);
  s.total = s.live + kBlockPixels * s.taps;
  return s;
}

// What a worker of the direct kernel keeps in scratch, in bytes from its start; pointers to rows come first.
struct DirectSizes {
  int64_t tiles, offsets, strip, total;
  int64_t rows, width;  // of the strip: input rows under pixel_unit output rows, padding included
};
static PEN_INLINE DirectSizes direct_sizes(const Conv2d& p, int64_t ow) {
  DirectSizes s;
  s.rows = (p.pixel_unit - 1) * p.stride[0] + (p.kernel[0] - 1) * p.dilation[0] + 1;
  s.width = (ow - 1) * p.stride[1] + (p.kernel[1] - 1) * p.dilation[1] + 1;
  s.tiles = kBlockPixels * 8;
  s.offsets = s.tiles + kBlockPixels * kTileBytes;
  s.strip = s.offsets + (p.kernel[0] * p.kernel[1] * p.ci_g * 4 + 63) / 64 * 64;
  s.total = s.strip + s.rows * s.width * p.ci_g * 4;
  return s;
}

// What a worker of the grouped kernel keeps in scratch, in bytes from its start; pointers to pixels come first. Saturates.
constexpr int kGroupedPixels = 8;
constexpr int64_t kGroupedVectorBytes = 32;  // for an output channel: no less than sizeof(GroupedVector) / kLanes
struct GroupedSizes {
  int64_t places, live, zeros, vectors, total;
};
static PEN_INLINE GroupedSizes grouped_sizes(const Conv2d& p, int64_t channels, int64_t outputs) {
  int64_t taps = kernel_taps(p);
  GroupedSizes s;
  s.places = taps * kGroupedPixels * 8;
  s.live = s.places + taps * 4;
  s.zeros = (s.live + taps + 63) / 64 * 64;
  s.vectors = s.zeros + (channels * 4 + 63) / 64 * 64;
  s.total = s.vectors + (outputs + 15) / 16 * 16 * kGroupedVectorBytes;
  return s;
}

// Floats from a pixel to the next, of a tensor that lies as Need::channels. Images of one pixel are each other's
// neighbours.
[[maybe_unused]] static PEN_OUTER int64_t pixel_pitch(const Tensor& t) {
  for (int d = t.rank - 1; d >= 2; --d)
    if (t.dims[d] > 1) return t.strides[d];
  return t.dims[0] > 1 ? t.strides[0] : t.dims[1];
}

// No attribute may be larger: keeps every product below far from overflow, and is more than any image's side.
constexpr int64_t kConvLimit = int64_t{1} << 24;

// The window: the attributes, and the sides of the weights, which are input `weights`.
[[maybe_unused]] static PEN_SMALL __attribute__((noinline)) void place_window(const Given& g, Conv2d* p, int weights) {
  IntList stride = g.ints("stride"), padding = g.ints("padding"), dilation = g.ints("dilation");
  for (int side = 0; side < 3; ++side) {
    p->kernel[side] = map_side(g.in(weights), side);
    p->stride[side] = p->dilation[side] = 1;
  }
  int spatial = g.in(0).rank - 2;
  for (int i = 0; i < spatial; ++i) {
    int side = side_of(i, spatial);
    p->stride[side] = stride[i];
    p->pad[side] = padding[i];
    p->dilation[side] = dilation[i];
  }
}

// The window, the output and the residual. x (input 0) lies as its kernel needs it. The last three inputs are weights, bias and residual,
// whatever comes before: told by the node and not by the caller, so that this is the same code for all, of which the linker keeps one.
[[maybe_unused]] static PEN_SMALL __attribute__((noinline)) Status bind_maps(Bind& b, Conv2d* p) {
  int residual = b.input_count() - 1, weights = residual - 2;
  place_window(b, p, weights);
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::channels));
  return b.has(residual) ? b.need(residual, Need::channels) : PEN_OK;
}

// The image row or column that tap `k` of output `o` reads; may lie outside.
static PEN_INLINE int64_t tap_at(const Conv2d& p, int side, int64_t o, int64_t k) {
  return o * p.stride[side] - p.pad[side] + k * p.dilation[side];
}

// The taps of output `o` that lie in an image of `size` rows or columns.
static inline Range taps_inside(const Conv2d& p, int side, int64_t o, int64_t size) {
  int64_t at = tap_at(p, side, o, 0), d = p.dilation[side], left = size - at;  // from the first tap to the end
  int64_t begin = at < 0 ? (-at + d - 1) / d : 0, end = left > 0 ? (left + d - 1) / d : 0;
  end = end < p.kernel[side] ? end : p.kernel[side];
  return {begin, end > begin ? end : begin};
}

// One phase along one side. Its output number j is output first + j * apart, and its tap number t, the kernel's tap
// tap + t * tap_apart, reads input j * step + offset + t * offset_apart.
struct PhaseSide {
  int64_t first, apart, count;
  int64_t step, offset, offset_apart;
  int64_t taps, tap, tap_apart;
};
struct Phase {
  PhaseSide side[3];
};

static PEN_INLINE int64_t phase_count(const Conv2d& p, int side, int64_t out) {
  return !p.transposed ? 1 : p.stride[side] < out ? p.stride[side] : out;
}

static inline PhaseSide phase_side(const Conv2d& p, int side, int64_t out, int64_t phase) {
  int64_t k = p.kernel[side], s = p.stride[side], d = p.dilation[side], pad = p.pad[side];
  if (!p.transposed) return {0, 1, out, s, -pad, d, k, 0, 1};
  int64_t a = s, b = d;
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  int64_t tap_apart = s / a, tap = 0;  // a: their greatest common divisor
  while (tap < k && tap < tap_apart && (phase + pad - tap * d) % s != 0) ++tap;
  int64_t taps = tap < k && tap < tap_apart ? (k - tap + tap_apart - 1) / tap_apart : 0;
  return {phase, s, (out - phase + s - 1) / s, 1, (phase + pad - tap * d) / s, -(d / a), taps, tap, tap_apart};
}

// Phase number `index` of all, of a convolution into y.
[[maybe_unused]] static PEN_OUTER Phase place_phase(const Conv2d& p, const Tensor& y, int64_t index) {
  Phase phase;
  for (int i = 0; i < 3; ++i) {
    int side = i < 2 ? 1 - i : 2;  // W first
    int64_t out = map_side(y, side), count = phase_count(p, side, out);
    phase.side[side] = phase_side(p, side, out, index % count);
    index /= count;
  }
  return phase;
}

// The kernel's taps in the order that a phase's are gathered in.
[[maybe_unused]] static PEN_OUTER int64_t place_taps(const Conv2d& p, const Phase& phase, int32_t* places) {
  int64_t n = 0;
  const PhaseSide &h = phase.side[0], &w = phase.side[1], &d = phase.side[2];
  for (int64_t z = 0; z < d.taps; ++z)
    for (int64_t y = 0; y < h.taps; ++y)
      for (int64_t x = 0; x < w.taps; ++x)
        places[n++] = static_cast<int32_t>(((d.tap + z * d.tap_apart) * p.kernel[0] + h.tap + y * h.tap_apart) * p.kernel[1] + w.tap +
                                           x * w.tap_apart);
  return n;
}

// Floats from an image's first pixel to the one at (z, y, x) of a map, of a phase's outputs.
static inline int64_t phase_pixel(const Phase& p, const Tensor& y, int64_t iz, int64_t iy, int64_t ix) {
  const PhaseSide &h = p.side[0], &w = p.side[1], &d = p.side[2];
  int64_t row = (d.first + iz * d.apart) * map_side(y, 0) + h.first + iy * h.apart;
  return (row * map_side(y, 1) + w.first + ix * w.apart) * pixel_pitch(y);
}

}  // namespace pen
