// What quantize and dequantize share with their forms whose scale only a run tells: how elements are walked and converted. Output in the
// order of its memory, row by row; an input that lies otherwise (an image in planes, whose integers are to lie pixel by pixel) is read by
// plane and put in its places.
#pragma once
#include "penlight/runtime/base/dims.h"
#include "penlight/runtime/cpu/short_copy.h"
#include "penlight/runtime/exec/kernel.h"
#include "penlight/runtime/simd/bytes.h"
#include "penlight/runtime/simd/transpose.h"

namespace pen {

// real <-> integer, with one scale, or one for each place along a dim of a dense tensor (weights).
struct Convert : Loops<1> {
  float scale, inverse;
  int32_t zero, low, high;
  int64_t units, tasks;   // elements
  bool by_planes;         // rows of the input along dim 1 become rows of the output along dim 0: planes become pixels, or pixels planes
  int64_t inner;          // by channel: elements of a place
  const Quant* channels;  // null: one scale
  DType dtype;            // of the integers
};

constexpr int64_t kConvertGrain = 16384;
constexpr int64_t kPlanePixels = 64;  // that are quantized at a time, a plane after another,
constexpr int64_t kPlanes = 16;       // so many planes: squares of bytes are turned in registers

// Fills `p`, which lies in the node's params; output 0 is laid, its tasks are set.
[[maybe_unused]] static Status bind_convert(Bind& b, const Quant* quant, DType integers, Convert* p) {
  PEN_TRY(b.need_plain(0));
  if (quant->axis >= 0) PEN_TRY(b.need(0, Need::dense));
  PEN_TRY(b.output(0));
  if (quant->axis >= 0) PEN_TRY(b.need_out(0, Need::dense));
  p->dtype = integers;
  p->zero = static_cast<int32_t>(quant->zero);
  p->scale = static_cast<float>(quant->scale);
  p->inverse = 1.0f / p->scale;
  const Tensor& out = b.out(0);
  p->units = out.numel();
  if (p->units == 0) return PEN_OK;
  if (quant->axis >= 0) {
    p->channels = quant;
    p->inner = 1;
    for (int d = quant->axis + 1; d < out.rank; ++d) p->inner *= out.dims[d];
  }
  p->make(out, 1, [&](int) -> const Tensor& { return b.in(0); });
  // Tasks are cut between pixels; where there are many planes of few pixels, a task has vectors of them nevertheless. So few pixels that
  // a square is mostly empty are taken one by one.
  const int channel = out.dtype == DType::f32 ? 1 : 0;
  p->by_planes = p->rank > 1 && p->in[0][1] == 1 && p->dims[channel] > 1 && p->dims[1 - channel] >= kPlanes / 2;
  const int64_t planes = p->by_planes ? p->dims[channel] : 1, most = kConvertGrain / kPlanePixels;
  p->tasks = task_count(p->units / planes, kConvertGrain / (planes < most ? planes : most));
  b.tasks(p->tasks);
  return PEN_OK;
}

// Loops that the conversions share: a call costs little beside them, and a copy in each conversion bytes.
#define PEN_ONCE inline __attribute__((noinline))

namespace PEN_ISA {

// Integers with one scale, of which a byte is stored (of i8 too: what its bits say). Product and sum are rounded once, NaN is the largest.
struct Quantizer {
  V inverse, zero, low, high;
  explicit PEN_INLINE Quantizer(const Convert& p)
      : inverse(set1(p.inverse)),
        zero(set1(static_cast<float>(p.zero))),
        low(set1(static_cast<float>(p.low))),
        high(set1(static_cast<float>(p.high))) {}
  PEN_INLINE I operator()(V x) const { return round_to_int(max(min(fused(x, inverse, zero), high), low)) & set1i(255); }
  PEN_INLINE I operator()(const float* x) const { return (*this)(load(x)); }
};

// Two to four planes to pixels of as many bytes, as many as whole vectors have; gives how many. Each is stored as four bytes, lowest
// first, the last of which may be the next pixel's: so one pixel is always left.
static PEN_INLINE int64_t quantize_colours(const Convert& p, const float* x, uint8_t* to, int64_t n) {
  const Quantizer q(p);
  const int64_t planes = p.dims[0], plane = p.in[0][0];
  int64_t i = 0;
  for (; i + kLanes < n; i += kLanes) {
    int32_t pixels[kLanes];
    I bytes = q(x + i) | q(x + i + plane) << 8;
    if (PEN_LIKELY(planes > 2)) bytes = bytes | q(x + i + 2 * plane) << 16;
    if (planes > 3) bytes = bytes | q(x + i + 3 * plane) << 24;
    store_ints(pixels, bytes);
    for (int k = 0; k < kLanes; ++k) __builtin_memcpy(to + planes * (i + k), &pixels[k], 4);
  }
  return i;
}

// Rows of n bytes: their places, and how far it is from one to the next.
struct ConvertRows {
  int64_t rows, in, out;
};

static PEN_ONCE void quantize_rows(const Convert& p, const float* x, int64_t step, uint8_t* to, int64_t n, ConvertRows r) {
  const Quantizer q(p);
  const float low = static_cast<float>(p.low), high = static_cast<float>(p.high), zero = static_cast<float>(p.zero);
  for (; r.rows > 0; --r.rows, x += r.in, to += r.out) {
    int64_t i = 0;
    if (kHasFused && step == 1) {
      for (; i + kLanes <= n; i += kLanes) store_bytes(to + i, q(x + i));
      if (i < n) store_bytes_partial(to + i, q(load_partial(x + i, n - i)), n - i);
      continue;
    }
    for (; i < n; ++i) {
      float y = static_cast<float>(static_cast<double>(x[i * step]) * static_cast<double>(p.inverse) + static_cast<double>(zero));
      y = y < high ? y : high;
      y = y > low ? y : low;
      y += 12582912.0f;  // 1.5 * 2^23: from here on the last bit counts ones
      int32_t bits;
      __builtin_memcpy(&bits, &y, 4);
      to[i] = static_cast<uint8_t>(bits);
    }
  }
}
static PEN_INLINE void quantize_bytes(const Convert& p, const float* x, int64_t step, uint8_t* to, int64_t n) {
  quantize_rows(p, x, step, to, n, {1, 0, 0});
}

// Bytes from low on: i8 is u8 with another zero point, once its sign is flipped.
static PEN_ONCE void dequantize_rows(const Convert& p, const uint8_t* x, int64_t step, float* y, int64_t n, int32_t low, ConvertRows r) {
  const I flip = set1i(low & 255), zero = set1i(p.zero - low);
  const V scale = set1(p.scale);
  for (; r.rows > 0; --r.rows, x += r.in, y += r.out) {
    int64_t i = 0;
    if (step == 1)
      for (; i + kLanes <= n; i += kLanes) store(y + i, to_float((load_bytes_i(x + i) ^ flip) - zero) * scale);
    for (; i < n; ++i) y[i] = static_cast<float>(int64_t{x[i * step] ^ (low & 255)} + low - p.zero) * p.scale;
  }
}

// Elements [begin, end) in the order of the output's memory, as rows: f(row's place in the input, in the output, elements).
template <class F>
static PEN_INLINE void walk_rows(const Convert& p, int64_t begin, int64_t end, const F& f) {
  while (begin < end) {
    int64_t at = begin % p.dims[0], row = begin / p.dims[0], in = at * p.in[0][0], out = at;
    for (int d = 1; d < p.rank; ++d) {
      in += row % p.dims[d] * p.in[0][d];
      out += row % p.dims[d] * p.out[d];
      row /= p.dims[d];
    }
    int64_t count = p.dims[0] - at < end - begin ? p.dims[0] - at : end - begin;
    f(in, out, count);
    begin += count;
  }
}

typedef uint8_t PlaneBytes[kPlanePixels];  // of one plane

// A square of bytes, turned: kPlanes pixels.
static PEN_ONCE void turn(const uint8_t* in, int64_t in_stride, uint8_t* out, int64_t out_stride) {
  if constexpr (kLanes > 1) transpose_block(in, in_stride, out, out_stride);
}
// Of n <= kPlanes planes, `left` pixels lie on: whether kPlanes bytes may be touched for each of the next kPlanes of them. What is too
// much of a pixel is then of the next ones.
static PEN_INLINE bool fits(int64_t n, int64_t pitch, int64_t left) {
  return (n == kPlanes || n == pitch) && (kPlanes - left) * pitch + kPlanes <= n;
}
static PEN_ONCE void copy_pixels(const uint8_t* from, int64_t from_pitch, uint8_t* to, int64_t to_pitch, int64_t n, int64_t count) {
  for (int64_t i = 0; i < count && i < kPlanes; ++i)
    copy_short(reinterpret_cast<char*>(to + i * to_pitch), reinterpret_cast<const char*>(from + i * from_pitch), n);
}
// `count` pixels of n planes between buffers and their places, from where on `left` follow each other.
static PEN_INLINE void store_pixels(const PlaneBytes* bytes, uint8_t* to, int64_t pitch, int64_t n, int64_t count, int64_t left) {
  for (int64_t i = 0; i < count; i += kPlanes, to += kPlanes * pitch) {
    uint8_t square[kPlanes * kPlanes];
    const bool whole = fits(n, pitch, left - i);
    turn(bytes[0] + i, kPlanePixels, whole ? to : square, whole ? pitch : kPlanes);
    if (!whole) copy_pixels(square, kPlanes, to, pitch, n, count - i);
  }
}
static PEN_INLINE void load_pixels(PlaneBytes* bytes, const uint8_t* from, int64_t pitch, int64_t n, int64_t count, int64_t left) {
  for (int64_t i = 0; i < count; i += kPlanes, from += kPlanes * pitch) {
    uint8_t square[kPlanes * kPlanes];
    const bool whole = fits(n, pitch, left - i);
    if (!whole) copy_pixels(from, pitch, square, kPlanes, n, count - i);
    turn(whole ? from : square, whole ? pitch : kPlanes, bytes[0] + i, kPlanePixels);
  }
}

// Pixels [begin, end) of all, the dims of a pixel and of a row of them being given: f(its places in the input and in the output, how many
// follow each other) says how many it has done.
template <class F>
static PEN_INLINE void walk_pixels(const Convert& p, int pixel, int64_t begin, int64_t end, const F& f) {
  while (begin < end) {
    int64_t at = begin % p.dims[pixel], row = begin / p.dims[pixel], in = at * p.in[0][pixel], out = at * p.out[pixel];
    for (int d = 2; d < p.rank; ++d) {
      in += row % p.dims[d] * p.in[0][d];
      out += row % p.dims[d] * p.out[d];
      row /= p.dims[d];
    }
    begin += f(in, out, p.dims[pixel] - at < end - begin ? p.dims[pixel] - at : end - begin);
  }
}

// Planes to pixels: some pixels of some planes, then each to its place.
static PEN_INLINE void quantize_planes(const Convert& p, const float* x, uint8_t* y, int64_t begin, int64_t end) {
  PlaneBytes bytes[2 * kPlanes];
  const int64_t planes = p.dims[0], plane = p.in[0][0], pitch = p.out[1], width = planes < kPlanes ? planes : kPlanes;
  walk_pixels(p, 1, begin, end, [&](int64_t in, int64_t out, int64_t left) {
    if constexpr (kLanes == 1) {
      quantize_rows(p, x + in, plane, y + out, planes, {left, 1, pitch});
      return left;
    }
    if (kHasFused && planes <= 4 && pitch == planes && left > kLanes) return quantize_colours(p, x + in, y + out, left);
    const int64_t count = left < kPlanePixels ? left : kPlanePixels;
    for (int64_t c = 0; c < planes; c += kPlanes) {
      // The last planes are stored with those before them, which are still there
      const int64_t fresh = planes - c < kPlanes ? planes - c : kPlanes, again = c ? kPlanes - fresh : 0;
      PlaneBytes* rows = bytes + (again ? kPlanes : 0);
      quantize_rows(p, x + in + c * plane, 1, rows[0], count, {fresh, plane, kPlanePixels});
      store_pixels(rows - again, y + out + c - again, pitch, width, count, left);
    }
    return count;
  });
}

// And back.
static PEN_ONCE void dequantize_planes(const Convert& p, const uint8_t* x, float* y, int64_t begin, int64_t end, int32_t low) {
  PlaneBytes bytes[kPlanes];
  const int64_t planes = p.dims[1], plane = p.out[1], pitch = p.in[0][0], width = planes < kPlanes ? planes : kPlanes;
  walk_pixels(p, 0, begin, end, [&](int64_t in, int64_t out, int64_t left) {
    const int64_t count = left < kPlanePixels ? left : kPlanePixels;
    for (int64_t c = 0; c < planes; c += kPlanes) {
      const int64_t fresh = planes - c < kPlanes ? planes - c : kPlanes, again = c ? kPlanes - fresh : 0;
      load_pixels(bytes, x + in + c - again, pitch, width, count, left);
      dequantize_rows(p, bytes[again], 1, y + out + c * plane, count, low, {fresh, kPlanePixels, plane});
    }
    return count;
  });
}

// Elements (or, of planes, pixels) of the tasks [begin, end) to bytes.
static PEN_INLINE void quantize_tasks(const Convert& p, const float* x, uint8_t* y, int64_t begin, int64_t end) {
  if (p.by_planes) {
    int64_t pixels = p.units / p.dims[0];
    return quantize_planes(p, x, y, part(pixels, p.tasks, begin).begin, part(pixels, p.tasks, end - 1).end);
  }
  walk_rows(p, part(p.units, p.tasks, begin).begin, part(p.units, p.tasks, end - 1).end,
            [&](int64_t in, int64_t out, int64_t n) { quantize_bytes(p, x + in, p.in[0][0], y + out, n); });
}

template <class T>
static PEN_INLINE void dequantize_tasks(const Convert& p, const T* x, float* y, int64_t begin, int64_t end) {
  auto rows = [&](const auto& convert) { walk_rows(p, part(p.units, p.tasks, begin).begin, part(p.units, p.tasks, end - 1).end, convert); };
  const int64_t step = p.in[0][0];
  if constexpr (sizeof(T) == 1) {
    constexpr int32_t kLow = static_cast<T>(-1) < 0 ? -128 : 0;
    const uint8_t* from = reinterpret_cast<const uint8_t*>(x);
    if (kLanes > 1 && p.by_planes) {
      int64_t pixels = p.units / p.dims[1];
      return dequantize_planes(p, from, y, part(pixels, p.tasks, begin).begin, part(pixels, p.tasks, end - 1).end, kLow);
    }
    rows([&](int64_t in, int64_t out, int64_t n) { dequantize_rows(p, from + in, step, y + out, n, kLow, {1, 0, 0}); });
  } else {
    rows([&](int64_t in, int64_t out, int64_t n) {
      for (int64_t i = 0; i < n; ++i) y[out + i] = static_cast<float>(int64_t{x[in + i * step]} - p.zero) * p.scale;
    });
  }
}

}  // namespace PEN_ISA
}  // namespace pen
