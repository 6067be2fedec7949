// The bind rules of pooling: attributes, output size by torch's rules, tasks. Windows slide (max_pool, avg_pool) or follow from
// the output size (adaptive); over two dims or three; with indices, the place of each maximum is a second output.
#include "penlight/ops/pool/window.h"

#include "penlight/ops/conv/windows.h"

namespace pen {

// Output rows are cut so that a task reads about 64K values.
static void cut_rows(Bind& b, PoolParams* p, int64_t n, int64_t channels, int64_t window) {
  p->rows = n * p->out[2] * p->out[0];
  int64_t row = channels * p->out[1];
  p->tasks = row == 0 ? 0 : task_count(p->rows, 65536 / (row * (window < 64 ? window : 64)) + 1);
  b.tasks(p->rows == 0 ? 0 : p->tasks);
}

// One side of a sliding window: attributes checked, output size.
static PEN_SMALL Status slide(Bind& b, PoolParams* p, int side, bool ceil_mode) {
  constexpr int64_t kLimit = 1 << 20;  // keeps every product below far from overflow
  int64_t k = p->kernel[side], s = p->stride[side], d = p->dilation[side], in = p->in[side];
  if (k < 1 || s < 1 || d < 1 || k > kLimit || s > kLimit || d > kLimit)
    return b.fail(-1, "kernel, stride and dilation of 1 or more", "%lld, %lld and %lld", static_cast<long long>(k),
                  static_cast<long long>(s), static_cast<long long>(d));
  const WindowSide w = {in, k, s, d, p->pad[side], p->pad_end[side]};
  int64_t reach = window_reach(w);
  if (p->pad[side] < 0 || p->pad_end[side] < 0 || p->pad[side] > reach / 2 || p->pad_end[side] > reach / 2)
    return b.fail(-1, "padding from 0 to half the window", "padding %lld and %lld, window %lld", static_cast<long long>(p->pad[side]),
                  static_cast<long long>(p->pad_end[side]), static_cast<long long>(reach));
  p->out[side] = window_count(w, ceil_mode);
  if (in < 1 || p->out[side] < 1)
    return b.fail(0, "an image at least as large as the window", "size %lld, window %lld", static_cast<long long>(in),
                  static_cast<long long>(reach));
  return PEN_OK;
}

// How windows slide, as the attributes say.
static PEN_SMALL Status bind_sliding(Bind& b, PoolParams* p, int spatial, bool dilated) {
  IntList kernel = b.ints("kernel"), stride = b.ints("stride"), padding = b.ints("padding");
  IntList dilation = dilated ? b.ints("dilation") : IntList{nullptr, spatial};
  if (kernel.count != spatial || stride.count != spatial || padding.count != 2 * spatial || dilation.count != spatial)
    return b.fail(-1, "kernel, stride, dilation and two paddings for each spatial dim", "%d, %d, %d and %d", kernel.count, stride.count,
                  dilation.count, padding.count);
  for (int i = 0; i < spatial; ++i) {
    int side = spatial == 2 ? i : (i + 2) % 3;  // attributes go D, H, W
    p->kernel[side] = kernel[i];
    p->stride[side] = stride[i];
    p->pad[side] = padding[i];
    p->pad_end[side] = padding[i + spatial];
    p->dilation[side] = dilated ? dilation[i] : 1;
    PEN_TRY(slide(b, p, side, b.flag("ceil_mode")));
  }
  return PEN_OK;
}

static PEN_SMALL Status bind_adaptive(Bind& b, PoolParams* p, int spatial) {
  constexpr int64_t kMost = INT32_MAX;  // products of an input and an output side must fit
  IntList size = b.ints("size");
  if (size.count != spatial) return b.fail(-1, "an output size for each spatial dim", "%d", size.count);
  p->adaptive = true;
  for (int i = 0; i < spatial; ++i) {
    int side = spatial == 2 ? i : (i + 2) % 3;
    if (size[i] < 0 || size[i] > kMost) return b.fail(-1, "output sizes from 0 to 2**31 - 1", "%lld", static_cast<long long>(size[i]));
    if (p->in[side] < 1 || p->in[side] > kMost)
      return b.fail(0, "an image with sides from 1 to 2**31 - 1", "%lld", static_cast<long long>(p->in[side]));
    p->out[side] = size[i];
    p->dilation[side] = 1;
    p->kernel[side] = size[i] == 0 ? 1 : p->in[side] / size[i] + 1;  // about that: for the cutting of work
  }
  return PEN_OK;
}

static PEN_SMALL Status pool_bind(Bind& b, int spatial, bool adaptive, bool dilated, bool indices, PoolParams** params) {
  if (b.in(0).rank != spatial + 2) return b.fail(0, spatial == 2 ? "a tensor of rank 4" : "a tensor of rank 5", "rank %d", b.in(0).rank);
  PEN_TRY(b.need(0, Need::channels));
  const Tensor& x = b.in(0);
  PoolParams* p = b.params<PoolParams>();
  if (!p) return PEN_ERROR_MEMORY;
  p->in[2] = p->out[2] = p->kernel[2] = p->stride[2] = p->dilation[2] = 1;
  for (int i = 0; i < spatial; ++i) p->in[spatial == 2 ? i : (i + 2) % 3] = x.dims[2 + i];
  PEN_TRY(adaptive ? bind_adaptive(b, p, spatial) : bind_sliding(b, p, spatial, dilated));
  Shape out;
  out.rank = x.rank;
  out.dims[0] = x.dims[0];
  out.dims[1] = x.dims[1];
  for (int i = 0; i < spatial; ++i) out.dims[2 + i] = p->out[spatial == 2 ? i : (i + 2) % 3];
  PEN_TRY(b.output(0, x.dtype, out));
  PEN_TRY(b.need_out(0, Need::channels));
  if (indices) {
    PEN_TRY(b.output(1, DType::i64, out));
    PEN_TRY(b.need_out(1, Need::channels));
    int64_t pixels = 1;
    for (int i = 0; i < spatial; ++i) {
      if (x.dims[2 + i] > INT32_MAX || (pixels *= x.dims[2 + i]) > INT32_MAX)
        return b.fail(0, "images of at most 2**31 - 1 pixels, where their numbers are wanted", "more");
    }
  }
  for (int i = 0; i < spatial; ++i) {
    int side = spatial == 2 ? i : (i + 2) % 3;
    p->in_step[side] = x.strides[2 + i];
    p->out_step[side] = b.out(0).strides[2 + i];
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

static PEN_SMALL Status bind_average(Bind& b, int spatial) {
  PoolParams* p = nullptr;
  PEN_TRY(pool_bind(b, spatial, false, false, false, &p));
  p->count_include_pad = b.flag("count_include_pad");
  if (!b.is_none("divisor")) {
    p->divisor = b.integer("divisor");
    if (p->divisor == 0) return b.fail(-1, "a divisor other than 0", "0");
  }
  return PEN_OK;
}

static PEN_SMALL Status bind_maximum(Bind& b, int spatial, bool adaptive, bool indices) {
  PoolParams* p = nullptr;
  return pool_bind(b, spatial, adaptive, true, indices, &p);
}

PEN_BIND(avg_pool2d) { return bind_average(b, 2); }
PEN_BIND(avg_pool3d) { return bind_average(b, 3); }
PEN_BIND(max_pool2d) { return bind_maximum(b, 2, false, false); }
PEN_BIND(max_pool3d) { return bind_maximum(b, 3, false, false); }
PEN_BIND(max_pool_indices) { return bind_maximum(b, b.in(0).rank == 5 ? 3 : 2, false, true); }
PEN_BIND(adaptive_avg_pool2d) { return bind_maximum(b, 2, true, false); }
PEN_BIND(adaptive_avg_pool3d) { return bind_maximum(b, 3, true, false); }
PEN_BIND(adaptive_max_pool2d) { return bind_maximum(b, 2, true, false); }
PEN_BIND(adaptive_max_pool3d) { return bind_maximum(b, 3, true, false); }
PEN_BIND(adaptive_max_pool_indices) { return bind_maximum(b, b.in(0).rank == 5 ? 3 : 2, true, true); }

}  // namespace pen
