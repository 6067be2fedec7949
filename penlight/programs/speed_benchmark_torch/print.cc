// A tensor as text, for --print_output: dtype and sizes, then its numbers, a line for each row of the last dim.
#include "penlight/programs/speed_benchmark_torch/tensors.h"

namespace benchmark {
namespace {

float from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

float from_half(uint16_t h) {
  uint32_t sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31, fraction = h & 0x3ffu;
  if (exponent == 31) return from_bits(sign | 0x7f800000 | fraction << 13);
  if (exponent) return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
  float small = static_cast<float>(fraction) * 0x1p-24f;
  return sign ? -small : small;
}

void add_element(Text* text, const pen_tensor& t, int64_t at) {
  const void* data = t.data;
  switch (t.dtype) {
    case PEN_F32:
      return text->add("%.6g", static_cast<double>(static_cast<const float*>(data)[at]));
    case PEN_F16:
      return text->add("%.6g", static_cast<double>(from_half(static_cast<const uint16_t*>(data)[at])));
    case PEN_BF16:
      return text->add("%.6g", static_cast<double>(from_bits(uint32_t{static_cast<const uint16_t*>(data)[at]} << 16)));
    case PEN_F64:
      return text->add("%.6g", static_cast<const double*>(data)[at]);
    case PEN_I8:
      return text->add("%d", static_cast<const int8_t*>(data)[at]);
    case PEN_U8:
    case PEN_BOOL:
      return text->add("%d", static_cast<const uint8_t*>(data)[at]);
    case PEN_I16:
      return text->add("%d", static_cast<const int16_t*>(data)[at]);
    case PEN_I32:
      return text->add("%d", static_cast<const int32_t*>(data)[at]);
    case PEN_I64:
      return text->add("%lld", static_cast<long long>(static_cast<const int64_t*>(data)[at]));
    default:
      return text->add("?");
  }
}

void add_rows(Text* text, const pen_tensor& t, const int64_t* strides, int dim, int64_t at) {
  if (dim == t.rank) return add_element(text, t, at);
  for (int64_t i = 0; i < t.dims[dim]; ++i) {
    add_rows(text, t, strides, dim + 1, at + i * strides[dim]);
    if (dim + 1 >= t.rank) text->add(i + 1 < t.dims[dim] ? " " : "\n");
  }
}

}  // namespace

void add_tensor(Text* text, const pen_tensor& t) {
  text->add("%s ", dtype_name(t.dtype));
  add_dims(text, t.dims, t.rank);
  text->add("\n");
  int64_t row_major[kMaxRank], step = 1;
  for (int d = t.rank - 1; d >= 0 && d < kMaxRank; --d) {
    row_major[d] = step;
    step *= t.dims[d];
  }
  if (t.rank > kMaxRank) return text->add("(of too many dims to print)\n");
  if (step) add_rows(text, t, t.strides ? t.strides : row_major, 0, 0);
  if (!t.rank) text->add("\n");
}

}  // namespace benchmark
