// adaptive_avg_pool2d, adaptive_max_pool2d: f32, NHWC; windows follow from the sizes. One task is a range of rows.
#include "penlight/ops/pool/window.h"

namespace pen {

static Status adaptive_bind(Bind& b) {
  PEN_TRY(pool_input(b));
  IntList size = b.ints("size");
  const Tensor& x = b.in(0);
  constexpr int64_t kMost = INT32_MAX;  // products of an input and an output side must fit
  if (size.count != 2 || size[0] < 0 || size[1] < 0 || size[0] > kMost || size[1] > kMost)
    return b.fail(-1, "an output size of two numbers from 0 to 2**31 - 1", "%d numbers", size.count);
  if (x.dims[2] < 1 || x.dims[3] < 1 || x.dims[2] > kMost || x.dims[3] > kMost)
    return b.fail(0, "a plane with sides from 1 to 2**31 - 1", "%lld x %lld", static_cast<long long>(x.dims[2]),
                  static_cast<long long>(x.dims[3]));
  Shape out;
  out.rank = 4;
  out.dims[0] = x.dims[0];
  out.dims[1] = x.dims[1];
  out.dims[2] = size[0];
  out.dims[3] = size[1];
  PEN_TRY(b.need(0, Need::channels));
  PEN_TRY(b.output(0, DType::f32, out));
  PEN_TRY(b.need_out(0, Need::channels));
  PoolParams* p = b.params<PoolParams>();
  if (!p) return PEN_ERROR_MEMORY;
  int64_t window = size[0] * size[1] == 0 ? 1 : (x.dims[2] / size[0] + 1) * (x.dims[3] / size[1] + 1);
  pool_tasks(b, p, out, window);
  return PEN_OK;
}

PEN_BIND(adaptive_avg_pool2d) { return adaptive_bind(b); }
PEN_BIND(adaptive_max_pool2d) { return adaptive_bind(b); }

namespace PEN_ISA {

static PEN_INLINE Range adaptive_span(int64_t o, int64_t in, int64_t out) { return {o * in / out, ((o + 1) * in + out - 1) / out}; }

template <class Op>
static PEN_INLINE void adaptive(const Run& r) {
  const PoolParams& p = r.as<PoolParams>();
  const Tensor &x = r.in[0], &y = r.out[0];
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.rows, p.tasks, task);
    for (int64_t row = range.begin; row < range.end; ++row) {
      int64_t n = row / y.dims[2], oh = row % y.dims[2];
      Range h = adaptive_span(oh, x.dims[2], y.dims[2]);
      const float* in = x.as<float>() + n * x.strides[0] + h.begin * x.strides[2];
      float* out = y.as<float>() + n * y.strides[0] + oh * y.strides[2];
      for (int64_t ow = 0; ow < y.dims[3]; ++ow, out += y.strides[3]) {
        Range w = adaptive_span(ow, x.dims[3], y.dims[3]);
        PoolWindow window = {in + w.begin * x.strides[3], h.end - h.begin, w.end - w.begin, x.strides[2], x.strides[3]};
        pool_pixel<Op>(window, y.dims[1], out, static_cast<float>(window.height * window.width));
      }
    }
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(adaptive_avg_pool2d, f32) { PEN_ISA::adaptive<PEN_ISA::PoolMean>(r); }
PEN_KERNEL(adaptive_max_pool2d, f32) { PEN_ISA::adaptive<PEN_ISA::PoolMax>(r); }

}  // namespace pen
