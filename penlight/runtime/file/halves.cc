// Weights that a file holds in f16, expanded to f32 when it is loaded: once for a model, for all its sessions. They lie at twice their
// offset, so what overlaps in the file overlaps here, and a hostile file takes no more than twice its size.
#include "penlight/runtime/file/verify.h"

namespace pen {

// Exact for all of f16. What f16 has below its normal numbers is normal in f32: 2^-14 more, and that taken off again. No branches, so that
// compilers do several at a time.
static PEN_INLINE float from_half(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, rest = static_cast<uint32_t>(h & 0x7FFF) << 13;
  const uint32_t infinite = rest >= 31u << 23 ? 112u << 23 : 0, small_bits = rest + (113u << 23);
  float small;
  __builtin_memcpy(&small, &small_bits, 4);
  small -= 6.103515625e-5f;  // 2^-14
  uint32_t bits;
  __builtin_memcpy(&bits, &small, 4);
  bits = sign | (rest < 1u << 23 ? bits : rest + (112u << 23) + infinite);
  float y;
  __builtin_memcpy(&y, &bits, 4);
  return y;
}

Status expand_halves(Verifier* v) {
  Model* m = v->m;
  uint64_t begin = m->data_size, end = 0;
  for (uint32_t i = 0; i < m->constants.count; ++i) {
    const format::Constant& c = m->constants[i];
    if (!m->is_half(c) || !c.size) continue;
    PEN_TRY(v->spend(c.size / 4096 + 1));
    begin = c.offset < begin ? c.offset : begin;
    end = c.offset + c.size > end ? c.offset + c.size : end;
  }
  if (end == 0) return PEN_OK;
  void* memory;
  if (end - begin > SIZE_MAX / 2 || posix_memalign(&memory, 64, static_cast<size_t>(2 * (end - begin))) != 0)
    return report(v->error, PEN_ERROR_MEMORY, v->name, "memory for weights of f16 as f32");
  m->halves = static_cast<char*>(memory);
  m->halves_from = begin;
  for (uint32_t i = 0; i < m->constants.count; ++i) {
    const format::Constant& c = m->constants[i];
    if (!m->is_half(c)) continue;
    const uint8_t* from = m->data + c.offset;
    float* to = reinterpret_cast<float*>(m->halves + 2 * (c.offset - begin));
    for (uint64_t k = 0; k < c.size / 2; ++k) {
      uint16_t h;
      memcpy(&h, from + 2 * k, 2);
      to[k] = from_half(h);
    }
  }
  return PEN_OK;
}

}  // namespace pen
