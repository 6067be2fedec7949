// Convolutions and products on a GPU: what their rules share.
#pragma once
#include "conv_kernels.h"  // generated from kernels.py
#include "penlight/runtime/gpu/elementwise.h"
#include "penlight/runtime/gpu/gpu.h"

namespace pen {

// One side's window, and how the image lies: as Need::channels has it.
struct GpuMap {
  int64_t images, channels, height, width, pitch, row, image;
};
static inline GpuMap gpu_map(const Tensor& t) {
  return {t.dims[0], t.dims[1], t.dims[2], t.dims[3], t.strides[3], t.strides[2], t.strides[0]};
}

struct GpuConv {
  GpuMap x, y, residual;
  Operand read, weights, bias, add, written;  // bias, add: none where there is none
  int64_t groups, ci, co;                     // channels of a group
  int64_t kernel[2], stride[2], pad[2], dilation[2];
  GpuActivation activation;
};

// The weights, input 1, in the layout that the key's variant reads.
static inline Status need_weights(Gpu& b, int64_t groups) {
  const char* variant = b.key();
  for (const char* c = variant; *c; ++c)
    if (*c == '.') variant = c + 1;
  for (const ConvKernel& k : kConvKernels)
    if (strcmp(variant, k.variant) == 0) return b.need_packed(1, k.layout, groups);
  return b.fail(1, "a kernel that packs weights", "%s", variant);
}

// The matrix product with weights in panels; depthwise and small groups.
Status dispatch_gemm(Gpu& b, const GpuConv& c);
Status dispatch_depthwise(Gpu& b, const GpuConv& c, bool grouped);

}  // namespace pen
