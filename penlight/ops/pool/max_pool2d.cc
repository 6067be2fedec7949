// max_pool2d: f32, NHWC. One task is a range of output rows.
#include "penlight/ops/pool/window.h"

namespace pen {

PEN_BIND(max_pool2d) {
  PoolParams* p = nullptr;
  return pool_bind(b, true, &p);
}

PEN_KERNEL(max_pool2d, f32) {
  using namespace PEN_ISA;
  const PoolParams& p = r.as<PoolParams>();
  const Tensor &x = r.in[0], &y = r.out[0];
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.rows, p.tasks, task);
    for (int64_t row = range.begin; row < range.end; ++row) {
      int64_t n = row / y.dims[2], oh = row % y.dims[2];
      PoolSpan h = pool_span(p, 0, oh, x.dims[2]);
      const float* in = x.as<float>() + n * x.strides[0] + h.start * x.strides[2];
      float* out = y.as<float>() + n * y.strides[0] + oh * y.strides[2];
      for (int64_t ow = 0; ow < y.dims[3]; ++ow, out += y.strides[3]) {
        PoolSpan w = pool_span(p, 1, ow, x.dims[3]);
        PoolWindow window = {in + w.start * x.strides[3], h.count, w.count, p.dilation[0] * x.strides[2], p.dilation[1] * x.strides[3]};
        pool_pixel<PoolMax>(window, y.dims[1], out, 1.0f);
      }
    }
  }
}

}  // namespace pen
