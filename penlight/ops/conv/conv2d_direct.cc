// conv2d.f32.direct: few input channels, as in the first layer of a network. The image may lie anyhow (NCHW, NHWC, strided),
// so the network's input needs no conversion. A task takes some output rows: it copies the input rows under them into
// scratch, with zeros for padding, and multiplies windows of that strip by packed panels (runtime/cpu/gemm.h): value k of
// a window lies offsets[k] floats after the window's first, the same for all windows.
#include "penlight/ops/conv/conv2d.h"
#include "penlight/runtime/cpu/gemm.h"

namespace pen {
namespace PEN_ISA {

static_assert(kTileRows <= kPixelUnit && sizeof(RowTile) <= kTileBytes, "bind sized scratch for these");

// The strip has the order of the image: pixels with their channels, or one plane after another.
struct Strip {
  float* data;
  int64_t rows, width;           // pixels
  int64_t row, column, channel;  // floats from one to the next
  bool pixels;                   // not planes; `channel` alone does not tell: a plane of one float is as far from the next
};

static PEN_OUTER Strip place_strip(const Conv2d& p, const Tensor& x, const DirectSizes& sizes, char* scratch) {
  Strip s;
  s.data = reinterpret_cast<float*>(scratch + sizes.strip);
  s.rows = sizes.rows;
  s.width = sizes.width;
  s.pixels = x.strides[1] == 1;
  s.column = s.pixels ? p.ci_g : 1;
  s.row = s.width * s.column;
  s.channel = s.pixels ? 1 : s.rows * s.row;
  return s;
}

// Columns [0, width) of one row of the strip, of one channel or of all: image columns from `x0` on, zeros outside.
static PEN_OUTER void copy_row(const float* image_row, int64_t column_step, int64_t x0, int64_t image_width, int64_t floats, int64_t width,
                               float* to) {
  int64_t left = x0 < 0 ? -x0 : 0, right = image_width - x0;
  left = left < width ? left : width;
  right = right < left ? left : right < width ? right : width;
  memset(to, 0, static_cast<size_t>(left * floats) * 4);
  memset(to + right * floats, 0, static_cast<size_t>((width - right) * floats) * 4);
  if (column_step == floats) {
    memcpy(to + left * floats, image_row + (x0 + left) * column_step, static_cast<size_t>((right - left) * floats) * 4);
    return;
  }
  for (int64_t i = left; i < right; ++i)
    for (int64_t f = 0; f < floats; ++f) to[i * floats + f] = image_row[(x0 + i) * column_step + f];
}

// The input rows under output rows from `oy` on.
static PEN_OUTER void fill_strip(const Conv2d& p, const Tensor& x, int64_t n, int64_t oy, int64_t rows, const Strip& s) {
  int64_t planes = s.pixels ? 1 : p.ci_g, floats = s.pixels ? p.ci_g : 1;
  for (int64_t c = 0; c < planes; ++c) {
    const float* image = x.as<float>() + n * x.strides[0] + c * x.strides[1];
    for (int64_t i = 0; i < rows; ++i) {
      int64_t y = tap_at(p, 0, oy, 0) + i;
      float* to = s.data + c * s.channel + i * s.row;
      if (y < 0 || y >= x.dims[2])
        memset(to, 0, static_cast<size_t>(s.width * floats) * 4);
      else
        copy_row(image + y * x.strides[2], x.strides[3], -p.pad[1], x.dims[3], floats, s.width, to);
    }
  }
}

static PEN_OUTER void conv_direct(const Run& r) {
  const Conv2d& p = r.as<Conv2d>();
  const Tensor &x = r.in[0], &residual = r.in[3], &y = r.out[0];
  int64_t oh = y.dims[2], ow = y.dims[3], y_pitch = pixel_pitch(y);
  DirectSizes sizes = direct_sizes(p, ow);
  Strip strip = place_strip(p, x, sizes, r.scratch);
  const float** rows = reinterpret_cast<const float**>(r.scratch);
  RowTile* tiles = reinterpret_cast<RowTile*>(r.scratch + sizes.tiles);
  int32_t* offsets = reinterpret_cast<int32_t*>(r.scratch + sizes.offsets);
  int64_t k = 0;
  for (int64_t ky = 0; ky < p.kernel[0]; ++ky)
    for (int64_t kx = 0; kx < p.kernel[1]; ++kx)
      for (int64_t c = 0; c < p.ci_g; ++c)
        offsets[k++] = static_cast<int32_t>(ky * p.dilation[0] * strip.row + kx * p.dilation[1] * strip.column + c * strip.channel);

  static const uint8_t live[1] = {1};
  Block block = {};
  block.tiles = tiles;
  block.taps = 1;
  block.tap_k = k;
  block.offsets = offsets;
  block.b = r.in[1].as<float>();
  block.bias = r.in[2].data ? r.in[2].as<float>() : nullptr;
  block.n = p.co_g;
  block.c_pitch = y_pitch;
  block.residual_pitch = residual.data ? pixel_pitch(residual) : 0;
  block.act = &p.act;
  int64_t units = (p.co_g + kColumnUnit - 1) / kColumnUnit;
  Patience patience(r);
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range columns = part(units, p.column_tasks, task % p.column_tasks);
    int64_t strip_task = task / p.column_tasks, strips = (oh + p.pixel_unit - 1) / p.pixel_unit;
    int64_t n = strip_task / strips, oy = strip_task % strips * p.pixel_unit;
    int64_t count = oh - oy < p.pixel_unit ? oh - oy : p.pixel_unit, pixels = count * ow;
    fill_strip(p, x, n, oy, (count - 1) * p.stride[0] + (p.kernel[0] - 1) * p.dilation[0] + 1, strip);
    block.n_begin = columns.begin * kColumnUnit;
    block.n_end = columns.end * kColumnUnit < p.co_g ? columns.end * kColumnUnit : p.co_g;
    for (int64_t begin = 0; begin < pixels && !patience.ends(kBlockPixels * k * p.co_g); begin += kBlockPixels) {
      int64_t some = pixels - begin < kBlockPixels ? pixels - begin : kBlockPixels;
      int64_t row = begin / ow, column = begin % ow;
      for (int64_t i = 0; i < some; ++i) {
        rows[i] = strip.data + row * p.stride[0] * strip.row + column * p.stride[1] * strip.column;
        if (++column == ow) {
          column = 0;
          ++row;
        }
      }
      int64_t at = oy * ow + begin;
      const float* add = residual.data ? residual.as<float>() + n * residual.strides[0] + at * block.residual_pitch : nullptr;
      block.tile_count =
          cut_row_tiles(rows, some, live, y.as<float>() + n * y.strides[0] + at * y_pitch, y_pitch, add, block.residual_pitch, tiles);
      run_block(block);
    }
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(conv2d, f32, direct) { PEN_ISA::conv_direct(r); }

}  // namespace pen
