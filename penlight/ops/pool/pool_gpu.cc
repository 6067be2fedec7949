// Pooling on a GPU. Three dims are two steps: height and width of each plane, then depth, which windows do not mix with those.
#include "penlight/ops/conv/conv_gpu.h"

namespace pen {

namespace {

struct Window {
  int64_t kernel = 1, stride = 1, before = 0, after = 0, dilation = 1;
};

// The window of spatial dim i, of `spatial`.
Window window_of(const Gpu& b, int i, int spatial, bool maximum, bool adaptive) {
  if (adaptive) return {};
  IntList padding = b.ints("padding");
  return {b.ints("kernel")[i], b.ints("stride")[i], padding[i], padding[spatial + i], maximum ? b.ints("dilation")[i] : 1};
}

struct Pooling {
  bool maximum, adaptive, include_pad;
  int64_t divisor;
};
Pooling pooling_of(const Gpu& b, bool maximum, bool adaptive) {
  Pooling p = {maximum, adaptive, false, 0};
  if (!maximum && !adaptive) {
    p.include_pad = b.flag("count_include_pad");
    if (!b.is_none("divisor")) p.divisor = b.integer("divisor");
  }
  return p;
}

Status dispatch_pool(Gpu& b, const Pooling& pooling, const GpuMap& x, const GpuMap& y, const Window& down, const Window& right,
                     const Operand& read, const Operand& written) {
  shader::Pool s;
  auto& p = s.push;
  auto u = [](int64_t n) { return static_cast<uint32_t>(n); };
  auto i = [](int64_t n) { return static_cast<int32_t>(n); };
  p.channels = u(x.channels), p.ih = u(x.height), p.iw = u(x.width), p.oh = u(y.height), p.ow = u(y.width);
  p.kh = u(down.kernel), p.kw = u(right.kernel), p.sy = u(down.stride), p.sx = u(right.stride);
  p.py = i(down.before), p.px = i(right.before), p.ey = i(down.after), p.ex = i(right.after);
  p.dy = u(down.dilation), p.dx = u(right.dilation);
  p.divisor = i(pooling.divisor);
  p.x_pitch = u(x.pitch), p.x_row = u(x.row), p.x_image = u(x.image), p.y_pitch = u(y.pitch), p.y_row = u(y.row), p.y_image = u(y.image);
  s.MAXIMUM = pooling.maximum, s.ADAPTIVE = pooling.adaptive, s.INCLUDE_PAD = pooling.include_pad;
  s.FOURS = x.channels % 4 == 0 && x.pitch % 4 == 0 && x.row % 4 == 0 && x.image % 4 == 0 && y.pitch % 4 == 0 && y.row % 4 == 0 &&
            y.image % 4 == 0 && read.offset % 16 == 0 && written.offset % 16 == 0;
  constexpr int64_t kMost = int64_t{1} << 31;  // what the shader counts with 32 bits
  if (pooling.adaptive && (x.height * (y.height + 1) >= kMost || x.width * (y.width + 1) >= kMost))
    return b.fail(0, "sides whose product with those of the output is below 2^31", "larger ones");
  int64_t n = y.images * y.height * y.width * (s.FOURS ? y.channels / 4 : y.channels);
  p.n = u(n);
  return b.dispatch(s, {read, written}, rounds(n, 64));
}

Status pool_on_gpu(Gpu& b, bool maximum, bool adaptive) {
  PEN_TRY(b.need(0, Need::channels));
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::channels));
  if (b.out(0).numel() == 0) return PEN_OK;
  return dispatch_pool(b, pooling_of(b, maximum, adaptive), gpu_map(b.in(0)), gpu_map(b.out(0)), window_of(b, 0, 2, maximum, adaptive),
                       window_of(b, 1, 2, maximum, adaptive), b.reads(0), b.writes(0));
}

// One image of [N, C, D, H, W], as planes.
struct Volume {
  GpuMap planes;
  Operand at;
};
Volume volume_of(const Tensor& t, const Operand& all, int64_t image) {
  Tensor plane = t;
  plane.rank = 4;
  plane.dims[0] = t.dims[2], plane.strides[0] = t.strides[2];
  for (int d = 2; d < 4; ++d) plane.dims[d] = t.dims[d + 1], plane.strides[d] = t.strides[d + 1];
  Volume v = {gpu_map(plane), all};
  int64_t offset = image * t.strides[0] * dtype_size(t.dtype);
  v.at.offset += offset;
  v.at.bytes =
      ((t.dims[2] - 1) * v.planes.image + (v.planes.height - 1) * v.planes.row + (v.planes.width - 1) * v.planes.pitch + t.dims[1]) *
      dtype_size(t.dtype);
  return v;
}

Status pool3d_on_gpu(Gpu& b, bool maximum, bool adaptive) {
  PEN_TRY(b.need(0, Need::channels));
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::channels));
  const Tensor &x = b.in(0), &y = b.out(0);
  if (y.numel() == 0) return PEN_OK;
  Pooling first = pooling_of(b, maximum, adaptive), second = first;
  if (first.divisor) second.divisor = 1;
  int64_t channels = x.dims[1], depth = x.dims[2], pixels = y.dims[3] * y.dims[4];
  GpuMap between = {depth, channels, y.dims[3], y.dims[4], channels, channels * y.dims[4], channels * pixels};
  GpuMap deep = {1, channels, depth, pixels, channels, channels * pixels, channels * pixels * depth};
  Operand kept;
  PEN_TRY(b.scratch(DType::f32, depth * pixels * channels, &kept));
  for (int64_t n = 0; n < x.dims[0]; ++n) {
    Volume from = volume_of(x, b.reads(0), n), to = volume_of(y, b.writes(0), n);
    PEN_TRY(dispatch_pool(b, first, from.planes, between, window_of(b, 1, 3, maximum, adaptive), window_of(b, 2, 3, maximum, adaptive),
                          from.at, kept));
    GpuMap out = {1, channels, y.dims[2], pixels, to.planes.pitch, to.planes.image, to.planes.image * y.dims[2]};
    PEN_TRY(dispatch_pool(b, second, deep, out, window_of(b, 0, 3, maximum, adaptive), {}, kept, to.at));
  }
  return PEN_OK;
}

}  // namespace

PEN_GPU(max_pool2d, "f32") { return pool_on_gpu(b, true, false); }
PEN_GPU(avg_pool2d, "f32") { return pool_on_gpu(b, false, false); }
PEN_GPU(adaptive_max_pool2d, "f32") { return pool_on_gpu(b, true, true); }
PEN_GPU(adaptive_avg_pool2d, "f32") { return pool_on_gpu(b, false, true); }

PEN_GPU(max_pool3d, "f32") { return pool3d_on_gpu(b, true, false); }
PEN_GPU(avg_pool3d, "f32") { return pool3d_on_gpu(b, false, false); }
PEN_GPU(adaptive_max_pool3d, "f32") { return pool3d_on_gpu(b, true, true); }
PEN_GPU(adaptive_avg_pool3d, "f32") { return pool3d_on_gpu(b, false, true); }

}  // namespace pen
