// What rules of integer kernels (keys "op.q8") ask of their tensors: u8 with one scale, inputs and output alike.
#pragma once
#include "penlight/runtime/exec/kernel.h"

namespace pen {

static PEN_INLINE bool is_q8(DType dtype, const Quant* quant) { return dtype == DType::u8 && quant && quant->axis < 0; }
static PEN_INLINE Status need_q8(const Given& g, int input) {
  if (is_q8(g.in(input).dtype, g.in(input).quant)) return PEN_OK;
  return g.fail(input, "a quantized tensor of u8 with one scale", "%s", kDTypeNames[static_cast<int>(g.in(input).dtype)]);
}
static PEN_INLINE Status need_q8_output(const Given& g) {
  if (is_q8(g.declared_dtype(0), g.declared_quant(0))) return PEN_OK;
  return g.fail(-1, "a result of u8 with one scale", "%s", kDTypeNames[static_cast<int>(g.declared_dtype(0))]);
}
static PEN_INLINE bool same_quant(const Quant& a, const Quant& b) { return a.scale == b.scale && a.zero == b.zero; }

}  // namespace pen
