// Elementwise shaders, for the operators themselves and for activations that follow others.
#pragma once
#include "penlight/runtime/gpu/gpu.h"

namespace pen {

Status dispatch_elementwise(Gpu& b, const GpuEntry& entry, const Tensor* in, const Operand* read, int inputs, const Tensor& out,
                            const Operand& written, const float* numbers, int number_count);
Status dispatch_activation(Gpu& b, const char* name, const float* args, int count, const Tensor& t, const Operand& y);

}  // namespace pen
