// quantized::add and mul, of two tensors or with a number; with or without relu. A number changes the scale and the zero point
// where it can, and no element.
#include "penlight/ops/quantized/quantized.h"

namespace pen {

namespace {
// Two tensors of one dtype, dense and of one shape, and the result's memory.
struct Operands {
  Affine a, b;
  Value left, right, made;
  bool same_shape;
};
}  // namespace
static Status operands(const Call& c, double scale, int64_t zero, Operands* o) {
  const TensorObject &a = c.tensor(0), &b = c.tensor(1);
  PEN_TRY(affine_of(c, a, &o->a));
  PEN_TRY(affine_of(c, b, &o->b));
  if (a.dtype() != b.dtype()) return c.fail("operands of one dtype", "%s and %s", dtype_name(a.dtype()), dtype_name(b.dtype()));
  PEN_TRY(check_zero_point(c, zero, a.dtype()));
  PEN_TRY(check_scale(c, scale));
  Shape shape = shape_of(a);
  PEN_TRY(broadcast_shapes(c, &shape, shape_of(b)));
  o->same_shape = a.rank() == b.rank();
  for (int d = 0; o->same_shape && d < shape.rank; ++d) o->same_shape = a.dim(d) == b.dim(d);
  Order order = order_of(a);
  if (shape.rank != a.rank()) order = Order::rows;
  Status status;
  o->left = Value::own(spread(c, a, shape, order, &status));
  PEN_TRY(status);
  o->right = Value::own(spread(c, b, shape, order, &status));
  PEN_TRY(status);
  o->made = Value::own(quantized_create(a.dtype(), shape.rank, shape.dims, order, scale, zero));
  return o->made.is_none() ? c.out_of_memory() : PEN_OK;
}
template <class T, class F>
static void each_of(const Call& c, const Operands& o, const F& f) {
  const T *a = o.left.tensor()->as<T>(), *b = o.right.tensor()->as<T>();
  T* to = o.made.tensor()->as<T>();
  in_parts(c, o.made.tensor()->numel(), 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(f(a[i], b[i]));
  });
}
template <class F>
static void each(const Call& c, const Operands& o, const F& f) {
  DType d = o.made.tensor()->dtype();
  d == DType::u8 ? each_of<uint8_t>(c, o, f) : d == DType::i8 ? each_of<int8_t>(c, o, f) : each_of<int32_t>(c, o, f);
}

namespace {
// qnnpack's sum of two u8 tensors: both scales as fixed-point multiples of the result's, the sum shifted back, ties away from
// zero. False where the scales are too far apart for that.
struct FixedSum {
  int32_t a, b, constant, mask, half;
  int shift;
};
}  // namespace
static bool fixed_sum(const Affine& a, const Affine& b, double out, FixedSum* s) {
  float left = static_cast<float>(a.scale) / static_cast<float>(out), right = static_cast<float>(b.scale) / static_cast<float>(out);
  constexpr float kLeast = 1.0f / 16384, kMost = 256.0f;
  if (!(left >= kLeast && left < kMost && right >= kLeast && right < kMost)) return false;
  float larger = left > right ? left : right;
  uint32_t bits;
  __builtin_memcpy(&bits, &larger, 4);
  s->shift = 21 - (static_cast<int>(bits >> 23) - 127);  // 14 to 35
  if (s->shift > 31) return false;
  uint32_t power = static_cast<uint32_t>(s->shift + 127) << 23;
  float multiple;
  __builtin_memcpy(&multiple, &power, 4);
  s->a = nearest(left * multiple), s->b = nearest(right * multiple);
  s->constant = static_cast<int32_t>(-(s->a * a.zero + s->b * b.zero));
  s->mask = static_cast<int32_t>((uint32_t{1} << s->shift) - 1);
  s->half = static_cast<int32_t>(static_cast<uint32_t>(s->mask) >> 1);
  return true;
}
static Status add(Call& c, double scale, int64_t zero, bool relu) {
  Operands o;
  PEN_TRY(operands(c, scale, zero, &o));
  DType dtype = c.tensor(0).dtype();
  FixedSum s;
  if (dtype == DType::u8 && o.same_shape && fixed_sum(o.a, o.b, scale, &s)) {
    int32_t z = static_cast<int32_t>(zero), low = relu ? z : 0;
    each(c, o, [=](int32_t a, int32_t b) {
      int32_t sum = s.constant + a * s.a + b * s.b;
      int32_t rest = (sum & s.mask) - (sum < 0), v = (sum >> s.shift) + (rest > s.half) + z;
      return v < low ? low : v > 255 ? 255 : v;
    });
  } else {
    Requantize q(1.0f / static_cast<float>(scale), zero, dtype);
    Affine x = o.a, y = o.b;
    each(c, o, [=](int64_t a, int64_t b) {
      float sum = x.real(a) + y.real(b);
      return q(relu && sum < 0.0f ? 0.0f : sum);
    });
  }
  return c.give(static_cast<Value&&>(o.made));
}
static Status mul(Call& c, double scale, int64_t zero, bool relu) {
  Operands o;
  PEN_TRY(operands(c, scale, zero, &o));
  float multiplier = static_cast<float>(o.a.scale) * static_cast<float>(o.b.scale) * (1.0f / static_cast<float>(scale));
  Requantize q(multiplier, zero, c.tensor(0).dtype());
  int64_t za = o.a.zero, zb = o.b.zero;
  if (c.tensor(0).dtype() != DType::i32) {
    int32_t x = static_cast<int32_t>(za), y = static_cast<int32_t>(zb), z = static_cast<int32_t>(zero);
    int32_t low = static_cast<int32_t>(relu ? zero : q.levels.low), high = static_cast<int32_t>(q.levels.high);
    each(c, o, [=](int32_t a, int32_t b) {
      int32_t v = nearest(static_cast<float>((a - x) * (b - y)) * multiplier) + z;
      v = v < low ? low : v;
      return v > high ? high : v;
    });
    return c.give(static_cast<Value&&>(o.made));
  }
  each(c, o, [=](int64_t a, int64_t b) {
    int64_t v = q(static_cast<float>((a - za) * (b - zb)));
    return relu && v < zero ? zero : v;
  });
  return c.give(static_cast<Value&&>(o.made));
}
using Binary = Status (*)(Call& c, double scale, int64_t zero, bool relu);
static Status into_out(Call& c, Binary f, bool relu) {
  Affine out;
  PEN_TRY(affine_of(c, c.tensor(2), &out));
  return f(c, out.scale, out.zero, relu);
}

PEN_OP(quantized_add, "[quantized]", "quantized::add(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc",
       "_quantized::add(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc") {
  return add(c, c.number(2), c.integer(3), false);
}
PEN_OP(quantized_add_relu, "[quantized]", "quantized::add_relu(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc") {
  return add(c, c.number(2), c.integer(3), true);
}
PEN_OP(quantized_mul, "[quantized]", "quantized::mul(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc") {
  return mul(c, c.number(2), c.integer(3), false);
}
PEN_OP(quantized_mul_relu, "[quantized]", "quantized::mul_relu(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc") {
  return mul(c, c.number(2), c.integer(3), true);
}
PEN_OP(quantized_add_out, "[quantized]", "quantized::add.out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out",
       "quantized::add_out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out") {
  return into_out(c, add, false);
}
PEN_OP(quantized_add_relu_out, "[quantized]", "quantized::add_relu.out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out",
       "quantized::add_relu_out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out") {
  return into_out(c, add, true);
}
PEN_OP(quantized_mul_out, "[quantized]", "quantized::mul.out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out",
       "quantized::mul_out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out") {
  return into_out(c, mul, false);
}
PEN_OP(quantized_mul_relu_out, "[quantized]", "quantized::mul_relu.out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out",
       "quantized::mul_relu_out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out") {
  return into_out(c, mul, true);
}

// ---- with a number ----
static Status add_number(Call& c, const TensorObject& x, double number, bool relu) {
  Affine a;
  PEN_TRY(affine_of(c, x, &a));
  PEN_TRY(check_scale(c, a.scale));
  Levels l = levels_of(x.dtype());
  if (!(number / a.scale > -1e15 && number / a.scale < 1e15)) return c.fail("a number within reach of the scale", "%g", number);
  int64_t whole = nearest_wide(number / a.scale), moved = a.zero - whole;
  if (moved >= l.low && moved <= l.high) return map_stored(c, x, a.scale, moved, [=](int64_t v) { return relu && v < moved ? moved : v; });
  double span = static_cast<double>(l.high) - static_cast<double>(l.low), scale;
  int64_t zero;
  if (moved < l.low) {
    scale = (static_cast<double>(l.high) - static_cast<double>(moved)) / span * a.scale;
    zero = l.low;
  } else {
    scale = (static_cast<double>(moved) - static_cast<double>(l.low)) / span * a.scale;
    zero = l.high;
  }
  Requantize q(static_cast<float>(a.scale) * (1.0f / static_cast<float>(scale)), zero, x.dtype());
  return map_stored(c, x, scale, zero, [=](int64_t v) {
    int64_t y = q(static_cast<float>(v - moved));
    return relu && y < zero ? zero : y;
  });
}
static Status mul_number(Call& c, const TensorObject& x, double number, bool relu) {
  Affine a;
  PEN_TRY(affine_of(c, x, &a));
  Levels l = levels_of(x.dtype());
  if (number == 0.0) return map_stored(c, x, 1.0, 0, [](int64_t) { return int64_t{0}; });
  if (number > 0.0) {
    int64_t zero = a.zero;
    return map_stored(c, x, number * a.scale, zero, [=](int64_t v) { return relu && v < zero ? zero : v; });
  }
  if (number != number) return c.fail("a number to multiply by", "NaN");
  int64_t zero = l.high - (a.zero - l.low);
  return map_stored(c, x, -number * a.scale, zero, [=](int64_t v) {
    int64_t y = l.high + l.low - v;
    return relu && y < zero ? zero : y;
  });
}
using WithNumber = Status (*)(Call& c, const TensorObject& x, double number, bool relu);
// The number is a Scalar, or a Tensor of one element.
static Status by_number(Call& c, WithNumber f, int tensor_at, int number_at, bool relu) {
  Value number = c.args[number_at];
  if (number.tag() == Tag::tensor) PEN_TRY(number_in(c, *c.args[number_at].tensor(), &number));
  return f(c, c.tensor(tensor_at), number.number(), relu);
}
// add_scalar_relu with a Tensor: torch leaves the relu out.
PEN_OP(quantized_add_scalar, "[quantized]", "quantized::add.Scalar(Tensor qa, Scalar b) -> Tensor qc",
       "quantized::add.Scalar_out(Tensor qa, Scalar b, Tensor(a!) out) -> Tensor(a!) out",
       "quantized::add_scalar(Tensor qa, Scalar b) -> Tensor qc", "quantized::add_scalar.Tensor(Tensor qa, Tensor b) -> Tensor qc",
       "quantized::add_scalar_out(Tensor qa, Scalar b, Tensor(a!) out) -> Tensor(a!) out",
       "quantized::add_scalar_out.Tensor(Tensor qa, Tensor b, Tensor(a!) out) -> Tensor(a!) out",
       "quantized::add_scalar_relu.Tensor(Tensor qa, Tensor b) -> Tensor qc",
       "quantized::add_scalar_relu_out.Tensor(Tensor qa, Tensor b, Tensor(a!) out) -> Tensor(a!) out") {
  return by_number(c, add_number, 0, 1, false);
}
PEN_OP(quantized_add_scalar_relu, "[quantized]", "quantized::add_relu.Scalar(Tensor qa, Scalar b) -> Tensor qc",
       "quantized::add_relu.Scalar_out(Tensor qa, Scalar b, Tensor(a!) out) -> Tensor(a!) out",
       "quantized::add_scalar_relu(Tensor qa, Scalar b) -> Tensor qc",
       "quantized::add_scalar_relu_out(Tensor qa, Scalar b, Tensor(a!) out) -> Tensor(a!) out") {
  return by_number(c, add_number, 0, 1, true);
}
PEN_OP(quantized_mul_scalar, "[quantized]", "quantized::mul.Scalar(Tensor qa, Scalar b) -> Tensor qc",
       "quantized::mul.Scalar_out(Tensor qa, Scalar b, Tensor(a!) out) -> Tensor(a!) out",
       "quantized::mul_scalar(Tensor qa, Scalar b) -> Tensor qc", "quantized::mul_scalar.Tensor(Tensor qa, Tensor b) -> Tensor qc",
       "quantized::mul_scalar_out(Tensor qa, Scalar b, Tensor(a!) out) -> Tensor(a!) out",
       "quantized::mul_scalar_out.Tensor(Tensor qa, Tensor b, Tensor(a!) out) -> Tensor(a!) out") {
  return by_number(c, mul_number, 0, 1, false);
}
PEN_OP(quantized_mul_scalar_relu, "[quantized]", "quantized::mul_relu.Scalar(Tensor qa, Scalar b) -> Tensor qc",
       "quantized::mul_relu.Scalar_out(Tensor qa, Scalar b, Tensor(a!) out) -> Tensor(a!) out",
       "quantized::mul_scalar_relu(Tensor qa, Scalar b) -> Tensor qc",
       "quantized::mul_scalar_relu.Tensor(Tensor qa, Tensor b) -> Tensor qc",
       "quantized::mul_scalar_relu_out(Tensor qa, Scalar b, Tensor(a!) out) -> Tensor(a!) out",
       "quantized::mul_scalar_relu_out.Tensor(Tensor qa, Tensor b, Tensor(a!) out) -> Tensor(a!) out") {
  return by_number(c, mul_number, 0, 1, true);
}
PEN_OP(quantized_scalar_add, "[quantized]", "quantized::add.Scalar2(Scalar b, Tensor qa) -> Tensor qc") {
  return by_number(c, add_number, 1, 0, false);
}
PEN_OP(quantized_scalar_add_relu, "[quantized]", "quantized::add_relu.Scalar2(Scalar b, Tensor qa) -> Tensor qc") {
  return by_number(c, add_number, 1, 0, true);
}
PEN_OP(quantized_scalar_mul, "[quantized]", "quantized::mul.Scalar2(Scalar b, Tensor qa) -> Tensor qc") {
  return by_number(c, mul_number, 1, 0, false);
}
PEN_OP(quantized_scalar_mul_relu, "[quantized]", "quantized::mul_relu.Scalar2(Scalar b, Tensor qa) -> Tensor qc") {
  return by_number(c, mul_number, 1, 0, true);
}

}  // namespace pen
