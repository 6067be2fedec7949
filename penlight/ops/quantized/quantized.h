// What quantized operators share: how real numbers become integers and back, tensors of results, and loops over threads.
//
// real = (stored - zero_point) * scale. Rounding is to the nearest integer, ties to even, everywhere; what torch computes in
// f32 is computed in f32 here, in its order, so that results are bit-equal to those of its qnnpack engine.
#pragma once
#include "penlight/ops/quantized/range.h"
#include "penlight/runtime/vm/machine.h"
#include "penlight/runtime/vm/op.h"

namespace pen {

static PEN_INLINE int64_t limit(int64_t v, Levels l) { return v < l.low ? l.low : v > l.high ? l.high : v; }

// The nearest integer, ties to even, of what lies within ±2^22; beyond that, something beyond. NaN: the largest.
static PEN_INLINE int32_t nearest(float x) {
  constexpr float kMost = 4194303.0f;
  x = x > -kMost ? x : x != x ? kMost : -kMost;
  x = x < kMost ? x : kMost;
  x += 12582912.0f;  // 1.5 * 2^23: from here on the last bit counts ones
  int32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits - 0x4B400000;
}
// Any float or double, saturated so that a zero point can still be added; NaN is 0.
static PEN_INLINE int64_t nearest_wide(double x) {
  if (x != x) return 0;
  return x >= 4e18 ? int64_t{4} << 60 : x <= -4e18 ? -(int64_t{4} << 60) : static_cast<int64_t>(nearbyint(x));
}

// torch's rule for quantizing: x * (1 / scale) + zero point, then to an integer. Tensors of eight bits with one scale go through its
// vector code, which rounds product and sum at once (small); all else rounds both (wide).
struct Quantize {
  Quantize(double scale, int64_t zero_point, DType dtype)
      : inverse(1.0f / static_cast<float>(scale)), zero(static_cast<double>(zero_point)), levels(levels_of(dtype)) {}
  PEN_INLINE int64_t small(float x) const {
    return limit(nearest(static_cast<float>(static_cast<double>(x) * static_cast<double>(inverse) + zero)), levels);
  }
  int64_t wide(float x) const {
    float y = x * inverse + static_cast<float>(zero);
    return y != y ? levels.low : limit(nearest_wide(y), levels);
  }
  float inverse;
  double zero;
  Levels levels;
};
// The rule of torch's arithmetic on quantized values: the integer first, then the zero point.
struct Requantize {
  Requantize(float multiplier_, int64_t zero_point, DType dtype) : multiplier(multiplier_), zero(zero_point), levels(levels_of(dtype)) {}
  PEN_INLINE int64_t operator()(float x) const {
    float scaled = x * multiplier;
    return limit(zero + (levels.high < 256 ? nearest(scaled) : nearest_wide(scaled)), levels);
  }
  float multiplier;
  int64_t zero;
  Levels levels;
};

static PEN_INLINE int64_t stored(const TensorObject& t, int64_t at) {
  return t.dtype() == DType::u8 ? t.as<uint8_t>()[at] : t.dtype() == DType::i8 ? t.as<int8_t>()[at] : t.as<int32_t>()[at];
}
static PEN_INLINE void store(const TensorObject& t, int64_t at, int64_t v) {
  if (t.dtype() == DType::i32)
    t.as<int32_t>()[at] = static_cast<int32_t>(v);
  else
    t.as<uint8_t>()[at] = static_cast<uint8_t>(v);
}

// Argument i (or any tensor of the caller's), quantized with one scale; an error in words otherwise.
Status affine_of(const Call& c, const TensorObject& t, Affine* to);
// Per-channel scales, where they fit the tensor's shape; views of such tensors may not.
Status channels_fit(const Call& c, const TensorObject& t);
bool is_quantized_dtype(DType d);
Status check_zero_point(const Call& c, int64_t zero_point, DType dtype);
// A scale that can be divided by: finite and above zero.
Status check_scale(const Call& c, double scale);
// The integer dtype behind torch's number of a quantized one.
Status quantized_dtype(const Call& c, int i, DType otherwise, DType* to);

// How a dense tensor lies: row-major, or channels-last where it is of rank 4 or 5.
enum class Order : uint8_t { rows, channels };
Order order_of(const TensorObject& t);  // channels only where it is not row-major as well
TensorObject* ordered_create(DType dtype, int rank, const int64_t* dims, Order order);
// The tensor itself, or a copy that lies as asked (with its quantizer). Null after an error, which *status tells.
TensorObject* ordered(const Call& c, const TensorObject& t, Order order, Status* status);
// Fresh, with a scale and a zero point. Null without memory.
TensorObject* quantized_create(DType dtype, int rank, const int64_t* dims, Order order, double scale, int64_t zero_point);
// The integers of t as kernels read them, u8 that lie as asked, and what those stand for: i8 becomes u8 by flipping its sign, which makes
// its zero point 128 higher. What they made of it becomes a tensor of t's dtype again, without gaps, in place of `made`.
Status bytes_of(const Call& c, const TensorObject& t, Order order, Value* to, Affine* a);
Status from_bytes(const Call& c, DType dtype, Order order, double scale, int64_t zero_point, Value* made);
static PEN_INLINE int64_t byte_zero(DType dtype, int64_t zero_point) { return dtype == DType::i8 ? zero_point + 128 : zero_point; }
// f32 numbers of a quantized tensor and back, dense, in the order of `t`.
TensorObject* dequantized(const Call& c, const TensorObject& t, Status* status);
TensorObject* quantized_from(const Call& c, const TensorObject& real, double scale, int64_t zero_point, DType dtype, Status* status);

// The operator that was called, on real numbers; its result is quantized as its first argument. For integers of 32 bits, which few
// kernels know.
Status on_reals(Call& c);

// The smallest and the largest of a dense f32 tensor; 0 and 0 of an empty one. NaN makes both NaN.
Status smallest_and_largest(const Call& c, const TensorObject& t, float* low, float* high);

// f(begin, end) over parts of [0, count), at least `grain` each, on the machine's threads, which ask between. Counts them as steps.
template <class F>
[[nodiscard]] Status in_parts(const Call& c, int64_t count, int64_t grain, const F& f) {
  struct Context {
    const F* f;
    int64_t count, parts;
  } context = {&f, count, (count + grain - 1) / grain};
  if (count <= 0) return PEN_OK;
  PEN_TRY(c.spend(count));
  if (context.parts > 256) context.parts = 256;
  if (context.parts <= 1) {
    f(int64_t{0}, count);
    return PEN_OK;
  }
  const bool done = run_tasks(
      &c.machine->runner, context.parts,
      [](void* p, int64_t begin, int64_t end, int) {
        const Context& x = *static_cast<const Context*>(p);
        (*x.f)(part(x.count, x.parts, begin).begin, part(x.count, x.parts, end - 1).end);
      },
      &context);
  return done ? PEN_OK : report_cancelled(&c.machine->runner);
}

// Bytes through a table: the result has this scale and zero point, and lies as x does.
Status look_up(Call& c, const TensorObject& x, const uint8_t* table, double scale, int64_t zero_point);
// A function of the stored integers, element by element: eight bits go through a table. The result lies as x does.
template <class F>
Status map_stored(Call& c, const TensorObject& x, double scale, int64_t zero_point, const F& f) {
  if (x.dtype() != DType::i32) {
    uint8_t table[256];
    for (int i = 0; i < 256; ++i) table[i] = static_cast<uint8_t>(f(x.dtype() == DType::u8 ? int64_t{i} : int64_t{static_cast<int8_t>(i)}));
    return look_up(c, x, table, scale, zero_point);
  }
  Status status;
  Value dense = Value::own(ordered(c, x, order_of(x), &status));
  PEN_TRY(status);
  Value made = Value::own(quantized_create(x.dtype(), x.rank(), x.shape.dims, order_of(x), scale, zero_point));
  if (made.is_none()) return c.out_of_memory();
  const int32_t* from = dense.tensor()->as<int32_t>();
  int32_t* to = made.tensor()->as<int32_t>();
  PEN_TRY(in_parts(c, x.numel(), 1 << 12, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<int32_t>(f(int64_t{from[i]}));
  }));
  return c.give(static_cast<Value&&>(made));
}

}  // namespace pen
