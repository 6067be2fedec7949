// add and mul of quantized bytes, which may have different scales: qnnpack's formulas, to the bit. Broadcast and laid in any way, like
// all elementwise operators (rows_q8.h).
#include "penlight/ops/elementwise/rows_q8.h"

namespace pen {

// Sums of tensors of one shape are qnnpack's: both scales as fixed-point multiples of the result's, the sum shifted back, ties away
// from zero. Where it cannot do that, because one is repeated or their scales are too far apart, torch adds in f32.
struct AddParams : ByteRows<2> {
  bool fixed;
  int32_t a_multiple, b_multiple, constant;
  int shift;
  int32_t a_zero, b_zero, zero;
  float a_scale, b_scale, inverse;
};
struct MulParams : ByteRows<2> {
  int32_t a_zero, b_zero, zero;
  float multiplier;
};

static PEN_SMALL Status binary_shape(Shapes& s) {
  PEN_TRY(need_q8(s, 1));
  PEN_TRY(need_q8_output(s));
  Shape shape;
  for (int i = 0; i < 2; ++i) {
    const Tensor& t = s.in(i);
    int wrong = broadcast(&shape, t.dims, t.rank);
    if (wrong >= 0)
      return s.fail(i, "a size that broadcasts with the other input", "%lld against %lld in dim %d from the end",
                    static_cast<long long>(t.dims[wrong]), static_cast<long long>(shape.dims[shape.rank - t.rank + wrong]), t.rank - wrong);
  }
  return s.output(0, DType::u8, shape);
}
PEN_SHAPE(add) { return binary_shape(s); }
PEN_SHAPE(mul) { return binary_shape(s); }

static PEN_SMALL Status need_plain_bytes(Bind& b) {
  PEN_TRY(b.need_plain(0));
  PEN_TRY(b.need_plain(1));
  return b.output(0);
}

static PEN_SMALL bool fixed_point(AddParams* p, float left, float right) {
  constexpr float kLeast = 1.0f / 16384, kMost = 256.0f;
  if (!(left >= kLeast && left < kMost && right >= kLeast && right < kMost)) return false;
  float larger = left > right ? left : right;
  uint32_t bits;
  memcpy(&bits, &larger, 4);
  p->shift = 21 - (static_cast<int>(bits >> 23) - 127);  // 14 to 35
  if (p->shift > 31) return false;
  float multiple = static_cast<float>(int64_t{1} << p->shift);
  p->a_multiple = static_cast<int32_t>(nearbyintf(left * multiple));  // below 2^22
  p->b_multiple = static_cast<int32_t>(nearbyintf(right * multiple));
  p->constant = -(p->a_multiple * p->a_zero + p->b_multiple * p->b_zero);
  return true;
}

PEN_BIND(add) {
  const Quant y = *b.declared_quant(0);
  PEN_TRY(need_plain_bytes(b));
  AddParams* p = b.params<AddParams>();
  p->lay(b);
  const Tensor &left = b.in(0), &right = b.in(1);
  p->a_scale = static_cast<float>(left.quant->scale);
  p->b_scale = static_cast<float>(right.quant->scale);
  p->a_zero = static_cast<int32_t>(left.quant->zero);
  p->b_zero = static_cast<int32_t>(right.quant->zero);
  p->zero = static_cast<int32_t>(y.zero);
  p->inverse = 1.0f / static_cast<float>(y.scale);
  p->fixed = left.rank == right.rank;
  for (int d = 0; d < left.rank && p->fixed; ++d) p->fixed = left.dims[d] == right.dims[d];
  float scale = static_cast<float>(y.scale);
  p->fixed = p->fixed && fixed_point(p, p->a_scale / scale, p->b_scale / scale);
  return PEN_OK;
}

PEN_BIND(mul) {
  const Quant y = *b.declared_quant(0);
  PEN_TRY(need_plain_bytes(b));
  MulParams* p = b.params<MulParams>();
  p->lay(b);
  const Quant &left = *b.in(0).quant, &right = *b.in(1).quant;
  p->a_zero = static_cast<int32_t>(left.zero);
  p->b_zero = static_cast<int32_t>(right.zero);
  p->zero = static_cast<int32_t>(y.zero);
  p->multiplier = static_cast<float>(left.scale) * static_cast<float>(right.scale) * (1.0f / static_cast<float>(y.scale));
  // From 256 on every product but 0 saturates, and inf would make NaN of 0.
  if (!(p->multiplier < 256.0f)) p->multiplier = 256.0f;
  return PEN_OK;
}

namespace PEN_ISA {

struct FixedSum {
  I a, b, constant, twice_zero;
  int shift;
  // ((sum >> shift) rounded, ties away from zero) + zero; sums are below 2^31, but not by so much that half could be added first
  PEN_INLINE I operator()(I x, I y) const {
    I sum = constant + x * a + y * b;
    return (((sum + (sum >> 31)) >> (shift - 1)) + twice_zero) >> 1;
  }
};
struct RealSum {
  I a_zero, b_zero, zero;
  V a_scale, b_scale, inverse;
  PEN_INLINE I operator()(I x, I y) const {
    V sum = to_float(x - a_zero) * a_scale + to_float(y - b_zero) * b_scale;
    const V most = set1(65536.0f);
    return round_to_int(max(min(sum * inverse, most), -most)) + zero;
  }
};
struct Product {
  I a_zero, b_zero, zero;
  V multiplier;
  PEN_INLINE I operator()(I x, I y) const { return round_to_int(to_float((x - a_zero) * (y - b_zero)) * multiplier) + zero; }
};

}  // namespace PEN_ISA

PEN_KERNEL(add, q8) {
  using namespace PEN_ISA;
  const AddParams& p = r.as<AddParams>();
  if (p.fixed) {
    FixedSum rule = {set1i(p.a_multiple), set1i(p.b_multiple), set1i(p.constant), set1i(2 * p.zero + 1), p.shift};
    return binary_bytes(r, p, rule);
  }
  binary_bytes(r, p, RealSum{set1i(p.a_zero), set1i(p.b_zero), set1i(p.zero), set1(p.a_scale), set1(p.b_scale), set1(p.inverse)});
}
PEN_KERNEL(mul, q8) {
  using namespace PEN_ISA;
  const MulParams& p = r.as<MulParams>();
  binary_bytes(r, p, Product{set1i(p.a_zero), set1i(p.b_zero), set1i(p.zero), set1(p.multiplier)});
}

}  // namespace pen
