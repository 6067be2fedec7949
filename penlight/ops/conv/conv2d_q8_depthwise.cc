// conv2d.q8.depthwise: every channel for itself (groups == Ci == Co), quantized bytes. NHWC in and out, any pitch; weights "taps"; the
// bias is what lowering makes of it (lower/columns.py). Finds maps and rows; runtime/cpu/depthwise_q8.cc does them.
#include "penlight/ops/conv/conv2d_q8.h"
#include "penlight/runtime/cpu/depthwise_q8.h"

namespace pen {
namespace PEN_ISA {

static PEN_OUTER void conv_depthwise_q8(const Run& r) {
  const ConvQ8& p = r.as<ConvQ8>();
  const Tensor &x = r.in[0], &residual = r.in[3], &y = r.out[0];
  DepthwiseQ8 d = {};
  d.x = x.as<uint8_t>();
  d.y = y.data;
  d.residual = residual.data;
  d.x_batch = x.strides[0];
  d.y_batch = y.strides[0];
  d.x_pitch = pixel_pitch(x);
  d.y_pitch = pixel_pitch(y);
  if (residual.data) {
    d.residual_batch = residual.strides[0];
    d.residual_pitch = pixel_pitch(residual);
  }
  for (int side = 0; side < 2; ++side) {
    d.in[side] = map_side(x, side);
    d.out[side] = map_side(y, side);
    d.kernel[side] = p.kernel[side];
    d.stride[side] = p.stride[side];
    d.dilation[side] = p.dilation[side];
    d.pad[side] = p.pad[side];
  }
  d.channels = y.dims[1];
  d.weights = r.in[1].data;
  d.columns = columns_q8(p.result, r.in[2], 0);
  d.x_zero = static_cast<uint8_t>(x.quant->zero);
  d.result = &p.result;
  d.act = &p.act;
  d.scratch = r.scratch;
  Patience patience(r);
  d.patience = &patience;
  const int64_t units = depthwise_units_q8(d.channels);
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range lines = part(p.pixel_units, p.pixel_tasks, task / p.column_tasks), channels = part(units, p.column_tasks, task % p.column_tasks);
    channels.begin *= kDepthwiseUnitQ8;
    channels.end = channels.end < units ? channels.end * kDepthwiseUnitQ8 : d.channels;
    run_depthwise_q8(d, lines, channels);
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(conv2d, q8, depthwise) { PEN_ISA::conv_depthwise_q8(r); }

}  // namespace pen
