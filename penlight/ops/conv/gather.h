// How output pixels become rows of a matrix product, for every element type: pointers to the input pixels under each tap, or to what stands
// for padding; the tiles that a block of pixels is cut into; and the walk over blocks, groups and phases. Kind says what is multiplied:
//   Element, Tile, Block     the input's elements, a tile of rows, a block (runtime/cpu/gemm.h, gemm_q8.h)
//   kRows, kEven             rows of the tallest tile, and how rows are cut into tiles (tile_rows)
//   size_of(t)               bytes of an element of the result or the residual
//   begin(r, p, &block)      fills what is the same for all blocks
//   group(r, p, g, &block)   what belongs to a group: weights, bias
//   kCopies, copy_windows(…) whether windows of pixels may be copied, and how, of one group
#pragma once
#include "penlight/ops/conv/conv2d.h"
#include "penlight/runtime/cpu/tile.h"

namespace pen {
namespace PEN_ISA {

// A block of output pixels, gathered. Lies in the worker's scratch.
template <class Kind>
struct Gathered {
  using Element = typename Kind::Element;
  const Element* zeros;  // stands for padding
  typename Kind::Tile* tiles;
  const Element** rows;  // rows[tap * kBlockPixels + i]
  Element* copies;       // what is not read in place: kernel rows that padding cuts, or whole windows
  uint8_t* live;         // live[tile * taps + tap]
  int64_t taps;
  int tile_count;
};

// A kernel row whose window reaches over the left or right edge: its pixels, and what stands for padding where there are none.
template <class T>
static PEN_OUTER const T* cut_run(const Conv2d& p, const T* image_row, int64_t x0, int64_t width, const T* padding, T* to) {
  int64_t run = p.kernel[1] * p.ci_g, begin = x0 < 0 ? -x0 * p.ci_g : 0, end = (width - x0) * p.ci_g;
  begin = begin < run ? begin : run;
  end = end < begin ? begin : end < run ? end : run;
  auto copy = [&](int64_t at, int64_t upto, const T* from) { memcpy(to + at, from, static_cast<size_t>(upto - at) * sizeof(T)); };
  copy(0, begin, padding);
  copy(begin, end, image_row + x0 * p.ci_g + begin);
  copy(end, run, padding);
  return to;
}

// Pointers to all taps of the phase's pixels [begin, end). Goes by output rows and taps, so that the pixels inside the image,
// nearly all, are a plain progression.
template <class Kind>
static PEN_OUTER void gather_rows(const Conv2d& p, const Phase& phase, const Tensor& x, int64_t begin, int64_t end,
                                  const Gathered<Kind>& g) {
  using Element = typename Kind::Element;
  const PhaseSide &rows = phase.side[0], &columns = phase.side[1], &planes = phase.side[2];
  int64_t h = map_side(x, 0), w = map_side(x, 1), d = map_side(x, 2), pitch = pixel_pitch(x), stride = columns.step;
  int64_t taps_x = p.runs ? 1 : columns.taps, reach = p.runs ? p.kernel[1] : 1;
  Element* spare = g.copies;
  if (columns.taps * rows.taps * planes.taps == 0) {  // nothing but the bias: one tap that is not there
    for (int64_t i = 0; i < end - begin; ++i) g.rows[i] = g.zeros;
    return;
  }
  for (int64_t from = begin; from < end;) {
    int64_t ox = from % columns.count, line = from / columns.count, oy = line % rows.count, plane = line / rows.count;
    int64_t oz = plane % planes.count, n = plane / planes.count;
    int64_t count = columns.count - ox < end - from ? columns.count - ox : end - from;
    const Element** to = g.rows + (from - begin);
    for (int64_t tap = 0; tap < planes.taps * rows.taps; ++tap) {
      int64_t iz = oz * planes.step + planes.offset + tap / rows.taps * planes.offset_apart;
      int64_t iy = oy * rows.step + rows.offset + tap % rows.taps * rows.offset_apart;
      bool inside = iz >= 0 && iz < d && iy >= 0 && iy < h;
      const Element* row = inside ? x.as<Element>() + n * x.strides[0] + (iz * h + iy) * w * pitch : nullptr;
      for (int64_t kx = 0; kx < taps_x; ++kx, to += kBlockPixels) {
        int64_t x0 = ox * stride + columns.offset + kx * columns.offset_apart;  // of pixel i: x0 + i * stride; [low, high) are inside
        int64_t low = x0 < 0 ? (-x0 + stride - 1) / stride : 0;
        int64_t high = x0 + (count - 1) * stride + reach <= w ? count : x0 + reach <= w ? (w - reach - x0) / stride + 1 : 0;
        low = low < count ? low : count;
        high = inside && high > low ? high : low;
        for (int64_t i = 0; i < count; ++i) {
          if (i == low && low < high) {
            const Element* pixel = row + (x0 + low * stride) * pitch;
            for (; i < high; ++i, pixel += stride * pitch) to[i] = pixel;
            if (i == count) break;
          }
          to[i] = g.zeros;
          if (!p.runs || !inside) continue;
          to[i] = cut_run(p, row, x0 + i * stride, w, g.zeros, spare);
          spare += p.kernel[1] * p.ci_g;
        }
      }
    }
    from += count;
  }
}

// Output columns at which a tap enters or leaves the image. Tiles that end there skip all of its padding, tiles across it
// none. Only those that leave tiles high enough to keep the multiply units busy: at the usual padding of a pixel there is nothing to gain.
struct Breaks {
  static constexpr int kMax = 16, kApart = kBusyRows;
  int64_t at[kMax];  // ascending
  int count;
};

static PEN_OUTER Breaks find_breaks(const PhaseSide& columns, int64_t w) {
  Breaks b = {};
  int64_t last = 0;
  for (;;) {
    int64_t next = columns.count;  // the first one far enough from the last
    for (int64_t k = 0; k < columns.taps; ++k) {
      int64_t offset = columns.offset + k * columns.offset_apart, stride = columns.step;  // output x reads column x * stride + offset
      int64_t enters = offset < 0 ? (-offset + stride - 1) / stride : 0, leaves = offset < w ? (w - offset + stride - 1) / stride : 0;
      if (enters >= last + Breaks::kApart && enters < next) next = enters;
      if (leaves >= last + Breaks::kApart && leaves < next) next = leaves;
    }
    if (next + Breaks::kApart > columns.count || b.count == Breaks::kMax) break;
    last = b.at[b.count++] = next;
  }
  return b;
}

// Tiles of the phase's pixels [begin, end): none crosses a multiple of `line`, within which pixels have one pitch, nor, where
// a line is an output row, one of the breaks in it. Finds the taps that are padding for a whole tile.
template <class Kind>
static PEN_OUTER void cut_tiles(const Phase& phase, const Tensor& y, const Tensor& residual, int64_t begin, int64_t end, int64_t line,
                                const Breaks& breaks, bool may_skip, Gathered<Kind>* g) {
  using Element = typename Kind::Element;
  using Tile = typename Kind::Tile;
  int64_t width = phase.side[1].count, height = phase.side[0].count, depth = phase.side[2].count;
  g->tile_count = 0;
  for (int64_t from = begin; from < end;) {
    int64_t to = (from / line + 1) * line;
    for (int i = 0; i < breaks.count; ++i) {
      if (from % line >= breaks.at[i]) continue;
      to = from / line * line + breaks.at[i];
      break;
    }
    to = to < end ? to : end;
    int64_t tiles = (to - from + Kind::kRows - 1) / Kind::kRows;
    for (int64_t i = 0; i < tiles; ++i) {
      Range range = tile_rows<Kind::kRows, Kind::kEven>(to - from, tiles, i);
      int64_t first = from + range.begin, row = first / width, plane = row / height, n = plane / depth;
      Tile* tile = &g->tiles[g->tile_count];
      uint8_t* live = g->live + g->taps * g->tile_count++;
      tile->count = static_cast<int>(range.end - range.begin);
      tile->rows = g->rows + (first - begin);
      tile->live = live;
      auto place = [&](const Tensor& t) __attribute__((always_inline)) {
        return t.data + (n * t.strides[0] + phase_pixel(phase, t, plane % depth, row % height, first % width)) * Kind::size_of(t);
      };
      tile->c = reinterpret_cast<decltype(tile->c)>(place(y));
      tile->residual = residual.data ? reinterpret_cast<decltype(tile->residual)>(place(residual)) : nullptr;
      for (int64_t tap = 0; tap < g->taps; ++tap) {
        const Element* const* row_of = g->rows + tap * kBlockPixels + (first - begin);
        int r = 0;
        while (may_skip && r < tile->count && row_of[r] == g->zeros) ++r;
        live[tap] = r < tile->count;
      }
    }
    from = to;
  }
}

// Images that follow each other without a gap are one line of pixels.
static PEN_INLINE bool batch_is_dense(const Tensor& t) {
  return t.dims[0] == 1 || t.strides[0] == map_side(t, 0) * map_side(t, 1) * map_side(t, 2) * pixel_pitch(t);
}

// Where the block that starts at `begin` ends: after whole tiles, or whole output rows where tiles are cut by rows.
template <class Kind>
static PEN_INLINE int64_t block_end(const Conv2d& p, int64_t ow, int64_t begin, int64_t end) {
  int64_t size = end - begin <= kBlockPixels ? kBlockPixels : kBlockPixels / Kind::kRows * Kind::kRows;
  if (p.by_rows && ow <= kBlockPixels) {
    size = kBlockPixels / ow * ow;
  } else if (p.by_rows) {
    int64_t left = ow - begin % ow, pieces = (left + kBlockPixels - 1) / kBlockPixels;
    size = (left + pieces - 1) / pieces;
  }
  return begin + size < end ? begin + size : end;
}

template <class Kind>
static PEN_OUTER void conv_gemm(const Run& r) {
  using Element = typename Kind::Element;
  const Conv2d& p = r.as<Conv2d>();
  const Tensor &x = r.in[0], &residual = r.in[3], &y = r.out[0];
  GatherSizes at = gather_sizes(p, x.dims[1], sizeof(Element));
  Gathered<Kind> g;
  g.taps = at.taps;
  g.zeros = reinterpret_cast<Element*>(r.scratch);
  g.tiles = reinterpret_cast<typename Kind::Tile*>(r.scratch + at.tiles);
  g.rows = reinterpret_cast<const Element**>(r.scratch + at.rows);
  g.copies = reinterpret_cast<Element*>(r.scratch + at.copies);
  g.live = reinterpret_cast<uint8_t*>(r.scratch + at.live);
  int32_t* places = reinterpret_cast<int32_t*>(r.scratch + at.places);
  memset(r.scratch, Kind::padding(r), static_cast<size_t>(at.tiles));

  typename Kind::Block block;
  block.tiles = g.tiles;
  block.rows_step = kBlockPixels;
  block.b_taps = at.taps;
  block.tap_k = Kind::kCopies && p.copied ? at.window : p.runs ? p.kernel[1] * p.ci_g : p.ci_g;
  block.n = p.co_g;
  Kind::begin(r, p, &block);
  bool dense = batch_is_dense(y) && (!residual.data || batch_is_dense(residual));
  int64_t group_step = (p.co_g + kPanel - 1) / kPanel * kPanel * at.taps * block.tap_k;
  int64_t units = gemm_units(p);

  // The current phase: all of a plain convolution.
  int64_t number = -1, phase_begin = 0, phase_end = 0;
  Phase phase;
  Breaks breaks = {};
  Patience patience(r);
  for (int64_t task = r.begin; task < r.end; ++task) {
    int64_t pixel_task = p.columns_outer ? task % p.pixel_tasks : task / p.column_tasks;
    int64_t column_task = p.columns_outer ? task / p.pixel_tasks : task % p.column_tasks;
    Range columns = part(units, p.column_tasks, column_task), pixels = part(p.pixel_units, p.pixel_tasks, pixel_task);
    for (int64_t unit = pixels.begin; unit < pixels.end; unit = phase_end < pixels.end ? phase_end : pixels.end) {
      if (unit < phase_begin) number = -1, phase_end = 0;  // by columns: from the start again
      while (unit >= phase_end) {
        phase = place_phase(p, y, ++number);
        phase_begin = phase_end;
        phase_end += p.transposed ? y.dims[0] * phase.side[0].count * phase.side[2].count : p.pixel_units;
        if (unit < phase_end) {
          g.taps = p.transposed ? place_taps(p, phase, places) : at.taps;
          g.taps = g.taps > 0 ? g.taps : 1;
          if (p.by_rows) breaks = find_breaks(phase.side[1], map_side(x, 1));
        }
      }
      int64_t width = phase.side[1].count, all = y.dims[0] * width * phase.side[0].count * phase.side[2].count;
      int64_t line = p.by_rows ? width : dense ? all : all / y.dims[0], pixel_unit = p.transposed ? width : p.pixel_unit;
      int64_t last = (pixels.end < phase_end ? pixels.end : phase_end) - phase_begin;
      last = last * pixel_unit < all ? last * pixel_unit : all;
      block.taps = g.taps;
      block.places = p.transposed ? places : nullptr;
      block.c_pitch = phase.side[1].apart * pixel_pitch(y);
      block.residual_pitch = residual.data ? phase.side[1].apart * pixel_pitch(residual) : 0;
      for (int64_t begin = (unit - phase_begin) * pixel_unit; begin < last;) {
        int64_t end = block_end<Kind>(p, width, begin, last);
        if (Kind::kCopies && p.copied)
          Kind::copy_windows(p, x, y, begin, end, p.groups > 1 ? columns.begin : 0, at.window, g);
        else
          gather_rows(p, phase, x, begin, end, g);
        cut_tiles(phase, y, residual, begin, end, line, breaks, Kind::may_skip(r), &g);
        block.tile_count = g.tile_count;
        bool more = p.groups == 1 && columns.end < units && (!p.columns_outer || pixel_task == p.pixel_tasks - 1);
        set_next(block, more && end == last ? Kind::weights(r) + columns.end * kColumnPanel * at.taps * block.tap_k : nullptr);
        Range groups = p.groups > 1 ? columns : Range{0, 1};
        for (int64_t group = groups.begin; group < groups.end; ++group) {
          block.n_begin = p.groups > 1 ? 0 : columns.begin * kColumnPanel;
          block.n_end = p.groups > 1 || columns.end * kColumnPanel > p.co_g ? p.co_g : columns.end * kColumnPanel;
          if (patience.ends((end - begin) * g.taps * block.tap_k * (block.n_end - block.n_begin))) return;
          block.b = Kind::weights(r) + group * group_step;
          Kind::group(r, p, group, &block);
          if (Kind::kCopies && p.copied && group > groups.begin) Kind::copy_windows(p, x, y, begin, end, group, at.window, g);
          block.a_offset = Kind::kCopies && p.copied ? 0 : group * p.ci_g;
          block.c_offset = group * p.co_g;
          run_block(block);
        }
        begin = end;
      }
    }
  }
}

}  // namespace PEN_ISA
}  // namespace pen
