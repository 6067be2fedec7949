// Depthwise convolution of quantized bytes: u8 activations by i8 weights, NHWC, sums in 32 bits, results u8 or f32 (result_q8.h). Weights
// are "taps", [kh * kw][channels]; a block's are put into the order of registers first. For conv2d.q8.depthwise.
#pragma once
#include "penlight/runtime/cpu/result_q8.h"
#include "penlight/runtime/simd/rows4.h"

namespace pen {

// Index 0 is H, 1 is W. Strides and pitches are in elements.
struct DepthwiseQ8 {
  const uint8_t* x;
  char* y;
  const char* residual;  // null: none
  int64_t x_batch, y_batch, residual_batch;
  int64_t x_pitch, y_pitch, residual_pitch;
  int64_t in[2], out[2], kernel[2], stride[2], dilation[2], pad[2];
  int64_t channels;
  const char* weights;
  ColumnsQ8 columns;
  uint8_t x_zero;
  const ResultQ8* result;
  const Activation* act;
  char* scratch;
  Patience* patience;  // between pieces of a row, which may be all that there is
};

constexpr int64_t kDepthwiseUnitQ8 = 64;  // channels are cut into tasks at multiples of this
constexpr int64_t kWholeBlockQ8 = 16;     // fewer channels than this are read, and computed, as so many

// How many such units there are. Fewer channels than a block are no unit of their own: a block that ends with them would be another task's.
static PEN_INLINE int64_t depthwise_units_q8(int64_t channels) {
  const int64_t units = (channels + kDepthwiseUnitQ8 - kWholeBlockQ8) / kDepthwiseUnitQ8;
  return units > 0 ? units : 1;
}

// What a worker keeps in scratch, in bytes from its start: weights of a block in the order of its registers, numbers of its channels, a
// pixel of padding, where the rows are, and copied rows. The shape rule has bounded the taps, and copies are no more than 16 images.
struct DepthwiseSizesQ8 {
  int64_t numbers, padding, rows, steps, copy, total;
};
static PEN_INLINE DepthwiseSizesQ8 depthwise_sizes_q8(const int64_t* kernel, const int64_t* in, int64_t channels) {
  int64_t quads = (kernel[0] + 3) / 4, copied = kernel[0] < in[0] ? kernel[0] : in[0];
  DepthwiseSizesQ8 s;
  s.numbers = kernel[1] * quads * 256;
  s.padding = s.numbers + 2 * 64 * 4 + 3 * 64;
  s.rows = s.padding + 64;
  s.steps = s.rows + quads * 4 * 8;
  s.copy = s.steps + quads * 4 * 8;
  s.total = s.copy + (channels < kWholeBlockQ8 ? copied * in[1] * kWholeBlockQ8 : 0);
  return s;
}

namespace PEN_ISA {
// Output rows [lines.begin, lines.end) of all images, of channels [channels.begin, channels.end).
void run_depthwise_q8(const DepthwiseQ8& d, Range lines, Range channels);
}  // namespace PEN_ISA
}  // namespace pen
