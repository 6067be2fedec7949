// lstm, gru and rnn on a GPU: a dispatch for each step, which reads the state where the step before wrote it: in y.
#include "penlight/runtime/gpu/walk.h"

namespace pen {

enum : uint32_t { kLstm, kGru, kTanh, kRelu, kProduct };  // as recurrent.comp counts

// Rows [B, size] that lie `pitch` apart, `offset` elements into what `all` describes.
static Operand rows_at(const Operand& all, int64_t offset, int64_t batch, int64_t pitch, int64_t size) {
  Operand part = all;
  part.offset += offset * dtype_size(all.dtype);
  part.bytes = ((batch - 1) * pitch + size) * dtype_size(all.dtype);
  return part;
}

static Status recurrent_on_gpu(Gpu& b, uint32_t kind, int64_t gates) {
  bool lstm = kind == kLstm, projected = lstm && b.has(4);
  PEN_TRY(b.need_packed(1, "panel16"));
  if (projected) PEN_TRY(b.need_packed(4, "panel16"));
  PEN_TRY(b.need(0, Need::rows));
  PEN_TRY(b.need(2, Need::rows));
  if (lstm) PEN_TRY(b.need(3, Need::rows));
  if (kind == kGru && b.has(3)) PEN_TRY(b.need(3, Need::dense));
  for (int i = 0; i < (lstm ? 3 : 2); ++i) {
    PEN_TRY(b.output(i));
    PEN_TRY(b.need_out(i, i == 0 ? Need::rows : Need::dense));
  }
  const Tensor &x = b.in(0), &h = b.in(2), &y = b.out(0);
  int64_t steps = x.dims[0], batch = x.dims[1], units = x.dims[2] / gates, state = y.dims[2];
  if (batch == 0 || units == 0 || state == 0) return PEN_OK;
  auto u = [](int64_t n) { return static_cast<uint32_t>(n); };
  shader::Recurrent s;
  auto& p = s.push;
  s.KIND = kind;
  s.BIAS = kind == kGru && b.has(3);
  p.n = u(batch * units), p.units = u(units), p.state = u(state), p.x_row = u(x.strides[1]);
  Operand before = b.reads(2), cell = lstm ? b.reads(3) : b.none(), cell_new = lstm ? b.writes(2) : b.none(), whole = b.none();
  p.h_row = u(h.strides[0]), p.c_row = lstm ? u(b.in(3).strides[0]) : 0;
  if (projected) PEN_TRY(b.scratch(DType::f32, batch * units, &whole));
  for (int64_t t = 0; t < steps; ++t) {
    int64_t step = b.flag("reverse") ? steps - 1 - t : t;
    Operand given = rows_at(b.reads(0), step * x.strides[0], batch, x.strides[1], gates * units);
    Operand made = rows_at(b.writes(0), step * y.strides[0], batch, y.strides[1], state);
    p.y_row = u(projected ? units : y.strides[1]);
    PEN_TRY(b.dispatch(s, {given, b.reads(1), before, cell, s.BIAS ? b.reads(3) : b.none(), projected ? whole : made, cell_new},
                       rounds(batch * units, 64)));
    if (projected) {
      shader::Recurrent product;
      product.KIND = kProduct;
      product.push.n = u(batch * state), product.push.units = u(state), product.push.state = u(units);
      product.push.h_row = u(units), product.push.y_row = u(y.strides[1]);
      PEN_TRY(b.dispatch(product, {b.none(), b.reads(4), whole, b.none(), b.none(), made, b.none()}, rounds(batch * state, 64)));
    }
    before = made, cell = cell_new;
    p.h_row = u(y.strides[1]), p.c_row = u(units);
  }
  // The last states.
  Tensor last = b.out(1);
  last.strides[0] = steps ? y.strides[1] : h.strides[0];
  last.strides[1] = 1;
  PEN_TRY(dispatch_copy(b, last, before, b.out(1), b.writes(1)));
  return lstm && !steps ? dispatch_copy(b, b.in(3), cell, b.out(2), cell_new) : PEN_OK;
}

PEN_GPU(lstm, "f32") { return recurrent_on_gpu(b, kLstm, 4); }
PEN_GPU(gru, "f32") { return recurrent_on_gpu(b, kGru, 3); }
PEN_GPU(rnn, "f32") { return recurrent_on_gpu(b, b.text("nonlinearity")[0] == 't' ? kTanh : kRelu, 1); }

}  // namespace pen
