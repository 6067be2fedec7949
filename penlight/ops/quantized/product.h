// Matrix products of quantized integers: rows of activations (u8 or i8) by columns of weights (i8), summed in 32 bits, then
// requantized or made f32. Convolutions are products whose rows are gathered on the way: K = taps x channels of a group.
#pragma once
#include "penlight/runtime/base/memory.h"
#include "penlight/runtime/exec/kernel.h"

namespace pen {

struct Call;

constexpr int kPanel = 16;  // columns that are computed together

// How the rows of a convolution are gathered. Maps are channels-last, sides depth, height, width.
struct Gather {
  int64_t channels;  // of the input, all groups
  int64_t in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
  bool transposed;
};

// Weights as kernels read them, for `groups` products of depth K by N columns:
//   panels: for every group, for every 16 columns, [K / 2][16][2] i8, zeros where K or N end within
//   zeros: a weight zero point for every column of the panels, if one of them is not 0
struct IntegerProduct {
  const uint8_t* x;
  bool x_signed;
  int32_t x_zero;
  int64_t rows, depth, columns, groups;  // depth and columns of one group
  int64_t x_stride;                      // from row to row, where rows lie one after the other; 0: they are gathered
  Gather gather;
  const int8_t* panels;
  const int32_t* zeros;
  // one for every column of every panel
  const float* scale;
  const int32_t* bias;        // before scaling
  const float* real_bias;     // of f32 results
  uint8_t* y;                 // integers, or
  float* y_real;              // f32
  int64_t y_stride;           // in elements, from row to row
  int32_t y_zero, low, high;  // limits of the result
  bool relu;                  // of f32 results
  int64_t block;              // rows of a task
  int64_t row_parts, column_parts;
};
static PEN_INLINE int64_t panel_count(int64_t columns) { return (columns + kPanel - 1) / kPanel; }
static PEN_INLINE int64_t even(int64_t depth) { return (depth + 1) / 2 * 2; }

// Depthwise: one input and one output channel a group. weights: i16 [taps][channels], zero point taken off.
struct Depthwise {
  const uint8_t* x;
  bool x_signed;
  int32_t x_zero;
  int64_t batch;
  Gather gather;
  const int16_t* weights;
  const float* scale;  // by channel
  const int32_t* bias;
  uint8_t* y;
  int32_t y_zero, low, high;
};

// Run on the machine's threads.
Status run_product(const Call& c, IntegerProduct* p);
Status run_depthwise(const Call& c, const Depthwise& p);

}  // namespace pen
