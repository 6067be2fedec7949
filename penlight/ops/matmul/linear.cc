// linear.f32: y = act(x W^T + b + residual) with W [N, K] packed as "panel16". x has any leading dims at any strides, its
// last dim is contiguous (linear.h, runtime/cpu/gemm.h).
#include "penlight/ops/matmul/linear.h"

#include "penlight/runtime/cpu/gemm.h"

namespace pen {

namespace PEN_ISA {

struct F32Linear {
  using Element = float;
  using Tile = RowTile;
  using Block = PEN_ISA::Block;
  static constexpr int kRows = kTileRows;
  static PEN_INLINE int64_t size_of(const Tensor&) { return 4; }
  static PEN_INLINE void begin(const Run& r, const Linear& p, Block* block) {
    block->tap_k = p.k;
    block->b = r.in[1].as<float>();
    block->bias = r.in[2].data ? r.in[2].as<float>() : nullptr;
  }
};

}  // namespace PEN_ISA

PEN_KERNEL(linear, f32) { PEN_ISA::run_linear<PEN_ISA::F32Linear>(r); }

}  // namespace pen
