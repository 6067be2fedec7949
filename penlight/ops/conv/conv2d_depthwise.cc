// conv2d.f32.depthwise, conv3d.f32.depthwise and their variants by width (kernels.py): every channel for itself (groups == Ci == Co). NHWC,
// weights "taps" [kd * kh * kw][Co]. Finds the rows; runtime/cpu/depthwise.cc does them.
#include "penlight/ops/conv/conv2d.h"
#include "penlight/runtime/cpu/depthwise.h"

namespace pen {
namespace PEN_ISA {

static PEN_OUTER DepthwiseLine place_line(const Conv2d& p, const Run& r, int64_t line) {
  const Tensor &x = r.in[0], &residual = r.in[3], &y = r.out[0];
  int64_t height = map_side(y, 0), depth = map_side(y, 2), row = line % (height * depth), n = line / height / depth;
  int64_t oy = row % height, oz = row / height;
  Range taps = taps_inside(p, 0, oy, map_side(x, 0)), planes = taps_inside(p, 2, oz, map_side(x, 2));
  DepthwiseLine l = {};
  l.first_tap = planes.begin * p.kernel[0] + taps.begin;
  l.taps = taps.end - taps.begin;
  l.planes = planes.end - planes.begin;
  l.x = x.as<float>() + n * x.strides[0];
  if (l.taps > 0 && l.planes > 0) {
    int64_t iz = tap_at(p, 2, oz, planes.begin), iy = tap_at(p, 0, oy, taps.begin);
    l.x += (iz * map_side(x, 0) + iy) * map_side(x, 1) * pixel_pitch(x);
  }
  l.y = y.as<float>() + n * y.strides[0] + row * map_side(y, 1) * pixel_pitch(y);
  if (residual.data) l.residual = residual.as<float>() + n * residual.strides[0] + row * map_side(y, 1) * pixel_pitch(residual);
  return l;
}

static PEN_OUTER void conv_depthwise(const Run& r, DepthwiseTiles tiles) {
  const Conv2d& p = r.as<Conv2d>();
  const Tensor &x = r.in[0], &y = r.out[0];
  DepthwiseLine lines[kDepthwiseLines];
  DepthwiseLines l = {};
  l.lines = lines;
  l.width = map_side(x, 1);
  l.out_width = map_side(y, 1);
  l.kernel = p.kernel[1];
  l.stride = p.stride[1];
  l.dilation = p.dilation[1];
  l.pad = p.pad[1];
  l.x_pitch = pixel_pitch(x);
  l.x_row = p.dilation[0] * l.width * l.x_pitch;
  l.x_plane = p.dilation[2] * map_side(x, 0) * l.width * l.x_pitch;
  l.plane_taps = p.kernel[0];
  l.y_pitch = pixel_pitch(y);
  l.residual_pitch = r.in[3].data ? pixel_pitch(r.in[3]) : 0;
  l.channels = y.dims[1];
  l.weights = r.in[1].as<float>();
  l.bias = r.in[2].data ? r.in[2].as<float>() : nullptr;
  l.act = &p.act;
  Patience patience(r);
  l.ask(patience);
  int64_t units = (l.channels + kColumnUnit - 1) / kColumnUnit;
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.pixel_units, p.pixel_tasks, task / p.column_tasks), columns = part(units, p.column_tasks, task % p.column_tasks);
    l.c_begin = columns.begin * kColumnUnit;
    l.c_end = columns.end * kColumnUnit < l.channels ? columns.end * kColumnUnit : l.channels;
    for (int64_t line = range.begin; line < range.end; line += kDepthwiseLines) {
      l.count = range.end - line < kDepthwiseLines ? range.end - line : kDepthwiseLines;
      for (int64_t i = 0; i < l.count; ++i) lines[i] = place_line(p, r, line + i);
      run_depthwise(l, tiles);
    }
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(conv2d, f32, depthwise) { PEN_ISA::conv_depthwise(r, PEN_ISA::depthwise_tiles); }
PEN_KERNEL(conv2d, f32, depthwise3) { PEN_ISA::conv_depthwise(r, PEN_ISA::depthwise_tiles3); }
PEN_KERNEL(conv2d, f32, depthwise5) { PEN_ISA::conv_depthwise(r, PEN_ISA::depthwise_tiles5); }
PEN_KERNEL(conv2d, f32, depthwise7) { PEN_ISA::conv_depthwise(r, PEN_ISA::depthwise_tiles7); }
PEN_KERNEL(conv2d, f32, depthwise_other) { PEN_ISA::conv_depthwise(r, PEN_ISA::depthwise_tiles_other); }
PEN_KERNEL(conv3d, f32, depthwise) { PEN_ISA::conv_depthwise(r, PEN_ISA::depthwise_tiles); }
PEN_KERNEL(conv3d, f32, depthwise3) { PEN_ISA::conv_depthwise(r, PEN_ISA::depthwise_tiles3); }
PEN_KERNEL(conv3d, f32, depthwise5) { PEN_ISA::conv_depthwise(r, PEN_ISA::depthwise_tiles5); }
PEN_KERNEL(conv3d, f32, depthwise7) { PEN_ISA::conv_depthwise(r, PEN_ISA::depthwise_tiles7); }
PEN_KERNEL(conv3d, f32, depthwise_other) { PEN_ISA::conv_depthwise(r, PEN_ISA::depthwise_tiles_other); }

}  // namespace pen
