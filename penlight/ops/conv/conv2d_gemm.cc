// conv2d.f32.gemm, and the same of conv3d and the transposed: convolution as a matrix product that never writes the matrix
// down. Row m of A is the window of output pixel m: for each kernel position (tap) a pointer to the input pixel under it, or
// to zeros where that is padding. The pointers of a block of pixels are gathered once (gather.h) and serve all output channels
// (runtime/cpu/gemm.h does the rest). Pixels of a transposed convolution go phase by phase (conv2d.h).
// Layout: NHWC in and out, any pitch; weights "panel16". Groups with 16 or more outputs each, or one group.
#include "penlight/runtime/cpu/gemm.h"

#include "penlight/ops/conv/gather.h"

namespace pen {
namespace PEN_ISA {

static_assert(kTileRows <= kPixelUnit && sizeof(RowTile) <= kTileBytes, "bind sized scratch for these");

struct F32Gemm {
  using Element = float;
  using Tile = RowTile;
  using Block = PEN_ISA::Block;
  static constexpr int kRows = kTileRows;
  static constexpr bool kEven = true;
  static constexpr bool kCopies = false;  // channels of floats need not be fours
  static PEN_INLINE int64_t size_of(const Tensor&) { return 4; }
  static PEN_INLINE int padding(const Run&) { return 0; }
  static PEN_INLINE bool may_skip(const Run&) { return true; }
  static PEN_INLINE const float* weights(const Run& r) { return r.in[1].as<float>(); }
  static PEN_INLINE void begin(const Run&, const Conv2d& p, Block* block) { block->act = &p.act; }
  static PEN_INLINE void copy_windows(const Conv2d&, const Tensor&, const Tensor&, int64_t, int64_t, int64_t, int64_t,
                                      const Gathered<F32Gemm>&) {}
  static PEN_INLINE void group(const Run& r, const Conv2d& p, int64_t group, Block* block) {
    block->bias = r.in[2].data ? r.in[2].as<float>() + group * p.co_g : nullptr;
  }
};

}  // namespace PEN_ISA

PEN_KERNEL(conv2d, f32, gemm) { PEN_ISA::conv_gemm<PEN_ISA::F32Gemm>(r); }
PEN_KERNEL(conv3d, f32, gemm) { PEN_ISA::conv_gemm<PEN_ISA::F32Gemm>(r); }
PEN_KERNEL(conv_transpose2d, f32, gemm) { PEN_ISA::conv_gemm<PEN_ISA::F32Gemm>(r); }
PEN_KERNEL(conv_transpose3d, f32, gemm) { PEN_ISA::conv_gemm<PEN_ISA::F32Gemm>(r); }

}  // namespace pen
