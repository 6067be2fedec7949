// conv2d.f32.grouped, and the same of conv3d and the transposed: groups of fewer than 16 outputs each. NHWC, weights
// "grouped" [ceil(Co / 16)][kd * kh * kw][Ci_g][16].
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
  own,   // every lane's only input is its own channel
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
            : p.ci_g == 1 && p.co_g == 1 && v.lanes == kLanes   ? Reach::own
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
  if constexpr (kReach == Reach::own) return load(p);
  if constexpr (kReach == Reach::one) return permute(load(p), index);
  if constexpr (kReach == Reach::two) return permute(load(p), load(p + kLanes), index);
  float lanes[kLanes];
  for (int j = 0; j < kLanes; ++j) lanes[j] = p[v.index[j] + i];
  return load(lanes);
}

// acc += all taps. pixels[tap * kPixels + t]: the input pixel under that tap of output t; places[tap]: which of the weights'
// taps that is.
template <Reach kReach>
static PEN_INLINE void add_taps_here(const GroupedVector& v, const float* const* pixels, const uint8_t* live, const int32_t* places,
                                     int64_t taps, int64_t ci, const float* weights, V (&sums)[kPixels]) {
  V acc[kPixels];
  PEN_UNROLL for (int t = 0; t < kPixels; ++t) acc[t] = sums[t];
  I first = load_ints(v.index);
  for (int64_t tap = 0; tap < taps; ++tap, pixels += kPixels) {
    if (!live[tap]) continue;
    const float* w = weights + places[tap] * ci * 16;
    for (int64_t i = 0; i < ci; ++i, w += 16) {
      V column = load(w);
      I index = first + set1i(static_cast<int32_t>(i));
      PEN_UNROLL for (int t = 0; t < kPixels; ++t) acc[t] = fma(lane_inputs<kReach>(v, pixels[t], index, i), column, acc[t]);
    }
  }
  PEN_UNROLL for (int t = 0; t < kPixels; ++t) sums[t] = acc[t];
}

template <Reach kReach>
static __attribute__((noinline)) void add_taps(const GroupedVector& v, const float* const* pixels, const uint8_t* live,
                                               const int32_t* places, int64_t taps, int64_t ci, const float* weights, V (&sums)[kPixels]) {
  add_taps_here<kReach>(v, pixels, live, places, taps, ci, weights, sums);
}

// The input pixels under all taps of outputs ox .. ox + kPixels of a phase's row; zeros where there are none.
static void find_pixels(const Phase& phase, const Tensor& x, const float* image, int64_t oz, int64_t oy, int64_t ox, const float* zeros,
                        const float** to, uint8_t* live) {
  const PhaseSide &rows = phase.side[0], &columns = phase.side[1], &planes = phase.side[2];
  int64_t w = map_side(x, 1), h = map_side(x, 0), d = map_side(x, 2), pitch = pixel_pitch(x);
  for (int64_t tap = 0; tap < planes.taps * rows.taps; ++tap) {
    int64_t iz = oz * planes.step + planes.offset + tap / rows.taps * planes.offset_apart;
    int64_t iy = oy * rows.step + rows.offset + tap % rows.taps * rows.offset_apart;
    bool inside = iz >= 0 && iz < d && iy >= 0 && iy < h;
    const float* row = image + (inside ? iz * h + iy : 0) * w * pitch;
    for (int64_t kx = 0; kx < columns.taps; ++kx, to += kPixels) {
      int64_t ix = ox * columns.step + columns.offset + kx * columns.offset_apart;
      bool any = false;
      for (int t = 0; t < kPixels; ++t, ix += columns.step) {
        bool there = inside && ix >= 0 && ix < w;
        to[t] = there ? row + ix * pitch : zeros;
        any |= there;
      }
      *live++ = any;
    }
  }
}

static void conv_grouped(const Run& r) {
  const Conv2d& p = r.as<Conv2d>();
  const Tensor &x = r.in[0], &residual = r.in[3], &y = r.out[0];
  int64_t outputs = y.dims[1], all_taps = kernel_taps(p);
  GroupedSizes sizes = grouped_sizes(p, x.dims[1], outputs);
  const float** pixels = reinterpret_cast<const float**>(r.scratch);
  int32_t* places = reinterpret_cast<int32_t*>(r.scratch + sizes.places);
  uint8_t* live = reinterpret_cast<uint8_t*>(r.scratch + sizes.live);
  float* zeros = reinterpret_cast<float*>(r.scratch + sizes.zeros);
  GroupedVector* vectors = reinterpret_cast<GroupedVector*>(r.scratch + sizes.vectors);
  for (int64_t c = 0; c < outputs; c += kLanes) vectors[c / kLanes] = place_vector(p, c, outputs, x.dims[1]);
  memset(zeros, 0, static_cast<size_t>(x.dims[1]) * sizeof(float));
  V lo = set1(p.act.lo), hi = set1(p.act.hi);

  Range lines = {part(p.pixel_units, p.pixel_tasks, r.begin).begin, part(p.pixel_units, p.pixel_tasks, r.end - 1).end};
  int64_t number = -1, phase_begin = 0, phase_end = 0, taps = 0;
  Phase phase;
  for (int64_t line = lines.begin; line < lines.end; ++line) {
    while (line >= phase_end) {
      phase = place_phase(p, y, ++number);
      phase_begin = phase_end;
      phase_end += y.dims[0] * phase.side[0].count * phase.side[2].count;
      if (line < phase_end) taps = place_taps(p, phase, places);
    }
    int64_t oy = (line - phase_begin) % phase.side[0].count, plane = (line - phase_begin) / phase.side[0].count;
    int64_t oz = plane % phase.side[2].count, n = plane / phase.side[2].count, ow = phase.side[1].count;
    int64_t y_pitch = phase.side[1].apart * pixel_pitch(y), residual_pitch = 0;
    const float* image = x.as<float>() + n * x.strides[0];
    float* out = y.as<float>() + n * y.strides[0] + phase_pixel(phase, y, oz, oy, 0);
    const float* add = nullptr;
    if (residual.data) {
      add = residual.as<float>() + n * residual.strides[0] + phase_pixel(phase, residual, oz, oy, 0);
      residual_pitch = phase.side[1].apart * pixel_pitch(residual);
    }
    for (int64_t ox = 0; ox < ow; ox += kPixels) {
      int64_t count = ow - ox < kPixels ? ow - ox : kPixels;
      find_pixels(phase, x, image, oz, oy, ox, zeros, pixels, live);
      for (int64_t c = 0; c < outputs; c += kLanes) {
        const GroupedVector& v = vectors[c / kLanes];
        const float* w = r.in[1].as<float>() + c / 16 * all_taps * p.ci_g * 16 + c % 16;
        V acc[kPixels];
        V start = r.in[2].data ? load_partial(r.in[2].as<float>() + c, v.lanes) : zero();
        PEN_UNROLL for (int t = 0; t < kPixels; ++t) acc[t] = start;
        if (v.reach == Reach::same) {
          add_taps<Reach::same>(v, pixels, live, places, taps, p.ci_g, w, acc);
        } else if (v.reach == Reach::own) {
          add_taps_here<Reach::own>(v, pixels, live, places, taps, 1, w, acc);
        } else if (v.reach == Reach::one) {
          add_taps<Reach::one>(v, pixels, live, places, taps, p.ci_g, w, acc);
        } else if (v.reach == Reach::two) {
          add_taps<Reach::two>(v, pixels, live, places, taps, p.ci_g, w, acc);
        } else {
          add_taps<Reach::far>(v, pixels, live, places, taps, p.ci_g, w, acc);
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

}  // namespace PEN_ISA

PEN_KERNEL(conv2d, f32, grouped) { PEN_ISA::conv_grouped(r); }
PEN_KERNEL(conv3d, f32, grouped) { PEN_ISA::conv_grouped(r); }
PEN_KERNEL(conv_transpose2d, f32, grouped) { PEN_ISA::conv_grouped(r); }
PEN_KERNEL(conv_transpose3d, f32, grouped) { PEN_ISA::conv_grouped(r); }

}  // namespace pen
