// expand_depthwise: a pointwise convolution and the depthwise one after it, without the wide map between them ever being
// whole. A task takes some output rows and 32 channels: it computes the expanded rows under them into scratch, a few at a
// time (runtime/cpu/gemm.h), and convolves those while they are in cache (runtime/cpu/depthwise.h). What two tasks need of the
// same rows both compute.
//   y = act2(depthwise(act(x w + b), w2) + b2 + residual)         NHWC, w as panel16, w2 as taps
#include "penlight/ops/conv/conv2d.h"
#include "penlight/runtime/base/packed.h"
#include "penlight/runtime/base/memory.h"
#include "penlight/runtime/cpu/blocking.h"
#include "penlight/runtime/cpu/depthwise.h"
#include "penlight/runtime/cpu/gemm.h"

namespace pen {

struct ExpandDepthwise : Conv2d {  // the depthwise part
  Activation inner;
  int64_t ci;
  int64_t row_tasks, blocks;      // tasks: images x parts of their output rows x blocks of channels
  int64_t chunk;                  // output rows at a time
  int64_t held;                   // expanded rows that a chunk needs
  int64_t tiles_at, expanded_at;  // in scratch, bytes
};

constexpr int64_t kExpandChannels = 32;  // a block: the widest tile
constexpr int64_t kExpandTasks = 8;      // enough for some threads to share
constexpr int64_t kExpandTwice = 5;      // one row in so many may be computed twice, so that each thread has its own

static PEN_SMALL Status bind_expand_weights(Bind& b) {
  static const struct {
    int input;
    const char* layout;
  } kPacked[2] = {{1, "panel16"}, {3, "taps"}};
  for (const auto& packed : kPacked) {
    if (strcmp(b.in_layout(packed.input), packed.layout) != 0)
      return b.fail(packed.input, packed.layout, "layout %s", b.in_layout(packed.input));
    int64_t bytes = packed_bytes(packed.layout, b.in(packed.input), 1);
    if (bytes < 0 || b.in_bytes(packed.input) < bytes)
      return b.fail(packed.input, "as many bytes as its packed layout takes", "%lld of %lld",
                    static_cast<long long>(b.in_bytes(packed.input)), static_cast<long long>(bytes));
  }
  for (int bias = 2; bias <= 4; bias += 2)
    if (b.has(bias)) PEN_TRY(b.need(bias, Need::dense));
  return PEN_OK;
}

PEN_BIND(expand_depthwise) {
  ExpandDepthwise* p = b.params<ExpandDepthwise>();
  if (!p) return PEN_ERROR_MEMORY;
  PEN_TRY(bind_expand_weights(b));
  p->ci = b.in(1).dims[1];
  p->groups = b.in(1).dims[0];
  p->ci_g = p->co_g = 1;
  PEN_TRY(bind_activation(b, &p->inner));
  PEN_TRY(bind_activation(b, &p->act, "act2", "act2_args"));
  PEN_TRY(b.need(0, Need::channels));
  PEN_TRY(bind_maps(b, p));
  const Tensor &x = b.in(0), &out = b.out(0);
  if (out.dims[0] == 0 || out.dims[1] == 0) return PEN_OK;

  int64_t h = x.dims[2], w = x.dims[3], oh = out.dims[2], reach = (p->kernel[0] - 1) * p->dilation[0] + 1;
  int64_t row = w * kExpandChannels * 4;                   // bytes of one expanded row
  const int64_t rows = expanded_bytes(processor()) / row;  // that may be held at once
  p->chunk = rows >= reach + p->stride[0] ? (rows - reach) / p->stride[0] + 1 : 2;
  p->chunk = p->chunk < oh ? p->chunk : oh;
  p->held = (p->chunk - 1) * p->stride[0] + reach;
  p->held = p->held < h ? p->held : h;
  p->blocks = (out.dims[1] + kExpandChannels - 1) / kExpandChannels;
  // More parts of the rows: where there are few blocks, and where x is too large to be read for every block.
  int64_t parts = kExpandTasks / (p->blocks * x.dims[0]), input = h * w * p->ci * 4 / expand_input_bytes(processor());
  parts = parts > input ? parts : input;
  parts = parts < oh / p->chunk ? parts : oh / p->chunk;
  // A part for each thread, where that adds few rows that two of them compute: the convolutions before and after it are cut by rows too,
  // and what a core has not written it would have to fetch from another's cache, and throw out of there when it writes next.
  const int64_t apart = b.threads() / (x.dims[0] < b.threads() ? x.dims[0] : b.threads()), twice = (apart - 1) * (reach - p->stride[0]);
  if (twice * kExpandTwice <= h && parts < apart) parts = apart;
  p->row_tasks = parts > 1 ? parts : 1;
  b.tasks(x.dims[0] * p->row_tasks * p->blocks);
  p->tiles_at = kBlockPixels * 8;
  p->expanded_at = p->tiles_at + kBlockPixels * kTileBytes;
  int64_t bytes;
  if (mul_overflows(p->held, row, &bytes) || add_overflows(bytes, p->expanded_at, &bytes))
    return b.fail(0, "rows that fit in memory", "more");
  return b.scratch(bytes);
}

namespace PEN_ISA {

static_assert(kTileRows <= kPixelUnit && sizeof(RowTile) <= kTileBytes, "bind sized scratch for these");

// Rows [begin, end) of the image, expanded: dense, `columns` floats a pixel.
static PEN_OUTER void expand_rows(const Run& r, const ExpandDepthwise& p, int64_t n, int64_t begin, int64_t end, Range columns, float* to) {
  const Tensor& x = r.in[0];
  int64_t pitch = pixel_pitch(x), count = (end - begin) * x.dims[3], wide = columns.end - columns.begin;
  const float* from = x.as<float>() + n * x.strides[0] + begin * x.dims[3] * pitch;
  static const uint8_t live[1] = {1};
  const float** rows = reinterpret_cast<const float**>(r.scratch);
  RowTile* tiles = reinterpret_cast<RowTile*>(r.scratch + p.tiles_at);
  Activation act = p.inner;
  act.row = nullptr;  // of all rows at once, below
  Block block = {};
  block.tiles = tiles;
  block.taps = 1;
  block.tap_k = p.ci;
  block.b = r.in[1].as<float>();
  block.bias = r.in[2].data ? r.in[2].as<float>() : nullptr;
  block.n_begin = columns.begin;
  block.n_end = columns.end;
  block.n = p.groups;
  block.c_pitch = wide;
  block.act = &act;
  for (int64_t at = 0; at < count; at += kBlockPixels) {
    int64_t some = count - at < kBlockPixels ? count - at : kBlockPixels;
    for (int64_t i = 0; i < some; ++i) rows[i] = from + (at + i) * pitch;
    block.tile_count = cut_row_tiles(rows, some, live, to + at * wide - columns.begin, wide, nullptr, 0, tiles);
    block.next_b = at + some == count && columns.end < p.groups ? block.b + columns.end * p.ci : nullptr;
    run_block(block);
  }
  if (p.inner.row) apply_row(p.inner, to, count * wide);
}

static PEN_OUTER void expand_depthwise(const Run& r, DepthwiseTiles tiles) {
  const ExpandDepthwise& p = r.as<ExpandDepthwise>();
  const Tensor &x = r.in[0], &residual = r.in[5], &y = r.out[0];
  int64_t h = x.dims[2], w = x.dims[3], oh = y.dims[2];
  float* expanded = reinterpret_cast<float*>(r.scratch + p.expanded_at);
  DepthwiseLine lines[kDepthwiseLines];
  DepthwiseLines l = {};
  l.lines = lines;
  l.width = w;
  l.out_width = y.dims[3];
  l.kernel = p.kernel[1];
  l.stride = p.stride[1];
  l.dilation = p.dilation[1];
  l.pad = p.pad[1];
  l.y_pitch = pixel_pitch(y);
  l.residual_pitch = residual.data ? pixel_pitch(residual) : 0;
  l.channels = p.groups;
  l.weights = r.in[3].as<float>();
  l.bias = r.in[4].data ? r.in[4].as<float>() : nullptr;
  l.act = &p.act;
  Patience patience(r);
  l.ask(patience);
  for (int64_t task = r.begin; task < r.end; ++task) {
    int64_t block = task % p.blocks, n = task / p.blocks / p.row_tasks;
    Range range = part(oh, p.row_tasks, task / p.blocks % p.row_tasks);
    l.c_begin = block * kExpandChannels;
    l.c_end = l.c_begin + kExpandChannels < p.groups ? l.c_begin + kExpandChannels : p.groups;
    l.x_pitch = l.c_end - l.c_begin;
    l.x_row = p.dilation[0] * w * l.x_pitch;
    Range have = {0, 0};  // rows of the image that lie in scratch
    for (int64_t from = range.begin; from < range.end; from += p.chunk) {
      int64_t to = from + p.chunk < range.end ? from + p.chunk : range.end;
      int64_t first = tap_at(p, 0, from, 0), last = tap_at(p, 0, to - 1, p.kernel[0] - 1);
      Range need = {first > 0 ? first : 0, last + 1 < h ? last + 1 : h};
      if (need.begin < have.end && need.begin > have.begin) {  // what the last chunk had and this one needs too
        memmove(expanded, expanded + (need.begin - have.begin) * w * l.x_pitch,
                static_cast<size_t>((have.end - need.begin) * w * l.x_pitch) * 4);
      }
      have = {need.begin, need.begin < have.end ? have.end : need.begin};
      if (need.end > have.end) {
        expand_rows(r, p, n, have.end, need.end, {l.c_begin, l.c_end}, expanded + (have.end - have.begin) * w * l.x_pitch);
        have.end = need.end;
      }
      for (int64_t oy = from; oy < to; oy += kDepthwiseLines) {
        l.count = to - oy < kDepthwiseLines ? to - oy : kDepthwiseLines;
        for (int64_t i = 0; i < l.count; ++i) {
          Range taps = taps_inside(p, 0, oy + i, h);
          lines[i] = {expanded - l.c_begin, y.as<float>() + n * y.strides[0] + (oy + i) * l.out_width * l.y_pitch, nullptr, taps.begin,
                      taps.end - taps.begin};
          if (lines[i].taps > 0) lines[i].x += (tap_at(p, 0, oy + i, taps.begin) - have.begin) * w * l.x_pitch;
          if (residual.data) lines[i].residual = residual.as<float>() + n * residual.strides[0] + (oy + i) * l.out_width * l.residual_pitch;
        }
        run_depthwise(l, tiles);
      }
    }
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(expand_depthwise, f32) { PEN_ISA::expand_depthwise(r, PEN_ISA::depthwise_tiles); }  // of files before there were widths
PEN_KERNEL(expand_depthwise, f32, depthwise) { PEN_ISA::expand_depthwise(r, PEN_ISA::depthwise_tiles); }
PEN_KERNEL(expand_depthwise, f32, depthwise3) { PEN_ISA::expand_depthwise(r, PEN_ISA::depthwise_tiles3); }
PEN_KERNEL(expand_depthwise, f32, depthwise5) { PEN_ISA::expand_depthwise(r, PEN_ISA::depthwise_tiles5); }
PEN_KERNEL(expand_depthwise, f32, depthwise7) { PEN_ISA::expand_depthwise(r, PEN_ISA::depthwise_tiles7); }
PEN_KERNEL(expand_depthwise, f32, depthwise_other) { PEN_ISA::expand_depthwise(r, PEN_ISA::depthwise_tiles_other); }

}  // namespace pen
