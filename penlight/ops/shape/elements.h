// One number as an element of any dtype, for operators whose attributes hold it as a double.
#pragma once
#include "penlight/runtime/cpu/elementwise.h"

namespace pen {

static PEN_INLINE bool parse_dtype(const char* name, DType* dtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (strcmp(name, kDTypeNames[i]) != 0) continue;
    *dtype = static_cast<DType>(i);
    return true;
  }
  return false;
}

// `value` as an element of `dtype`, in the low bytes.
static inline __attribute__((unused)) uint64_t element_bits(double value, DType dtype) {
  using namespace PEN_ISA;
  uint64_t bits = 0;
  auto put = [&bits](auto element) { memcpy(&bits, &element, sizeof element); };
  switch (dtype) {
    case DType::f32:
      put(F32::stored(value));
      break;
    case DType::f16:
      put(F16::stored(value));
      break;
    case DType::bf16:
      put(BF16::stored(value));
      break;
    case DType::f64:
      put(value);
      break;
    case DType::i8:
      put(I8::stored(value));
      break;
    case DType::u8:
      put(U8::stored(value));
      break;
    case DType::i16:
      put(I16::stored(value));
      break;
    case DType::i32:
      put(I32::stored(value));
      break;
    case DType::i64:
      put(I64::stored(value));
      break;
    case DType::boolean:
      put(Bool::stored(value));
      break;
  }
  return bits;
}

// The same for what goes beside the elements of x: where those are quantized, the integer that stands for it, by torch's rule.
static inline __attribute__((unused)) uint64_t filling_bits(double value, const Tensor& x) {
  if (!x.quant) return element_bits(value, x.dtype);
  double low = x.dtype == DType::u8 ? 0 : x.dtype == DType::i8 ? -128 : INT32_MIN;
  double high = x.dtype == DType::u8 ? 255 : x.dtype == DType::i8 ? 127 : INT32_MAX;
  float y = static_cast<float>(value) * (1.0f / static_cast<float>(x.quant->scale)) + static_cast<float>(x.quant->zero);
  double nearest = nearbyint(static_cast<double>(y));
  return element_bits(!(nearest > low) ? low : nearest < high ? nearest : high, x.dtype);
}

// The key's element size must be the dtype's: the kernel writes by it.
static PEN_INLINE bool size_fits(const char* key, DType dtype) {
  static constexpr const char* kSizes[] = {"", "b8", "b16", "", "b32", "", "", "", "b64"};
  const char* part = key;
  while (*part && *part != '.') ++part;
  return *part && strcmp(part + 1, kSizes[dtype_size(dtype)]) == 0;
}

}  // namespace pen
