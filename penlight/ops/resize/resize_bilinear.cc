// resize_bilinear: f32, NHWC. An output row is a mix of two input rows, made once in scratch along memory; then each
// output pixel is a mix of two of its pixels. Places and weights are computed at bind. One task is a range of rows.
#include "penlight/ops/resize/places.h"
#include "penlight/runtime/simd/simd.h"

namespace pen {

struct BilinearPlace {
  int32_t near, far;  // input pixels
  float w_near, w_far;
};

struct BilinearParams {
  int64_t rows, tasks;
  BilinearPlace* columns() { return reinterpret_cast<BilinearPlace*>(this + 1); }
  const BilinearPlace* columns() const { return reinterpret_cast<const BilinearPlace*>(this + 1); }
};  // followed by OW places in x, then OH places in y

static void bilinear_places(int64_t in, int64_t out, bool align_corners, double factor, BilinearPlace* places) {
  float step = align_corners ? (out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0.0f) : resize_step(in, out, factor);
  for (int64_t i = 0; i < out; ++i) {
    BilinearPlace& p = places[i];
    if (in == out) {  // torch does not interpolate a side that keeps its size, whatever factor was given
      p = {static_cast<int32_t>(i), static_cast<int32_t>(i), 1.0f, 0.0f};
      continue;
    }
    float at = align_corners ? step * static_cast<float>(i) : step * (static_cast<float>(i) + 0.5f) - 0.5f;
    if (at < 0) at = 0;
    int64_t near = at < static_cast<float>(in) ? static_cast<int64_t>(at) : in - 1;  // a tiny factor: at may be infinite
    if (near > in - 1) near = in - 1;
    float far_weight = at - static_cast<float>(near);
    if (far_weight > 1) far_weight = 1;
    p.near = static_cast<int32_t>(near);
    p.far = static_cast<int32_t>(near < in - 1 ? near + 1 : near);
    p.w_far = far_weight;
    p.w_near = 1.0f - far_weight;
  }
}

PEN_BIND(resize_bilinear) {
  if (b.in(0).dtype != DType::f32) return b.fail(0, "an f32 tensor", "dtype code %d", static_cast<int>(b.in(0).dtype));
  double factors[2];
  PEN_TRY(resize_bind(b, factors));
  const Tensor &x = b.in(0), &y = b.out(0);
  bool align = b.flag("align_corners");
  if (y.dims[0] == 0 || y.dims[1] == 0) return PEN_OK;
  size_t places = static_cast<size_t>(y.dims[2] + y.dims[3]);
  auto* p = static_cast<BilinearParams*>(b.params_bytes(sizeof(BilinearParams) + places * sizeof(BilinearPlace)));
  if (!p) return PEN_ERROR_MEMORY;
  bilinear_places(x.dims[3], y.dims[3], align, factors[1], p->columns());
  bilinear_places(x.dims[2], y.dims[2], align, factors[0], p->columns() + y.dims[3]);
  p->rows = y.dims[0] * y.dims[2];
  p->tasks = task_count(p->rows, 16384 / (y.dims[1] * y.dims[3]) + 1);
  PEN_TRY(b.scratch((x.dims[3] * x.dims[1] + 64) * 4));  // 64: pixels are read by whole vectors
  b.tasks(p->tasks);
  return PEN_OK;
}

namespace PEN_ISA {

static PEN_INLINE void mix(const float* a, const float* b, V wa, V wb, float* to, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(to + i, fma(load(b + i), wb, load(a + i) * wa));
  if (i < n) store_partial(to + i, fma(load_partial(b + i, n - i), wb, load_partial(a + i, n - i) * wa), n - i);
}

// Both input rows as one, pixels side by side.
static PEN_INLINE void mix_rows(const float* a, const float* b, const BilinearPlace& y, int64_t width, int64_t channels, int64_t pitch,
                                float* to) {
  V wa = set1(y.w_near), wb = set1(y.w_far);
  if (pitch == channels) return mix(a, b, wa, wb, to, width * channels);
  for (int64_t x = 0; x < width; ++x) mix(a + x * pitch, b + x * pitch, wa, wb, to + x * channels, channels);
}

}  // namespace PEN_ISA

PEN_KERNEL(resize_bilinear, f32) {
  using namespace PEN_ISA;
  const BilinearParams& p = r.as<BilinearParams>();
  const Tensor &x = r.in[0], &y = r.out[0];
  int64_t channels = y.dims[1], height = y.dims[2], width = y.dims[3], pitch = y.strides[3];
  float* row = reinterpret_cast<float*>(r.scratch);
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.rows, p.tasks, task);
    for (int64_t i = range.begin; i < range.end; ++i) {
      int64_t n = i / height, oh = i % height;
      const BilinearPlace& at = p.columns()[width + oh];
      const float* image = x.as<float>() + n * x.strides[0];
      mix_rows(image + at.near * x.strides[2], image + at.far * x.strides[2], at, x.dims[3], channels, x.strides[3], row);
      float* out = y.as<float>() + n * y.strides[0] + oh * y.strides[2];
      // Where pixels touch, a last vector may run over into the next pixel, which is written right after; not past
      // the end of the row.
      int64_t whole = (channels + kLanes - 1) / kLanes * kLanes;
      int64_t run_over = pitch == channels ? (width * channels - whole) / channels + 1 : 0;
      if (width * channels < whole) run_over = 0;
      for (int64_t ow = 0; ow < width; ++ow, out += pitch) {
        const BilinearPlace& c = p.columns()[ow];
        const float *near = row + c.near * channels, *far = row + c.far * channels;
        V wa = set1(c.w_near), wb = set1(c.w_far);
        if (ow < run_over) {
          for (int64_t k = 0; k < channels; k += kLanes) store(out + k, fma(load(far + k), wb, load(near + k) * wa));
        } else {
          mix(near, far, wa, wb, out, channels);
        }
      }
    }
  }
}

}  // namespace pen
