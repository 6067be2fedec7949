// What all pooling kernels share: one output pixel from one window, NHWC, vectors over channels; and the bind rule of
// windows that slide. A pixel's channels are contiguous; rows, pixels and batch may lie at any stride on both sides.
// Padding is not read: windows are cut to the image beforehand.
#pragma once
#include "penlight/runtime/exec/kernel.h"
#include "penlight/runtime/simd/simd.h"

namespace pen {

// Index 0 is H, 1 is W.
struct PoolParams {
  int64_t kernel[2], stride[2], pad[2], pad_end[2], dilation[2];
  int64_t divisor;  // 0: the window's size
  bool count_include_pad;
  int64_t rows, tasks;  // N * OH output rows, cut into tasks
};

// Output rows are cut so that a task reads about 64K values.
static PEN_INLINE void pool_tasks(Bind& b, PoolParams* p, const Shape& out, int64_t window) {
  p->rows = out.dims[0] * out.dims[2];
  int64_t row = out.dims[1] * out.dims[3];
  p->tasks = row == 0 ? 0 : task_count(p->rows, 65536 / (row * (window < 64 ? window : 64)) + 1);
  b.tasks(p->rows == 0 ? 0 : p->tasks);
}

// The input as every pooling operator takes it.
static PEN_INLINE Status pool_input(Bind& b) {
  const Tensor& x = b.in(0);
  if (x.dtype != DType::f32) return b.fail(0, "an f32 tensor", "dtype code %d", static_cast<int>(x.dtype));
  if (x.rank != 4) return b.fail(0, "a tensor of rank 4", "rank %d", x.rank);
  return PEN_OK;
}

// One side of a sliding window: attributes checked, output size by torch's rule (with ceil_mode, a last window must
// start inside the image or its leading padding).
static PEN_INLINE Status pool_side(Bind& b, const PoolParams& p, int side, int64_t in, bool ceil_mode, int64_t* out) {
  constexpr int64_t kLimit = 1 << 24;  // keeps every product below far from overflow
  int64_t k = p.kernel[side], s = p.stride[side], d = p.dilation[side];
  if (k < 1 || s < 1 || d < 1 || k > kLimit || s > kLimit || d > kLimit)
    return b.fail(-1, "kernel, stride and dilation of 1 or more", "%lld, %lld and %lld", static_cast<long long>(k),
                  static_cast<long long>(s), static_cast<long long>(d));
  int64_t reach = (k - 1) * d + 1;
  if (p.pad[side] < 0 || p.pad_end[side] < 0 || p.pad[side] > reach / 2 || p.pad_end[side] > reach / 2)
    return b.fail(-1, "padding from 0 to half the window", "padding %lld and %lld, window %lld", static_cast<long long>(p.pad[side]),
                  static_cast<long long>(p.pad_end[side]), static_cast<long long>(reach));
  int64_t room = in + p.pad[side] + p.pad_end[side] - reach;
  if (in < 1 || room + (ceil_mode ? s - 1 : 0) < 0)
    return b.fail(0, "an image at least as large as the window", "size %lld, window %lld", static_cast<long long>(in),
                  static_cast<long long>(reach));
  int64_t n = (room + (ceil_mode ? s - 1 : 0)) / s + 1;
  if (ceil_mode && (n - 1) * s >= in + p.pad[side]) --n;
  *out = n;
  return PEN_OK;
}

static PEN_INLINE Status pool_bind(Bind& b, bool dilated, PoolParams** params) {
  PEN_TRY(pool_input(b));
  IntList kernel = b.ints("kernel"), stride = b.ints("stride"), padding = b.ints("padding");
  IntList dilation = dilated ? b.ints("dilation") : IntList{nullptr, 2};
  if (kernel.count != 2 || stride.count != 2 || padding.count != 4 || dilation.count != 2)
    return b.fail(-1, "2 kernel sizes, 2 strides, 4 paddings and 2 dilations", "%d, %d, %d and %d", kernel.count, stride.count,
                  padding.count, dilation.count);
  PoolParams* p = b.params<PoolParams>();
  if (!p) return PEN_ERROR_MEMORY;
  Shape out;
  out.rank = 4;
  out.dims[0] = b.in(0).dims[0];
  out.dims[1] = b.in(0).dims[1];
  for (int i = 0; i < 2; ++i) {
    p->kernel[i] = kernel[i];
    p->stride[i] = stride[i];
    p->pad[i] = padding[i];
    p->pad_end[i] = padding[i + 2];
    p->dilation[i] = dilated ? dilation[i] : 1;
    PEN_TRY(pool_side(b, *p, i, b.in(0).dims[2 + i], b.flag("ceil_mode"), &out.dims[2 + i]));
  }
  PEN_TRY(b.need(0, Need::channels));
  PEN_TRY(b.output(0, DType::f32, out));
  PEN_TRY(b.need_out(0, Need::channels));
  pool_tasks(b, p, out, p->kernel[0] * p->kernel[1]);
  *params = p;
  return PEN_OK;
}

namespace PEN_ISA {

struct PoolMax {
  static PEN_INLINE V start() { return set1(-__builtin_inff()); }
  // max() gives its second argument for NaN: an accumulated NaN stays, a new one is taken by select.
  static PEN_INLINE V step(V acc, V v) { return select(isnan(v), v, max(v, acc)); }
  static PEN_INLINE V finish(V acc, V) { return acc; }
};
struct PoolMean {
  static PEN_INLINE V start() { return zero(); }
  static PEN_INLINE V step(V acc, V v) { return acc + v; }
  static PEN_INLINE V finish(V acc, V divisor) { return acc / divisor; }
};

// A window inside the image: `x` its first pixel, counts and strides (in floats) of its rows and columns.
struct PoolWindow {
  const float* x;
  int64_t height, width, row, column;
};

// U vectors of channels; with `lanes` < kLanes, U is 1 and only that many channels exist.
template <class Op, int U, bool kPartial>
static PEN_INLINE void pool_channels(const PoolWindow& w, int64_t c, float* y, V divisor, int64_t lanes) {
  V acc[U];
#pragma GCC unroll 4
  for (int u = 0; u < U; ++u) acc[u] = Op::start();
  const float* row = w.x + c;
  for (int64_t i = 0; i < w.height; ++i, row += w.row) {
    const float* p = row;
    for (int64_t j = 0; j < w.width; ++j, p += w.column) {
#pragma GCC unroll 4
      for (int u = 0; u < U; ++u) acc[u] = Op::step(acc[u], kPartial ? load_partial(p, lanes) : load(p + u * kLanes));
    }
  }
#pragma GCC unroll 4
  for (int u = 0; u < U; ++u) {
    V result = Op::finish(acc[u], divisor);
    if (kPartial) {
      store_partial(y + c, result, lanes);
    } else {
      store(y + c + u * kLanes, result);
    }
  }
}

template <class Op>
static PEN_INLINE void pool_pixel(const PoolWindow& w, int64_t channels, float* y, float divisor) {
  V d = set1(divisor);
  int64_t c = 0;
  for (; c + 4 * kLanes <= channels; c += 4 * kLanes) pool_channels<Op, 4, false>(w, c, y, d, 0);
  for (; c + kLanes <= channels; c += kLanes) pool_channels<Op, 1, false>(w, c, y, d, 0);
  if (c < channels) pool_channels<Op, 1, true>(w, c, y, d, channels - c);
}

// The taps of output `o` that lie in the image: `count` of them, the first at input index `start`.
struct PoolSpan {
  int64_t start, count, padded;  // padded: taps that lie in the image or its padding
};
static PEN_INLINE PoolSpan pool_span(const PoolParams& p, int side, int64_t o, int64_t in) {
  int64_t k = p.kernel[side], d = p.dilation[side];
  int64_t at = o * p.stride[side] - p.pad[side];
  int64_t skip = at < 0 ? (-at + d - 1) / d : 0;
  int64_t left = in - 1 - at;  // the last tap that may be read is at most this far from the first
  int64_t last = left < 0 ? -1 : left / d;
  int64_t end = last + 1 < k ? last + 1 : k;
  int64_t fit = in + p.pad_end[side] - at;
  return {at + skip * d, end > skip ? end - skip : 0, fit < k ? fit : k};
}

}  // namespace PEN_ISA
}  // namespace pen
