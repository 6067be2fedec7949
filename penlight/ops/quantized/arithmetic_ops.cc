// quantized::add and mul, of two tensors or with a number; with or without relu. A number changes the scale and the zero point
// where it can, and no element.
#include "penlight/ops/quantized/quantized.h"
#include "penlight/runtime/vm/graph.h"

namespace pen {

// Of 32 bits, which integer kernels do not know: in real numbers.
static Status of_reals(Call& c, const char* key, double scale, int64_t zero, bool relu) {
  Status status;
  Value left = Value::own(dequantized(c, c.tensor(0), &status));
  PEN_TRY(status);
  Value right = Value::own(dequantized(c, c.tensor(1), &status));
  PEN_TRY(status);
  Graph g(c);
  int made = g.node(key, *left.tensor(), *right.tensor());
  PEN_TRY(g.run(relu ? g.node("relu.f32", made) : made));
  Value real = Value::own(g.take(0));
  if (real.is_none()) return c.out_of_memory();
  TensorObject* result = quantized_from(c, *real.tensor(), scale, zero, c.tensor(0).dtype(), &status);
  return status == PEN_OK ? c.give(result) : status;
}
static Status binary(Call& c, const char* key, const char* real_key, double scale, int64_t zero, bool relu) {
  const TensorObject &a = c.tensor(0), &b = c.tensor(1);
  Affine left, right;
  PEN_TRY(affine_of(c, a, &left));
  PEN_TRY(affine_of(c, b, &right));
  const DType dtype = a.dtype();
  if (dtype != b.dtype()) return c.fail("operands of one dtype", "%s and %s", dtype_name(dtype), dtype_name(b.dtype()));
  PEN_TRY(check_zero_point(c, zero, dtype));
  PEN_TRY(check_scale(c, scale));
  if (dtype == DType::i32) return of_reals(c, real_key, scale, zero, relu);
  Value bytes[2];
  PEN_TRY(bytes_of(c, a, order_of(a), &bytes[0], &left));
  PEN_TRY(bytes_of(c, b, order_of(b), &bytes[1], &right));
  const Order order = b.rank() > a.rank() ? Order::rows : order_of(a);
  Graph g(c);
  int x = g.input(*bytes[0].tensor()), y = g.input(*bytes[1].tensor());
  g.quantized(x, left.scale, left.zero);
  g.quantized(y, right.scale, right.zero);
  int made = g.node(key, x, y);
  const int64_t least = byte_zero(dtype, zero);
  g.quantized(made, scale, least);
  if (order == Order::channels) g.channels(made);
  PEN_TRY(g.run(made));
  Value result = Value::own(g.take(0));
  if (relu && !result.is_none()) {
    uint8_t* to = result.tensor()->as<uint8_t>();
    PEN_TRY(in_parts(c, result.tensor()->storage->bytes, 1 << 16, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = to[i] < least ? static_cast<uint8_t>(least) : to[i];
    }));
  }
  PEN_TRY(from_bytes(c, dtype, order, scale, zero, &result));
  return c.give(static_cast<Value&&>(result));
}
static Status add(Call& c, double scale, int64_t zero, bool relu) { return binary(c, "add.q8", "add.f32", scale, zero, relu); }
static Status mul(Call& c, double scale, int64_t zero, bool relu) { return binary(c, "mul.q8", "mul.f32", scale, zero, relu); }
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
