// resize and resize_nearest on a GPU.
#include "penlight/ops/resize/places.h"
#include "penlight/runtime/gpu/walk.h"

namespace pen {
namespace {

// What both shaders take; any strides.
template <class S>
Status fill_resize(Gpu& b, S* s, int64_t* n) {
  PEN_TRY(b.output(0));
  const Tensor &x = b.in(0), &y = b.out(0);
  FloatList scales = b.floats("scales");
  auto u = [](int64_t number) { return static_cast<uint32_t>(number); };
  auto& p = s->push;
  *n = y.numel();
  p.n = u(*n), p.channels = u(x.dims[1]), p.ih = u(x.dims[2]), p.iw = u(x.dims[3]), p.oh = u(y.dims[2]), p.ow = u(y.dims[3]);
  auto step = [&](int side) {
    return resize_step<float>(x.dims[2 + side], y.dims[2 + side], scales.count == 2 && scales[side] > 0 ? scales[side] : 0);
  };
  p.step_y = step(0), p.step_x = step(1);
  for (int d = 0; d < 4; ++d) p.x_strides[d] = u(x.strides[d]), p.y_strides[d] = u(y.strides[d]);
  s->CHANNELS_LAST = b.out_is_nhwc(0);
  return PEN_OK;
}

}  // namespace

PEN_GPU(resize, "f32") {
  shader::Resize s;
  int64_t n;
  PEN_TRY(fill_resize(b, &s, &n));
  s.CUBIC = strcmp(b.text("mode"), "cubic") == 0;
  s.ALIGN = b.flag("align_corners");
  s.SMOOTH = b.flag("antialias");
  auto aligned = [](int64_t in, int64_t out) { return out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0.0f; };
  const Tensor &x = b.in(0), &y = b.out(0);
  if (s.ALIGN) s.push.step_y = aligned(x.dims[2], y.dims[2]), s.push.step_x = aligned(x.dims[3], y.dims[3]);
  return b.dispatch(s, {b.reads(0), b.writes(0)}, rounds(n, 64));
}

PEN_GPU(resize_nearest, "b8 b32 b64") {
  shader::ResizeNearest s;
  int64_t n;
  PEN_TRY(fill_resize(b, &s, &n));
  s.KIND = gpu_kind(b.out(0).dtype);
  s.EXACT = b.flag("exact");
  return b.dispatch(s, {b.reads(0), b.writes(0)}, rounds(n, 64));
}

}  // namespace pen
