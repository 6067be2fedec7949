// The inner loops of quantized products. A task is a block of rows (gathered and widened to i16, their zero point taken off, once)
// by some panels of columns. Sums are exact, so neither order nor instruction set changes a result.
#include "penlight/ops/quantized/product.h"

#include "penlight/runtime/simd/pairs.h"

namespace pen {
namespace PEN_ISA {

// Registers of a panel's sums, and how many rows their number leaves room for.
constexpr int kVectors = kPanel / kLanes;
constexpr int kRows = kLanes == 16 ? 8 : kLanes == 8 ? 4 : kLanes == 4 ? 2 : 1;

template <int Rows, int Panels>
static PEN_INLINE void sums(const int16_t* a, int64_t a_stride, int64_t pairs, const int8_t* panel, int64_t panel_bytes, int32_t* out) {
  I acc[Panels][Rows][kVectors];
  PEN_UNROLL for (int n = 0; n < Panels; ++n) PEN_UNROLL for (int m = 0; m < Rows; ++m) PEN_UNROLL for (int v = 0; v < kVectors; ++v)
      acc[n][m][v] = set1i(0);
  for (int64_t k = 0; k < pairs; ++k) {
    PEN_UNROLL for (int n = 0; n < Panels; ++n) PEN_UNROLL for (int v = 0; v < kVectors; ++v) {
      P b = load_pairs(panel + n * panel_bytes + k * 2 * kPanel + v * 2 * kLanes);
      PEN_UNROLL for (int m = 0; m < Rows; ++m) acc[n][m][v] = dot(acc[n][m][v], b, a + m * a_stride + 2 * k);
    }
  }
  PEN_UNROLL for (int n = 0; n < Panels; ++n) PEN_UNROLL for (int m = 0; m < Rows; ++m) PEN_UNROLL for (int v = 0; v < kVectors; ++v)
      store_ints(out + (n * Rows + m) * kPanel + v * kLanes, acc[n][m][v]);
}

// 16 sums to 16 results.
static PEN_INLINE void requantize(const int32_t* sum, const float* scale, float low, float high, int32_t zero, uint8_t* to) {
  int32_t bits[kPanel];
  for (int j = 0; j < kPanel; ++j) {
    float f = static_cast<float>(sum[j]) * scale[j];
    f = f < low ? low : f;
    f = f > high ? high : f;
    f += 12582912.0f;  // nearest integer, ties to even: the bits that are left
    __builtin_memcpy(&bits[j], &f, 4);
  }
  for (int j = 0; j < kPanel; ++j) to[j] = static_cast<uint8_t>(bits[j] - 0x4B400000 + zero);
}

static PEN_INLINE void finish(const IntegerProduct& p, int64_t group, int64_t panel, int64_t row, int32_t* sum, int32_t row_sum) {
  int64_t at = (group * panel_count(p.columns) + panel) * kPanel, column = group * p.columns + panel * kPanel;
  int64_t count = p.columns - panel * kPanel < kPanel ? p.columns - panel * kPanel : kPanel;
  if (p.zeros)
    for (int j = 0; j < kPanel; ++j)
      sum[j] =
          static_cast<int32_t>(static_cast<uint32_t>(sum[j]) - static_cast<uint32_t>(p.zeros[at + j]) * static_cast<uint32_t>(row_sum));
  if (p.y_real) {
    float* to = p.y_real + row * p.y_stride + column;
    for (int64_t j = 0; j < count; ++j) {
      float f = static_cast<float>(sum[j]) * p.scale[at + j] + p.real_bias[at + j];
      to[j] = p.relu && f < 0.0f ? 0.0f : f;
    }
    return;
  }
  for (int j = 0; j < kPanel; ++j) sum[j] = static_cast<int32_t>(static_cast<uint32_t>(sum[j]) + static_cast<uint32_t>(p.bias[at + j]));
  uint8_t* to = p.y + row * p.y_stride + column;
  float low = static_cast<float>(p.low - p.y_zero), high = static_cast<float>(p.high - p.y_zero);
  if (count == kPanel) return requantize(sum, p.scale + at, low, high, p.y_zero, to);
  uint8_t all[kPanel];
  requantize(sum, p.scale + at, low, high, p.y_zero, all);
  for (int64_t j = 0; j < count; ++j) to[j] = all[j];
}

template <class T>
static PEN_INLINE void widen(const uint8_t* from, int64_t n, int32_t zero, int16_t* to) {
  const T* x = reinterpret_cast<const T*>(from);
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<int16_t>(static_cast<int16_t>(x[i]) - static_cast<int16_t>(zero));
}
static PEN_INLINE void widen(const IntegerProduct& p, const uint8_t* from, int64_t n, int16_t* to) {
  p.x_signed ? widen<int8_t>(from, n, p.x_zero, to) : widen<uint8_t>(from, n, p.x_zero, to);
}

// The place that output `o` sees through tap `k` on one side; -1: outside.
static PEN_INLINE int64_t seen(const Gather& g, int side, int64_t o, int64_t k) {
  int64_t at;
  if (g.transposed) {
    int64_t scaled = o + g.pad[side] - k * g.dilation[side];
    if (scaled < 0 || scaled % g.stride[side] != 0) return -1;
    at = scaled / g.stride[side];
  } else {
    at = o * g.stride[side] - g.pad[side] + k * g.dilation[side];
  }
  return at >= 0 && at < g.in[side] ? at : -1;
}

// Row `row` of a group: the channels that each tap sees, zeros outside.
static void gather_row(const IntegerProduct& p, int64_t group, int64_t row, int16_t* to) {
  const Gather& g = p.gather;
  int64_t channels = g.channels / p.groups, spot = row;
  int64_t ow = spot % g.out[2], oh = (spot /= g.out[2]) % g.out[1], od = (spot /= g.out[1]) % g.out[0], n = spot / g.out[0];
  const uint8_t* image = p.x + n * g.in[0] * g.in[1] * g.in[2] * g.channels + group * channels;
  for (int64_t kd = 0; kd < g.kernel[0]; ++kd) {
    int64_t z = seen(g, 0, od, kd);
    for (int64_t kh = 0; kh < g.kernel[1]; ++kh) {
      int64_t y = z < 0 ? -1 : seen(g, 1, oh, kh);
      for (int64_t kw = 0; kw < g.kernel[2]; ++kw, to += channels) {
        int64_t x = y < 0 ? -1 : seen(g, 2, ow, kw);
        if (x < 0)
          memset(to, 0, static_cast<size_t>(channels) * 2);
        else
          widen(p, image + ((z * g.in[1] + y) * g.in[2] + x) * g.channels, channels, to);
      }
    }
  }
}

template <int Rows>
static PEN_INLINE int64_t rows_by_panel(const IntegerProduct& p, int64_t group, int64_t panel, int64_t first, int64_t i, int64_t count,
                                        const int16_t* a, const int32_t* row_sums) {
  int64_t depth = even(p.depth), panel_bytes = depth * kPanel;
  const int8_t* weights = p.panels + (group * panel_count(p.columns) + panel) * panel_bytes;
  for (; i + Rows <= count; i += Rows) {
    int32_t sum[Rows * kPanel];
    sums<Rows, 1>(a + i * depth, depth, depth / 2, weights, panel_bytes, sum);
    for (int m = 0; m < Rows; ++m) finish(p, group, panel, first + i + m, sum + m * kPanel, p.zeros ? row_sums[i + m] : 0);
  }
  return i;
}

static void task(const IntegerProduct& p, int64_t group, Range rows, Range panels, char* scratch) {
  int64_t depth = even(p.depth), count = rows.end - rows.begin;
  int32_t* row_sums = reinterpret_cast<int32_t*>(scratch);
  int16_t* a = reinterpret_cast<int16_t*>(scratch + round_up(p.block * 4, 64));
  for (int64_t i = 0; i < count; ++i) {
    int16_t* to = a + i * depth;
    if (p.x_stride)
      widen(p, p.x + (rows.begin + i) * p.x_stride + group * p.depth, p.depth, to);
    else
      gather_row(p, group, rows.begin + i, to);
    if (depth != p.depth) to[p.depth] = 0;
    if (p.zeros) {
      uint32_t sum = 0;
      for (int64_t k = 0; k < p.depth; ++k) sum += static_cast<uint32_t>(int32_t{to[k]});
      row_sums[i] = static_cast<int32_t>(sum);
    }
  }
  int64_t panel = panels.begin, panel_bytes = depth * kPanel;
  if (count == 1) {  // one row: several panels at once keep the multipliers busy
    for (; panel + 4 <= panels.end; panel += 4) {
      int32_t sum[4 * kPanel];
      sums<1, 4>(a, depth, depth / 2, p.panels + (group * panel_count(p.columns) + panel) * panel_bytes, panel_bytes, sum);
      for (int n = 0; n < 4; ++n) finish(p, group, panel + n, rows.begin, sum + n * kPanel, p.zeros ? row_sums[0] : 0);
    }
  }
  for (; panel < panels.end; ++panel) {
    int64_t i = rows_by_panel<kRows>(p, group, panel, rows.begin, 0, count, a, row_sums);
    if (kRows > 4) i = rows_by_panel<4>(p, group, panel, rows.begin, i, count, a, row_sums);
    if (kRows > 2) i = rows_by_panel<2>(p, group, panel, rows.begin, i, count, a, row_sums);
    rows_by_panel<1>(p, group, panel, rows.begin, i, count, a, row_sums);
  }
}

// One output pixel of some channels: the taps' values and weights side by side.
template <class T, int Count>
static PEN_INLINE void depthwise_channels(const Depthwise& p, const uint8_t* const* taps, const int16_t* const* weights, int64_t tap_count,
                                          int64_t c, uint8_t* to) {
  uint32_t sum[Count];
  for (int j = 0; j < Count; ++j) sum[j] = static_cast<uint32_t>(p.bias[c + j]);
  for (int64_t t = 0; t < tap_count; ++t) {
    const T* x = reinterpret_cast<const T*>(taps[t]) + c;
    const int16_t* w = weights[t] + c;
    for (int j = 0; j < Count; ++j) sum[j] += static_cast<uint32_t>((static_cast<int32_t>(x[j]) - p.x_zero) * w[j]);
  }
  float low = static_cast<float>(p.low - p.y_zero), high = static_cast<float>(p.high - p.y_zero);
  int32_t bits[Count];
  for (int j = 0; j < Count; ++j) {
    float f = static_cast<float>(static_cast<int32_t>(sum[j])) * p.scale[c + j];
    f = f < low ? low : f;
    f = f > high ? high : f;
    f += 12582912.0f;
    __builtin_memcpy(&bits[j], &f, 4);
  }
  for (int j = 0; j < Count; ++j) to[c + j] = static_cast<uint8_t>(bits[j] - 0x4B400000 + p.y_zero);
}

template <class T>
static void depthwise_row(const Depthwise& p, int64_t line, char* scratch) {
  const Gather& g = p.gather;
  int64_t taps = g.kernel[0] * g.kernel[1] * g.kernel[2], channels = g.channels;
  const uint8_t** from = reinterpret_cast<const uint8_t**>(scratch);
  const int16_t** weights = reinterpret_cast<const int16_t**>(scratch + round_up(taps * static_cast<int64_t>(sizeof(void*)), 64));
  int64_t oh = line % g.out[1], od = line / g.out[1] % g.out[0], n = line / g.out[1] / g.out[0];
  const uint8_t* image = p.x + n * g.in[0] * g.in[1] * g.in[2] * channels;
  for (int64_t ow = 0; ow < g.out[2]; ++ow) {
    int64_t count = 0, tap = 0;
    for (int64_t kd = 0; kd < g.kernel[0]; ++kd) {
      int64_t z = seen(g, 0, od, kd);
      for (int64_t kh = 0; kh < g.kernel[1]; ++kh) {
        int64_t y = z < 0 ? -1 : seen(g, 1, oh, kh);
        for (int64_t kw = 0; kw < g.kernel[2]; ++kw, ++tap) {
          int64_t x = y < 0 ? -1 : seen(g, 2, ow, kw);
          if (x < 0) continue;
          from[count] = image + ((z * g.in[1] + y) * g.in[2] + x) * channels;
          weights[count++] = p.weights + tap * channels;
        }
      }
    }
    uint8_t* to = p.y + (line * g.out[2] + ow) * channels;
    int64_t c = 0;
    for (; c + 32 <= channels; c += 32) depthwise_channels<T, 32>(p, from, weights, count, c, to);
    for (; c + 8 <= channels; c += 8) depthwise_channels<T, 8>(p, from, weights, count, c, to);
    for (; c < channels; ++c) depthwise_channels<T, 1>(p, from, weights, count, c, to);
  }
}

}  // namespace PEN_ISA

// Only the VM's operators call these: no file names them.
PEN_SHAPE(quantized_product) { return s.fail(-1, "an operator of a file", "quantized_product, which only the VM runs"); }
PEN_BIND(quantized_product) { return (void)b, PEN_ERROR_SHAPE; }  // never called: the shape rule refuses

PEN_KERNEL(quantized_product, u8, rows) {
  const IntegerProduct& p = r.as<IntegerProduct>();
  for (int64_t t = r.begin; t < r.end; ++t) {
    int64_t column = t % p.column_parts, row = t / p.column_parts % p.row_parts, group = t / p.column_parts / p.row_parts;
    int64_t begin = row * p.block, end = begin + p.block < p.rows ? begin + p.block : p.rows;
    PEN_ISA::task(p, group, {begin, end}, part(panel_count(p.columns), p.column_parts, column), r.scratch);
  }
}
PEN_KERNEL(quantized_product, u8, depthwise) {
  const Depthwise& p = r.as<Depthwise>();
  for (int64_t line = r.begin; line < r.end; ++line)
    p.x_signed ? PEN_ISA::depthwise_row<int8_t>(p, line, r.scratch) : PEN_ISA::depthwise_row<uint8_t>(p, line, r.scratch);
}

}  // namespace pen
