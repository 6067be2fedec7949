// conv2d.f32.gemm: convolution as a matrix product that never writes the matrix down. Row m of A is the window of output
// pixel m: for each kernel position (tap) a pointer to the input pixel under it, or to zeros where that is padding. The
// pointers of a block of pixels are gathered once and serve all output channels (runtime/cpu/gemm.h does the rest).
// Layout: NHWC in and out, any pitch; weights "panel16". Groups with 16 or more outputs each, or one group.
#include "penlight/ops/conv/conv2d.h"
#include "penlight/runtime/cpu/gemm.h"

namespace pen {
namespace PEN_ISA {

static_assert(kTileRows <= kPixelUnit && sizeof(RowTile) <= kTileBytes, "bind sized scratch for these");

// A block of output pixels, gathered. Lies in the worker's scratch.
struct Gathered {
  const float* zeros;  // stands for padding
  RowTile* tiles;
  const float** rows;  // rows[tap * kBlockPixels + i]
  float* cut_runs;     // kernel rows that padding cuts, copied with zeros in place
  uint8_t* live;       // live[tile * taps + tap]
  int64_t taps;
  int tile_count;
};

// A kernel row whose window reaches over the left or right edge: its pixels, zeros where there are none.
static const float* cut_run(const Conv2d& p, const float* image_row, int64_t x0, int64_t width, float* to) {
  int64_t run = p.kernel[1] * p.ci_g, begin = x0 < 0 ? -x0 * p.ci_g : 0, end = (width - x0) * p.ci_g;
  begin = begin < run ? begin : run;
  end = end < begin ? begin : end < run ? end : run;
  for (int64_t i = 0; i < begin; ++i) to[i] = 0;
  for (int64_t i = begin; i < end; ++i) to[i] = image_row[x0 * p.ci_g + i];
  for (int64_t i = end; i < run; ++i) to[i] = 0;
  return to;
}

// Pointers to all taps of output pixels [begin, end). Goes by output rows and taps, so that the pixels inside the image,
// nearly all, are a plain progression.
static void gather_rows(const Conv2d& p, const Tensor& x, const Tensor& y, int64_t begin, int64_t end, const Gathered& g) {
  int64_t h = x.dims[2], w = x.dims[3], pitch = pixel_pitch(x), oh = y.dims[2], ow = y.dims[3], stride = p.stride[1];
  int64_t taps_x = p.runs ? 1 : p.kernel[1], reach = p.runs ? p.kernel[1] : 1;
  float* spare = g.cut_runs;
  for (int64_t from = begin; from < end;) {
    int64_t ox = from % ow, oy = from / ow % oh, n = from / ow / oh;
    int64_t count = ow - ox < end - from ? ow - ox : end - from;
    const float** to = g.rows + (from - begin);
    for (int64_t ky = 0; ky < p.kernel[0]; ++ky) {
      int64_t iy = tap_at(p, 0, oy, ky);
      bool inside = iy >= 0 && iy < h;
      const float* row = inside ? x.as<float>() + n * x.strides[0] + iy * w * pitch : nullptr;
      for (int64_t kx = 0; kx < taps_x; ++kx, to += kBlockPixels) {
        int64_t x0 = tap_at(p, 1, ox, kx);  // of pixel i: x0 + i * stride; [low, high) are inside
        int64_t low = x0 < 0 ? (-x0 + stride - 1) / stride : 0;
        int64_t high = x0 + (count - 1) * stride + reach <= w ? count : x0 + reach <= w ? (w - reach - x0) / stride + 1 : 0;
        if (!inside) high = 0;
        for (int64_t i = 0; i < count; ++i) {
          if (i >= low && i < high) {
            to[i] = row + (x0 + i * stride) * pitch;
          } else if (p.runs && inside) {
            to[i] = cut_run(p, row, x0 + i * stride, w, spare);
            spare += p.kernel[1] * p.ci_g;
          } else {
            to[i] = g.zeros;
          }
        }
      }
    }
    from += count;
  }
}

// Output columns at which a tap enters or leaves the image. Tiles that end there skip all of its padding, tiles across it
// none. Only those that leave tiles of some height: at the usual padding of a pixel there is nothing to gain.
struct Breaks {
  static constexpr int kMax = 16, kApart = 2;
  int64_t at[kMax];  // ascending
  int count;
};

static Breaks find_breaks(const Conv2d& p, int64_t w, int64_t ow) {
  Breaks b = {};
  int64_t last = 0;
  for (;;) {
    int64_t next = ow;  // the first one far enough from the last
    for (int64_t k = 0; k < p.kernel[1]; ++k) {
      int64_t offset = k * p.dilation[1] - p.pad[1], stride = p.stride[1];  // output x reads column x * stride + offset
      int64_t enters = offset < 0 ? (-offset + stride - 1) / stride : 0, leaves = offset < w ? (w - offset + stride - 1) / stride : 0;
      if (enters >= last + Breaks::kApart && enters < next) next = enters;
      if (leaves >= last + Breaks::kApart && leaves < next) next = leaves;
    }
    if (next + Breaks::kApart > ow || b.count == Breaks::kMax) break;
    last = b.at[b.count++] = next;
  }
  return b;
}

// Tiles of output pixels [begin, end): none crosses a multiple of `line`, within which pixels have one pitch, nor, where a
// line is an output row, one of the breaks in it. Finds the taps that are padding for a whole tile.
static void cut_tiles(const Tensor& y, const Tensor& residual, int64_t begin, int64_t end, int64_t line, const Breaks& breaks,
                      Gathered* g) {
  int64_t image = y.dims[2] * y.dims[3], pitch = pixel_pitch(y);
  g->tile_count = 0;
  for (int64_t from = begin; from < end;) {
    int64_t to = (from / line + 1) * line;
    for (int i = 0; i < breaks.count; ++i) {
      if (from % line >= breaks.at[i]) continue;
      to = from / line * line + breaks.at[i];
      break;
    }
    to = to < end ? to : end;
    int64_t tiles = (to - from + kTileRows - 1) / kTileRows;
    for (int64_t i = 0; i < tiles; ++i) {
      Range range = part(to - from, tiles, i);
      int64_t first = from + range.begin, n = first / image, at = first % image;
      RowTile* tile = &g->tiles[g->tile_count];
      uint8_t* live = g->live + g->taps * g->tile_count++;
      tile->count = static_cast<int>(range.end - range.begin);
      tile->rows = g->rows + (first - begin);
      tile->live = live;
      tile->c = y.as<float>() + n * y.strides[0] + at * pitch;
      tile->residual = nullptr;
      if (residual.data) tile->residual = residual.as<float>() + n * residual.strides[0] + at * pixel_pitch(residual);
      for (int64_t tap = 0; tap < g->taps; ++tap) {
        const float* const* row = g->rows + tap * kBlockPixels + (first - begin);
        int r = 0;
        while (r < tile->count && row[r] == g->zeros) ++r;
        live[tap] = r < tile->count;
      }
    }
    from = to;
  }
}

// Images that follow each other without a gap are one line of pixels.
static PEN_INLINE bool batch_is_dense(const Tensor& t) { return t.dims[0] == 1 || t.strides[0] == t.dims[2] * t.dims[3] * pixel_pitch(t); }

// Where the block that starts at `begin` ends: whole output rows where tiles are cut by rows.
static PEN_INLINE int64_t block_end(const Conv2d& p, int64_t ow, int64_t begin, int64_t end) {
  int64_t size = kBlockPixels;
  if (p.by_rows && ow <= kBlockPixels) {
    size = kBlockPixels / ow * ow;
  } else if (p.by_rows) {
    int64_t left = ow - begin % ow, pieces = (left + kBlockPixels - 1) / kBlockPixels;
    size = (left + pieces - 1) / pieces;
  }
  return begin + size < end ? begin + size : end;
}

}  // namespace PEN_ISA

PEN_KERNEL(conv2d, f32, gemm) {
  using namespace PEN_ISA;
  const Conv2d& p = r.as<Conv2d>();
  const Tensor &x = r.in[0], &residual = r.in[3], &y = r.out[0];
  GatherSizes at = gather_sizes(p, x.dims[1]);
  Gathered g;
  g.taps = at.taps;
  g.zeros = reinterpret_cast<float*>(r.scratch);
  g.tiles = reinterpret_cast<RowTile*>(r.scratch + at.tiles);
  g.rows = reinterpret_cast<const float**>(r.scratch + at.rows);
  g.cut_runs = reinterpret_cast<float*>(r.scratch + at.runs);
  g.live = reinterpret_cast<uint8_t*>(r.scratch + at.live);
  memset(r.scratch, 0, static_cast<size_t>(at.tiles));

  Block block;
  block.tiles = g.tiles;
  block.rows_step = kBlockPixels;
  block.taps = g.taps;
  block.tap_k = p.runs ? p.kernel[1] * p.ci_g : p.ci_g;
  block.n = p.co_g;
  block.c_pitch = pixel_pitch(y);
  block.residual_pitch = residual.data ? pixel_pitch(residual) : 0;
  block.act = &p.act;
  bool dense = batch_is_dense(y) && (!residual.data || batch_is_dense(residual));
  Breaks breaks = {};
  if (p.by_rows) breaks = find_breaks(p, x.dims[3], y.dims[3]);
  int64_t line = p.by_rows ? y.dims[3] : dense ? p.pixels : y.dims[2] * y.dims[3];
  int64_t group_floats = (p.co_g + kPanel - 1) / kPanel * kPanel * block.taps * block.tap_k;
  int64_t units = p.groups > 1 ? p.groups : (p.co_g + kColumnUnit - 1) / kColumnUnit;

  for (int64_t task = r.begin; task < r.end; ++task) {
    int64_t pixel_task = p.columns_outer ? task % p.pixel_tasks : task / p.column_tasks;
    int64_t column_task = p.columns_outer ? task / p.pixel_tasks : task % p.column_tasks;
    Range columns = part(units, p.column_tasks, column_task), pixels = part(p.pixel_units, p.pixel_tasks, pixel_task);
    int64_t last = pixels.end * p.pixel_unit < p.pixels ? pixels.end * p.pixel_unit : p.pixels;
    for (int64_t begin = pixels.begin * p.pixel_unit; begin < last;) {
      int64_t end = block_end(p, y.dims[3], begin, last);
      gather_rows(p, x, y, begin, end, g);
      cut_tiles(y, residual, begin, end, line, breaks, &g);
      block.tile_count = g.tile_count;
      bool more = p.groups == 1 && columns.end < units && (!p.columns_outer || pixel_task == p.pixel_tasks - 1);
      block.next_b = more && end == last ? r.in[1].as<float>() + columns.end * kColumnUnit * block.taps * block.tap_k : nullptr;
      Range groups = p.groups > 1 ? columns : Range{0, 1};
      for (int64_t group = groups.begin; group < groups.end; ++group) {
        block.n_begin = p.groups > 1 ? 0 : columns.begin * kColumnUnit;
        block.n_end = p.groups > 1 || columns.end * kColumnUnit > p.co_g ? p.co_g : columns.end * kColumnUnit;
        block.b = r.in[1].as<float>() + group * group_floats;
        block.bias = r.in[2].data ? r.in[2].as<float>() + group * p.co_g : nullptr;
        block.a_offset = group * p.ci_g;
        block.c_offset = group * p.co_g;
        run_block(block);
      }
      begin = end;
    }
  }
}

}  // namespace pen
