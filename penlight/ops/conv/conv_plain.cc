// conv2d.i64 and conv2d.f64, and the same of conv3d and the transposed: convolution of integers, exact but for overflow, which
// wraps as in torch, and of doubles. Rare: straight from the definition, weights as they are. A task is some planes of the output.
#include "penlight/ops/conv/conv2d.h"

namespace pen {

// The input that output `o` sees through tap `k`; -1: none.
static int64_t seen(const Conv2d& p, int side, int64_t o, int64_t k, int64_t size) {
  int64_t at = o * p.stride[side] - p.pad[side] + k * p.dilation[side];
  if (p.transposed) {
    int64_t scaled = o + p.pad[side] - k * p.dilation[side];
    at = scaled % p.stride[side] == 0 ? scaled / p.stride[side] : -1;
  }
  return at >= 0 && at < size ? at : -1;
}

// One output; `image` is its group's first channel, `w` its weights.
template <class T>
static T one_output(const Conv2d& p, const Tensor& x, const T* image, const T* w, const int64_t (&o)[3]) {
  const int64_t sizes[3] = {map_side(x, 0), map_side(x, 1), map_side(x, 2)};
  const int64_t d = x.rank == 5 ? x.strides[2] : 0, h = x.strides[x.rank - 2], column = x.strides[x.rank - 1];
  T sum = 0;
  for (int64_t tap = 0, taps = kernel_taps(p); tap < taps; ++tap) {
    int64_t ix = seen(p, 1, o[1], tap % p.kernel[1], sizes[1]), iy = seen(p, 0, o[0], tap / p.kernel[1] % p.kernel[0], sizes[0]);
    int64_t iz = seen(p, 2, o[2], tap / p.kernel[1] / p.kernel[0], sizes[2]);
    if (ix < 0 || iy < 0 || iz < 0) continue;
    const T* pixel = image + iz * d + iy * h + ix * column;
    for (int64_t c = 0; c < p.ci_g; ++c) sum += pixel[c * x.strides[1]] * w[c * taps + tap];
  }
  return sum;
}

template <class T>
static void conv_plain(const Run& r) {
  const Conv2d& p = r.as<Conv2d>();
  const Tensor &x = r.in[0], &residual = r.in[3], &y = r.out[0];
  int64_t outputs = y.dims[1], height = map_side(y, 0), width = map_side(y, 1), pixels = height * width * map_side(y, 2);
  Range planes = {part(p.pixel_units, p.pixel_tasks, r.begin).begin, part(p.pixel_units, p.pixel_tasks, r.end - 1).end};
  Patience patience(r);
  for (int64_t plane = planes.begin; plane < planes.end; ++plane) {
    int64_t n = plane / outputs, c = plane % outputs;
    const T* image = x.as<T>() + n * x.strides[0] + c / p.co_g * p.ci_g * x.strides[1];
    const T* w = r.in[1].as<T>() + c * p.ci_g * kernel_taps(p);
    T bias = r.in[2].data ? r.in[2].as<T>()[c] : 0;
    T* out = y.as<T>() + n * y.strides[0] + c;
    for (int64_t i = 0; i < pixels && !patience.ends(4 * kernel_taps(p) * p.ci_g); ++i) {
      const int64_t o[3] = {i / width % height, i % width, i / width / height};
      T sum = bias + one_output(p, x, image, w, o);
      if (residual.data) sum += residual.as<T>()[n * residual.strides[0] + c + i * pixel_pitch(residual)];
      out[i * pixel_pitch(y)] = sum;
    }
  }
}

PEN_KERNEL_ANY(conv2d, i64) { conv_plain<uint64_t>(r); }
PEN_KERNEL_ANY(conv2d, f64) { conv_plain<double>(r); }
PEN_KERNEL_ANY(conv3d, i64) { conv_plain<uint64_t>(r); }
PEN_KERNEL_ANY(conv3d, f64) { conv_plain<double>(r); }
PEN_KERNEL_ANY(conv_transpose2d, i64) { conv_plain<uint64_t>(r); }
PEN_KERNEL_ANY(conv_transpose2d, f64) { conv_plain<double>(r); }
PEN_KERNEL_ANY(conv_transpose3d, i64) { conv_plain<uint64_t>(r); }
PEN_KERNEL_ANY(conv_transpose3d, f64) { conv_plain<double>(r); }

}  // namespace pen
