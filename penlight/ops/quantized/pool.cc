// Pooling of quantized tensors, on the integers; the scale and the zero point stay. Averages of u8 are qnnpack's: a window's sum times
// 1 / its size, whatever lies in the padding counted as zeros.
#include "penlight/ops/conv/windows.h"
#include "penlight/ops/quantized/quantized.h"

namespace pen {

namespace {
// A map of up to three sides as [N][C][depth][height][width], by strides; sides that are not there have size 1.
struct Map {
  int64_t n, channels, size[3], n_step, channel_step, step[3];
};
}  // namespace
static Map map_of(const TensorObject& t, int sides) {
  Map m = {1, 1, {1, 1, 1}, 0, 0, {0, 0, 0}};
  int first = t.rank() - sides - 1;
  if (first == 1) m.n = t.dim(0), m.n_step = t.shape.strides[0];
  m.channels = t.dim(first), m.channel_step = t.shape.strides[first];
  for (int d = 0; d < sides; ++d) m.size[3 - sides + d] = t.dim(first + 1 + d), m.step[3 - sides + d] = t.shape.strides[first + 1 + d];
  return m;
}
namespace {
struct Window {
  int64_t kernel[3], stride[3], pad[3], dilation[3], out[3];
};
}  // namespace
// An int[] with a number for each side, or one for all; none: `otherwise`.
static Status side_numbers(const Call& c, int i, int sides, const int64_t* otherwise, int64_t* to) {
  int64_t given[3];
  int count = i < 0 ? 0 : c.ints(i, given, 3);
  if (count != 0 && count != 1 && count != sides) return c.fail("a number for each side", "%d of them", count);
  for (int d = 0; d < 3; ++d) {
    int side = d - (3 - sides);
    to[d] = side < 0 || count == 0 ? otherwise[d] : given[count == 1 ? 0 : side];
    if (to[d] < 0 || to[d] >= int64_t{1} << 31) return c.fail("numbers of 0 or more", "%lld", static_cast<long long>(to[d]));
  }
  return PEN_OK;
}
static Status pooled_dims(const Call& c, const TensorObject& x, const Map& m, int sides, bool ceil_mode, Window* w, int64_t* dims) {
  for (int d = 0; d < 3; ++d) {
    if (w->kernel[d] < 1 || w->stride[d] < 1 || w->dilation[d] < 1 || w->pad[d] > w->kernel[d] / 2)
      return c.fail("a kernel, stride and dilation above 0 and padding of half the kernel at most", "others on side %d", d);
    if (m.size[d] > int64_t{1} << 40) return c.out_of_memory();
    w->out[d] = window_count({m.size[d], w->kernel[d], w->stride[d], w->dilation[d], w->pad[d], w->pad[d]}, ceil_mode);
    if (w->out[d] < 1) return c.fail("an input as large as the kernel", "%lld on side %d", static_cast<long long>(m.size[d]), d);
  }
  for (int d = 0; d < x.rank(); ++d) dims[d] = x.dim(d);
  for (int d = 0; d < sides; ++d) dims[x.rank() - sides + d] = w->out[3 - sides + d];
  return PEN_OK;
}
static Status check_map(const Call& c, const TensorObject& x, int sides) {
  if (x.rank() == sides + 1 || x.rank() == sides + 2) return PEN_OK;
  return c.fail("a map, with or without a batch", "rank %d", x.rank());
}

// ---- the largest ----
template <class T, bool Dense>
static void max_window(const T* x, const Map& m, const int64_t* begin, const Window& w, T* to, int64_t to_step) {
  bool first = true;
  int64_t step = Dense ? 1 : m.channel_step;
  for (int64_t z = 0; z < w.kernel[0]; ++z)
    for (int64_t y = 0; y < w.kernel[1]; ++y)
      for (int64_t k = 0; k < w.kernel[2]; ++k) {
        int64_t iz = begin[0] + z * w.dilation[0], iy = begin[1] + y * w.dilation[1], ix = begin[2] + k * w.dilation[2];
        if (iz < 0 || iz >= m.size[0] || iy < 0 || iy >= m.size[1] || ix < 0 || ix >= m.size[2]) continue;
        const T* from = x + iz * m.step[0] + iy * m.step[1] + ix * m.step[2];
        if (Dense && first)
          memcpy(to, from, static_cast<size_t>(m.channels) * sizeof(T));
        else if (Dense)
          for (int64_t i = 0; i < m.channels; ++i) to[i] = from[i] > to[i] ? from[i] : to[i];
        else
          for (int64_t i = 0; i < m.channels; ++i)
            if (first || from[i * step] > to[i * to_step]) to[i * to_step] = from[i * step];
        first = false;
      }
}
template <class T>
static void max_pool(const Call& c, const TensorObject& x, const TensorObject& y, int sides, const Window& w) {
  Map from = map_of(x, sides), to = map_of(y, sides);
  int64_t places = w.out[0] * w.out[1] * w.out[2];
  in_parts(c, from.n * places, 1 + 4096 / (from.channels + 1), [&](int64_t first, int64_t end) {
    for (int64_t p = first; p < end; ++p) {
      int64_t n = p / places, ow = p % w.out[2], oh = p / w.out[2] % w.out[1], od = p / w.out[2] / w.out[1] % w.out[0];
      int64_t begin[3] = {od * w.stride[0] - w.pad[0], oh * w.stride[1] - w.pad[1], ow * w.stride[2] - w.pad[2]};
      const T* image = x.as<T>() + n * from.n_step;
      T* out = y.as<T>() + n * to.n_step + od * to.step[0] + oh * to.step[1] + ow * to.step[2];
      if (from.channel_step == 1 && to.channel_step == 1)
        max_window<T, true>(image, from, begin, w, out, 1);
      else
        max_window<T, false>(image, from, begin, w, out, to.channel_step);
    }
  });
}
static Status max_pooled(Call& c, int sides) {
  const TensorObject& x = c.tensor(0);
  Affine a;
  PEN_TRY(affine_of(c, x, &a));
  PEN_TRY(check_map(c, x, sides));
  const int64_t ones[3] = {1, 1, 1}, none[3] = {0, 0, 0};
  Window w;
  PEN_TRY(side_numbers(c, 1, sides, ones, w.kernel));
  PEN_TRY(side_numbers(c, 2, sides, w.kernel, w.stride));
  PEN_TRY(side_numbers(c, 3, sides, none, w.pad));
  PEN_TRY(side_numbers(c, 4, sides, ones, w.dilation));
  int64_t dims[kMaxRank];
  PEN_TRY(pooled_dims(c, x, map_of(x, sides), sides, c.flag(5), &w, dims));
  Value made = Value::own(quantized_create(x.dtype(), x.rank(), dims, order_of(x), a.scale, a.zero));
  if (made.is_none()) return c.out_of_memory();
  const TensorObject& y = *made.tensor();
  // a window of dilated taps may see padding only
  memset(y.data(), 0, static_cast<size_t>(y.numel() * dtype_size(y.dtype())));
  x.dtype() == DType::u8   ? max_pool<uint8_t>(c, x, y, sides, w)
  : x.dtype() == DType::i8 ? max_pool<int8_t>(c, x, y, sides, w)
                           : max_pool<int32_t>(c, x, y, sides, w);
  return c.give(static_cast<Value&&>(made));
}
PEN_OP(quantized_max_pool2d, "[quantized]",
       "quantized::max_pool2d(Tensor qx, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode) -> Tensor",
       "[out]aten::quantized_max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool "
       "ceil_mode=False) -> Tensor") {
  return max_pooled(c, 2);
}
PEN_OP(quantized_max_pool1d, "[quantized]",
       "quantized::max_pool1d(Tensor qx, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode) -> Tensor",
       "[out]aten::quantized_max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool "
       "ceil_mode=False) -> Tensor") {
  return max_pooled(c, 1);
}
PEN_OP(quantized_max_pool3d, "[quantized][out]",
       "aten::quantized_max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool "
       "ceil_mode=False) -> Tensor") {
  return max_pooled(c, 3);
}

// ---- averages ----
// f(sum of the integers in a window, how many they are, how many with padding) gives the result's integer.
template <class F>
static void average(const Call& c, const TensorObject& x, const TensorObject& y, int sides, const int64_t* out,
                    void (*window)(const void* context, int side, int64_t o, int64_t* begin, int64_t* end, int64_t* padded),
                    const void* context, const F& f) {
  Map from = map_of(x, sides), to = map_of(y, sides);
  int64_t places = out[0] * out[1] * out[2];
  in_parts(c, from.n * places, 1 + 1024 / (from.channels + 1), [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      int64_t n = p / places, o[3] = {p / out[2] / out[1] % out[0], p / out[2] % out[1], p % out[2]};
      int64_t begin[3], end[3], size = 1, with_padding = 1;
      for (int d = 0; d < 3; ++d) {
        int64_t padded;
        window(context, d, o[d], &begin[d], &end[d], &padded);
        size *= end[d] - begin[d], with_padding *= padded;
      }
      for (int64_t ch = 0; ch < from.channels; ++ch) {
        int64_t base = n * from.n_step + ch * from.channel_step, sum = 0;
        for (int64_t z = begin[0]; z < end[0]; ++z)
          for (int64_t h = begin[1]; h < end[1]; ++h)
            for (int64_t w = begin[2]; w < end[2]; ++w) sum += stored(x, base + z * from.step[0] + h * from.step[1] + w * from.step[2]);
        int64_t at = n * to.n_step + ch * to.channel_step + o[0] * to.step[0] + o[1] * to.step[1] + o[2] * to.step[2];
        store(y, at, f(sum, size, with_padding));
      }
    }
  });
}
namespace {
struct FixedWindow {
  Window w;
  Map m;
};
}  // namespace
static void fixed_window(const void* context, int side, int64_t o, int64_t* begin, int64_t* end, int64_t* padded) {
  const FixedWindow& f = *static_cast<const FixedWindow*>(context);
  int64_t first = o * f.w.stride[side] - f.w.pad[side], last = first + f.w.kernel[side], limit_at = f.m.size[side] + f.w.pad[side];
  if (last > limit_at) last = limit_at;
  *padded = last - first;
  *begin = first < 0 ? 0 : first;
  *end = last > f.m.size[side] ? f.m.size[side] : last;
  if (*end < *begin) *end = *begin;
}
static Status avg_pool(Call& c, int sides) {
  const TensorObject& x = c.tensor(0);
  Affine a;
  PEN_TRY(affine_of(c, x, &a));
  PEN_TRY(check_map(c, x, sides));
  const int64_t ones[3] = {1, 1, 1}, none[3] = {0, 0, 0};
  FixedWindow f;
  PEN_TRY(side_numbers(c, 1, sides, ones, f.w.kernel));
  PEN_TRY(side_numbers(c, 2, sides, f.w.kernel, f.w.stride));
  PEN_TRY(side_numbers(c, 3, sides, none, f.w.pad));
  PEN_TRY(side_numbers(c, -1, sides, ones, f.w.dilation));
  bool ceil_mode = c.flag(4), count_padding = c.flag(5), fixed = c.given(6);
  if (fixed && c.integer(6) == 0) return c.fail("a divisor that is not 0", "0");
  int64_t dims[kMaxRank], divisor = fixed ? c.integer(6) : 0;
  f.m = map_of(x, sides);
  PEN_TRY(pooled_dims(c, x, f.m, sides, ceil_mode, &f.w, dims));
  Value made = Value::own(quantized_create(x.dtype(), x.rank(), dims, order_of(x), a.scale, a.zero));
  if (made.is_none()) return c.out_of_memory();
  Levels l = levels_of(x.dtype());
  bool qnnpack = sides == 2 && x.dtype() == DType::u8 && !ceil_mode && x.rank() == 4;
  float whole = static_cast<float>(a.scale) / (static_cast<float>(a.scale) * static_cast<float>(f.w.kernel[1] * f.w.kernel[2]));
  average(c, x, *made.tensor(), sides, f.w.out, fixed_window, &f, [=](int64_t sum, int64_t size, int64_t padded) {
    float centred = static_cast<float>(sum - size * a.zero);
    if (qnnpack) return limit(nearest(centred * whole) + a.zero, l);
    int64_t parts = fixed ? divisor : count_padding ? padded : size;
    float multiplier = static_cast<float>(1.0 / static_cast<double>(parts ? parts : 1));
    return limit(nearest_wide(centred * multiplier + static_cast<float>(a.zero)), l);
  });
  return c.give(static_cast<Value&&>(made));
}
PEN_QUANTIZED(avg_pool2d, "aten::avg_pool2d") { return avg_pool(c, 2); }
PEN_QUANTIZED(avg_pool3d, "aten::avg_pool3d") { return avg_pool(c, 3); }
PEN_QUANTIZED(max_pool1d, "aten::max_pool1d") { return max_pooled(c, 1); }
PEN_QUANTIZED(max_pool2d, "aten::max_pool2d") { return max_pooled(c, 2); }
PEN_QUANTIZED(max_pool3d, "aten::max_pool3d") { return max_pooled(c, 3); }

namespace {
struct AdaptiveWindow {
  int64_t in[3], out[3];
};
}  // namespace
static void adaptive_window(const void* context, int side, int64_t o, int64_t* begin, int64_t* end, int64_t* padded) {
  const AdaptiveWindow& w = *static_cast<const AdaptiveWindow*>(context);
  *begin = o * w.in[side] / w.out[side];
  *end = ((o + 1) * w.in[side] + w.out[side] - 1) / w.out[side];
  *padded = *end - *begin;
}
static Status adaptive_avg_pool(Call& c, int sides) {
  const TensorObject& x = c.tensor(0);
  Affine a;
  PEN_TRY(affine_of(c, x, &a));
  PEN_TRY(check_map(c, x, sides));
  AdaptiveWindow w;
  Map m = map_of(x, sides);
  const int64_t ones[3] = {1, 1, 1};
  PEN_TRY(side_numbers(c, 1, sides, ones, w.out));
  int64_t dims[kMaxRank];
  bool even = true, equal = true;
  for (int d = 0; d < x.rank(); ++d) dims[d] = x.dim(d);
  for (int d = 0; d < 3; ++d) {
    w.in[d] = m.size[d];
    if (w.in[d] < 1 || w.in[d] >= int64_t{1} << 31) return c.fail("sides that are not empty", "%lld", static_cast<long long>(w.in[d]));
    even &= w.out[d] > 0 && w.in[d] % w.out[d] == 0;
    equal &= w.out[d] == w.in[d];
    if (d >= 3 - sides) dims[x.rank() - 3 + d] = w.out[d];
  }
  Value made = Value::own(quantized_create(x.dtype(), x.rank(), dims, order_of(x), a.scale, a.zero));
  if (made.is_none()) return c.out_of_memory();
  if (made.tensor()->numel() == 0) return c.give(static_cast<Value&&>(made));
  Levels l = levels_of(x.dtype());
  bool qnnpack = sides == 2 && x.dtype() == DType::u8 && even && !equal;
  float whole = static_cast<float>(a.scale) / (static_cast<float>(a.scale) * static_cast<float>(w.in[1] / w.out[1] * (w.in[2] / w.out[2])));
  average(c, x, *made.tensor(), sides, w.out, adaptive_window, &w, [=](int64_t sum, int64_t size, int64_t) {
    if (qnnpack && even) return limit(nearest(static_cast<float>(sum - size * a.zero) * whole) + a.zero, l);
    return limit(nearest_wide(static_cast<float>(sum) * (1.0f / static_cast<float>(size))), l);
  });
  return c.give(static_cast<Value&&>(made));
}

PEN_QUANTIZED(adaptive_avg_pool2d, "aten::adaptive_avg_pool2d", "aten::_adaptive_avg_pool2d") { return adaptive_avg_pool(c, 2); }
PEN_QUANTIZED(adaptive_avg_pool3d, "aten::adaptive_avg_pool3d", "aten::_adaptive_avg_pool3d") { return adaptive_avg_pool(c, 3); }

// The mean over some dims: of the integers, exact, then rounded.
static Status mean(Call& c, int dims_at) {
  const TensorObject& x = c.tensor(0);
  Affine a;
  PEN_TRY(affine_of(c, x, &a));
  DType dtype;
  PEN_TRY(quantized_dtype(c, dims_at < 0 ? 1 : dims_at + 2, x.dtype(), &dtype));
  if (dtype != x.dtype()) return c.fail("the input's dtype", "%s", dtype_name(dtype));
  int64_t over[kMaxRank];
  int count = dims_at >= 0 && c.given(dims_at) ? c.ints(dims_at, over, kMaxRank) : 0;
  if (count > kMaxRank) return c.fail("at most 8 dims", "%d", count);
  bool reduced[kMaxRank] = {};
  for (int i = 0; i < count; ++i) {
    int d;
    PEN_TRY(c.dim(over[i], x.rank(), &d));
    if (reduced[d]) return c.fail("each dim once", "dim %d twice", d);
    reduced[d] = true;
  }
  bool keep = dims_at >= 0 && c.flag(dims_at + 1);
  int rank = 0;
  int64_t dims[kMaxRank], outer = 1, inner = 1, outer_dims[kMaxRank], inner_dims[kMaxRank], outer_steps[kMaxRank], inner_steps[kMaxRank];
  int outer_rank = 0, inner_rank = 0;
  for (int d = 0; d < x.rank(); ++d) {
    bool gone = count == 0 || reduced[d];
    if (!gone || keep) dims[rank++] = gone ? 1 : x.dim(d);
    if (gone)
      inner_dims[inner_rank] = x.dim(d), inner_steps[inner_rank++] = x.shape.strides[d], inner *= x.dim(d);
    else
      outer_dims[outer_rank] = x.dim(d), outer_steps[outer_rank++] = x.shape.strides[d], outer *= x.dim(d);
  }
  Value made = Value::own(quantized_create(x.dtype(), rank, dims, Order::rows, a.scale, a.zero));
  if (made.is_none()) return c.out_of_memory();
  auto place = [](int64_t i, int r, const int64_t* sizes, const int64_t* steps) {
    int64_t at = 0;
    for (int d = r - 1; d >= 0; --d) at += i % sizes[d] * steps[d], i /= sizes[d];
    return at;
  };
  if (inner == 0) return c.fail("elements to take the mean of", "none");
  Levels l = levels_of(x.dtype());
  float share = static_cast<float>(a.scale) / (static_cast<float>(a.scale) * static_cast<float>(inner));
  in_parts(c, outer, 1 + 4096 / inner, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      int64_t base = place(o, outer_rank, outer_dims, outer_steps), sum = 0;
      for (int64_t i = 0; i < inner; ++i) sum += stored(x, base + place(i, inner_rank, inner_dims, inner_steps));
      store(*made.tensor(), o, limit(nearest_wide(static_cast<float>(sum - inner * a.zero) * share) + a.zero, l));
    }
  });
  return c.give(static_cast<Value&&>(made));
}

PEN_QUANTIZED(mean_dim, "aten::mean.dim") { return mean(c, 1); }
PEN_QUANTIZED(mean, "aten::mean") { return mean(c, -1); }

}  // namespace pen
