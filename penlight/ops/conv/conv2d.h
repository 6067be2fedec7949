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
// kConvLimit; runs have at most 32 channels), so no sum here overflows.
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
  int64_t live, zeros, vectors, total;
};
static PEN_INLINE GroupedSizes grouped_sizes(const Conv2d& p, int64_t channels, int64_t outputs) {
  int64_t taps = p.kernel[0] * p.kernel[1];  // bind has seen as many weights
  GroupedSizes s;
  s.live = taps * kGroupedPixels * 8;
  s.zeros = (s.live + taps + 63) / 64 * 64;
  s.vectors = s.zeros + (channels * 4 + 63) / 64 * 64;
  s.total = s.vectors + (outputs + 15) / 16 * 16 * kGroupedVectorBytes;
  return s;
}

// Floats from a pixel to the next, of a tensor that lies as Need::channels. Images of one pixel are each other's
// neighbours.
static PEN_INLINE int64_t pixel_pitch(const Tensor& t) {
  for (int d = 3; d >= 2; --d)
    if (t.dims[d] > 1) return t.strides[d];
  return t.dims[0] > 1 ? t.strides[0] : t.dims[1];
}

// No attribute may be larger: keeps every product below far from overflow, and is more than any image's side.
constexpr int64_t kConvLimit = int64_t{1} << 24;

// One side of the image: attributes checked, output size.
static PEN_INLINE Status bind_side(Bind& b, Conv2d* p, int side, int64_t pad_end, int64_t in, int64_t* out) {
  int64_t k = p->kernel[side], s = p->stride[side], d = p->dilation[side], pad = p->pad[side];
  if (k < 1 || s < 1 || d < 1 || k > kConvLimit || s > kConvLimit || d > kConvLimit)
    return b.fail(-1, "kernel, stride and dilation from 1 to 2^24", "%lld, %lld and %lld", static_cast<long long>(k),
                  static_cast<long long>(s), static_cast<long long>(d));
  if (pad < 0 || pad_end < 0 || pad > kConvLimit || pad_end > kConvLimit)
    return b.fail(-1, "padding from 0 to 2^24", "%lld and %lld", static_cast<long long>(pad), static_cast<long long>(pad_end));
  int64_t reach = d * (k - 1) + 1, room = in + pad + pad_end - reach;
  if (room < 0)
    return b.fail(0, "a padded image at least as large as the kernel", "%lld, the kernel reaches over %lld",
                  static_cast<long long>(in + pad + pad_end), static_cast<long long>(reach));
  *out = room / s + 1;
  return PEN_OK;
}

// The attributes of the window, the output's shape and the residual, which is input `residual`. The weights are bound, and
// x (input 0) lies as its kernel needs it.
static PEN_INLINE Status bind_maps(Bind& b, Conv2d* p, int residual, Shape* out) {
  IntList stride = b.ints("stride"), padding = b.ints("padding"), dilation = b.ints("dilation");
  if (stride.count != 2 || padding.count != 4 || dilation.count != 2)
    return b.fail(-1, "2 strides, 4 paddings and 2 dilations", "%d, %d and %d", stride.count, padding.count, dilation.count);
  const Tensor& x = b.in(0);
  out->rank = 4;
  out->dims[0] = x.dims[0];
  out->dims[1] = b.in(1).dims[0];
  for (int i = 0; i < 2; ++i) {
    p->stride[i] = stride[i];
    p->pad[i] = padding[i];
    p->dilation[i] = dilation[i];
    PEN_TRY(bind_side(b, p, i, padding[i + 2], x.dims[2 + i], &out->dims[2 + i]));
  }
  PEN_TRY(b.output(0, DType::f32, *out));
  PEN_TRY(b.need_out(0, Need::channels));
  if (!b.has(residual)) return PEN_OK;
  bool same = b.in(residual).rank == 4;
  for (int d = 0; same && d < 4; ++d) same = b.in(residual).dims[d] == out->dims[d];
  if (!same) return b.fail(residual, "a residual of the output's shape", "another shape, rank %d", b.in(residual).rank);
  return b.need(residual, Need::channels);
}

// The image row or column that tap `k` of output `o` reads; may lie outside.
static PEN_INLINE int64_t tap_at(const Conv2d& p, int side, int64_t o, int64_t k) {
  return o * p.stride[side] - p.pad[side] + k * p.dilation[side];
}

// The taps of output `o` that lie in an image of `size` rows or columns.
static PEN_INLINE Range taps_inside(const Conv2d& p, int side, int64_t o, int64_t size) {
  int64_t at = tap_at(p, side, o, 0), d = p.dilation[side], left = size - at;  // from the first tap to the end
  int64_t begin = at < 0 ? (-at + d - 1) / d : 0, end = left > 0 ? (left + d - 1) / d : 0;
  end = end < p.kernel[side] ? end : p.kernel[side];
  return {begin, end > begin ? end : begin};
}

}  // namespace pen
