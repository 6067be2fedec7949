// roi_align, roi_pool: f32, nhwc. Each bin of each region is one item: roi_align adds up pixels mixed at its sample points,
// roi_pool takes the mean or the maximum of the pixels in it; all channels at a time. "Sensitive" (R-FCN): bin (i, j) of
// output channel c looks at input channel (c * PH + i) * PW + j only. The image that a region names is data: checked.
#include "penlight/ops/shape/runs.h"
#include "penlight/runtime/exec/kernel.h"
#include "penlight/runtime/simd/simd.h"

namespace pen {

struct RoiParams {
  int64_t images, channels, height, width;  // channels of the output
  int64_t x_batch, x_row, x_pitch, y_batch, y_row, y_pitch, roi_row;
  int64_t bins_h, bins_w, items, tasks;
  int64_t sampling;  // points along each side of a bin; 0: as many as pixels
  bool aligned, sensitive, mean;
  float scale;
};

static PEN_SMALL Status roi_shapes(Shapes& s, bool align) {
  for (int i = 0; i < 2; ++i) {
    if (s.in(i).dtype != DType::f32) return s.fail(i, "an f32 tensor", "dtype code %d", static_cast<int>(s.in(i).dtype));
  }
  const Tensor& x = s.in(0);
  if (x.rank != 4) return s.fail(0, "a tensor of rank 4", "rank %d", x.rank);
  if (x.dims[2] < 1 || x.dims[3] < 1)
    return s.fail(0, "images with a pixel at least", "%lld x %lld", static_cast<long long>(x.dims[2]), static_cast<long long>(x.dims[3]));
  if (s.in(1).rank != 2 || s.in(1).dims[1] != 5) return s.fail(1, "regions [R, 5]: image, x1, y1, x2, y2", "rank %d", s.in(1).rank);
  IntList size = s.ints("size");
  if (size.count != 2 || size[0] < 1 || size[1] < 1 || size[0] > (1 << 15) || size[1] > (1 << 15))
    return s.fail(-1, "two sizes from 1 to 32768", "%d sizes", size.count);
  int64_t sampling = align ? s.integer("sampling") : 0, bins = s.flag("sensitive") ? size[0] * size[1] : 1;
  if (sampling > 1024) return s.fail(-1, "at most 1024 samples a side", "%lld", static_cast<long long>(sampling));
  if (x.dims[1] % bins != 0) return s.fail(0, "channels that the bins divide", "%lld", static_cast<long long>(x.dims[1]));
  Shape shape;
  shape.rank = 4;
  shape.dims[0] = s.in(1).dims[0];
  shape.dims[1] = x.dims[1] / bins;
  shape.dims[2] = size[0];
  shape.dims[3] = size[1];
  return s.output(0, DType::f32, shape);
}

PEN_SHAPE(roi_align) { return roi_shapes(s, true); }
PEN_SHAPE(roi_pool) { return roi_shapes(s, false); }

static PEN_SMALL Status roi_bind(Bind& b, bool align) {
  RoiParams* p = b.params<RoiParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->scale = static_cast<float>(b.number("scale"));
  p->sensitive = b.flag("sensitive");
  p->sampling = align ? b.integer("sampling") : 0;
  p->aligned = align && b.flag("aligned");
  p->mean = !align && b.flag("mean");
  PEN_TRY(b.need(0, Need::channels));
  PEN_TRY(b.need(1, Need::rows));
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::channels));
  const Tensor &x = b.in(0), &y = b.out(0);
  if (is_empty(y)) return PEN_OK;
  p->images = x.dims[0];
  p->channels = y.dims[1];
  p->bins_h = y.dims[2];
  p->bins_w = y.dims[3];
  p->height = x.dims[2];
  p->width = x.dims[3];
  p->x_batch = x.strides[0];
  p->x_row = x.strides[2];
  p->x_pitch = x.strides[3];
  p->y_batch = y.strides[0];
  p->y_row = y.strides[2];
  p->y_pitch = y.strides[3];
  p->roi_row = b.in(1).strides[0];
  p->items = y.dims[0] * p->bins_h * p->bins_w;
  p->tasks = task_count(p->items, 4096 / p->channels + 1);
  b.tasks(p->tasks);
  return PEN_OK;
}

PEN_BIND(roi_align) { return roi_bind(b, true); }
PEN_BIND(roi_pool) { return roi_bind(b, false); }

static PEN_INLINE int64_t samples_along(float side, int64_t bins, int64_t sampling) {
  if (sampling > 0) return sampling;
  float wanted = side / static_cast<float>(bins);
  return wanted > 0 && wanted < 1e6f ? static_cast<int64_t>(ceil(static_cast<double>(wanted))) : 0;
}

static PEN_INLINE float round_away(float x) { return x < 0 ? -floorf(0.5f - x) : floorf(x + 0.5f); }

// Pixels [begin, end) of a side that bin `index` of `bins` covers.
static PEN_INLINE Range covered(float from, float to, int64_t index, int64_t bins, int64_t size, bool sensitive) {
  float start = round_away(from), extent = round_away(to) - start + (sensitive ? 0.0f : 1.0f);
  float bin = (extent > 1 ? extent : 1) / static_cast<float>(bins);
  float low = static_cast<float>(index) * bin, high = static_cast<float>(index + 1) * bin;
  double begin = sensitive ? floor(static_cast<double>(low + start)) : floor(static_cast<double>(low)) + static_cast<double>(start);
  double end = sensitive ? ceil(static_cast<double>(high + start)) : ceil(static_cast<double>(high)) + static_cast<double>(start);
  double limit = static_cast<double>(size);
  begin = begin > 0 ? (begin < limit ? begin : limit) : 0;
  end = end > 0 ? (end < limit ? end : limit) : 0;
  return {static_cast<int64_t>(begin), static_cast<int64_t>(end)};
}

namespace PEN_ISA {

// One bin of one region.
struct RoiBin {
  const float* image;  // its first pixel; sensitive: at the channel that this bin looks at
  const float* roi;
  int64_t h, w, step;  // bin; step between channels of x
  float* out;
};

// Whether the region names an image that exists.
static PEN_INLINE bool roi_bin(const Run& r, const RoiParams& p, int64_t item, RoiBin* bin) {
  int64_t region = item / (p.bins_h * p.bins_w);
  bin->w = item % p.bins_w;
  bin->h = item / p.bins_w % p.bins_h;
  bin->roi = r.in[1].as<float>() + region * p.roi_row;
  bin->out = r.out[0].as<float>() + region * p.y_batch + bin->h * p.y_row + bin->w * p.y_pitch;
  float named = bin->roi[0];
  if (!(named > -1.0f && named < static_cast<float>(p.images))) {
    r.fail_index(1, named > -1e18f && named < 1e18f ? static_cast<int64_t>(named) : INT64_MAX, 0, p.images);
    return false;
  }
  bin->step = p.sensitive ? p.bins_h * p.bins_w : 1;
  bin->image = r.in[0].as<float>() + static_cast<int64_t>(named) * p.x_batch + (p.sensitive ? bin->h * p.bins_w + bin->w : 0);
  return true;
}

static PEN_INLINE void fill(float* out, int64_t channels, float value) {
  for (int64_t c = 0; c < channels; ++c) out[c] = value;
}

// out += w * x over the channels.
static PEN_INLINE void add_pixel(const float* x, int64_t step, float w, float* out, int64_t channels) {
  int64_t c = 0;
  if (step == 1) {
    for (; c + kLanes <= channels; c += kLanes) store(out + c, fma(load(x + c), set1(w), load(out + c)));
  }
  for (; c < channels; ++c) out[c] += w * x[c * step];
}
static PEN_INLINE void max_pixel(const float* x, int64_t step, float* out, int64_t channels) {
  int64_t c = 0;
  if (step == 1) {
    for (; c + kLanes <= channels; c += kLanes) store(out + c, max(load(x + c), load(out + c)));
  }
  for (; c < channels; ++c) out[c] = x[c * step] > out[c] ? x[c * step] : out[c];
}

// One coordinate of a sample point: two pixels and the weight of the second. False where it is outside.
static PEN_INLINE bool roi_tap(float at, int64_t size, int64_t* near, int64_t* far, float* rest) {
  if (!(at >= -1.0f && at <= static_cast<float>(size))) return false;
  if (at < 0) at = 0;
  *near = static_cast<int64_t>(at);
  if (*near >= size - 1) {
    *near = *far = size - 1;
    *rest = 0;
  } else {
    *far = *near + 1;
    *rest = at - static_cast<float>(*near);
  }
  return true;
}

static PEN_INLINE void align_bin(Patience& patience, const RoiParams& p, const RoiBin& bin) {
  float offset = p.aligned ? 0.5f : 0.0f;
  float x0 = bin.roi[1] * p.scale - offset, y0 = bin.roi[2] * p.scale - offset;
  float width = bin.roi[3] * p.scale - offset - x0, height = bin.roi[4] * p.scale - offset - y0;
  if (!p.aligned) {
    width = width > 1 ? width : 1;
    height = height > 1 ? height : 1;
  }
  float bin_h = height / static_cast<float>(p.bins_h), bin_w = width / static_cast<float>(p.bins_w);
  int64_t rows = samples_along(height, p.bins_h, p.sampling), columns = samples_along(width, p.bins_w, p.sampling);
  int64_t count = rows * columns > 1 ? rows * columns : 1;
  float share = 1.0f / static_cast<float>(count);
  fill(bin.out, p.channels, 0.0f);
  for (int64_t i = 0; i < rows; ++i) {
    int64_t top, bottom, left, right;
    float y = y0 + static_cast<float>(bin.h) * bin_h + (static_cast<float>(i) + 0.5f) * bin_h / static_cast<float>(rows), down, across;
    if (patience.ends(columns)) return;
    if (!roi_tap(y, p.height, &top, &bottom, &down)) continue;
    for (int64_t j = 0; j < columns && !patience.ends(4 * p.channels); ++j) {
      float x = x0 + static_cast<float>(bin.w) * bin_w + (static_cast<float>(j) + 0.5f) * bin_w / static_cast<float>(columns);
      if (!roi_tap(x, p.width, &left, &right, &across)) continue;
      const float *a = bin.image + top * p.x_row, *b = bin.image + bottom * p.x_row;
      add_pixel(a + left * p.x_pitch, bin.step, (1 - down) * (1 - across) * share, bin.out, p.channels);
      add_pixel(a + right * p.x_pitch, bin.step, (1 - down) * across * share, bin.out, p.channels);
      add_pixel(b + left * p.x_pitch, bin.step, down * (1 - across) * share, bin.out, p.channels);
      add_pixel(b + right * p.x_pitch, bin.step, down * across * share, bin.out, p.channels);
    }
  }
}

static PEN_INLINE void pool_bin(Patience& patience, const RoiParams& p, const RoiBin& bin) {
  Range rows = covered(bin.roi[2] * p.scale, bin.roi[4] * p.scale, bin.h, p.bins_h, p.height, p.sensitive);
  Range columns = covered(bin.roi[1] * p.scale, bin.roi[3] * p.scale, bin.w, p.bins_w, p.width, p.sensitive);
  bool empty = rows.end <= rows.begin || columns.end <= columns.begin;
  fill(bin.out, p.channels, empty || p.mean ? 0.0f : -3.402823466e38f);
  if (empty) return;
  float share = 1.0f / static_cast<float>((rows.end - rows.begin) * (columns.end - columns.begin));
  for (int64_t i = rows.begin; i < rows.end; ++i) {
    for (int64_t j = columns.begin; j < columns.end && !patience.ends(p.channels); ++j) {
      const float* pixel = bin.image + i * p.x_row + j * p.x_pitch;
      if (p.mean) {
        add_pixel(pixel, bin.step, share, bin.out, p.channels);
      } else {
        max_pixel(pixel, bin.step, bin.out, p.channels);
      }
    }
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(roi_align, f32) {
  using namespace PEN_ISA;
  Patience patience(r);
  const RoiParams& p = r.as<RoiParams>();
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.items, p.tasks, task);
    for (int64_t item = range.begin; item < range.end; ++item) {
      RoiBin bin;
      if (!patience.ends(p.channels) && roi_bin(r, p, item, &bin)) align_bin(patience, p, bin);
    }
  }
}

PEN_KERNEL(roi_pool, f32) {
  using namespace PEN_ISA;
  Patience patience(r);
  const RoiParams& p = r.as<RoiParams>();
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.items, p.tasks, task);
    for (int64_t item = range.begin; item < range.end; ++item) {
      RoiBin bin;
      if (!patience.ends(p.channels) && roi_bin(r, p, item, &bin)) pool_bin(patience, p, bin);
    }
  }
}

}  // namespace pen
