// What quantize and dequantize share with their forms whose scale only a run tells: how elements are walked and converted. Output in the
// order of its memory, row by row; an input that lies otherwise (an image in planes, whose integers are to lie pixel by pixel) is read by
// plane and put in its places.
#pragma once
#include "penlight/runtime/base/dims.h"
#include "penlight/runtime/exec/kernel.h"
#include "penlight/runtime/simd/bytes.h"

namespace pen {

// real <-> integer, with one scale, or one for each place along a dim of a dense tensor (weights).
struct Convert : Loops<1> {
  float scale, inverse;
  int32_t zero, low, high;
  int64_t units, tasks;   // elements
  bool by_planes;         // dim 0 are the channels of pixels, dim 1 the pixels, which lie densely in the input
  int64_t inner;          // by channel: elements of a place
  const Quant* channels;  // null: one scale
  DType dtype;            // of the integers
};

constexpr int64_t kConvertGrain = 16384;
constexpr int64_t kPlanePixels = 64;  // that are quantized at a time, a plane after another
constexpr int64_t kMaxPlanes = 8;

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
  p->by_planes = p->rank > 1 && p->dims[0] > 1 && p->dims[0] <= kMaxPlanes && p->in[0][1] == 1;
  p->tasks = task_count(p->units, kConvertGrain);
  b.tasks(p->tasks);
  return PEN_OK;
}

namespace PEN_ISA {

#if defined(__AVX2__) || defined(__aarch64__)
// Integers with one scale, of which a byte is stored (of i8 too: what its bits say).
struct Quantizer {
  V inverse, zero, low, high;
  explicit PEN_INLINE Quantizer(const Convert& p)
      : inverse(set1(p.inverse)),
        zero(set1(static_cast<float>(p.zero))),
        low(set1(static_cast<float>(p.low))),
        high(set1(static_cast<float>(p.high))) {}
  PEN_INLINE I operator()(const float* x) const { return round_to_int(max(min(fma(load(x), inverse, zero), high), low)) & set1i(255); }
};

// Three planes to pixels of three bytes, as many as whole vectors have; gives how many. Each is stored as four bytes, lowest first, the
// last of which is the next pixel's: so one pixel is always left.
static PEN_INLINE int64_t quantize_colours(const Convert& p, const float* x, uint8_t* to, int64_t n) {
  const Quantizer q(p);
  int64_t i = 0;
  for (; i + kLanes < n; i += kLanes) {
    int32_t pixels[kLanes];
    store_ints(pixels, q(x + i) | q(x + i + p.in[0][0]) << 8 | q(x + i + 2 * p.in[0][0]) << 16);
    for (int k = 0; k < kLanes; ++k) __builtin_memcpy(to + 3 * (i + k), &pixels[k], 4);
  }
  return i;
}
#endif

// Bytes with one scale: product and sum are rounded once, NaN is the largest.
static PEN_INLINE void quantize_bytes(const Convert& p, const float* x, int64_t step, uint8_t* to, int64_t n) {
  int64_t i = 0;
  const float low = static_cast<float>(p.low), high = static_cast<float>(p.high), zero = static_cast<float>(p.zero);
#if defined(__AVX2__) || defined(__aarch64__)
  if (step == 1) {
    const Quantizer q(p);
    for (; i + kLanes <= n; i += kLanes) store_bytes(to + i, q(x + i));
  }
#endif
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

// Planes to pixels: some pixels of every plane, then each to its place. Pixels [begin, end) of all.
static PEN_INLINE void quantize_planes(const Convert& p, const float* x, uint8_t* y, int64_t begin, int64_t end) {
  uint8_t bytes[kMaxPlanes][kPlanePixels];
  const int64_t planes = p.dims[0];
  while (begin < end) {
    int64_t at = begin % p.dims[1], row = begin / p.dims[1], in = at, out = at * p.out[1];
    for (int d = 2; d < p.rank; ++d) {
      in += row % p.dims[d] * p.in[0][d];
      out += row % p.dims[d] * p.out[d];
      row /= p.dims[d];
    }
    int64_t count = p.dims[1] - at < end - begin ? p.dims[1] - at : end - begin;
#if defined(__AVX2__) || defined(__aarch64__)
    if (planes == 3 && p.out[1] == 3) {
      const int64_t done = quantize_colours(p, x + in, y + out, count);
      in += done, out += 3 * done, begin += done, count -= done;
    }
#endif
    count = count < kPlanePixels ? count : kPlanePixels;
    for (int64_t c = 0; c < planes; ++c) quantize_bytes(p, x + in + c * p.in[0][0], 1, bytes[c], count);
    uint8_t* to = y + out;
    if (planes == 3) {
      for (int64_t i = 0; i < count; ++i, to += p.out[1]) to[0] = bytes[0][i], to[1] = bytes[1][i], to[2] = bytes[2][i];
    } else {
      for (int64_t i = 0; i < count; ++i, to += p.out[1])
        for (int64_t c = 0; c < planes; ++c) to[c] = bytes[c][i];
    }
    begin += count;
  }
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

// One scale.
template <class T>
static PEN_INLINE void dequantize_tasks(const Convert& p, const T* x, float* y, int64_t begin, int64_t end) {
  walk_rows(p, part(p.units, p.tasks, begin).begin, part(p.units, p.tasks, end - 1).end, [&](int64_t in, int64_t out, int64_t n) {
    int64_t i = 0, step = p.in[0][0];
    if constexpr (sizeof(T) == 1) {
      // i8 is u8 with another zero point, once its sign is flipped
      constexpr bool kSigned = static_cast<T>(-1) < 0;
      I flip = set1i(kSigned ? 128 : 0), zero = set1i(p.zero + (kSigned ? 128 : 0));
      V scale = set1(p.scale);
      if (step == 1)
        for (; i + kLanes <= n; i += kLanes)
          store(y + out + i, to_float((load_bytes_i(reinterpret_cast<const uint8_t*>(x) + in + i) ^ flip) - zero) * scale);
    }
    for (; i < n; ++i) y[out + i] = static_cast<float>(int64_t{x[in + i * step]} - p.zero) * p.scale;
  });
}

}  // namespace PEN_ISA
}  // namespace pen
