// grid_sample: f32, 2 or 3 spatial dims, nhwc or plain. Output pixels are done in blocks: vectors find the taps of all pixels
// of a block along each axis (how far into the image, or kOutside, and weight), these are multiplied out, and the pixels add
// them up: vectors along the channels where those lie side by side (nhwc), else one channel of the block after the other.
//
// What is outside is zero, whatever weight it has: NaN in the grid gives NaN, NaN in the image beside a pixel does not.
// With f32 arithmetic in torch's order, a place on the edge between two pixels falls on the same side.
#include "penlight/ops/shape/runs.h"
#include "penlight/runtime/exec/kernel.h"
#include "penlight/runtime/simd/simd.h"

namespace pen {

constexpr int kGridBlock = 32;                 // pixels
constexpr int32_t kOutside = -(1 << 29);       // three of them, or one and what is inside, are still negative
constexpr int64_t kGridPlane = (1 << 29) - 1;  // floats of one image (nhwc) or plane

struct GridSampleParams {
  int spatial, taps;  // taps of one axis: 1 nearest, 2 linear, 4 cubic
  char padding;       // 'z'eros, 'b'order, 'r'eflection
  bool align, pixels;
  int64_t sizes[3], strides[3];  // in the grid's order: x, y(, z)
  int64_t channels, x_batch, x_channel, y_batch, y_channel, y_pixel;
  int64_t grid_batch, grid_place;
  int64_t places, blocks, items, tasks;  // places and blocks of one image
};

static PEN_SMALL int grid_taps(const char* mode) {
  return strcmp(mode, "nearest") == 0 ? 1 : strcmp(mode, "linear") == 0 ? 2 : strcmp(mode, "cubic") == 0 ? 4 : 0;
}

PEN_SHAPE(grid_sample) {
  for (int i = 0; i < 2; ++i) {
    if (s.in(i).dtype != DType::f32) return s.fail(i, "an f32 tensor", "dtype code %d", static_cast<int>(s.in(i).dtype));
  }
  const Tensor &x = s.in(0), &grid = s.in(1);
  int spatial = x.rank - 2;
  if (x.rank != 4 && x.rank != 5) return s.fail(0, "a tensor of rank 4 or 5", "rank %d", x.rank);
  IntList size = s.ints("size");
  if (size.count != spatial) return s.fail(-1, "a size for each spatial dim", "%d", size.count);
  Shape shape = shape_of(x);
  for (int i = 0; i < spatial; ++i) {
    int64_t side = x.dims[2 + i];
    if (side < 1 || side > (1 << 24)) return s.fail(0, "sides from 1 to 16777216", "%lld", static_cast<long long>(side));
    shape.dims[2 + i] = size[i];
  }
  PEN_TRY(s.output(0, DType::f32, shape));
  int64_t places = 1;
  bool endless = false;
  for (int i = 0; i < spatial; ++i) endless |= __builtin_mul_overflow(places, size[i], &places);
  if (endless || grid.rank != 3 || grid.dims[0] != shape.dims[0] || grid.dims[1] != places || grid.dims[2] != spatial)
    return s.fail(1, "a grid [N, places, 2 or 3] with the N of x, one place per output pixel, one number per spatial dim", "rank %d",
                  grid.rank);
  const char *mode = s.text("mode"), *padding = s.text("padding");
  int taps = grid_taps(mode);
  if (taps == 0 || (taps == 4 && spatial == 3)) return s.fail(-1, "mode nearest, linear, or cubic of rank 4", "\"%s\"", mode);
  if (strcmp(padding, "zeros") != 0 && strcmp(padding, "border") != 0 && strcmp(padding, "reflection") != 0)
    return s.fail(-1, "padding zeros, border or reflection", "\"%s\"", padding);
  return PEN_OK;
}

PEN_BIND(grid_sample) {
  GridSampleParams* p = b.params<GridSampleParams>();
  if (!p) return PEN_ERROR_MEMORY;
  int spatial = b.in(0).rank - 2;
  bool nhwc = b.out_is_nhwc(0);
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, nhwc ? Need::channels : Need::dense));
  p->places = b.in(1).dims[1];
  p->taps = grid_taps(b.text("mode"));
  p->padding = b.text("padding")[0];
  p->align = b.flag("align_corners");
  p->pixels = b.flag("pixels");
  p->spatial = spatial;
  if (is_empty(b.out(0))) return PEN_OK;
  PEN_TRY(b.need(0, nhwc ? Need::channels : Need::dense));
  PEN_TRY(b.need(1, Need::rows));
  const Tensor &x = b.in(0), &grid = b.in(1), &y = b.out(0);
  p->channels = x.dims[1];
  p->x_batch = x.strides[0];
  p->x_channel = nhwc ? 1 : x.strides[1];
  p->y_batch = y.strides[0];
  p->y_channel = nhwc ? 1 : y.strides[1];
  p->y_pixel = nhwc ? y.strides[y.rank - 1] : 1;
  p->grid_batch = grid.strides[0];
  p->grid_place = grid.strides[1];
  int64_t reach = 0;
  for (int i = 0; i < spatial; ++i) {
    p->sizes[spatial - 1 - i] = x.dims[2 + i];
    p->strides[spatial - 1 - i] = x.strides[2 + i];
    reach += (x.dims[2 + i] - 1) * x.strides[2 + i];  // fits: the tensor is there
  }
  if (reach > kGridPlane) return b.fail(0, "images of at most 2^29 values", "%lld", static_cast<long long>(reach));
  p->blocks = (p->places + kGridBlock - 1) / kGridBlock;
  p->items = x.dims[0] * p->blocks;
  int taps = spatial == 3 ? p->taps * p->taps * p->taps : p->taps * p->taps;
  p->tasks = task_count(p->items, 1024 / (p->channels * taps + 16) + 1);
  PEN_TRY(b.scratch((p->channels + 64) * 4));
  b.tasks(p->tasks);
  return PEN_OK;
}

namespace PEN_ISA {

constexpr int kGridTaps = 16;

// The taps of a block of pixels: along one axis, or of all axes.
template <int kCount>
struct GridTaps {
  int32_t at[kCount][kGridBlock];  // in elements; below zero: outside
  float w[kCount][kGridBlock];
};
using AxisTaps = GridTaps<4>;
using AllTaps = GridTaps<kGridTaps>;

static PEN_INLINE V clip_place(V x, int64_t size) { return min(set1(static_cast<float>(size - 1)), max(x, zero())); }  // NaN: 0

static PEN_INLINE V reflect_place(V x, int64_t size, bool align) {
  if (align && size <= 1) return zero();
  V low = set1(align ? 0.0f : -0.5f), span = set1(static_cast<float>(align ? 2 * (size - 1) : 2 * size));
  V a = abs(x - low);
  V extra = a - trunc(a / span) * span;
  return min(span - extra, extra) + low;
}

static PEN_INLINE V pad_place(V x, const GridSampleParams& p, int64_t size) {
  if (p.padding == 'z') return x;
  return clip_place(p.padding == 'r' ? reflect_place(x, size, p.align) : x, size);
}

static PEN_INLINE void put_tap(V place, V w, int64_t size, int tap, int lane, AxisTaps* to) {
  M inside = ge(place, zero()) & le(place, set1(static_cast<float>(size - 1)));
  store(reinterpret_cast<float*>(to->at[tap] + lane), from_bits(to_int(select(inside, place, set1(-1.0f)))));
  store(to->w[tap] + lane, w);
}

// The cubic kernel at distance x below 1, and from 1 to 2.
static PEN_INLINE V grid_cubic_near(V x) {
  const V a = set1(-0.75f);
  return ((a + set1(2.0f)) * x - (a + set1(3.0f))) * x * x + set1(1.0f);
}
static PEN_INLINE V grid_cubic_far(V x) {
  const V a = set1(-0.75f);
  return ((a * x - set1(5.0f) * a) * x + set1(8.0f) * a) * x - set1(4.0f) * a;
}

static PEN_INLINE void axis_taps(const GridSampleParams& p, const float* places, int axis, AxisTaps* to) {
  const V one = set1(1.0f);
  int64_t size = p.sizes[axis];
  for (int i = 0; i < kGridBlock; i += kLanes) {
    V x = load(places + i);
    if (!p.pixels) {
      V scale = set1(static_cast<float>(p.align ? size - 1 : size) / 2);
      x = (x + one) * scale;
      if (!p.align) x = x - set1(0.5f);
    }
    if (p.taps == 4) {
      V whole = floor(x), t = x - whole, u = one - t;
      V w[4] = {grid_cubic_far(t + one), grid_cubic_near(t), grid_cubic_near(u), grid_cubic_far(u + one)};
      for (int k = 0; k < 4; ++k) put_tap(pad_place(whole + set1(static_cast<float>(k - 1)), p, size), w[k], size, k, i, to);
      continue;
    }
    x = pad_place(x, p, size);
    if (p.taps == 1) {
      put_tap(round(x), one, size, 0, i, to);
      continue;
    }
    V whole = floor(x), far = x - whole;
    put_tap(whole, one - far, size, 0, i, to);
    put_tap(whole + one, far, size, 1, i, to);
  }
  int32_t stride = static_cast<int32_t>(p.strides[axis]);
  for (int k = 0; k < p.taps; ++k) {
    for (int i = 0; i < kGridBlock; ++i) to->at[k][i] = to->at[k][i] < 0 ? kOutside : to->at[k][i] * stride;
  }
}

// Taps along all axes, multiplied out; how many.
static PEN_INLINE int all_taps(const GridSampleParams& p, const AxisTaps* axes, AllTaps* to) {
  int n = 0;
  for (int z = 0; z < (p.spatial == 3 ? p.taps : 1); ++z) {
    for (int y = 0; y < p.taps; ++y) {
      for (int x = 0; x < p.taps; ++x, ++n) {
        for (int i = 0; i < kGridBlock; ++i) {
          to->at[n][i] = axes[0].at[x][i] + axes[1].at[y][i];
          to->w[n][i] = axes[0].w[x][i] * axes[1].w[y][i];
        }
        for (int i = 0; i < kGridBlock && p.spatial == 3; ++i) {
          to->at[n][i] += axes[2].at[z][i];
          to->w[n][i] *= axes[2].w[z][i];
        }
      }
    }
  }
  return n;
}

// A pixel of nhwc: all its channels.
template <int kTaps>
static PEN_INLINE void add_channels(const AllTaps& taps, int i, const float* image, const float* zeros, int64_t channels, float* to) {
  const float* from[kTaps];
  V w[kTaps];
  PEN_UNROLL for (int t = 0; t < kTaps; ++t) {
    from[t] = taps.at[t][i] < 0 ? zeros : image + taps.at[t][i];
    w[t] = set1(taps.w[t][i]);
  }
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) {
    V sum = load(from[0] + c) * w[0];
    PEN_UNROLL for (int t = 1; t < kTaps; ++t) sum = fma(load(from[t] + c), w[t], sum);
    store(to + c, sum);
  }
  if (c == channels) return;
  V sum = load_partial(from[0] + c, channels - c) * w[0];
  PEN_UNROLL for (int t = 1; t < kTaps; ++t) sum = fma(load_partial(from[t] + c, channels - c), w[t], sum);
  store_partial(to + c, sum, channels - c);
}

// A channel of a whole block. Past the last pixel of an image there are places of the block before, or zeros.
template <int kTaps>
static PEN_INLINE void add_block(const AllTaps& taps, const float* plane, float* to) {
  for (int i = 0; i < kGridBlock; i += kLanes) {
    V sum = gather(plane, load_ints(taps.at[0] + i)) * load(taps.w[0] + i);
    PEN_UNROLL for (int t = 1; t < kTaps; ++t) sum = fma(gather(plane, load_ints(taps.at[t] + i)), load(taps.w[t] + i), sum);
    store(to + i, sum);
  }
}

template <int kTaps>
static PEN_INLINE void sample_block(const GridSampleParams& p, const AllTaps& taps, int count, const float* image, const float* zeros,
                                    float* to) {
  if (p.x_channel == 1 && p.y_channel == 1) {
    for (int i = 0; i < count; ++i) add_channels<kTaps>(taps, i, image, zeros, p.channels, to + i * p.y_pixel);
    return;
  }
  float rest[kGridBlock];
  for (int64_t c = 0; c < p.channels; ++c) {
    float* line = count == kGridBlock ? to + c * p.y_channel : rest;
    add_block<kTaps>(taps, image + c * p.x_channel, line);
    if (line == rest) memcpy(to + c * p.y_channel, rest, static_cast<size_t>(count) * 4);
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(grid_sample, f32) {
  using namespace PEN_ISA;
  const GridSampleParams& p = r.as<GridSampleParams>();
  float* zeros = reinterpret_cast<float*>(r.scratch);
  memset(zeros, 0, static_cast<size_t>(p.channels + kLanes) * 4);
  float places[3][kGridBlock] = {};
  AxisTaps axes[3];
  AllTaps taps;
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.items, p.tasks, task);
    for (int64_t item = range.begin; item < range.end; ++item) {
      int64_t n = item / p.blocks, begin = item % p.blocks * kGridBlock;
      int count = static_cast<int>(p.places - begin < kGridBlock ? p.places - begin : kGridBlock);
      const float* grid = r.in[1].as<float>() + n * p.grid_batch + begin * p.grid_place;
      for (int a = 0; a < p.spatial; ++a) {
        for (int i = 0; i < count; ++i) places[a][i] = grid[i * p.grid_place + a];
        axis_taps(p, places[a], a, &axes[a]);
      }
      const float* image = r.in[0].as<float>() + n * p.x_batch;
      float* to = r.out[0].as<float>() + n * p.y_batch + begin * p.y_pixel;
      switch (all_taps(p, axes, &taps)) {
        case 1:
          sample_block<1>(p, taps, count, image, zeros, to);
          break;
        case 4:
          sample_block<4>(p, taps, count, image, zeros, to);
          break;
        case 8:
          sample_block<8>(p, taps, count, image, zeros, to);
          break;
        default:
          sample_block<16>(p, taps, count, image, zeros, to);
      }
    }
  }
}

}  // namespace pen
