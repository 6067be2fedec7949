// Shaders lie packed in a library (build/pack_spirv.py, which has the format).
#pragma once
#include "penlight/runtime/gpu/gpu.h"

namespace pen {

// The SPIR-V of a shader, for values stored as f32 or as f16: memory that the caller frees, or null where there is no memory, or none such
// in this library (*words is 0 then).
uint32_t* unpack_shader(const ShaderProgram& program, bool f16, uint32_t* words);

}  // namespace pen
