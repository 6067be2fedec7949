// resize: f32 and f64 (quantized bytes: resize_q8.cc), separable, nhwc or plain (places.h). An output row is a mix of input rows, made in
// scratch along memory; then each output pixel is a mix of neighbouring pixels of that. Which ones, and their weights, are computed at
// bind. One task is a range of rows. A side that keeps its size costs nothing.
#include "penlight/ops/resize/places.h"
#include "penlight/ops/resize/resize_q8.h"
#include "penlight/runtime/exec/q8.h"
#include "penlight/runtime/simd/simd.h"

namespace pen {

// One output position along a side: `count` input positions from `start` on.
struct Window {
  int32_t start, count;
};

struct ResizeParams {
  Planes x, y;
  int64_t in_width, height, width, rows, tasks;
  int64_t taps[2];  // of H and W: weights kept for each position
  bool same_width;
  // after this: windows of H, windows of W, weights of H, weights of W
  PEN_INLINE Window* windows(int side) { return reinterpret_cast<Window*>(this + 1) + (side ? height : 0); }
  PEN_INLINE const Window* windows(int side) const { return const_cast<ResizeParams*>(this)->windows(side); }
  template <class T>
  PEN_INLINE T* weights(int side) {
    return reinterpret_cast<T*>(windows(0) + height + width) + (side ? height * taps[0] : 0);
  }
  template <class T>
  PEN_INLINE const T* weights(int side) const {
    return const_cast<ResizeParams*>(this)->weights<T>(side);
  }
};

// The cubic kernel, below distance 1 and from 1 to 2; a: -0.75, or -0.5 where it smooths.
template <class T>
static T cubic_near(T x, T a) {
  return ((a + 2) * x - (a + 3)) * x * x + 1;
}
template <class T>
static T cubic_far(T x, T a) {
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

// How a side is resized: the attributes, and input pixels per output pixel.
template <class T>
struct SideRule {
  int64_t in, out;
  bool cubic, align, antialias;
  T step;
};

template <class T>
static SideRule<T> side_rule(const Given& g, int64_t in, int64_t out, double factor) {
  SideRule<T> s = {in, out, strcmp(g.text("mode"), "cubic") == 0, g.flag("align_corners"), g.flag("antialias"), 0};
  s.step = s.align ? (out > 1 ? static_cast<T>(in - 1) / static_cast<T>(out - 1) : 0) : resize_step<T>(in, out, factor);
  return s;
}

// Half a window's width where a smaller image takes all input pixels into account.
template <class T>
static T smooth_reach(const SideRule<T>& s) {
  T half = s.cubic ? T(2) : T(1);
  return s.step >= 1 ? half * s.step : half;
}

template <class T>
static int64_t side_taps(const SideRule<T>& s) {
  if (!s.antialias) return s.cubic ? 4 : 2;
  T reach = smooth_reach(s);
  int64_t most = reach < static_cast<T>(s.in) ? static_cast<int64_t>(ceil(static_cast<double>(reach))) * 2 + 1 : s.in;
  return most < s.in ? most : s.in;
}

template <class T>
static Window smooth_window(const SideRule<T>& s, int64_t i, int64_t taps, T* w) {
  T reach = smooth_reach(s), center = s.step * (static_cast<T>(i) + T(0.5)), inverse = s.step >= 1 ? T(1) / s.step : T(1);
  T low = center - reach + T(0.5), high = center + reach + T(0.5), limit = static_cast<T>(s.in);
  int64_t begin = low > 0 ? (low < limit ? static_cast<int64_t>(low) : s.in) : 0;
  int64_t end = high < limit ? static_cast<int64_t>(high) : s.in;
  int64_t count = end - begin < taps ? end - begin : taps;
  T total = 0;
  for (int64_t j = 0; j < count; ++j) {
    T x = (static_cast<T>(j + begin) - center + T(0.5)) * inverse;
    x = x < 0 ? -x : x;
    w[j] = s.cubic ? (x < 1 ? cubic_near(x, -T(0.5)) : x < 2 ? cubic_far(x, -T(0.5)) : T(0)) : (x < 1 ? 1 - x : T(0));
    total += w[j];
  }
  for (int64_t j = 0; j < count && total != 0; ++j) w[j] /= total;
  if (count > 0) return {static_cast<int32_t>(begin), static_cast<int32_t>(count)};
  w[0] = 0;  // a window beside the image: torch adds nothing up
  return {0, 1};
}

template <class T>
static Window plain_window(const SideRule<T>& s, int64_t i, T* w) {
  T at = s.align ? s.step * static_cast<T>(i) : s.step * (static_cast<T>(i) + T(0.5)) - T(0.5);
  if (!s.cubic && at < 0) at = 0;
  T whole = static_cast<T>(floor(static_cast<double>(at)));
  int64_t near = whole < static_cast<T>(s.in) ? static_cast<int64_t>(whole) : s.in - 1;  // a tiny factor: at may be infinite
  if (near > s.in - 1) near = s.in - 1;
  T rest = at - static_cast<T>(near);
  rest = rest > 1 ? 1 : rest < 0 ? 0 : rest;
  if (!s.cubic) {
    w[0] = T(1) - rest;
    w[1] = rest;
    if (near < s.in - 1) return {static_cast<int32_t>(near), 2};
    w[0] = 1;
    return {static_cast<int32_t>(near), 1};
  }
  T k[4] = {cubic_far(rest + 1, -T(0.75)), cubic_near(rest, -T(0.75)), cubic_near(1 - rest, -T(0.75)), cubic_far(2 - rest, -T(0.75))};
  int64_t begin = near > 0 ? near - 1 : 0, last = near + 2 < s.in ? near + 2 : s.in - 1;
  for (int j = 0; j < 4; ++j) w[j] = 0;
  for (int64_t j = 0; j < 4; ++j) {  // beyond the edge, the edge
    int64_t from = near + j - 1;
    w[(from < 0 ? 0 : from > s.in - 1 ? s.in - 1 : from) - begin] += k[j];
  }
  return {static_cast<int32_t>(begin), static_cast<int32_t>(last - begin + 1)};
}

template <class T>
static void side_windows(const SideRule<T>& s, int64_t taps, Window* windows, T* weights) {
  for (int64_t i = 0; i < s.out; ++i) {
    T* w = weights + i * taps;
    if (s.in == s.out && !s.cubic && !s.antialias) {  // torch does not mix along a side that keeps its size, whatever factor was given
      windows[i] = {static_cast<int32_t>(i), 1};
      w[0] = 1;
    } else {
      windows[i] = s.antialias ? smooth_window(s, i, taps, w) : plain_window(s, i, w);
    }
  }
}

PEN_SHAPE(resize) {
  DType dtype = s.in(0).dtype;
  if (dtype == DType::u8) {
    PEN_TRY(need_q8_output(s));
    if (strcmp(s.text("mode"), "linear") != 0 || s.flag("antialias"))
      return s.fail(-1, "mode linear without antialias for quantized bytes", "\"%s\"", s.text("mode"));
  } else if (dtype != DType::f64 && dtype != DType::f32) {
    return s.fail(0, "an f32 or f64 tensor", "dtype code %d", static_cast<int>(dtype));
  }
  if (strcmp(s.text("mode"), "linear") != 0 && strcmp(s.text("mode"), "cubic") != 0)
    return s.fail(-1, "mode linear or cubic", "\"%s\"", s.text("mode"));
  return resize_shapes(s);
}

template <class T>
static PEN_SMALL Status bind_resize(Bind& b) {
  double factors[2];
  PEN_TRY(resize_maps(b, factors));
  const Tensor &x = b.in(0), &y = b.out(0);
  if (y.dims[0] == 0 || y.dims[1] == 0) return PEN_OK;
  SideRule<T> sides[2] = {side_rule<T>(b, x.dims[2], y.dims[2], factors[0]), side_rule<T>(b, x.dims[3], y.dims[3], factors[1])};
  int64_t taps[2] = {side_taps(sides[0]), side_taps(sides[1])}, numbers[2];
  if (__builtin_mul_overflow(taps[0], y.dims[2], &numbers[0]) || __builtin_mul_overflow(taps[1], y.dims[3], &numbers[1]) ||
      numbers[0] > (int64_t{1} << 40) || numbers[1] > (int64_t{1} << 40))
    return b.fail(-1, "sides whose weights fit into memory", "%lld and %lld taps", static_cast<long long>(taps[0]),
                  static_cast<long long>(taps[1]));
  size_t bytes = sizeof(ResizeParams) + static_cast<size_t>(y.dims[2] + y.dims[3]) * sizeof(Window) +
                 static_cast<size_t>(numbers[0] + numbers[1]) * sizeof(T);
  auto* p = static_cast<ResizeParams*>(b.params_bytes(bytes));
  if (!p) return PEN_ERROR_MEMORY;
  bool nhwc = b.out_is_nhwc(0);
  p->x = planes_of(x, nhwc);
  p->y = planes_of(y, nhwc);
  p->in_width = x.dims[3];
  p->height = y.dims[2];
  p->width = y.dims[3];
  p->rows = y.dims[0] * p->y.channels * p->height;
  p->tasks = task_count(p->rows, 16384 / (p->y.inner * p->width) + 1);
  p->same_width = x.dims[3] == y.dims[3];
  for (int i = 0; i < 2; ++i) {
    p->taps[i] = taps[i];
    side_windows(sides[i], taps[i], p->windows(i), p->weights<T>(i));
  }
  for (int64_t i = 0; i < p->width && p->same_width; ++i) {
    const Window& w = p->windows(1)[i];
    p->same_width = w.count == 1 && w.start == i && p->weights<T>(1)[i * taps[1]] == 1;
  }
  PEN_TRY(b.scratch((p->in_width * p->x.inner + 64) * static_cast<int64_t>(sizeof(T))));  // 64: pixels are read by whole vectors
  b.tasks(p->tasks);
  return PEN_OK;
}

static PEN_SMALL Status bind_bytes(Bind& b) {
  const Quant* quant = b.declared_quant(0);
  double factors[2];
  PEN_TRY(resize_maps(b, factors));
  const Tensor &x = b.in(0), &y = b.out(0);
  if (y.dims[0] == 0 || y.dims[1] == 0) return PEN_OK;
  size_t places = static_cast<size_t>(y.dims[2] + y.dims[3]);
  auto* p = static_cast<ResizeBytes*>(b.params_bytes(sizeof(ResizeBytes) + places * sizeof(Neighbours)));
  if (!p) return PEN_ERROR_MEMORY;
  p->x = planes_of(x, b.out_is_nhwc(0));
  p->y = planes_of(y, b.out_is_nhwc(0));
  p->height = y.dims[2];
  p->width = y.dims[3];
  p->rows = y.dims[0] * p->y.channels * p->height;
  p->tasks = task_count(p->rows, 16384 / (p->y.inner * p->width) + 1);
  p->same = same_quant(*x.quant, *quant);
  p->zero = static_cast<float>(x.quant->zero);
  p->ratio = static_cast<float>(x.quant->scale) / static_cast<float>(quant->scale);
  p->after = p->same ? 0 : static_cast<int32_t>(quant->zero);
  const bool align = b.flag("align_corners");
  for (int side = 0; side < 2; ++side) {
    int64_t in = x.dims[2 + side], out = y.dims[2 + side], step = side ? p->x.pitch : p->x.row_step;
    float ratio = !align    ? resize_step<float>(in, out, factors[side])
                  : out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                            : 0;
    for (int64_t i = 0; i < out; ++i)
      p->places(side)[i] = neighbours(in, i, ratio, align, step, x.dims[2] == y.dims[2] && x.dims[3] == y.dims[3]);
  }
  b.tasks(p->tasks);
  return PEN_OK;
}

PEN_BIND(resize) {
  DType dtype = b.in(0).dtype;
  return dtype == DType::u8 ? bind_bytes(b) : dtype == DType::f64 ? bind_resize<double>(b) : bind_resize<float>(b);
}

namespace PEN_ISA {

template <int kTaps, bool kPartial>
static PEN_INLINE V mixed(const float* from, int64_t step, int64_t taps, const float* w, int64_t lanes) {
  V sum = (kPartial ? load_partial(from, lanes) : load(from)) * set1(w[0]);
  int64_t count = kTaps ? kTaps : taps;
  for (int64_t t = 1; t < count; ++t) sum = fma(kPartial ? load_partial(from + t * step, lanes) : load(from + t * step), set1(w[t]), sum);
  return sum;
}

// to[i] = sum of w[t] * from[i + t * step], i < n.
template <int kTaps>
static PEN_INLINE void mix_taps(const float* from, int64_t step, int64_t taps, const float* w, float* to, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(to + i, mixed<kTaps, false>(from + i, step, taps, w, kLanes));
  if (i < n) store_partial(to + i, mixed<kTaps, true>(from + i, step, taps, w, n - i), n - i);
}
static PEN_INLINE void mix(const float* from, int64_t step, int64_t taps, const float* w, float* to, int64_t n) {
  if (taps == 1 && w[0] == 1) {
    memcpy(to, from, static_cast<size_t>(n) * 4);
  } else if (taps == 2) {
    mix_taps<2>(from, step, taps, w, to, n);
  } else if (taps == 4) {
    mix_taps<4>(from, step, taps, w, to, n);
  } else {
    mix_taps<0>(from, step, taps, w, to, n);
  }
}

static PEN_INLINE void mix(const double* from, int64_t step, int64_t taps, const double* w, double* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    double sum = from[i] * w[0];
    for (int64_t t = 1; t < taps; ++t) sum += from[i + t * step] * w[t];
    to[i] = sum;
  }
}

// The row's pixels of one value each: every output is a short dot product.
template <class T>
static PEN_INLINE void mix_columns_single(const ResizeParams& p, const T* row, T* out) {
  const Window* windows = p.windows(1);
  const T* w = p.weights<T>(1);
  int64_t taps = p.taps[1];
  for (int64_t i = 0; i < p.width; ++i, w += taps) {
    const T* from = row + windows[i].start;
    if (windows[i].count == 2) {
      out[i] = from[0] * w[0] + from[1] * w[1];
    } else if (windows[i].count == 4) {
      out[i] = (from[0] * w[0] + from[1] * w[1]) + (from[2] * w[2] + from[3] * w[3]);
    } else {
      T sum = from[0] * w[0];
      for (int64_t t = 1; t < windows[i].count; ++t) sum += from[t] * w[t];
      out[i] = sum;
    }
  }
}

template <class T>
static PEN_INLINE void mix_columns(const ResizeParams& p, const T* row, T* out) {
  int64_t inner = p.y.inner, taps = p.taps[1];
  // Where pixels touch, a last vector may run over into the next pixel, which is written right after; not past the
  // end of the row.
  int64_t whole = (inner + kLanes - 1) / kLanes * kLanes;
  int64_t run_over = p.y.pitch == inner && p.width * inner >= whole ? (p.width * inner - whole) / inner + 1 : 0;
  for (int64_t i = 0; i < p.width; ++i, out += p.y.pitch) {
    const Window& at = p.windows(1)[i];
    const T *from = row + at.start * inner, *w = p.weights<T>(1) + i * taps;
    mix(from, inner, at.count, w, out, i < run_over && at.count > 1 ? whole : inner);
  }
}

template <class T>
static PEN_INLINE void resize_rows(const Run& r) {
  const ResizeParams& p = r.as<ResizeParams>();
  T* scratch = reinterpret_cast<T*>(r.scratch);
  int64_t inner = p.x.inner;
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.rows, p.tasks, task);
    for (int64_t i = range.begin; i < range.end; ++i) {
      int64_t outer = i / p.height, oh = i % p.height;
      const Window& at = p.windows(0)[oh];
      const T* from = r.in[0].as<T>() + plane_offset(p.x, outer) + at.start * p.x.row_step;
      const T* w = p.weights<T>(0) + oh * p.taps[0];
      T* out = r.out[0].as<T>() + plane_offset(p.y, outer) + oh * p.y.row_step;
      T* row = p.same_width ? out : scratch;
      int64_t pitch = p.same_width ? p.y.pitch : inner;
      if (p.x.pitch == inner && pitch == inner) {
        mix(from, p.x.row_step, at.count, w, row, p.in_width * inner);
      } else {
        for (int64_t k = 0; k < p.in_width; ++k) mix(from + k * p.x.pitch, p.x.row_step, at.count, w, row + k * pitch, inner);
      }
      if (p.same_width) continue;
      if (inner == 1 && p.y.pitch == 1) {
        mix_columns_single(p, row, out);
      } else {
        mix_columns(p, row, out);
      }
    }
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(resize, f32) { resize_rows<float>(r); }
PEN_KERNEL(resize, f64) { resize_rows<double>(r); }

}  // namespace pen
