// conv2d.f32.grouped: several groups of fewer than 16 outputs each. NHWC, weights "grouped" [groups][kh * kw][Ci_g][Co_g].
// A vector holds outputs of one group; kPixels neighbours in x stay in registers. Taps on padding read zeros.
#include "penlight/ops/conv/conv2d.h"
#include "penlight/runtime/simd/simd.h"

namespace pen {
namespace PEN_ISA {

constexpr int kPixels = 8;

// The input pixels under tap (ky, kx) of outputs ox .. ox + kPixels of row oy; zeros where there are none.
static PEN_INLINE void tap_pixels(const Conv2d& p, const Tensor& x, const float* image, int64_t oy, int64_t ox, int64_t ky, int64_t kx,
                                  const float* zeros, const float** to) {
  int64_t iy = tap_at(p, 0, oy, ky), pitch = pixel_pitch(x), w = x.dims[3];
  bool inside = iy >= 0 && iy < x.dims[2];
  for (int t = 0; t < kPixels; ++t) {
    int64_t ix = tap_at(p, 1, ox + t, kx);
    to[t] = inside && ix >= 0 && ix < w ? image + (iy * w + ix) * pitch : zeros;
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(conv2d, f32, grouped) {
  using namespace PEN_ISA;
  const Conv2d& p = r.as<Conv2d>();
  const Tensor &x = r.in[0], &residual = r.in[3], &y = r.out[0];
  int64_t channels = y.dims[1], oh = y.dims[2], ow = y.dims[3], y_pitch = pixel_pitch(y);
  int64_t residual_pitch = residual.data ? pixel_pitch(residual) : 0;
  int64_t taps = p.kernel[0] * p.kernel[1];
  float* zeros = reinterpret_cast<float*>(r.scratch);
  memset(zeros, 0, static_cast<size_t>(x.dims[1]) * sizeof(float));
  V lo = set1(p.act.lo), hi = set1(p.act.hi);

  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.pixel_units, p.pixel_tasks, task);
    for (int64_t line = range.begin; line < range.end; ++line) {
      int64_t n = line / oh, oy = line % oh;
      const float* image = x.as<float>() + n * x.strides[0];
      float* out = y.as<float>() + n * y.strides[0] + oy * ow * y_pitch;
      const float* add = nullptr;
      if (residual.data) add = residual.as<float>() + n * residual.strides[0] + oy * ow * residual_pitch;
      for (int64_t ox = 0; ox < ow; ox += kPixels) {
        int64_t count = ow - ox < kPixels ? ow - ox : kPixels;
        for (int64_t co = 0; co < channels;) {
          // The next vector of outputs: as many as are left in this group.
          int64_t group = co / p.co_g, in_group = co % p.co_g;
          int64_t lanes = p.co_g - in_group < kLanes ? p.co_g - in_group : kLanes;
          const float* w = r.in[1].as<float>() + group * taps * p.ci_g * p.co_g + in_group;
          V start = r.in[2].data ? load_partial(r.in[2].as<float>() + co, lanes) : zero();
          V acc[kPixels];
          PEN_UNROLL for (int t = 0; t < kPixels; ++t) acc[t] = start;
          for (int64_t ky = 0; ky < p.kernel[0]; ++ky) {
            for (int64_t kx = 0; kx < p.kernel[1]; ++kx) {
              const float* pixel[kPixels];
              tap_pixels(p, x, image, oy, ox, ky, kx, zeros, pixel);
              for (int64_t ci = 0; ci < p.ci_g; ++ci, w += p.co_g) {
                V column = load_partial(w, lanes);
                PEN_UNROLL for (int t = 0; t < kPixels; ++t) acc[t] = fma(set1(pixel[t][group * p.ci_g + ci]), column, acc[t]);
              }
            }
          }
          PEN_UNROLL for (int t = 0; t < kPixels; ++t) {
            if (t >= count) break;
            V v = acc[t];
            if (add) v = v + load_partial(add + (ox + t) * residual_pitch + co, lanes);
            if (p.act.clamped) v = clamp(v, lo, hi);
            store_partial(out + (ox + t) * y_pitch + co, v, lanes);
          }
          co += lanes;
        }
        if (p.act.row) {
          for (int64_t t = 0; t < count; ++t) apply_row(p.act, out + (ox + t) * y_pitch, channels);
        }
      }
    }
  }
}

}  // namespace pen
