// lstm, gru and rnn on a GPU.
#include "penlight/runtime/gpu/gpu.h"

namespace pen {

static Status recur_on_gpu(Gpu& b, uint32_t cell, int64_t gates) {
  constexpr int64_t kMost = 2048;  // what shared memory holds on every device
  bool lstm = cell == 0;
  PEN_TRY(b.need(0, Need::rows));
  PEN_TRY(b.need(2, Need::rows));
  if (lstm) PEN_TRY(b.need(3, Need::rows));
  if (cell == 1 && b.has(3)) PEN_TRY(b.need(3, Need::dense));
  for (int i = 0; i < b.output_count(); ++i) {
    PEN_TRY(b.output(i));
    PEN_TRY(b.need_out(i, i == 0 ? Need::rows : Need::dense));
  }
  const Tensor &x = b.in(0), &y = b.out(0);
  auto u = [](int64_t number) { return static_cast<uint32_t>(number); };
  shader::Recurrent s;
  auto& p = s.push;
  int64_t hidden = x.dims[2] / gates, width = y.dims[2];
  if (hidden > kMost || width > kMost)
    return b.fail(0, "at most 2048 hidden units, on this device", "%lld", static_cast<long long>(hidden));
  if (x.dims[1] == 0 || hidden == 0 || width == 0) return PEN_OK;
  p.steps = u(x.dims[0]), p.batch = u(x.dims[1]), p.hidden = u(hidden), p.width = u(width);
  p.x_step = u(x.strides[0]), p.x_row = u(x.strides[1]), p.y_step = u(y.strides[0]), p.y_row = u(y.strides[1]);
  p.h_row = u(b.in(2).strides[0]);
  if (lstm) p.c_row = u(b.in(3).strides[0]);
  s.CELL = cell, s.PROJECTED = lstm && b.has(4), s.BIAS = cell == 1 && b.has(3), s.REVERSE = b.flag("reverse");
  Operand third = cell < 2 ? b.reads(3) : b.none(), projection = s.PROJECTED ? b.reads(4) : b.none();
  return b.dispatch(s, {b.reads(0), b.reads(1), b.reads(2), third, projection, b.writes(0), b.writes(1), lstm ? b.writes(2) : b.none()},
                    {x.dims[1] < 65535 ? x.dims[1] : 65535, 1, 1});
}

PEN_GPU(lstm, "f32") { return recur_on_gpu(b, 0, 4); }
PEN_GPU(gru, "f32") { return recur_on_gpu(b, 1, 3); }
PEN_GPU(rnn, "f32") { return recur_on_gpu(b, b.text("nonlinearity")[0] == 't' ? 2 : 3, 1); }

}  // namespace pen
