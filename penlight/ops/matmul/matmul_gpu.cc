// matmul on a GPU.
#include "penlight/ops/matmul/product_gpu.h"

namespace pen {

PEN_GPU(matmul, "f32") {
  PEN_TRY(b.output(0));
  const Tensor &a = b.in(0), &w = b.in(1), &y = b.out(0);
  Shape batch = shape_of(y);
  batch.rank -= 2;
  shader::Product s;
  s.push.m = static_cast<uint32_t>(y.dims[y.rank - 2]);
  s.push.n = static_cast<uint32_t>(y.dims[y.rank - 1]);
  s.push.depth = static_cast<uint32_t>(a.dims[a.rank - 1]);
  s.push.scale = 1;
  GpuMatrices sides[kMatrices] = {
      gpu_matrices(a, b.reads(0), batch), gpu_matrices(w, b.reads(1), batch), {}, gpu_matrices(y, b.writes(0), batch)};
  sides[kMask].at = b.none();
  return dispatch_product(b, s, batch, sides);
}

}  // namespace pen
