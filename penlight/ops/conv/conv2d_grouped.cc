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

// kPixels neighbours in a phase's row. pixels[tap * kPixels + t]: the input pixel under that tap of output t; places[tap]:
// which of the weights' taps that is.
struct GroupedCall {
  const float* const* pixels;
  const uint8_t* live;
  const int32_t* places;
  int64_t taps, ci;
  const float *bias, *residual;  // null: none
  float* out;
  int64_t residual_pitch, y_pitch;
  int64_t count;  // outputs that exist
  const Activation* act;
};

// One vector of outputs from channel c on, of every pixel.
template <Reach kReach>
static __attribute__((noinline)) void run_vector(const GroupedCall& g, const GroupedVector& v, int64_t c, const float* weights) {
  V acc[kPixels];
  bool whole = v.lanes == kLanes;
  V start = !g.bias ? zero() : whole ? load(g.bias + c) : load_partial(g.bias + c, v.lanes);
  PEN_UNROLL for (int t = 0; t < kPixels; ++t) acc[t] = start;
  I first = load_ints(v.index);
  const float* const* pixels = g.pixels;
  for (int64_t tap = 0; tap < g.taps; ++tap, pixels += kPixels) {
    if (!g.live[tap]) continue;
    const float* w = weights + g.places[tap] * g.ci * 16;
    for (int64_t i = 0; i < g.ci; ++i, w += 16) {
      V column = load(w);
      I index = first + set1i(static_cast<int32_t>(i));
      PEN_UNROLL for (int t = 0; t < kPixels; ++t) acc[t] = fma(lane_inputs<kReach>(v, pixels[t], index, i), column, acc[t]);
    }
  }
  V lo = set1(g.act->lo), hi = set1(g.act->hi);
  PEN_UNROLL for (int t = 0; t < kPixels; ++t) {
    if (t >= g.count) break;
    V sum = acc[t];
    if (g.residual) {
      const float* more = g.residual + t * g.residual_pitch + c;
      sum = sum + (whole ? load(more) : load_partial(more, v.lanes));
    }
    if (g.act->clamped) sum = clamp(sum, lo, hi);
    float* to = g.out + t * g.y_pitch + c;
    whole ? store(to, sum) : store_partial(to, sum, v.lanes);
  }
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
      bool any = inside && ix >= 0 && ix + (kPixels - 1) * columns.step < w;
      if (any) {
        for (int t = 0; t < kPixels; ++t) to[t] = row + (ix + t * columns.step) * pitch;
        *live++ = true;
        continue;
      }
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

  Range lines = {part(p.pixel_units, p.pixel_tasks, r.begin).begin, part(p.pixel_units, p.pixel_tasks, r.end - 1).end};
  // In the order of output rows, so that the phases of a row write it one right after another.
  int64_t height = map_side(y, 0), depth = map_side(y, 2), number = -1, taps = 0;
  int64_t phases[3] = {phase_count(p, 0, height), phase_count(p, 1, map_side(y, 1)), phase_count(p, 2, depth)};
  Phase phase;
  Patience patience(r);
  for (int64_t line = lines.begin; line < lines.end; ++line) {
    int64_t row = line / phases[1], oy = row % height, oz = row / height % depth, n = row / height / depth;
    int64_t wanted = ((oz % phases[2]) * phases[0] + oy % phases[0]) * phases[1] + line % phases[1];
    if (wanted != number) {
      phase = place_phase(p, y, number = wanted);
      taps = place_taps(p, phase, places);
    }
    oy /= phase.side[0].apart;
    oz /= phase.side[2].apart;
    int64_t ow = phase.side[1].count;
    GroupedCall g = {};
    g.pixels = pixels;
    g.live = live;
    g.places = places;
    g.taps = taps;
    g.ci = p.ci_g;
    g.act = &p.act;
    g.bias = r.in[2].data ? r.in[2].as<float>() : nullptr;
    g.y_pitch = phase.side[1].apart * pixel_pitch(y);
    g.out = y.as<float>() + n * y.strides[0] + phase_pixel(phase, y, oz, oy, 0);
    if (residual.data) {
      g.residual_pitch = phase.side[1].apart * pixel_pitch(residual);
      g.residual = residual.as<float>() + n * residual.strides[0] + phase_pixel(phase, residual, oz, oy, 0);
    }
    const float* image = x.as<float>() + n * x.strides[0];
    for (int64_t ox = 0; ox < ow && !patience.ends(kPixels * all_taps * p.ci_g); ox += kPixels, g.out += kPixels * g.y_pitch) {
      g.count = ow - ox < kPixels ? ow - ox : kPixels;
      find_pixels(phase, x, image, oz, oy, ox, zeros, pixels, live);
      for (int64_t c = 0; c < outputs; c += kLanes) {
        const GroupedVector& v = vectors[c / kLanes];
        const float* w = r.in[1].as<float>() + c / 16 * all_taps * p.ci_g * 16 + c % 16;
        if (v.reach == Reach::same) {
          run_vector<Reach::same>(g, v, c, w);
        } else if (v.reach == Reach::own) {
          run_vector<Reach::own>(g, v, c, w);
        } else if (v.reach == Reach::one) {
          run_vector<Reach::one>(g, v, c, w);
        } else if (v.reach == Reach::two) {
          run_vector<Reach::two>(g, v, c, w);
        } else {
          run_vector<Reach::far>(g, v, c, w);
        }
      }
      if (p.act.row) {
        for (int64_t t = 0; t < g.count; ++t) apply_row(p.act, g.out + t * g.y_pitch, outputs);
      }
      if (g.residual) g.residual += kPixels * g.residual_pitch;
    }
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(conv2d, f32, grouped) { PEN_ISA::conv_grouped(r); }
PEN_KERNEL(conv3d, f32, grouped) { PEN_ISA::conv_grouped(r); }
PEN_KERNEL(conv_transpose2d, f32, grouped) { PEN_ISA::conv_grouped(r); }
PEN_KERNEL(conv_transpose3d, f32, grouped) { PEN_ISA::conv_grouped(r); }

}  // namespace pen
