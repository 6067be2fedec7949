// conv2d.f32.depthwise: every output channel sees one input channel (groups == Ci; Co may be a multiple). NHWC, weights
// "taps" [kh * kw][Co]. Vectors run over channels; kOutputs neighbours in x stay in registers, and for kernels 3, 5 and 7
// wide each input pixel is loaded once for all outputs that it reaches. Channels beyond the last whole vector are done by
// one more vector that overlaps its predecessor and writes the same values again.
#include "penlight/ops/conv/conv2d.h"
#include "penlight/runtime/simd/simd.h"

namespace pen {
namespace PEN_ISA {

constexpr int kOutputs = 7;  // divides the maps of networks for 224 x 224 images; leaves registers for 7 taps

// kOutputs results of one vector of channels. Pointers are at that vector's first channel, steps in floats.
struct DepthwiseCall {
  const float* x;         // the pixel under the first tap of the first output, in the first row that exists (x may not)
  int64_t x_step, x_row;  // from one pixel to the next; from one row of taps to the next
  int64_t rows;           // rows of taps that lie in the image
  const float* w;         // first tap of the first of these rows
  int64_t w_step, w_row;
  const float* bias;      // null: none
  const float* residual;  // null: none
  int64_t residual_step;
  float* y;
  int64_t y_step;
  int64_t tiles;             // so many times kOutputs, one after another (whole tiles)
  int count;                 // outputs that exist
  int64_t low, high;         // pixels [low, high) from x on lie in the image
  int64_t stride, dilation;  // in steps of x_step
  int64_t width;             // taps in a row
  int64_t lanes;             // channels that exist, at most kLanes
  int64_t multiplier;        // output channels per input channel
  int64_t lane0;             // where the first output channel stands among those of its input channel
  float lo, hi;
  bool clamped;
};

// What of a tile exists, known when its code is made.
enum class Tile {
  whole,  // all outputs, all pixels that they read, all lanes
  edge,   // all lanes; pixels are checked
  part,   // fewer channels than lanes
};

template <Tile kTile>
static PEN_INLINE V load_channels(const float* p, int64_t lanes) {
  return kTile == Tile::part ? load_partial(p, lanes) : load(p);
}

template <Tile kTile>
static PEN_INLINE void finish_outputs(const DepthwiseCall& d, V* acc, const float* residual, float* y) {
  if (residual) {
    PEN_UNROLL for (int t = 0; t < kOutputs; ++t) {
      if (kTile != Tile::whole && t >= d.count) break;
      acc[t] = acc[t] + load_channels<kTile>(residual + t * d.residual_step, d.lanes);
    }
  }
  if (d.clamped) {
    V lo = set1(d.lo), hi = set1(d.hi);
    PEN_UNROLL for (int t = 0; t < kOutputs; ++t) acc[t] = clamp(acc[t], lo, hi);
  }
  PEN_UNROLL for (int t = 0; t < kOutputs; ++t) {
    if (kTile != Tile::whole && t >= d.count) break;
    if (kTile == Tile::part)
      store_partial(y + t * d.y_step, acc[t], d.lanes);
    else
      store(y + t * d.y_step, acc[t]);
  }
}

// A whole call does `tiles` neighbours at one go. In the others each pixel is checked; the pattern of branches repeats
// from row to row and from vector to vector, so it costs little.
template <int kWidth, int kStride, Tile kTile>
static __attribute__((noinline)) void depthwise_reuse(const DepthwiseCall& d) {
  constexpr int kReach = (kOutputs - 1) * kStride + kWidth;
  V start = d.bias ? load_channels<kTile>(d.bias, d.lanes) : zero();
  int64_t used = (d.count - 1) * kStride + kWidth;
  int64_t low = d.low > 0 ? d.low : 0, high = d.high < used ? d.high : used;
  const float *tile_x = d.x, *residual = d.residual;
  float* y = d.y;
  for (int64_t tile = 0; tile < d.tiles; ++tile) {
    V acc[kOutputs];
    PEN_UNROLL for (int t = 0; t < kOutputs; ++t) acc[t] = start;
    const float *x = tile_x, *w_row = d.w;
    for (int64_t row = 0; row < d.rows; ++row, x += d.x_row, w_row += d.w_row) {
      V w[kWidth];
      PEN_UNROLL for (int k = 0; k < kWidth; ++k) w[k] = load_channels<kTile>(w_row + k * d.w_step, d.lanes);
      const float* p = x;
      PEN_UNROLL for (int i = 0; i < kReach; ++i, p += d.x_step) {
        if (kTile != Tile::whole && (i < low || i >= high)) continue;
        V v = load_channels<kTile>(p, d.lanes);
        keep(v);
        PEN_UNROLL for (int k = 0; k < kWidth; ++k) {
          int t = (i - k) / kStride;
          if (i >= k && (i - k) % kStride == 0 && t < kOutputs) acc[t] = fma(v, w[k], acc[t]);
        }
      }
    }
    finish_outputs<kTile>(d, acc, residual, y);
    tile_x += kOutputs * kStride * d.x_step;
    y += kOutputs * d.y_step;
    if (residual) residual += kOutputs * d.residual_step;
  }
}

// Any kernel width, stride, dilation and channel multiplier.
static __attribute__((noinline)) void depthwise_any(const DepthwiseCall& d) {
  V start = d.bias ? load_partial(d.bias, d.lanes) : zero();
  V acc[kOutputs];
  PEN_UNROLL for (int t = 0; t < kOutputs; ++t) acc[t] = start;
  int source[kLanes];
  for (int i = 0; i < kLanes; ++i) source[i] = i < d.lanes ? static_cast<int>((d.lane0 + i) / d.multiplier) : 0;
  for (int64_t row = 0; row < d.rows; ++row) {
    for (int64_t k = 0; k < d.width; ++k) {
      const float* x = d.x + row * d.x_row;
      V w = load_partial(d.w + row * d.w_row + k * d.w_step, d.lanes);
      PEN_UNROLL for (int t = 0; t < kOutputs; ++t) {
        int64_t at = k * d.dilation + t * d.stride;
        if (t >= d.count || at < d.low || at >= d.high) continue;
        const float* p = x + at * d.x_step;
        V v;
        if (d.multiplier == 1) {
          v = load_partial(p, d.lanes);
        } else {
          float spread[kLanes];
          for (int i = 0; i < kLanes; ++i) spread[i] = p[source[i]];
          v = load(spread);
        }
        acc[t] = fma(v, w, acc[t]);
      }
    }
  }
  finish_outputs<Tile::part>(d, acc, d.residual, d.y);
}

template <int kWidth, int kStride>
static PEN_INLINE void run_reuse(Tile tile, const DepthwiseCall& d) {
  if (tile == Tile::whole) return depthwise_reuse<kWidth, kStride, Tile::whole>(d);
  if (tile == Tile::edge) return depthwise_reuse<kWidth, kStride, Tile::edge>(d);
  depthwise_reuse<kWidth, kStride, Tile::part>(d);
}

static PEN_INLINE void run_outputs(int kernel, Tile tile, const DepthwiseCall& d) {
  switch (kernel) {
    case 31:
      return run_reuse<3, 1>(tile, d);
    case 32:
      return run_reuse<3, 2>(tile, d);
    case 51:
      return run_reuse<5, 1>(tile, d);
    case 52:
      return run_reuse<5, 2>(tile, d);
    case 71:
      return run_reuse<7, 1>(tile, d);
    default:
      return depthwise_any(d);
  }
}

// An output row: its memory, and the rows of taps that lie in the image.
struct DepthwiseRow {
  const float* x;  // image row under the first of these taps
  float* y;
  const float* residual;
  int64_t first_tap, taps;
};

static DepthwiseRow place_row(const Conv2d& p, const Run& r, int64_t line) {
  const Tensor &x = r.in[0], &residual = r.in[3], &y = r.out[0];
  int64_t n = line / y.dims[2], oy = line % y.dims[2], d = p.dilation[0];
  int64_t top = tap_at(p, 0, oy, 0), below = x.dims[2] - top;  // first tap's image row; rows from there to the end
  int64_t first = top < 0 ? (-top + d - 1) / d : 0, end = below > 0 ? (below + d - 1) / d : 0;
  end = end < p.kernel[0] ? end : p.kernel[0];
  DepthwiseRow row = {};
  row.first_tap = first;
  row.taps = end > first ? end - first : 0;
  row.x = x.as<float>() + n * x.strides[0];
  if (row.taps > 0) row.x += (top + first * d) * x.dims[3] * pixel_pitch(x);
  row.y = y.as<float>() + n * y.strides[0] + oy * y.dims[3] * pixel_pitch(y);
  if (residual.data) row.residual = residual.as<float>() + n * residual.strides[0] + oy * y.dims[3] * pixel_pitch(residual);
  return row;
}

}  // namespace PEN_ISA

// So many output rows are taken together, vector of channels by vector of channels: the input rows that they share are
// then still in the first cache level.
constexpr int64_t kDepthwiseRows = 4;

PEN_KERNEL(conv2d, f32, depthwise) {
  using namespace PEN_ISA;
  const Conv2d& p = r.as<Conv2d>();
  const Tensor &x = r.in[0], &y = r.out[0];
  int64_t channels = y.dims[1], w = x.dims[3], ow = y.dims[3];
  int64_t x_pitch = pixel_pitch(x), y_pitch = pixel_pitch(y), residual_pitch = r.in[3].data ? pixel_pitch(r.in[3]) : 0;
  // With stride 1, dilation D takes the row apart into D rows that do not touch: outputs D apart share input pixels, as
  // in an undilated convolution. Steps are then D pixels.
  int64_t phases = p.stride[1] == 1 ? p.dilation[1] : 1;
  bool reuse = p.co_g == 1 && p.dilation[1] == phases &&
               (((p.kernel[1] == 3 || p.kernel[1] == 5) && p.stride[1] <= 2) || (p.kernel[1] == 7 && p.stride[1] == 1));
  int kernel = reuse ? static_cast<int>(p.kernel[1] * 10 + p.stride[1]) : 0;
  int64_t reach = ((kOutputs - 1) * p.stride[1] + p.kernel[1] - 1) * phases;  // last pixel of a whole tile, from its first

  DepthwiseCall d;
  d.multiplier = p.co_g;
  d.w_step = channels;
  d.w_row = p.kernel[1] * channels;
  d.width = p.kernel[1];
  d.stride = p.stride[1];
  d.dilation = p.dilation[1] / phases;
  d.x_step = phases * x_pitch;
  d.x_row = p.dilation[0] * w * x_pitch;
  d.lo = p.act.lo;
  d.hi = p.act.hi;
  d.clamped = p.act.clamped;
  d.residual_step = phases * residual_pitch;
  d.y_step = phases * y_pitch;

  const float* weights = r.in[1].as<float>();
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.pixel_units, p.pixel_tasks, task / p.column_tasks);
    Range columns = part((channels + kColumnUnit - 1) / kColumnUnit, p.column_tasks, task % p.column_tasks);
    int64_t c_begin = columns.begin * kColumnUnit, c_end = columns.end * kColumnUnit < channels ? columns.end * kColumnUnit : channels;
    for (int64_t line = range.begin; line < range.end; line += kDepthwiseRows) {
      DepthwiseRow rows[kDepthwiseRows];
      int64_t count = range.end - line < kDepthwiseRows ? range.end - line : kDepthwiseRows;
      for (int64_t i = 0; i < count; ++i) rows[i] = place_row(p, r, line + i);
      for (int64_t phase = 0; phase < phases && phase < ow; ++phase) {
        int64_t outputs = (ow - phase + phases - 1) / phases;
        for (int64_t o = 0; o < outputs; o += kOutputs * d.tiles) {
          // A tile, or all whole ones that follow each other; then channels and rows of it.
          int64_t first = phase + o * phases, at = tap_at(p, 1, first, 0);
          d.tiles = 1;
          d.count = static_cast<int>(outputs - o < kOutputs ? outputs - o : kOutputs);
          bool whole = reuse && d.count == kOutputs && c_end - c_begin >= kLanes && at >= 0 && at + reach < w;
          if (whole) {
            int64_t step = kOutputs * p.stride[1] * phases;  // how many more start this far on and are whole too
            d.tiles += (w - 1 - at - reach) / step;
            d.tiles = d.tiles < (outputs - o) / kOutputs ? d.tiles : (outputs - o) / kOutputs;
          } else {
            d.low = at < 0 ? (-at + phases - 1) / phases : 0;
            d.high = at < w ? (w - at + phases - 1) / phases : 0;
          }
          Tile tile = whole ? Tile::whole : c_end - c_begin >= kLanes ? Tile::edge : Tile::part;
          for (int64_t c = c_begin; c < c_end; c += kLanes) {
            if (c + kLanes > c_end && c_end - c_begin >= kLanes) c = c_end - kLanes;
            d.lanes = c_end - c < kLanes ? c_end - c : kLanes;
            d.bias = r.in[2].data ? r.in[2].as<float>() + c : nullptr;
            d.lane0 = p.co_g == 1 ? 0 : c % p.co_g;
            int64_t c_in = p.co_g == 1 ? c : c / p.co_g;
            for (int64_t i = 0; i < count; ++i) {
              const DepthwiseRow& row = rows[i];
              d.rows = row.taps;
              d.w = weights + row.first_tap * d.w_row + c;
              d.x = row.x + at * x_pitch + c_in;
              d.y = row.y + first * y_pitch + c;
              d.residual = row.residual ? row.residual + first * residual_pitch + c : nullptr;
              run_outputs(kernel, tile, d);
            }
          }
        }
      }
      for (int64_t i = 0; p.act.row && i < count; ++i) {
        if (y_pitch == c_end - c_begin) {
          apply_row(p.act, rows[i].y, ow * channels);
        } else {
          for (int64_t o = 0; o < ow; ++o) apply_row(p.act, rows[i].y + o * y_pitch + c_begin, c_end - c_begin);
        }
      }
    }
  }
}

}  // namespace pen
