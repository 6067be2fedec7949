// grid_sample and roi_align on a GPU.
#include "penlight/ops/conv/conv_gpu.h"

namespace pen {

static uint32_t u(int64_t n) { return static_cast<uint32_t>(n); }

PEN_GPU(grid_sample, "f32") {
  bool nhwc = b.out_is_nhwc(0);
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, nhwc ? Need::channels : Need::dense));
  PEN_TRY(b.need(1, Need::rows));
  const Tensor &x = b.in(0), &grid = b.in(1), &y = b.out(0);
  if (y.numel() == 0) return PEN_OK;
  int axes = x.rank - 2;
  shader::GridSample s;
  auto& p = s.push;
  p.n = u(y.numel()), p.channels = u(y.dims[1]), p.places = u(grid.dims[1]);
  for (int i = 0; i < axes; ++i)
    p.sizes[axes - 1 - i] = static_cast<int32_t>(x.dims[2 + i]), p.x_strides[axes - 1 - i] = u(x.strides[2 + i]);
  p.x_image = u(x.strides[0]), p.x_channel = u(x.strides[1]), p.y_image = u(y.strides[0]), p.y_channel = u(nhwc ? 1 : y.strides[1]);
  p.y_pixel = u(nhwc ? y.strides[y.rank - 1] : 1);
  p.grid_image = u(grid.strides[0]), p.grid_place = u(grid.strides[1]);
  const char *mode = b.text("mode"), *padding = b.text("padding");
  s.TAPS = mode[0] == 'n' ? 1 : mode[0] == 'l' ? 2 : 4;
  s.PADDING = padding[0] == 'z' ? 0 : padding[0] == 'b' ? 1 : 2;
  s.ALIGN = b.flag("align_corners"), s.PIXELS = b.flag("pixels"), s.AXES = u(axes), s.CHANNELS_LAST = nhwc;
  return b.dispatch(s, {b.reads(0), b.reads(1), b.writes(0)}, rounds(y.numel(), 64));
}

PEN_GPU(roi_align, "f32") {
  PEN_TRY(b.need(0, Need::channels));
  PEN_TRY(b.need(1, Need::rows));
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::channels));
  if (b.out(0).numel() == 0) return PEN_OK;
  GpuMap x = gpu_map(b.in(0)), y = gpu_map(b.out(0));
  shader::RoiAlign s;
  auto& p = s.push;
  p.n = u(b.out(0).numel()), p.images = u(x.images), p.channels = u(y.channels), p.height = u(x.height), p.width = u(x.width);
  p.bins_h = u(y.height), p.bins_w = u(y.width), p.sampling = u(b.integer("sampling"));
  p.step = u(b.state->step_index);
  p.scale = static_cast<float>(b.number("scale"));
  p.x_image = u(x.image), p.x_row = u(x.row), p.x_pitch = u(x.pitch), p.y_image = u(y.image), p.y_row = u(y.row), p.y_pitch = u(y.pitch);
  p.roi_row = u(b.in(1).strides[0]);
  s.ALIGNED = b.flag("aligned"), s.SENSITIVE = b.flag("sensitive");
  return b.dispatch(s, {b.reads(0), b.reads(1), b.writes(0), b.faults()}, rounds(b.out(0).numel(), 64));
}

}  // namespace pen
