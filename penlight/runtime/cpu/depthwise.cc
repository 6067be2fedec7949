// Vectors run over channels; kOutputs neighbours in x stay in registers, and for kernels 3, 5 and 7 wide each input pixel is
// loaded once for all outputs that it reaches. Outputs and channels beyond the last whole tile are done by one more tile
// that overlaps its predecessor and writes the same values again. Compiled once per instruction set; the only copy of its
// code.
#include "penlight/runtime/cpu/depthwise.h"

namespace pen {
namespace PEN_ISA {

constexpr int kOutputs = 7;  // divides the maps of networks for 224 x 224 images; leaves registers for 7 taps
#if defined(__aarch64__)
constexpr int kVectors = 2;  // of channels: its 32 registers hold them, and one instruction loads two, for one address
#else
constexpr int kVectors = 1;
#endif
constexpr intptr_t kTileChannels = kVectors * kLanes;

// What one call computes: kOutputs neighbouring results (or `tiles` times as many) of a tile's channels, in each of the lines.
// Offsets and steps count floats and are as wide as a pointer: with 64 bits, armv7 would need two registers for each.
struct DepthwiseCall {
  const DepthwiseLine* lines;
  intptr_t line_count;
  intptr_t x_at, residual_at, y_at;  // from a line's start to the tile; x: to the pixel under the first tap, which may not exist
  intptr_t x_step, x_row;            // from one pixel to the next; from one row of taps to the next
  const float* w;                    // first tap of the first row of taps, at the tile's channels
  intptr_t w_step, w_row;
  intptr_t x_plane, w_plane;
  intptr_t residual_step, y_step;
  const float* bias;          // null: none
  intptr_t tiles;             // so many times kOutputs, one after another (whole tiles)
  int count;                  // outputs that exist
  intptr_t low, high;         // pixels [low, high) from the first one on lie in the image
  intptr_t stride, dilation;  // in steps of x_step
  intptr_t width;             // taps in a row
  intptr_t lanes;             // channels that exist, at most kTileChannels
  float lo, hi;
  bool clamped;
};

// How much of a tile may be missing: a template parameter, so that whole tiles check nothing. Channels are all there.
enum class Tile : int {
  whole,  // all outputs, all pixels that they read
  edge,   // all outputs; of the pixels, at most half a kernel is missing on either side
  few,    // anything may be missing
};

static PEN_INLINE void load_channels(const float* p, V (&v)[kVectors]) {
  PEN_UNROLL for (int j = 0; j < kVectors; ++j) v[j] = load(p + j * kLanes);
}

static PEN_INLINE void store_channels(float* p, const V (&v)[kVectors]) {
  PEN_UNROLL for (int j = 0; j < kVectors; ++j) store(p + j * kLanes, v[j]);
}

// What happens to sums before they are stored. These are copies of a call's fields: a store might change those for all the compiler
// knows, and it would read them again after each.
struct Finish {
  intptr_t y_step, residual_step;
  int count;
  bool clamped;
  V lo, hi;
};

static PEN_INLINE Finish finish_of(const DepthwiseCall& d) {
  return {d.y_step, d.residual_step, d.count, d.clamped, set1(d.lo), set1(d.hi)};
}

template <Tile kTile>
static PEN_INLINE void finish_outputs(const Finish& f, V (&acc)[kOutputs][kVectors], const float* residual, float* y) {
  int count = kTile == Tile::few ? f.count : kOutputs;
  if (residual) {
    PEN_UNROLL for (int t = 0; t < kOutputs; ++t, residual += f.residual_step) {
      if (t >= count) break;
      V more[kVectors];
      load_channels(residual, more);
      PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[t][j] = acc[t][j] + more[j];
    }
  }
  if (f.clamped) {
    PEN_UNROLL for (int t = 0; t < kOutputs; ++t) {
      PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[t][j] = clamp(acc[t][j], f.lo, f.hi);
    }
  }
  PEN_UNROLL for (int t = 0; t < kOutputs; ++t, y += f.y_step) {
    if (t >= count) break;
    store_channels(y, acc[t]);
  }
}

// Pixels are checked where some may be missing; the pattern of branches repeats from row to row and from vector to vector,
// so it costs little. Every line has taps.
template <int kWidth, int kStride, Tile kTile>
static __attribute__((noinline)) void depthwise_reuse(const DepthwiseCall& d) {
  constexpr int kReach = (kOutputs - 1) * kStride + kWidth;
  constexpr int kUnsure = kTile == Tile::whole ? 0 : kTile == Tile::edge ? kWidth / 2 : kReach;  // pixels on either side
  V start[kVectors];
  PEN_UNROLL for (int j = 0; j < kVectors; ++j) start[j] = zero();
  if (d.bias) load_channels(d.bias, start);
  int used = (d.count - 1) * kStride + kWidth;
  int low = d.low > 0 ? static_cast<int>(d.low) : 0, high = d.high < used ? static_cast<int>(d.high) : used;
  intptr_t x_step = d.x_step, next_row = d.x_row - (kReach - 1) * x_step, w_step = d.w_step;
  intptr_t x_bytes = x_step * 4, row_bytes = next_row * 4;  // floats would be made bytes of in every row
  Finish finish = finish_of(d);
  for (const DepthwiseLine *line = d.lines, *end = line + d.line_count; line != end; ++line) {
    const float *x = line->x + d.x_at, *residual = line->residual ? line->residual + d.residual_at : nullptr;
    const float* first_weights = d.w + line->first_tap * d.w_row;
    float* y = line->y + d.y_at;
    int tiles = static_cast<int>(d.tiles), all_taps = static_cast<int>(line->taps), all_planes = static_cast<int>(line->planes);
    intptr_t next_plane = d.x_plane - all_taps * d.x_row, next_weights = d.w_plane - all_taps * d.w_row;
    do {
      V acc[kOutputs][kVectors];
      PEN_UNROLL for (int t = 0; t < kOutputs; ++t) { PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[t][j] = start[j]; }
      const float *p = x, *weights = first_weights;
      int taps = all_taps, planes = all_planes;
      for (;;) {
        V w[kWidth][kVectors];
        PEN_UNROLL for (int k = 0; k < kWidth; ++k, weights += w_step) load_channels(weights, w[k]);
        PEN_UNROLL for (int i = 0; i < kReach; ++i) {
          const float* pixel = p;
          p = reinterpret_cast<const float*>(reinterpret_cast<const char*>(p) + (i < kReach - 1 ? x_bytes : row_bytes));
          if ((i < kUnsure && i < low) || (i >= kReach - kUnsure && i >= high)) continue;
          V v[kVectors];
          load_channels(pixel, v);
          PEN_UNROLL for (int j = 0; j < kVectors; ++j) keep(v[j]);
          PEN_UNROLL for (int k = 0; k < kWidth; ++k) {
            int t = (i - k) / kStride;
            if (i < k || (i - k) % kStride != 0 || t >= kOutputs) continue;
            PEN_UNROLL for (int j = 0; j < kVectors; ++j) {
              after(p, acc[t][j]);  // loads run one pixel ahead and no further: there are no registers for more
              acc[t][j] = fma(v[j], w[k][j], acc[t][j]);
            }
          }
        }
        after(weights, acc[0][0]);  // else Clang computes it anew from where the row began, at a cost in every row
        if (!PEN_UNLIKELY(--taps == 0)) continue;
        if (--planes == 0) break;
        taps = all_taps;
        p += next_plane;
        weights += next_weights;
      }
      finish_outputs<kTile>(finish, acc, residual, y);
      x += kOutputs * kStride * x_step;
      y += kOutputs * finish.y_step;
      residual += kOutputs * finish.residual_step;  // none stays none: its step is 0
    } while (--tiles != 0);
  }
}

// Any kernel width, stride and dilation; one vector of channels, kWhole: all of it. Parts of vectors are loaded by one instruction on
// some processors; elsewhere that takes longer than the sums do, which may then lie in memory: unrolled they would be kilobytes.
#if defined(__AVX2__)
constexpr bool kShortParts = true;
#else
constexpr bool kShortParts = false;
#endif
template <bool kWhole>
static PEN_INLINE V load_lanes(const float* p, intptr_t lanes) {
  return kWhole ? load(p) : load_partial(p, lanes);
}
template <bool kWhole>
static PEN_INLINE void add_tap(const DepthwiseCall& d, intptr_t at, const float* x, V w, V* sum) {
  if (at >= d.low && at < d.high) *sum = fma(load_lanes<kWhole>(x + at * d.x_step, d.lanes), w, *sum);
}

template <bool kWhole>
static __attribute__((noinline)) void depthwise_any(const DepthwiseCall& d) {
  V start = d.bias ? load_lanes<kWhole>(d.bias, d.lanes) : zero();
  for (const DepthwiseLine *line = d.lines, *end = line + d.line_count; line != end; ++line) {
    V acc[kOutputs];
    for (int t = 0; t < kOutputs; ++t) acc[t] = start;
    for (intptr_t row = 0; row < line->taps * line->planes; ++row) {
      intptr_t plane = row / line->taps, in_plane = row % line->taps;
      const float* x = line->x + d.x_at + plane * d.x_plane + in_plane * d.x_row;
      const float* weights = d.w + (line->first_tap + in_plane) * d.w_row + plane * d.w_plane;
      for (intptr_t k = 0; k < d.width; ++k, weights += d.w_step) {
        V w = load_lanes<kWhole>(weights, d.lanes);
        intptr_t at = k * d.dilation;
        if constexpr (kWhole || kShortParts) {
          PEN_UNROLL for (int t = 0; t < kOutputs; ++t, at += d.stride) {
            if (t < d.count) add_tap<kWhole>(d, at, x, w, &acc[t]);
          }
        } else {
          for (int t = 0; t < d.count; ++t, at += d.stride) add_tap<kWhole>(d, at, x, w, &acc[t]);
        }
      }
    }
    V sums[kOutputs];  // not the array above: that stays in registers
    PEN_UNROLL for (int t = 0; t < kOutputs; ++t) sums[t] = acc[t];
    for (int t = 0; t < d.count; ++t) {
      V sum = sums[t];
      if (line->residual) sum = sum + load_lanes<kWhole>(line->residual + d.residual_at + t * d.residual_step, d.lanes);
      if (d.clamped) sum = clamp(sum, set1(d.lo), set1(d.hi));
      store_partial(line->y + d.y_at + t * d.y_step, sum, d.lanes);
    }
  }
}

template <int kWidth, int kStride>
static PEN_INLINE DepthwiseTile reuse_tile(Tile tile) {
  if (tile == Tile::whole) return depthwise_reuse<kWidth, kStride, Tile::whole>;
  if (tile == Tile::edge) return depthwise_reuse<kWidth, kStride, Tile::edge>;
  return depthwise_reuse<kWidth, kStride, Tile::few>;
}

template <int kWidth>
static PEN_INLINE DepthwiseTile tile_of_width(int64_t width, int64_t stride, Tile tile) {
  if (width != kWidth) return nullptr;
  return stride == 1 ? reuse_tile<kWidth, 1>(tile) : stride == 2 ? reuse_tile<kWidth, 2>(tile) : nullptr;
}
DepthwiseTile depthwise_tiles3(int64_t width, int64_t stride, Tile tile) { return tile_of_width<3>(width, stride, tile); }
DepthwiseTile depthwise_tiles5(int64_t width, int64_t stride, Tile tile) { return tile_of_width<5>(width, stride, tile); }
DepthwiseTile depthwise_tiles7(int64_t width, int64_t stride, Tile tile) { return tile_of_width<7>(width, stride, tile); }
DepthwiseTile depthwise_tiles(int64_t width, int64_t stride, Tile tile) {
  if (width == 3) return depthwise_tiles3(width, stride, tile);
  return width == 5 ? depthwise_tiles5(width, stride, tile) : depthwise_tiles7(width, stride, tile);
}
DepthwiseTile depthwise_tiles_other(int64_t, int64_t, Tile) { return nullptr; }

PEN_OUTER void run_depthwise(const DepthwiseLines& l, DepthwiseTiles tiles) {
  // With stride 1, dilation D takes the row apart into D rows that do not touch: outputs D apart share input pixels, as
  // in an undilated convolution. Steps are then D pixels.
  int64_t phases = l.stride == 1 ? l.dilation : 1;
  int64_t channels = l.c_end - l.c_begin;
  bool reuse = l.dilation == phases && channels >= kTileChannels && tiles(l.kernel, l.stride, Tile::whole);
  int64_t rows = 0;  // of taps
  for (int64_t i = 0; i < l.count; ++i) {
    reuse &= l.lines[i].taps > 0 && l.lines[i].planes > 0;
    rows += l.lines[i].taps * l.lines[i].planes;
  }
  const int64_t tile_work = 1 + kOutputs * rows * l.kernel * channels;  // multiply-adds
  constexpr int64_t kPieceWork = 1 << 22;
  int64_t last = (kOutputs - 1) * l.stride + l.kernel - 1, reach = last * phases;  // pixel of a whole tile, from its first
  int64_t wide = reuse ? kTileChannels : kLanes;

  DepthwiseCall d;
  d.lines = l.lines;
  d.line_count = l.count;
  d.w_step = l.channels;
  d.w_row = l.kernel * l.channels;
  d.width = l.kernel;
  d.stride = l.stride;
  d.dilation = l.dilation / phases;
  d.x_step = phases * l.x_pitch;
  d.x_row = l.x_row;
  d.x_plane = l.x_plane;
  d.w_plane = l.plane_taps * d.w_row;
  d.lo = l.act->lo;
  d.hi = l.act->hi;
  d.clamped = l.act->clamped;
  d.residual_step = l.lines[0].residual ? phases * l.residual_pitch : 0;
  d.y_step = phases * l.y_pitch;
  for (int64_t phase = 0; phase < phases && phase < l.out_width; ++phase) {
    int64_t outputs = (l.out_width - phase + phases - 1) / phases;
    for (int64_t o = 0; o < outputs; o += kOutputs * d.tiles) {
      // A tile, or all whole ones that follow each other; then channels and lines of it.
      if (outputs - o < kOutputs && outputs > kOutputs) o = outputs - kOutputs;
      int64_t first = phase + o * phases, at = first * l.stride - l.pad;
      d.tiles = 1;
      d.count = static_cast<int>(outputs - o < kOutputs ? outputs - o : kOutputs);
      bool whole = reuse && d.count == kOutputs && at >= 0 && at + reach < l.width;
      if (whole) {
        int64_t step = kOutputs * l.stride * phases;  // how many more start this far on and are whole too
        d.tiles += (l.width - 1 - at - reach) / step;
        d.tiles = d.tiles < (outputs - o) / kOutputs ? d.tiles : (outputs - o) / kOutputs;
        if (kAsks && d.tiles > 1 + kPieceWork / tile_work) d.tiles = 1 + kPieceWork / tile_work;
      }
      if (kAsks && l.ends(d.tiles * tile_work)) return;
      d.low = at < 0 ? (-at + phases - 1) / phases : 0;
      d.high = at < l.width ? (l.width - at + phases - 1) / phases : 0;
      bool edge = d.count == kOutputs && d.low <= l.kernel / 2 && d.high > last - l.kernel / 2;
      DepthwiseTile run = reuse                ? tiles(l.kernel, l.stride,
                                        whole  ? Tile::whole
                                                       : edge ? Tile::edge
                                                              : Tile::few)
                          : channels >= kLanes ? depthwise_any<true>
                                               : depthwise_any<false>;
      for (int64_t c = l.c_begin; c < l.c_end; c += wide) {
        if (c + wide > l.c_end && channels >= wide) c = l.c_end - wide;
        d.lanes = l.c_end - c < wide ? l.c_end - c : wide;
        d.bias = l.bias ? l.bias + c : nullptr;
        d.w = l.weights + c;
        d.x_at = at * l.x_pitch + c;
        d.y_at = first * l.y_pitch + c;
        d.residual_at = first * l.residual_pitch + c;
        run(d);
      }
    }
  }
  if (!l.act->row) return;
  for (int64_t i = 0; i < l.count; ++i) {
    if (l.y_pitch == channels) {
      apply_row(*l.act, l.lines[i].y + l.c_begin, l.out_width * channels);
    } else {
      for (int64_t o = 0; o < l.out_width; ++o) apply_row(*l.act, l.lines[i].y + o * l.y_pitch + l.c_begin, channels);
    }
  }
}

}  // namespace PEN_ISA
}  // namespace pen
