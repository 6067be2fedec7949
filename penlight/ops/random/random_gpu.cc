// random_uniform and random_normal on a GPU.
#include "penlight/runtime/gpu/gpu.h"

namespace pen {

static Status draw_on_gpu(Gpu& b, shader::Random* s) {
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  int64_t n = b.out(0).numel();
  s->push.n = static_cast<uint32_t>(n);
  s->push.stream = static_cast<uint32_t>(b.integer("stream"));
  return b.dispatch(*s, {b.random(), b.writes(0)}, rounds(n, 128));
}

PEN_GPU(random_uniform, "f32") {
  shader::Random s;
  s.push.from = static_cast<float>(b.number("low")), s.push.below = static_cast<float>(b.number("high"));
  s.push.by = s.push.below - s.push.from;
  s.OPEN = b.flag("open");
  return draw_on_gpu(b, &s);
}

PEN_GPU(random_normal, "f32") {
  shader::Random s;
  s.push.from = static_cast<float>(b.number("mean")), s.push.by = static_cast<float>(b.number("std"));
  s.NORMAL = 1;
  return draw_on_gpu(b, &s);
}

}  // namespace pen
