// Maxima with their places, over two dims or three, on a GPU.
#include "penlight/runtime/gpu/gpu.h"

namespace pen {

static Status pool_indices(Gpu& b, bool adaptive) {
  PEN_TRY(b.need(0, Need::channels));
  for (int i = 0; i < 2; ++i) {
    PEN_TRY(b.output(i));
    PEN_TRY(b.need_out(i, Need::channels));
  }
  const Tensor &x = b.in(0), &y = b.out(0), &numbers = b.out(1);
  if (y.numel() == 0) return PEN_OK;
  auto u = [](int64_t number) { return static_cast<uint32_t>(number); };
  shader::PoolIndices s;
  auto& p = s.push;
  s.ADAPTIVE = adaptive;
  p.n = u(y.numel()), p.channels = u(y.dims[1]);
  p.x_strides[0] = u(x.strides[0]), p.y_strides[0] = u(y.strides[0]), p.i_strides[0] = u(numbers.strides[0]);
  uint32_t *kernel[] = {&s.KD, &s.KH, &s.KW}, *stride[] = {&s.SD, &s.SH, &s.SW}, *dilation[] = {&s.DD, &s.DH, &s.DW};
  for (int side = 2, i = x.rank - 3; side >= 0; --side, --i) {
    p.sizes[side] = p.outputs[side] = 1;
    if (i < 0) continue;
    p.sizes[side] = u(x.dims[2 + i]), p.outputs[side] = u(y.dims[2 + i]);
    p.x_strides[1 + side] = u(x.strides[2 + i]), p.y_strides[1 + side] = u(y.strides[2 + i]),
                    p.i_strides[1 + side] = u(numbers.strides[2 + i]);
    if (adaptive && x.dims[2 + i] * (y.dims[2 + i] + 1) >= int64_t{1} << 31)  // what the shader counts with 32 bits
      return b.fail(0, "sides whose product with those of the output is below 2^31", "larger ones");
    if (adaptive) continue;
    p.pads[side] = static_cast<int32_t>(b.ints("padding")[i]);
    *kernel[side] = u(b.ints("kernel")[i]), *stride[side] = u(b.ints("stride")[i]), *dilation[side] = u(b.ints("dilation")[i]);
  }
  return b.dispatch(s, {b.reads(0), b.writes(0), b.writes(1)}, rounds(y.numel(), 64));
}

PEN_GPU(max_pool_indices, "f32") { return pool_indices(b, false); }
PEN_GPU(adaptive_max_pool_indices, "f32") { return pool_indices(b, true); }

}  // namespace pen
