// The rules of pooling: attributes, output size by torch's rules, tasks. Windows slide (max_pool, avg_pool) or follow from
// the output size (adaptive); over two dims or three; with indices, the place of each maximum is a second output.
#include "penlight/ops/pool/window.h"

#include "penlight/ops/conv/windows.h"
#include "penlight/runtime/exec/q8.h"

namespace pen {

// Output rows are cut so that a task reads about 64K values.
static void cut_rows(Bind& b, PoolParams* p, int64_t n, int64_t channels, int64_t window) {
  p->rows = n * p->out[2] * p->out[0];
  int64_t row = channels * p->out[1];
  p->tasks = row == 0 ? 0 : task_count(p->rows, 65536 / (row * (window < 64 ? window : 64)) + 1);
  b.tasks(p->rows == 0 ? 0 : p->tasks);
}

// The image and its windows, as the attributes say. Those are as many as spatial dims.
static PEN_SMALL void place_windows(const Given& g, bool adaptive, bool dilated, PoolParams* p) {
  const Tensor& x = g.in(0);
  p->adaptive = adaptive;
  p->in[2] = p->out[2] = p->kernel[2] = p->stride[2] = p->dilation[2] = 1;
  for (int i = 0; i < x.rank - 2; ++i) {
    int side = side_of(i, x.rank - 2);
    p->in[side] = x.dims[2 + i];
    p->dilation[side] = dilated && !adaptive ? g.ints("dilation")[i] : 1;
    if (adaptive) {
      int64_t size = g.ints("size")[i];
      p->kernel[side] = size == 0 ? 1 : p->in[side] / size + 1;  // about that: for the cutting of work
      continue;
    }
    p->kernel[side] = g.ints("kernel")[i];
    p->stride[side] = g.ints("stride")[i];
    p->pad[side] = g.ints("padding")[i];
    p->pad_end[side] = g.ints("padding")[i + x.rank - 2];
  }
}

// One side of a sliding window: attributes checked, output size.
static PEN_SMALL Status slide(const Shapes& shapes, const PoolParams& p, int side, int64_t* out) {
  constexpr int64_t kLimit = 1 << 20;  // keeps every product below far from overflow
  int64_t k = p.kernel[side], s = p.stride[side], d = p.dilation[side], in = p.in[side];
  if (k < 1 || s < 1 || d < 1 || k > kLimit || s > kLimit || d > kLimit)
    return shapes.fail(-1, "kernel, stride and dilation of 1 or more", "%lld, %lld and %lld", static_cast<long long>(k),
                       static_cast<long long>(s), static_cast<long long>(d));
  const WindowSide w = {in, k, s, d, p.pad[side], p.pad_end[side]};
  int64_t reach = window_reach(w);
  if (w.before < 0 || w.after < 0 || w.before > reach / 2 || w.after > reach / 2)
    return shapes.fail(-1, "padding from 0 to half the window", "padding %lld and %lld, window %lld", static_cast<long long>(w.before),
                       static_cast<long long>(w.after), static_cast<long long>(reach));
  *out = window_count(w, shapes.flag("ceil_mode"));
  if (in < 1 || *out < 1)
    return shapes.fail(0, "an image at least as large as the window", "size %lld, window %lld", static_cast<long long>(in),
                       static_cast<long long>(reach));
  return PEN_OK;
}

static PEN_SMALL Status adapt(const Shapes& s, int64_t in, int64_t size, int64_t* out) {
  constexpr int64_t kMost = INT32_MAX;  // products of an input and an output side must fit
  if (size < 0 || size > kMost) return s.fail(-1, "output sizes from 0 to 2**31 - 1", "%lld", static_cast<long long>(size));
  if (in < 1 || in > kMost) return s.fail(0, "an image with sides from 1 to 2**31 - 1", "%lld", static_cast<long long>(in));
  *out = size;
  return PEN_OK;
}

static PEN_SMALL Status check_counts(const Shapes& s, int spatial, bool adaptive, bool dilated) {
  if (adaptive) {
    int sizes = s.ints("size").count;
    return sizes == spatial ? PEN_OK : s.fail(-1, "an output size for each spatial dim", "%d", sizes);
  }
  int kernel = s.ints("kernel").count, stride = s.ints("stride").count, padding = s.ints("padding").count;
  int dilation = dilated ? s.ints("dilation").count : spatial;
  if (kernel != spatial || stride != spatial || padding != 2 * spatial || dilation != spatial)
    return s.fail(-1, "kernel, stride, dilation and two paddings for each spatial dim", "%d, %d, %d and %d", kernel, stride, dilation,
                  padding);
  return PEN_OK;
}

static PEN_SMALL Status pool_shape(Shapes& s, int spatial, bool adaptive, bool dilated, bool indices) {
  const Tensor& x = s.in(0);
  if (x.rank != spatial + 2) return s.fail(0, spatial == 2 ? "a tensor of rank 4" : "a tensor of rank 5", "rank %d", x.rank);
  PEN_TRY(check_counts(s, spatial, adaptive, dilated));
  PoolParams p = {};
  place_windows(s, adaptive, dilated, &p);
  if (x.dtype == DType::u8) PEN_TRY(need_q8_output(s));
  Shape out = shape_of(x);
  for (int i = 0; i < spatial; ++i)
    PEN_TRY(adaptive ? adapt(s, x.dims[2 + i], s.ints("size")[i], &out.dims[2 + i]) : slide(s, p, side_of(i, spatial), &out.dims[2 + i]));
  PEN_TRY(s.output(0, x.dtype, out));
  if (!indices) return PEN_OK;
  PEN_TRY(s.output(1, DType::i64, out));
  int64_t pixels = 1;
  for (int i = 0; i < spatial; ++i) {
    if (x.dims[2 + i] > INT32_MAX || (pixels *= x.dims[2 + i]) > INT32_MAX)
      return s.fail(0, "images of at most 2**31 - 1 pixels, where their numbers are wanted", "more");
  }
  return PEN_OK;
}

static PEN_SMALL Status shape_average(Shapes& s, int spatial) {
  PEN_TRY(pool_shape(s, spatial, false, false, false));
  return !s.is_none("divisor") && s.integer("divisor") == 0 ? s.fail(-1, "a divisor other than 0", "0") : PEN_OK;
}

PEN_SHAPE(avg_pool2d) { return shape_average(s, 2); }
PEN_SHAPE(avg_pool3d) { return shape_average(s, 3); }
PEN_SHAPE(max_pool2d) { return pool_shape(s, 2, false, true, false); }
PEN_SHAPE(max_pool3d) { return pool_shape(s, 3, false, true, false); }
PEN_SHAPE(max_pool_indices) { return pool_shape(s, s.in(0).rank == 5 ? 3 : 2, false, true, true); }
PEN_SHAPE(adaptive_avg_pool2d) { return pool_shape(s, 2, true, true, false); }
PEN_SHAPE(adaptive_avg_pool3d) { return pool_shape(s, 3, true, true, false); }
PEN_SHAPE(adaptive_max_pool2d) { return pool_shape(s, 2, true, true, false); }
PEN_SHAPE(adaptive_max_pool3d) { return pool_shape(s, 3, true, true, false); }
PEN_SHAPE(adaptive_max_pool_indices) { return pool_shape(s, s.in(0).rank == 5 ? 3 : 2, true, true, true); }

static PEN_SMALL Status pool_bind(Bind& b, bool adaptive, bool dilated, bool indices, PoolParams** params) {
  PEN_TRY(b.need(0, Need::channels));
  for (int i = 0; i < (indices ? 2 : 1); ++i) {
    PEN_TRY(b.output(i));
    PEN_TRY(b.need_out(i, Need::channels));
  }
  const Tensor &x = b.in(0), &y = b.out(0);
  PoolParams* p = b.params<PoolParams>();
  if (!p) return PEN_ERROR_MEMORY;
  place_windows(b, adaptive, dilated, p);
  for (int i = 0; i < x.rank - 2; ++i) {
    int side = side_of(i, x.rank - 2);
    p->out[side] = y.dims[2 + i];
    p->in_step[side] = x.strides[2 + i];
    p->out_step[side] = y.strides[2 + i];
    p->index_step[side] = indices ? b.out(1).strides[2 + i] : 0;
  }
  p->indices = indices;
  p->index_image = indices ? b.out(1).strides[0] : 0;
  int64_t window = 1;
  for (int side = 0; side < 3; ++side) window = window < 64 ? window * p->kernel[side] : 64;
  cut_rows(b, p, x.dims[0], x.dims[1], window);
  *params = p;
  return PEN_OK;
}

// Where all windows are alike qnnpack has a formula, which adds the zero point after rounding. torch's own, for all others, keeps the
// scale and adds it before; `centered`: or not at all, the mean of the stored integers being that of the numbers.
static PEN_SMALL Status bind_bytes(Bind& b, const Quant& y, int64_t alike, bool centered, PoolParams* p) {
  double pixels = 1;
  for (int side = 0; side < 3; ++side) pixels *= static_cast<double>(p->kernel[side] < p->in[side] ? p->kernel[side] : p->in[side]);
  if (pixels > INT32_MAX / 256) return b.fail(0, "windows of at most 8388607 pixels of u8", "%.0f", pixels);
  const Quant& x = *b.in(0).quant;
  ByteAverage& a = p->bytes;
  bool same = same_quant(x, y), own = alike == 0 && same;
  a.center = own && !centered ? 0 : static_cast<int32_t>(x.zero);
  a.before = own && centered ? static_cast<float>(y.zero) : 0.0f;
  a.after = own ? 0 : static_cast<int32_t>(y.zero);
  a.ratio = same ? 1.0f : static_cast<float>(x.scale) / static_cast<float>(y.scale);
  a.multiplier = alike ? static_cast<float>(x.scale) / (static_cast<float>(y.scale) * static_cast<float>(alike)) : 0.0f;
  return PEN_OK;
}

static PEN_SMALL Status bind_average(Bind& b) {
  PoolParams* p = nullptr;
  const Quant* y = b.declared_quant(0);
  PEN_TRY(pool_bind(b, false, false, false, &p));
  p->count_include_pad = b.flag("count_include_pad");
  if (!b.is_none("divisor")) p->divisor = b.integer("divisor");
  if (b.in(0).dtype != DType::u8) return PEN_OK;
  bool alike = b.in(0).rank == 4 && !b.flag("ceil_mode") && p->count_include_pad && p->divisor == 0;
  return bind_bytes(b, *y, alike ? p->kernel[0] * p->kernel[1] : 0, true, p);
}

static PEN_SMALL Status bind_adaptive_average(Bind& b) {
  PoolParams* p = nullptr;
  const Quant* y = b.declared_quant(0);
  PEN_TRY(pool_bind(b, true, true, false, &p));
  if (b.in(0).dtype != DType::u8) return PEN_OK;
  int64_t area = 1;
  bool alike = b.in(0).rank == 4, smaller = false;
  for (int side = 0; side < 2 && p->rows > 0; ++side) {
    alike = alike && p->out[side] > 0 && p->in[side] % p->out[side] == 0;
    smaller = smaller || p->in[side] != p->out[side];
    area *= p->out[side] > 0 ? p->in[side] / p->out[side] : 1;
  }
  return bind_bytes(b, *y, alike && smaller ? area : 0, false, p);
}

static PEN_SMALL Status bind_maximum(Bind& b, bool adaptive, bool indices) {
  PoolParams* p = nullptr;
  return pool_bind(b, adaptive, true, indices, &p);
}

PEN_BIND(avg_pool2d) { return bind_average(b); }
PEN_BIND(avg_pool3d) { return bind_average(b); }
PEN_BIND(max_pool2d) { return bind_maximum(b, false, false); }
PEN_BIND(max_pool3d) { return bind_maximum(b, false, false); }
PEN_BIND(max_pool_indices) { return bind_maximum(b, false, true); }
PEN_BIND(adaptive_avg_pool2d) { return bind_adaptive_average(b); }
PEN_BIND(adaptive_avg_pool3d) { return bind_adaptive_average(b); }
PEN_BIND(adaptive_max_pool2d) { return bind_maximum(b, true, false); }
PEN_BIND(adaptive_max_pool3d) { return bind_maximum(b, true, false); }
PEN_BIND(adaptive_max_pool_indices) { return bind_maximum(b, true, true); }

}  // namespace pen
