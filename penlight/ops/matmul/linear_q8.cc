// linear.q8: a linear layer of quantized bytes (linear.h), W packed as "quads16" (runtime/cpu/gemm_q8.h); rows that end within four bytes
// are copied. A file of its own: some instruction sets are for products of bytes alone.
#include "penlight/ops/matmul/linear.h"
#include "penlight/runtime/cpu/gemm_q8.h"

namespace pen {
namespace PEN_ISA {

struct Q8Linear {
  using Element = uint8_t;
  using Tile = RowTileQ8;
  using Block = BlockQ8;
  static constexpr int kRows = kQ8Rows;
  static PEN_INLINE int64_t size_of(const Tensor& t) { return dtype_size(t.dtype); }
  static PEN_INLINE void begin(const Run& r, const Linear& p, Block* block) {
    block->tap_k = (p.k + 3) / 4 * 4;
    block->b = r.in[1].as<int8_t>();
    block->columns = columns_q8(p.result, r.in[2], 0);
    block->result = &p.result;
  }
};

}  // namespace PEN_ISA

PEN_KERNEL(linear, q8) { PEN_ISA::run_linear<PEN_ISA::Q8Linear>(r); }

}  // namespace pen
