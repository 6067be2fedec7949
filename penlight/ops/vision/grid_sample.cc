// grid_sample: f32, 2 or 3 spatial dims. A task takes a range of output pixels, in blocks: for each of its axes the taps of all
// pixels of a block are found by vectors (input position, or -1 for one outside of the image, and weight); then each pixel
// adds up its taps, vectors along the channels where those lie side by side (nhwc), else channel by channel.
//
// What is outside is zero, whatever weight it has: NaN in the grid gives NaN, NaN in the image beside a pixel does not.
// With f32 arithmetic in torch's order, a place on the edge between two pixels falls on the same side.
#include "penlight/ops/shape/runs.h"
#include "penlight/runtime/exec/kernel.h"
#include "penlight/runtime/simd/simd.h"

namespace pen {

constexpr int kGridBlock = 32;  // pixels

struct GridAxis {
  int64_t size, stride;
};
struct GridSampleParams {
  int spatial, taps;  // taps of one axis: 1 nearest, 2 linear, 4 cubic
  char padding;       // 'z'eros, 'b'order, 'r'eflection
  bool align, pixels;
  GridAxis axes[3];  // in the grid's order: x, y(, z)
  int64_t channels, x_batch, x_channel, y_batch, y_channel;
  int64_t out[3], y_strides[3], grid_strides[4];  // outermost first: OD, OH, OW; of the grid: N first
  int64_t count, tasks;                           // output pixels of all images
};

PEN_BIND(grid_sample) {
  for (int i = 0; i < 2; ++i) {
    if (b.in(i).dtype != DType::f32) return b.fail(i, "an f32 tensor", "dtype code %d", static_cast<int>(b.in(i).dtype));
  }
  int rank = b.in(0).rank, spatial = rank - 2;
  if (rank != 4 && rank != 5) return b.fail(0, "a tensor of rank 4 or 5", "rank %d", rank);
  const Tensor& given = b.in(1);
  if (given.rank != rank || given.dims[rank - 1] != spatial || given.dims[0] != b.in(0).dims[0])
    return b.fail(1, "a grid [N, ..., 2 or 3] with the N of x and one coordinate per spatial dim", "rank %d", given.rank);
  const char *mode = b.text("mode"), *padding = b.text("padding");
  GridSampleParams* p = b.params<GridSampleParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->taps = strcmp(mode, "nearest") == 0 ? 1 : strcmp(mode, "linear") == 0 ? 2 : strcmp(mode, "cubic") == 0 ? 4 : 0;
  if (p->taps == 0 || (p->taps == 4 && spatial == 3)) return b.fail(-1, "mode nearest, linear, or cubic of rank 4", "\"%s\"", mode);
  if (strcmp(padding, "zeros") != 0 && strcmp(padding, "border") != 0 && strcmp(padding, "reflection") != 0)
    return b.fail(-1, "padding zeros, border or reflection", "\"%s\"", padding);
  p->padding = padding[0];
  p->align = b.flag("align_corners");
  p->pixels = b.flag("pixels");
  p->spatial = spatial;
  Shape shape;
  shape.rank = rank;
  shape.dims[0] = b.in(0).dims[0];
  shape.dims[1] = b.in(0).dims[1];
  for (int i = 0; i < spatial; ++i) {
    int64_t side = b.in(0).dims[2 + i];
    if (side < 1 || side > (1 << 24)) return b.fail(0, "sides from 1 to 16777216", "%lld", static_cast<long long>(side));
    shape.dims[2 + i] = given.dims[1 + i];
  }
  PEN_TRY(need_countable(b, 0));
  PEN_TRY(b.need(1, Need::rows));
  if (b.out_is_nhwc(0)) PEN_TRY(b.need(0, Need::channels));
  PEN_TRY(b.output(0, DType::f32, shape));
  const Tensor &x = b.in(0), &grid = b.in(1), &y = b.out(0);
  if (is_empty(y)) return PEN_OK;
  p->channels = x.dims[1];
  p->x_batch = x.strides[0];
  p->x_channel = x.dims[1] == 1 ? 1 : x.strides[1];
  p->y_batch = y.strides[0];
  p->y_channel = y.dims[1] == 1 ? 1 : y.strides[1];
  p->count = x.dims[0];
  p->grid_strides[0] = grid.strides[0];
  for (int i = 0; i < 3; ++i) p->out[i] = 1;
  for (int i = 0; i < spatial; ++i) {
    p->axes[spatial - 1 - i] = {x.dims[2 + i], x.strides[2 + i]};
    p->out[3 - spatial + i] = y.dims[2 + i];
    p->y_strides[3 - spatial + i] = y.strides[2 + i];
    p->grid_strides[4 - spatial + i] = grid.strides[1 + i];
    p->count *= y.dims[2 + i];
  }
  int taps = spatial == 3 ? p->taps * p->taps * p->taps : p->taps * p->taps;
  p->tasks = task_count(p->count, 32768 / (p->channels * taps + 16) + 1);
  PEN_TRY(b.scratch((p->channels + 64) * 4));
  b.tasks(p->tasks);
  return PEN_OK;
}

namespace PEN_ISA {

// The taps of a block of pixels along one axis.
struct GridTaps {
  int32_t at[4][kGridBlock];  // -1: outside
  float w[4][kGridBlock];
};

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

static PEN_INLINE void put_tap(V place, V w, int64_t size, int tap, int lane, GridTaps* to) {
  M inside = ge(place, zero()) & le(place, set1(static_cast<float>(size - 1)));
  float whole[kLanes];
  store(whole, select(inside, place, set1(-1.0f)));
  store(to->w[tap] + lane, w);
  for (int i = 0; i < kLanes; ++i) to->at[tap][lane + i] = static_cast<int32_t>(whole[i]);
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

static PEN_INLINE void axis_taps(const GridSampleParams& p, const float* places, int64_t size, GridTaps* to) {
  const V one = set1(1.0f);
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
}

// sum of w[t] * from[t][c] for all channels c. Steps: 0 for what is outside.
template <int kTaps>
static PEN_INLINE void add_taps(const float* const* from, const float* w, int64_t channels, float* to) {
  int64_t c = 0;
  for (; c < channels; c += kLanes) {
    int64_t lanes = channels - c < kLanes ? channels - c : kLanes;
    bool all = lanes == kLanes;
    V sum = (all ? load(from[0] + c) : load_partial(from[0] + c, lanes)) * set1(w[0]);
    PEN_UNROLL for (int t = 1; t < kTaps; ++t) sum = fma(all ? load(from[t] + c) : load_partial(from[t] + c, lanes), set1(w[t]), sum);
    if (all) {
      store(to + c, sum);
    } else {
      store_partial(to + c, sum, lanes);
    }
  }
}

template <int kTaps>
static PEN_INLINE void add_pixel(const GridSampleParams& p, const float* image, const int64_t* offsets, const float* w, const float* zeros,
                                 float* to) {
  if (p.x_channel == 1 && p.y_channel == 1) {
    const float* from[kTaps];
    PEN_UNROLL for (int t = 0; t < kTaps; ++t) from[t] = offsets[t] < 0 ? zeros : image + offsets[t];
    return add_taps<kTaps>(from, w, p.channels, to);
  }
  for (int64_t c = 0; c < p.channels; ++c) {
    float sum = 0;
    for (int t = 0; t < kTaps; ++t) sum += w[t] * (offsets[t] < 0 ? 0.0f : image[offsets[t] + c * p.x_channel]);
    to[c * p.y_channel] = sum;
  }
}

// A pixel's taps along all axes, multiplied out.
template <int kAxes, int kTaps>
static PEN_INLINE void sample_pixel(const GridSampleParams& p, const GridTaps* taps, int i, const float* image, const float* zeros, float* to) {
  constexpr int kAll = kAxes == 3 ? kTaps * kTaps * kTaps : kTaps * kTaps;
  int64_t offsets[kAll];
  float w[kAll];
  int n = 0;
  for (int z = 0; z < (kAxes == 3 ? kTaps : 1); ++z) {
    for (int y = 0; y < kTaps; ++y) {
      for (int x = 0; x < kTaps; ++x, ++n) {
        int32_t ax = taps[0].at[x][i], ay = taps[1].at[y][i], az = kAxes == 3 ? taps[2].at[z][i] : 0;
        offsets[n] = (ax | ay | az) < 0 ? -1 : ax * p.axes[0].stride + ay * p.axes[1].stride + az * p.axes[2].stride;
        w[n] = taps[0].w[x][i] * taps[1].w[y][i] * (kAxes == 3 ? taps[2].w[z][i] : 1.0f);
      }
    }
  }
  add_pixel<kAll>(p, image, offsets, w, zeros, to);
}

}  // namespace PEN_ISA

PEN_KERNEL(grid_sample, f32) {
  using namespace PEN_ISA;
  const GridSampleParams& p = r.as<GridSampleParams>();
  float* zeros = reinterpret_cast<float*>(r.scratch);
  memset(zeros, 0, static_cast<size_t>(p.channels + kLanes) * 4);
  int64_t plane = p.out[0] * p.out[1] * p.out[2];
  float places[3][kGridBlock] = {};
  int64_t images[kGridBlock], outs[kGridBlock];
  GridTaps taps[3];
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.count, p.tasks, task);
    for (int64_t begin = range.begin; begin < range.end; begin += kGridBlock) {
      int count = static_cast<int>(range.end - begin < kGridBlock ? range.end - begin : kGridBlock);
      for (int i = 0; i < count; ++i) {
        int64_t at = begin + i, n = at / plane, w = at % p.out[2], h = at / p.out[2] % p.out[1], d = at / (p.out[2] * p.out[1]) % p.out[0];
        const float* grid = r.in[1].as<float>() + n * p.grid_strides[0] + d * p.grid_strides[1] + h * p.grid_strides[2] + w * p.grid_strides[3];
        for (int a = 0; a < p.spatial; ++a) places[a][i] = grid[a];
        images[i] = n * p.x_batch;
        outs[i] = n * p.y_batch + d * p.y_strides[0] + h * p.y_strides[1] + w * p.y_strides[2];
      }
      for (int a = 0; a < p.spatial; ++a) axis_taps(p, places[a], p.axes[a].size, &taps[a]);
      for (int i = 0; i < count; ++i) {
        const float* image = r.in[0].as<float>() + images[i];
        float* to = r.out[0].as<float>() + outs[i];
        if (p.spatial == 2 && p.taps == 2) {
          sample_pixel<2, 2>(p, taps, i, image, zeros, to);
        } else if (p.spatial == 2 && p.taps == 1) {
          sample_pixel<2, 1>(p, taps, i, image, zeros, to);
        } else if (p.spatial == 2) {
          sample_pixel<2, 4>(p, taps, i, image, zeros, to);
        } else if (p.taps == 1) {
          sample_pixel<3, 1>(p, taps, i, image, zeros, to);
        } else {
          sample_pixel<3, 2>(p, taps, i, image, zeros, to);
        }
      }
    }
  }
}

}  // namespace pen
