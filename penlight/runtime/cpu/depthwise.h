// Depthwise convolution of some output rows: every channel for itself. NHWC, weights "taps"
// [kd * kh * kw][channels]. For conv2d.f32.depthwise and conv3d.f32.depthwise, whose rows lie in a tensor, and
// expand_depthwise, which has just computed them.
#pragma once
#include "penlight/runtime/cpu/epilogue.h"
#include "penlight/runtime/simd/simd.h"

namespace pen {
namespace PEN_ISA {

// So many output rows are taken together, vector of channels by vector of channels: the input rows that they share are
// then still in the first cache level.
constexpr int64_t kDepthwiseLines = 4;

// An output row: its memory at column 0 and channel 0, and the rows of taps that lie in the image.
struct DepthwiseLine {
  const float* x;  // image row under the first of these taps
  float* y;
  const float* residual;    // null: none
  int64_t first_tap, taps;  // the first row of taps among all, and how many there are in each plane
  int64_t planes = 1;       // of taps: those of an image are one
};

struct DepthwiseLines {
  const DepthwiseLine* lines;
  int64_t count;  // at most kDepthwiseLines
  int64_t width, out_width;
  int64_t kernel, stride, dilation, pad;     // along a row
  int64_t x_pitch, y_pitch, residual_pitch;  // floats from a pixel to the next
  int64_t x_row;                             // floats from a row of taps to the next
  int64_t x_plane, plane_taps;               // where there are several planes: from one to the next, and rows of taps in each
  int64_t channels, c_begin, c_end;          // all output channels, and those to do
  const float* weights;
  const float* bias;  // null: none
  const Activation* act;
#if defined(PEN_FLOATS_ONLY)
  PEN_INLINE void ask(Patience&) {}
  PEN_INLINE bool ends(int64_t) const { return false; }
#else
  Patience* patience;  // between pieces of a row, which may be all that there is
  PEN_INLINE void ask(Patience& p) { patience = &p; }
  PEN_INLINE bool ends(int64_t work) const { return patience->ends(work); }
#endif
};

// Code for kernels of some widths and strides 1 and 2, which loads each pixel once; null for others, which there is code for that is
// right for all. A kernel's variant names one of these, so that a library holds the code for widths that its models have.
struct DepthwiseCall;
enum class Tile : int;
using DepthwiseTile = void (*)(const DepthwiseCall& d);
using DepthwiseTiles = DepthwiseTile (*)(int64_t width, int64_t stride, Tile tile);
DepthwiseTile depthwise_tiles(int64_t width, int64_t stride, Tile tile);  // all that there are
DepthwiseTile depthwise_tiles3(int64_t width, int64_t stride, Tile tile);
DepthwiseTile depthwise_tiles5(int64_t width, int64_t stride, Tile tile);
DepthwiseTile depthwise_tiles7(int64_t width, int64_t stride, Tile tile);
DepthwiseTile depthwise_tiles_other(int64_t width, int64_t stride, Tile tile);  // none

void run_depthwise(const DepthwiseLines& l, DepthwiseTiles tiles);

}  // namespace PEN_ISA
}  // namespace pen
