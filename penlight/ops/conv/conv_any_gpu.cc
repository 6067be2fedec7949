// conv3d and the transposed convolutions on a GPU: one shader, straight from the definition.
#include "penlight/ops/conv/conv_gpu.h"

namespace pen {
namespace {

// From pixel to pixel, of what lies as Need::channels.
int64_t pitch_of(const Tensor& t) { return t.strides[t.rank - 1]; }

bool has_part(const char* key, const char* part) {
  for (; *key; ++key)
    if (strncmp(key, part, strlen(part)) == 0) return true;
  return false;
}

Status bind_conv_any(Gpu& b, bool transposed) {
  PEN_TRY(need_weights(b, b.integer("groups")));
  PEN_TRY(b.need(0, Need::channels));
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::channels));
  if (b.has(2)) PEN_TRY(b.need(2, Need::dense));
  if (b.has(3)) PEN_TRY(b.need(3, Need::channels));
  const Tensor &x = b.in(0), &w = b.in(1), &y = b.out(0);
  if (y.numel() == 0) return PEN_OK;
  auto u = [](int64_t number) { return static_cast<uint32_t>(number); };
  shader::ConvAny s;
  auto& p = s.push;
  int64_t groups = b.integer("groups"), co = w.dims[0] / groups;
  p.channels = u(w.dims[0]), p.ci = u(w.dims[1]), p.co = u(co);
  uint32_t *kernel[] = {&s.KD, &s.KH, &s.KW}, *stride[] = {&s.SD, &s.SH, &s.SW}, *dilation[] = {&s.DD, &s.DH, &s.DW};
  int64_t pitch = pitch_of(x);
  for (int side = 2, i = x.rank - 3; side >= 0; --side, --i) {
    p.sizes[side] = u(i >= 0 ? x.dims[2 + i] : 1), p.outputs[side] = u(i >= 0 ? y.dims[2 + i] : 1);
    p.x_strides[side] = u(pitch);
    pitch *= p.sizes[side];
    if (i < 0) continue;
    p.pads[side] = static_cast<int32_t>(b.ints("padding")[i]);
    *kernel[side] = u(w.dims[2 + i]), *stride[side] = u(b.ints("stride")[i]), *dilation[side] = u(b.ints("dilation")[i]);
  }
  p.x_image = u(x.strides[0]), p.y_pitch = u(pitch_of(y)), p.y_image = u(y.strides[0]);
  if (b.has(3)) p.r_pitch = u(pitch_of(b.in(3))), p.r_image = u(b.in(3).strides[0]);
  s.BIAS = b.has(2), s.RESIDUAL = b.has(3), s.TURNED = transposed;
  s.DEPTHWISE = has_part(b.key(), ".depthwise"), s.PANELS = has_part(b.key(), ".gemm");
  int64_t units = s.PANELS ? ceil_div(co, 4) : co, n = y.numel() / y.dims[1] * groups * units;
  if (n >= int64_t{1} << 31) return b.fail(-1, "less than 2^31 pieces of work", "%lld", static_cast<long long>(n));
  p.n = u(n);
  PEN_TRY(b.dispatch(s, {b.reads(0), b.reads(1), b.reads(2), b.reads(3), b.writes(0)}, rounds(n, 64)));
  GpuActivation act;
  PEN_TRY(b.activation("act", "act_args", &act));
  return act.number ? dispatch_activation(b, act.name, act.args, 4, y, b.writes(0)) : PEN_OK;
}

}  // namespace

PEN_GPU(conv3d, "f32.gemm f32.depthwise* f32.grouped") { return bind_conv_any(b, false); }
PEN_GPU(conv_transpose2d, "f32.gemm f32.grouped") { return bind_conv_any(b, true); }
PEN_GPU(conv_transpose3d, "f32.gemm f32.grouped") { return bind_conv_any(b, true); }

}  // namespace pen
