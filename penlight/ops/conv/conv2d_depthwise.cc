// conv2d.f32.depthwise: every output channel sees one input channel (groups == Ci; Co may be a multiple). NHWC, weights
// "taps" [kh * kw][Co]. Vectors run over channels; kOutputs neighbours in x stay in registers, and for 3- and 5-wide
// kernels each input pixel is loaded once for all outputs that it reaches. Channels beyond the last whole vector are
// done by one more vector that overlaps its predecessor and writes the same values again.
#include "penlight/ops/conv/conv2d.h"
#include "penlight/runtime/simd/simd.h"

namespace pen {
namespace PEN_ISA {

constexpr int kOutputs = 7;  // divides the maps of networks for 224 x 224 images; leaves registers for 5 taps

// kOutputs results of one vector of channels. Pointers are at that vector's first channel, steps in floats.
struct DepthwiseCall {
  const float* x;  // the pixel under the first tap of the first output, in the first row that exists (x may not)
  int64_t x_step, x_row;  // from one pixel to the next; from one row of taps to the next
  int64_t rows;           // rows of taps that lie in the image
  const float* w;         // first tap of the first of these rows
  int64_t w_step, w_row;
  const float* bias;      // null: none
  const float* residual;  // null: none
  int64_t residual_step;
  float* y;
  int64_t y_step;
  int count;            // outputs that exist
  int64_t low, high;    // pixels [low, high) from x on lie in the image
  int64_t stride, dilation;  // in steps of x_step
  int64_t width;             // taps in a row
  int64_t lanes;        // channels that exist, at most kLanes
  int64_t multiplier;   // output channels per input channel
  int64_t lane0;        // where the first output channel stands among those of its input channel
  float lo, hi;
  bool clamped;
};

template <bool kWhole>
static PEN_INLINE V load_channels(const float* p, int64_t lanes) {
  return kWhole || lanes >= kLanes ? load(p) : load_partial(p, lanes);
}

template <bool kWhole>
static PEN_INLINE void finish_outputs(const DepthwiseCall& d, V* acc) {
  if (d.residual) {
    PEN_UNROLL for (int t = 0; t < kOutputs; ++t) {
      if (!kWhole && t >= d.count) break;
      acc[t] = acc[t] + load_channels<kWhole>(d.residual + t * d.residual_step, d.lanes);
    }
  }
  if (d.clamped) {
    V lo = set1(d.lo), hi = set1(d.hi);
    PEN_UNROLL for (int t = 0; t < kOutputs; ++t) acc[t] = clamp(acc[t], lo, hi);
  }
  PEN_UNROLL for (int t = 0; t < kOutputs; ++t) {
    if (!kWhole && t >= d.count) break;
    if (kWhole || d.lanes >= kLanes)
      store(d.y + t * d.y_step, acc[t]);
    else
      store_partial(d.y + t * d.y_step, acc[t], d.lanes);
  }
}

// kWhole: all outputs, pixels and lanes exist. Else each pixel is checked; the pattern of branches repeats from row to
// row and from vector to vector, so it costs little.
template <int kWidth, int kStride, bool kWhole>
static __attribute__((noinline)) void depthwise_reuse(const DepthwiseCall& d) {
  V start = d.bias ? load_channels<kWhole>(d.bias, d.lanes) : zero();
  V acc[kOutputs];
  PEN_UNROLL for (int t = 0; t < kOutputs; ++t) acc[t] = start;
  constexpr int kPixels = (kOutputs - 1) * kStride + kWidth;
  int64_t used = (d.count - 1) * kStride + kWidth;
  int64_t low = d.low > 0 ? d.low : 0, high = d.high < used ? d.high : used;
  for (int64_t row = 0; row < d.rows; ++row) {
    const float* x = d.x + row * d.x_row;
    V w[kWidth];
    PEN_UNROLL for (int k = 0; k < kWidth; ++k) w[k] = load_channels<kWhole>(d.w + row * d.w_row + k * d.w_step, d.lanes);
    PEN_UNROLL for (int i = 0; i < kPixels; ++i) {
      if (!kWhole && (i < low || i >= high)) continue;
      V v = load_channels<kWhole>(x + i * d.x_step, d.lanes);
      PEN_UNROLL for (int k = 0; k < kWidth; ++k) {
        int t = (i - k) / kStride;
        if (i >= k && (i - k) % kStride == 0 && t < kOutputs) acc[t] = fma(v, w[k], acc[t]);
      }
    }
  }
  finish_outputs<kWhole>(d, acc);
}

// Any kernel width, stride, dilation and channel multiplier.
static __attribute__((noinline)) void depthwise_any(const DepthwiseCall& d) {
  V start = d.bias ? load_channels<false>(d.bias, d.lanes) : zero();
  V acc[kOutputs];
  PEN_UNROLL for (int t = 0; t < kOutputs; ++t) acc[t] = start;
  int source[kLanes];
  for (int i = 0; i < kLanes; ++i) source[i] = i < d.lanes ? static_cast<int>((d.lane0 + i) / d.multiplier) : 0;
  for (int64_t row = 0; row < d.rows; ++row) {
    for (int64_t k = 0; k < d.width; ++k) {
      const float* x = d.x + row * d.x_row;
      V w = load_channels<false>(d.w + row * d.w_row + k * d.w_step, d.lanes);
      PEN_UNROLL for (int t = 0; t < kOutputs; ++t) {
        int64_t at = k * d.dilation + t * d.stride;
        if (t >= d.count || at < d.low || at >= d.high) continue;
        const float* p = x + at * d.x_step;
        V v;
        if (d.multiplier == 1) {
          v = load_channels<false>(p, d.lanes);
        } else {
          float spread[kLanes];
          for (int i = 0; i < kLanes; ++i) spread[i] = p[source[i]];
          v = load(spread);
        }
        acc[t] = fma(v, w, acc[t]);
      }
    }
  }
  finish_outputs<false>(d, acc);
}

static PEN_INLINE void depthwise(int kernel, bool whole, const DepthwiseCall& d) {
  switch (kernel) {
    case 31: return whole ? depthwise_reuse<3, 1, true>(d) : depthwise_reuse<3, 1, false>(d);
    case 32: return whole ? depthwise_reuse<3, 2, true>(d) : depthwise_reuse<3, 2, false>(d);
    case 51: return whole ? depthwise_reuse<5, 1, true>(d) : depthwise_reuse<5, 1, false>(d);
    case 52: return whole ? depthwise_reuse<5, 2, true>(d) : depthwise_reuse<5, 2, false>(d);
    default: return depthwise_any(d);
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(conv2d, f32, depthwise) {
  using namespace PEN_ISA;
  const Conv2d& p = r.as<Conv2d>();
  const Tensor &x = r.in[0], &residual = r.in[3], &y = r.out[0];
  int64_t channels = y.dims[1], h = x.dims[2], w = x.dims[3], oh = y.dims[2], ow = y.dims[3];
  int64_t x_pitch = pixel_pitch(x), y_pitch = pixel_pitch(y);
  // With stride 1, dilation D takes the row apart into D rows that do not touch: outputs D apart share input pixels, as
  // in an undilated convolution. Steps are then D pixels.
  int64_t phases = p.stride[1] == 1 ? p.dilation[1] : 1;
  bool reuse = p.co_g == 1 && (p.kernel[1] == 3 || p.kernel[1] == 5) && p.stride[1] <= 2 && p.dilation[1] == phases;
  int kernel = reuse ? static_cast<int>(p.kernel[1] * 10 + p.stride[1]) : 0;

  DepthwiseCall d;
  d.multiplier = p.co_g;
  d.w_step = channels;
  d.w_row = p.kernel[1] * channels;
  d.width = p.kernel[1];
  d.stride = p.stride[1];
  d.dilation = p.dilation[1] / phases;
  d.x_step = phases * x_pitch;
  d.x_row = p.dilation[0] * w * x_pitch;
  d.lo = p.act.lo;
  d.hi = p.act.hi;
  d.clamped = p.act.clamped;
  d.residual_step = residual.data ? phases * pixel_pitch(residual) : 0;
  d.y_step = phases * y_pitch;

  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.pixel_units, p.pixel_tasks, task);
    for (int64_t line = range.begin; line < range.end; ++line) {
      int64_t n = line / oh, oy = line % oh;
      int64_t top = tap_at(p, 0, oy, 0), ky = top < 0 ? (-top + p.dilation[0] - 1) / p.dilation[0] : 0;
      int64_t left = h - top;  // rows from the first tap to the image's end
      int64_t ky_end = left <= 0 ? 0 : (left + p.dilation[0] - 1) / p.dilation[0];
      ky_end = ky_end < p.kernel[0] ? ky_end : p.kernel[0];
      d.rows = ky_end > ky ? ky_end - ky : 0;
      const float* image = x.as<float>() + n * x.strides[0];
      if (d.rows > 0) image += (top + ky * p.dilation[0]) * w * x_pitch;
      float* out = y.as<float>() + n * y.strides[0] + oy * ow * y_pitch;
      const float* add = nullptr;
      if (residual.data) add = residual.as<float>() + n * residual.strides[0] + oy * ow * pixel_pitch(residual);

      for (int64_t c = 0; c < channels; c += kLanes) {
        if (c + kLanes > channels && channels >= kLanes) c = channels - kLanes;
        d.lanes = channels - c < kLanes ? channels - c : kLanes;
        d.bias = r.in[2].data ? r.in[2].as<float>() + c : nullptr;
        d.w = r.in[1].as<float>() + ky * d.w_row + c;
        d.lane0 = c % p.co_g;
        for (int64_t phase = 0; phase < phases && phase < ow; ++phase) {
          int64_t outputs = (ow - phase + phases - 1) / phases;
          for (int64_t o = 0; o < outputs; o += kOutputs) {
            int64_t first = phase + o * phases, at = tap_at(p, 1, first, 0);
            d.count = static_cast<int>(outputs - o < kOutputs ? outputs - o : kOutputs);
            d.low = at < 0 ? (-at + phases - 1) / phases : 0;
            d.high = at < w ? (w - at + phases - 1) / phases : 0;
            d.x = image + at * x_pitch + c / p.co_g;
            d.y = out + first * y_pitch + c;
            d.residual = add ? add + first * pixel_pitch(residual) + c : nullptr;
            bool whole = d.count == kOutputs && d.lanes == kLanes && d.low == 0 &&
                         d.high >= (kOutputs - 1) * d.stride + d.width;
            depthwise(kernel, whole, d);
          }
        }
      }
      if (p.act.row && y_pitch == channels) {
        apply_row(p.act, out, ow * channels);
      } else if (p.act.row) {
        for (int64_t o = 0; o < ow; ++o) apply_row(p.act, out + o * y_pitch, channels);
      }
    }
  }
}

}  // namespace pen
