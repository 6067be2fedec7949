// conv2d.f32.grouped: groups of fewer than 16 outputs each. NHWC, weights "grouped" [ceil(Co / 16)][kh * kw][Ci_g][16].
// A vector holds neighbouring outputs, of as many groups as it comes to. Step i of a group's inputs takes input i of every
// lane's own group: a permutation of the pixel's channels, the same for all pixels. kPixels neighbours in x stay in
// registers. Taps on padding read zeros, or are skipped where that is so for all of them.
#include "penlight/ops/conv/conv2d.h"
#include "penlight/runtime/simd/simd.h"

namespace pen {
namespace PEN_ISA {

constexpr int kPixels = kGroupedPixels;
static_assert(kLanes <= 16, "a vector's weights lie in one block");

// How a vector of outputs finds its inputs in a pixel.
enum class Reach {
  same,  // all lanes are of one group
  one,   // in kLanes channels from `base` on
  two,   // in twice as many
  far,   // lane by lane
};

struct GroupedVector {
  int64_t base;           // first channel of the window
  int32_t index[kLanes];  // of lane's group's first input, from there
  Reach reach;
  int64_t lanes;  // outputs that exist
};

static_assert(sizeof(GroupedVector) <= kGroupedVectorBytes * kLanes, "bind sized scratch for these");

static GroupedVector place_vector(const Conv2d& p, int64_t channel, int64_t outputs, int64_t inputs) {
  GroupedVector v;
  v.lanes = outputs - channel < kLanes ? outputs - channel : kLanes;
  int64_t first = channel / p.co_g * p.ci_g, end = ((channel + v.lanes - 1) / p.co_g + 1) * p.ci_g;
  // The window moves back where it would end behind the pixel.
  int64_t one = first < inputs - kLanes ? first : inputs - kLanes, two = first < inputs - 2 * kLanes ? first : inputs - 2 * kLanes;
  v.reach = channel / p.co_g == (channel + kLanes - 1) / p.co_g ? Reach::same
            : !kHasPermute                                      ? Reach::far
            : one >= 0 && end - one <= kLanes                   ? Reach::one
            : two >= 0 && end - two <= 2 * kLanes               ? Reach::two
                                                                : Reach::far;
  v.base = v.reach == Reach::one ? one : v.reach == Reach::two ? two : first;
  for (int64_t i = 0; i < kLanes; ++i) {
    int64_t lane = i < v.lanes ? i : 0;
    v.index[i] = static_cast<int32_t>((channel + lane) / p.co_g * p.ci_g - v.base);
  }
  return v;
}

template <Reach kReach>
static PEN_INLINE V lane_inputs(const GroupedVector& v, const float* pixel, I index, int64_t i) {
  const float* p = pixel + v.base;
  if constexpr (kReach == Reach::same) return set1(p[i]);
  if constexpr (kReach == Reach::one) return permute(load(p), index);
  if constexpr (kReach == Reach::two) return permute(load(p), load(p + kLanes), index);
  float lanes[kLanes];
  for (int j = 0; j < kLanes; ++j) lanes[j] = p[v.index[j] + i];
  return load(lanes);
}

// acc += all taps. pixels[tap * kPixels + t]: the input pixel under that tap of output t.
template <Reach kReach>
static __attribute__((noinline)) void add_taps(const GroupedVector& v, const float* const* pixels, const uint8_t* live, int64_t taps,
                                               int64_t ci, const float* w, V (&sums)[kPixels]) {
  V acc[kPixels];
  PEN_UNROLL for (int t = 0; t < kPixels; ++t) acc[t] = sums[t];
  I first = load_ints(v.index);
  for (int64_t tap = 0; tap < taps; ++tap, pixels += kPixels) {
    if (!live[tap]) {
      w += ci * 16;
      continue;
    }
    for (int64_t i = 0; i < ci; ++i, w += 16) {
      V column = load(w);
      I index = first + set1i(static_cast<int32_t>(i));
      PEN_UNROLL for (int t = 0; t < kPixels; ++t) acc[t] = fma(lane_inputs<kReach>(v, pixels[t], index, i), column, acc[t]);
    }
  }
  PEN_UNROLL for (int t = 0; t < kPixels; ++t) sums[t] = acc[t];
}

// The input pixels under all taps of outputs ox .. ox + kPixels of row oy; zeros where there are none.
static void find_pixels(const Conv2d& p, const Tensor& x, const float* image, int64_t oy, int64_t ox, const float* zeros, const float** to,
                        uint8_t* live) {
  int64_t w = x.dims[3], pitch = pixel_pitch(x);
  for (int64_t ky = 0; ky < p.kernel[0]; ++ky) {
    int64_t iy = tap_at(p, 0, oy, ky);
    bool inside = iy >= 0 && iy < x.dims[2];
    const float* row = image + (inside ? iy : 0) * w * pitch;
    for (int64_t kx = 0; kx < p.kernel[1]; ++kx, to += kPixels) {
      int64_t ix = tap_at(p, 1, ox, kx);
      bool any = false;
      for (int t = 0; t < kPixels; ++t, ix += p.stride[1]) {
        bool there = inside && ix >= 0 && ix < w;
        to[t] = there ? row + ix * pitch : zeros;
        any |= there;
      }
      *live++ = any;
    }
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(conv2d, f32, grouped) {
  using namespace PEN_ISA;
  const Conv2d& p = r.as<Conv2d>();
  const Tensor &x = r.in[0], &residual = r.in[3], &y = r.out[0];
  int64_t outputs = y.dims[1], oh = y.dims[2], ow = y.dims[3], y_pitch = pixel_pitch(y);
  int64_t residual_pitch = residual.data ? pixel_pitch(residual) : 0;
  int64_t taps = p.kernel[0] * p.kernel[1];
  GroupedSizes sizes = grouped_sizes(p, x.dims[1], outputs);
  const float** pixels = reinterpret_cast<const float**>(r.scratch);
  uint8_t* live = reinterpret_cast<uint8_t*>(r.scratch + sizes.live);
  float* zeros = reinterpret_cast<float*>(r.scratch + sizes.zeros);
  GroupedVector* vectors = reinterpret_cast<GroupedVector*>(r.scratch + sizes.vectors);
  for (int64_t c = 0; c < outputs; c += kLanes) vectors[c / kLanes] = place_vector(p, c, outputs, x.dims[1]);
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
        find_pixels(p, x, image, oy, ox, zeros, pixels, live);
        for (int64_t c = 0; c < outputs; c += kLanes) {
          const GroupedVector& v = vectors[c / kLanes];
          const float* w = r.in[1].as<float>() + c / 16 * taps * p.ci_g * 16 + c % 16;
          V acc[kPixels];
          V start = r.in[2].data ? load_partial(r.in[2].as<float>() + c, v.lanes) : zero();
          PEN_UNROLL for (int t = 0; t < kPixels; ++t) acc[t] = start;
          if (v.reach == Reach::same) {
            add_taps<Reach::same>(v, pixels, live, taps, p.ci_g, w, acc);
          } else if (v.reach == Reach::one) {
            add_taps<Reach::one>(v, pixels, live, taps, p.ci_g, w, acc);
          } else if (v.reach == Reach::two) {
            add_taps<Reach::two>(v, pixels, live, taps, p.ci_g, w, acc);
          } else {
            add_taps<Reach::far>(v, pixels, live, taps, p.ci_g, w, acc);
          }
          PEN_UNROLL for (int t = 0; t < kPixels; ++t) {
            if (t >= count) break;
            V sum = acc[t];
            if (add) sum = sum + load_partial(add + (ox + t) * residual_pitch + c, v.lanes);
            if (p.act.clamped) sum = clamp(sum, lo, hi);
            store_partial(out + (ox + t) * y_pitch + c, sum, v.lanes);
          }
        }
        if (p.act.row) {
          for (int64_t t = 0; t < count; ++t) apply_row(p.act, out + (ox + t) * y_pitch, outputs);
        }
      }
    }
  }
}

}  // namespace pen
