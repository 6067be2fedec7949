// Pooling over two dims on a GPU.
#include "penlight/ops/conv/conv_gpu.h"

namespace pen {

static Status pool_on_gpu(Gpu& b, bool maximum, bool adaptive) {
  PEN_TRY(b.need(0, Need::channels));
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::channels));
  if (b.out(0).numel() == 0) return PEN_OK;
  GpuMap x = gpu_map(b.in(0)), y = gpu_map(b.out(0));
  shader::Pool s;
  auto& p = s.push;
  auto u = [](int64_t n) { return static_cast<uint32_t>(n); };
  auto i = [](int64_t n) { return static_cast<int32_t>(n); };
  p.channels = u(x.channels), p.ih = u(x.height), p.iw = u(x.width), p.oh = u(y.height), p.ow = u(y.width);
  p.kh = p.kw = p.sy = p.sx = p.dy = p.dx = 1;
  if (!adaptive) {
    IntList kernel = b.ints("kernel"), stride = b.ints("stride"), padding = b.ints("padding");
    p.kh = u(kernel[0]), p.kw = u(kernel[1]), p.sy = u(stride[0]), p.sx = u(stride[1]);
    p.py = i(padding[0]), p.px = i(padding[1]), p.ey = i(padding[2]), p.ex = i(padding[3]);
    if (maximum) p.dy = u(b.ints("dilation")[0]), p.dx = u(b.ints("dilation")[1]);
  }
  if (!maximum && !adaptive) {
    s.INCLUDE_PAD = b.flag("count_include_pad");
    if (!b.is_none("divisor")) p.divisor = i(b.integer("divisor"));
  }
  p.x_pitch = u(x.pitch), p.x_row = u(x.row), p.x_image = u(x.image), p.y_pitch = u(y.pitch), p.y_row = u(y.row), p.y_image = u(y.image);
  Operand read = b.reads(0), written = b.writes(0);
  s.MAXIMUM = maximum;
  s.ADAPTIVE = adaptive;
  s.FOURS = x.channels % 4 == 0 && x.pitch % 4 == 0 && x.row % 4 == 0 && x.image % 4 == 0 && y.pitch % 4 == 0 && y.row % 4 == 0 &&
            y.image % 4 == 0 && read.offset % 16 == 0 && written.offset % 16 == 0;
  int64_t n = y.images * y.height * y.width * (s.FOURS ? y.channels / 4 : y.channels);
  p.n = u(n);
  return b.dispatch(s, {read, written}, rounds(n, 64));
}

PEN_GPU(max_pool2d, "f32") { return pool_on_gpu(b, true, false); }
PEN_GPU(avg_pool2d, "f32") { return pool_on_gpu(b, false, false); }
PEN_GPU(adaptive_max_pool2d, "f32") { return pool_on_gpu(b, true, true); }
PEN_GPU(adaptive_avg_pool2d, "f32") { return pool_on_gpu(b, false, true); }

}  // namespace pen
