// group_norm: f32, [N, C, pixels...], nhwc or row-major. Phase 0 takes pieces that stay in cache and finds mean and squared
// distances from it: of a run of memory (row-major), or of each channel over some pixels (nhwc). Phase 1 puts the pieces of a
// group together (no cancellation) and makes mean and factor of every channel; phase 2 applies them.
#include "penlight/ops/reduce/moments.h"
#include "penlight/ops/shape/runs.h"
#include "penlight/runtime/exec/kernel.h"

namespace pen {

struct GroupNormParams {
  bool nhwc;
  int64_t batch, channels, groups, pixels;
  int64_t x_batch, x_pitch, y_batch, y_pitch;  // nhwc: strides of N and of a pixel
  int64_t pieces;                              // of an image (nhwc) or of a group's run
  int64_t tasks[3];
  float eps;
};

constexpr int64_t kNormPiece = 8192;  // values: 32 KB
constexpr int64_t kNormPixels = 16;   // nhwc: at least as many pixels to a piece

PEN_SHAPE(group_norm) {
  for (int i = 0; i < 3; ++i) {
    if (s.has(i) && s.in(i).dtype != DType::f32) return s.fail(i, "an f32 tensor", "dtype code %d", static_cast<int>(s.in(i).dtype));
  }
  const Tensor& x = s.in(0);
  if (x.rank < 2) return s.fail(0, "rank 2 or more", "rank %d", x.rank);
  int64_t channels = x.dims[1], groups = s.integer("groups");
  if (groups < 1 || channels % groups != 0)
    return s.fail(0, "channels that the groups divide", "%lld in %lld groups", static_cast<long long>(channels),
                  static_cast<long long>(groups));
  for (int k = 1; k < 3; ++k) {
    if (s.has(k) && (s.in(k).rank != 1 || s.in(k).dims[0] != channels)) return s.fail(k, "one number per channel", "rank %d", s.in(k).rank);
  }
  return s.output(0, DType::f32, shape_of(x));
}

PEN_BIND(group_norm) {
  int rank = b.in(0).rank;
  GroupNormParams* p = b.params<GroupNormParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->batch = b.in(0).dims[0];
  p->channels = b.in(0).dims[1];
  p->groups = b.integer("groups");
  for (int k = 1; k < 3; ++k) {
    if (b.has(k)) PEN_TRY(b.need(k, Need::dense));
  }
  p->pixels = 1;
  p->nhwc = b.out_is_nhwc(0);
  PEN_TRY(b.output(0));
  if (is_empty(b.out(0))) return PEN_OK;
  PEN_TRY(b.need(0, p->nhwc ? Need::channels : Need::dense));
  PEN_TRY(b.need_out(0, p->nhwc ? Need::channels : Need::dense));
  const Tensor &x = b.in(0), &y = b.out(0);
  for (int i = 2; i < rank; ++i) p->pixels *= y.dims[i];
  bool same = true;
  for (int i = 0; i < rank; ++i) same = same && (x.dims[i] == 1 || x.strides[i] == y.strides[i]);
  if (same) b.may_reuse(0, 0);
  p->x_batch = x.strides[0];
  p->y_batch = y.strides[0];
  p->x_pitch = p->nhwc ? x.strides[rank - 1] : 1;  // images and volumes
  p->y_pitch = p->nhwc ? y.strides[rank - 1] : 1;
  p->eps = static_cast<float>(b.number("eps"));
  int64_t values = p->nhwc ? p->channels : 1, length = p->nhwc ? p->pixels : p->channels / p->groups * p->pixels;
  int64_t piece = kNormPiece / values;
  if (p->nhwc && piece < kNormPixels) piece = kNormPixels;
  p->pieces = (length + piece - 1) / piece;
  int64_t runs = p->nhwc ? p->batch : p->batch * p->groups;
  p->tasks[0] = task_count(runs * p->pieces, 2 * kNormPiece / (values * (length < piece ? length : piece)) + 1);
  p->tasks[1] = task_count(p->batch * p->groups, 4096 / (p->pieces * values + p->channels / p->groups) + 1);
  p->tasks[2] =
      p->nhwc ? task_count(p->batch * p->pixels, 16384 / p->channels + 1) : task_count(p->batch * p->channels, 16384 / p->pixels + 1);
  PEN_TRY(b.shared((runs * p->pieces * values * 2 + p->batch * p->channels * 3) * 4));
  b.tasks(p->tasks[0], p->tasks[1], p->tasks[2]);
  return PEN_OK;
}

namespace PEN_ISA {

// In shared memory: mean and squared distances of each piece (nhwc: of all its channels), then for each image and channel
// what is subtracted, multiplied and added.
struct NormMemory {
  float *mean, *square, *center, *factor, *add;
};
static PEN_INLINE NormMemory norm_memory(const Run& r, const GroupNormParams& p) {
  int64_t pieces = p.nhwc ? p.batch * p.pieces * p.channels : p.batch * p.groups * p.pieces, all = p.batch * p.channels;
  float* at = reinterpret_cast<float*>(r.shared);
  return {at, at + pieces, at + 2 * pieces, at + 2 * pieces + all, at + 2 * pieces + 2 * all};
}

// One vector of channels down some pixels.
template <bool kPartial>
static PEN_INLINE void channel_moments(const float* x, int64_t pixels, int64_t pitch, int64_t lanes, float* mean, float* square) {
  V a = zero(), c = zero(), n = set1(static_cast<float>(pixels));
  int64_t i = 0;
  for (; i + 2 <= pixels; i += 2) {
    a = a + (kPartial ? load_partial(x + i * pitch, lanes) : load(x + i * pitch));
    c = c + (kPartial ? load_partial(x + (i + 1) * pitch, lanes) : load(x + (i + 1) * pitch));
  }
  if (i < pixels) a = a + (kPartial ? load_partial(x + i * pitch, lanes) : load(x + i * pitch));
  V m = (a + c) / n;
  a = c = zero();
  for (i = 0; i + 2 <= pixels; i += 2) {
    V d = (kPartial ? load_partial(x + i * pitch, lanes) : load(x + i * pitch)) - m;
    V e = (kPartial ? load_partial(x + (i + 1) * pitch, lanes) : load(x + (i + 1) * pitch)) - m;
    a = fma(d, d, a);
    c = fma(e, e, c);
  }
  if (i < pixels) {
    V d = (kPartial ? load_partial(x + i * pitch, lanes) : load(x + i * pitch)) - m;
    a = fma(d, d, a);
  }
  store_partial(mean, m, lanes);
  store_partial(square, a + c, lanes);
}

static PEN_INLINE void group_norm_pieces(const Run& r, const GroupNormParams& p, const NormMemory& memory) {
  const float* x = r.in[0].as<float>();
  int64_t runs = p.nhwc ? p.batch : p.batch * p.groups, length = p.channels / p.groups * p.pixels;
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(runs * p.pieces, p.tasks[0], task);
    for (int64_t i = range.begin; i < range.end; ++i) {
      int64_t run = i / p.pieces;
      Range piece = part(p.nhwc ? p.pixels : length, p.pieces, i % p.pieces);
      int64_t count = piece.end - piece.begin;
      if (!p.nhwc) {
        const float* from = x + run / p.groups * p.x_batch + run % p.groups * length + piece.begin;
        memory.mean[i] = shifted_sum<false>(from, count, 0.0f) / static_cast<float>(count);
        memory.square[i] = shifted_sum<true>(from, count, memory.mean[i]);
        continue;
      }
      const float* from = x + run * p.x_batch + piece.begin * p.x_pitch;
      float *mean = memory.mean + i * p.channels, *square = memory.square + i * p.channels;
      int64_t c = 0;
      for (; c + kLanes <= p.channels; c += kLanes) channel_moments<false>(from + c, count, p.x_pitch, kLanes, mean + c, square + c);
      if (c < p.channels) channel_moments<true>(from + c, count, p.x_pitch, p.channels - c, mean + c, square + c);
    }
  }
}

static PEN_INLINE void group_norm_join(const Run& r, const GroupNormParams& p, const NormMemory& memory) {
  const float *w = r.in[1].as<float>(), *b = r.in[2].as<float>();
  int64_t width = p.channels / p.groups, length = p.nhwc ? p.pixels : width * p.pixels, values = p.nhwc ? width : 1;
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.batch * p.groups, p.tasks[1], task);
    for (int64_t i = range.begin; i < range.end; ++i) {
      int64_t n = i / p.groups, g = i % p.groups;
      int64_t first = p.nhwc ? n * p.pieces * p.channels + g * width : i * p.pieces, step = p.nhwc ? p.channels : 1;
      float total = 0, square = 0;
      for (int64_t k = 0; k < p.pieces; ++k) {
        Range piece = part(length, p.pieces, k);
        float count = static_cast<float>(piece.end - piece.begin), sum = 0;
        for (int64_t v = 0; v < values; ++v) sum += memory.mean[first + k * step + v];
        total += sum * count;
      }
      float all = static_cast<float>(width * p.pixels), mean = total / all;
      for (int64_t k = 0; k < p.pieces; ++k) {
        Range piece = part(length, p.pieces, k);
        float count = static_cast<float>(piece.end - piece.begin), sum = 0, apart = 0;
        for (int64_t v = 0; v < values; ++v) {
          float d = memory.mean[first + k * step + v] - mean;
          sum += memory.square[first + k * step + v];
          apart += d * d;
        }
        square += sum + apart * count;
      }
      float factor = 1.0f / __builtin_sqrtf(square / all + p.eps);
      for (int64_t c = 0; c < width; ++c) {
        int64_t channel = g * width + c, at = n * p.channels + channel;
        memory.center[at] = mean;
        memory.factor[at] = w ? w[channel] * factor : factor;
        memory.add[at] = b ? b[channel] : 0.0f;
      }
    }
  }
}

static PEN_INLINE void group_norm_apply(const Run& r, const GroupNormParams& p, const NormMemory& memory) {
  const float* x = r.in[0].as<float>();
  float* y = r.out[0].as<float>();
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.batch * (p.nhwc ? p.pixels : p.channels), p.tasks[2], task);
    for (int64_t i = range.begin; i < range.end; ++i) {
      if (!p.nhwc) {
        const float* from = x + i / p.channels * p.x_batch + i % p.channels * p.pixels;
        float* to = y + i / p.channels * p.y_batch + i % p.channels * p.pixels;
        float mean = memory.center[i], factor = memory.factor[i], add = memory.add[i];
        V m = set1(mean), f = set1(factor), a = set1(add);
        int64_t k = 0;
        for (; k + kLanes <= p.pixels; k += kLanes) store(to + k, fma(load(from + k) - m, f, a));
        for (; k < p.pixels; ++k) to[k] = (from[k] - mean) * factor + add;
        continue;
      }
      int64_t n = i / p.pixels, at = n * p.channels, c = 0;
      const float* from = x + n * p.x_batch + i % p.pixels * p.x_pitch;
      float* to = y + n * p.y_batch + i % p.pixels * p.y_pitch;
      const float *center = memory.center + at, *factor = memory.factor + at, *add = memory.add + at;
      for (; c + kLanes <= p.channels; c += kLanes) store(to + c, fma(load(from + c) - load(center + c), load(factor + c), load(add + c)));
      for (; c < p.channels; ++c) to[c] = (from[c] - center[c]) * factor[c] + add[c];
    }
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(group_norm, f32) {
  using namespace PEN_ISA;
  const GroupNormParams& p = r.as<GroupNormParams>();
  NormMemory memory = norm_memory(r, p);
  if (r.phase == 0) return group_norm_pieces(r, p, memory);
  if (r.phase == 1) return group_norm_join(r, p, memory);
  group_norm_apply(r, p, memory);
}

}  // namespace pen
