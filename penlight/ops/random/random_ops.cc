// Random tensors, from the runtime's own generator (philox.h): the same numbers after the same seed, though not torch's.
#include "penlight/ops/random/draws.h"
#include "penlight/runtime/vm/graph.h"
#include "penlight/runtime/vm/machine.h"
#include "penlight/runtime/vm/rows.h"

namespace pen {

// Operators called one by one have a stream of their own, and a new run for each call: plans of the same shape serve again.
constexpr int64_t kStream = 0xffff;

static Status finish(const Call& c, Graph& g, int value, DType from, DType to, const Shape& shape, Value* made) {
  Status status = g.run(g.cast(value, from, to));
  ++c.machine->runner.random.run;
  PEN_TRY(status);
  Value flat = Value::own(g.take(0));
  return reshaped(c, *flat.tensor(), shape, made);
}
Status draw_normal(const Call& c, const Shape& shape, double mean, double std, DType dtype, Value* made) {
  int64_t numel;
  PEN_TRY(numel_of(c, shape, &numel));
  if (!is_floating(dtype)) return c.fail("a dtype of floats", "%s", dtype_name(dtype));
  if (!(std >= 0)) return c.fail("a std of 0 or more", "%g", std);
  Graph g(c);
  int y = g.node("random_normal.f32");
  g.ints("shape", &numel, 1).number("mean", mean).number("std", std).integer("stream", kStream);
  return finish(c, g, y, DType::f32, dtype, shape, made);
}
Status draw_uniform(const Call& c, const Shape& shape, double low, double high, bool open, DType dtype, Value* made) {
  int64_t numel;
  PEN_TRY(numel_of(c, shape, &numel));
  if (!is_floating(dtype)) return c.fail("a dtype of floats", "%s", dtype_name(dtype));
  if (!(low <= high)) return c.fail("bounds in order", "%g and %g", low, high);
  Graph g(c);
  int y = g.node("random_uniform.f32");
  g.ints("shape", &numel, 1).number("low", low).number("high", high).flag("open", open).integer("stream", kStream);
  PEN_TRY(finish(c, g, y, DType::f32, dtype, shape, made));
  if (dtype != DType::f16 && dtype != DType::bf16) return PEN_OK;
  // Rounded to a half, the largest of them may be the bound itself: those are drawn down to what is below it.
  TensorObject& t = *made->tensor();
  uint16_t* bits = t.as<uint16_t>();
  return in_pieces(c, numel, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      if (number_at(dtype, &bits[i]).real() >= high && high > low) bits[i] = static_cast<uint16_t>(high > 0 ? bits[i] - 1 : bits[i] + 1);
  });
}
Status draw_integers(const Call& c, const Shape& shape, int64_t low, int64_t high, DType dtype, Value* made) {
  int64_t numel;
  PEN_TRY(numel_of(c, shape, &numel));
  if (low >= high) return c.fail("high above low", "%lld and %lld", static_cast<long long>(high), static_cast<long long>(low));
  if (!number_fits(Value(low), dtype) || !number_fits(Value(high - 1), dtype))
    return c.fail("bounds that the dtype holds", "%lld to %lld in %s", static_cast<long long>(low), static_cast<long long>(high),
                  dtype_name(dtype));
  constexpr int64_t kLeast = INT64_MIN / 2;  // the attribute of a node takes none below
  Graph g(c);
  int y = g.node("random_integers.i64");
  g.ints("shape", &numel, 1)
      .integer("low", low < kLeast ? kLeast : low)
      .integer("high", high)
      .flag("whole", false)
      .integer("stream", kStream);
  return finish(c, g, y, DType::i64, dtype, shape, made);
}
// A fresh result as a tensor lies, where it is not row-major.
static Status laid(Call& c, const TensorObject& like, Format format) {
  if (format == Format::contiguous || (format == Format::preserve && tensor_is_contiguous(like))) return PEN_OK;
  Value made;
  PEN_TRY(make_fresh(c, c.results[0].tensor()->dtype(), shape_of(like), format, &like, &made));
  PEN_TRY(copy_into(c, made.tensor(), *c.results[0].tensor()));
  return c.give(static_cast<Value&&>(made));
}

PEN_OP(rand, "[out]",
       "aten::{rand,randn}(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
       "Tensor",
       "aten::{rand,randn}.generator(SymInt[] size, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? "
       "device=None, bool? pin_memory=None) -> Tensor") {
  Shape shape;
  DType dtype;
  PEN_TRY(sizes_of(c, 0, &shape));
  PEN_TRY(c.dtype(1 + c.form(), DType::f32, &dtype));
  return c.word() == 1 ? draw_normal(c, shape, 0, 1, dtype, &c.results[0]) : draw_uniform(c, shape, 0, 1, false, dtype, &c.results[0]);
}
PEN_OP(rand_like, "[out]",
       "aten::{rand,randn}_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
       "MemoryFormat? memory_format=None) -> Tensor",
       "aten::{rand,randn}_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, Device? "
       "device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor") {
  const TensorObject& t = c.tensor(0);
  DType dtype;
  Format format;
  PEN_TRY(c.dtype(1 + c.form(), t.dtype(), &dtype));
  PEN_TRY(format_of(c, 5 + c.form(), Format::preserve, &format));
  if (c.word() == 1)
    PEN_TRY(draw_normal(c, shape_of(t), 0, 1, dtype, &c.results[0]));
  else
    PEN_TRY(draw_uniform(c, shape_of(t), 0, 1, false, dtype, &c.results[0]));
  return laid(c, t, format);
}
PEN_OP(randint, "[out]",
       "aten::randint(SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) "
       "-> Tensor",
       "aten::randint.generator(SymInt high, SymInt[] size, *, Generator? generator, ScalarType? dtype=4, Layout? layout=None, Device? "
       "device=None, bool? pin_memory=None) -> Tensor",
       "aten::randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None) -> Tensor",
       "aten::randint.low_generator(SymInt low, SymInt high, SymInt[] size, *, Generator? generator, ScalarType? dtype=4, Layout? "
       "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor") {
  int low = c.form() / 2, generator = c.form() % 2;
  Shape shape;
  DType dtype;
  PEN_TRY(sizes_of(c, 1 + low, &shape));
  PEN_TRY(c.dtype(2 + low + generator, DType::i64, &dtype));
  return draw_integers(c, shape, low ? c.integer(0) : 0, c.integer(low), dtype, &c.results[0]);
}
PEN_OP(randint_like, "[out]",
       "aten::randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
       "aten::randint_like.generator(Tensor self, SymInt high, *, Generator? generator, ScalarType? dtype=None, Layout? layout=None, "
       "Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
       "aten::randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None, Layout? layout=None, Device? "
       "device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
       "aten::randint_like.low_generator_dtype(Tensor self, SymInt low, SymInt high, *, Generator? generator, ScalarType? dtype=None, "
       "Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
       "aten::randint_like.Tensor(Tensor self, Tensor high, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None, MemoryFormat? memory_format=None) -> Tensor",
       "aten::randint_like.Tensor_generator(Tensor self, Tensor high, *, Generator? generator, ScalarType? dtype=None, Layout? "
       "layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor") {
  int low = c.form() / 2 == 1, options = 2 + low + c.form() % 2;
  DType dtype;
  Format format;
  PEN_TRY(c.dtype(options, c.tensor(0).dtype(), &dtype));
  PEN_TRY(format_of(c, options + 4, Format::preserve, &format));
  Value high = c.args[1 + low];
  if (high.tag() == Tag::tensor) PEN_TRY(number_in(c, c.tensor(1), &high));
  if (high.tag() == Tag::real) return c.fail("an integer as high", "%g", high.number());
  PEN_TRY(draw_integers(c, shape_of(c.tensor(0)), low ? c.integer(1) : 0, high.integer(), dtype, &c.results[0]));
  return laid(c, c.tensor(0), format);
}
PEN_OP(randperm, "[out]",
       "aten::randperm(SymInt n, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
       "aten::randperm.generator(SymInt n, *, Generator? generator, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None) -> Tensor") {
  DType dtype;
  PEN_TRY(c.dtype(1 + c.form(), DType::i64, &dtype));
  int64_t n = c.integer(0);
  if (n < 0) return c.fail("an n of 0 or more", "%lld", static_cast<long long>(n));
  if (!number_fits(Value(n), dtype)) return c.fail("an n that the dtype holds", "%lld in %s", static_cast<long long>(n), dtype_name(dtype));
  Shape shape;
  shape.rank = 1;
  shape.dims[0] = n;
  Graph g(c);
  int y = g.node("random_permutation.i64");
  g.integer("n", n).integer("stream", kStream);
  return finish(c, g, y, DType::i64, dtype, shape, &c.results[0]);
}

// ---- with parameters ----
PEN_OP(normal_numbers, "[out]",
       "aten::normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, ScalarType? dtype=None, Layout? "
       "layout=None, Device? device=None, bool? pin_memory=None) -> Tensor") {
  Shape shape;
  DType dtype;
  PEN_TRY(sizes_of(c, 2, &shape));
  PEN_TRY(c.dtype(4, DType::f32, &dtype));
  return draw_normal(c, shape, c.number(0), c.number(1), dtype, &c.results[0]);
}
PEN_OP(normal_tensors, "[out]", "aten::normal.Tensor_float(Tensor mean, float std=1.0, *, Generator? generator=None) -> Tensor",
       "aten::normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor",
       "aten::normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor") {
  Shape shape;
  DType dtype = DType::f32;
  for (int i = 0; i < 2; ++i) {
    if (c.args[i].tag() != Tag::tensor) continue;
    dtype = c.tensor(i).dtype();
    if (!is_floating(dtype)) return c.fail("tensors of floats", "%s", dtype_name(dtype));
    PEN_TRY(broadcast_shapes(c, &shape, shape_of(c.tensor(i))));
  }
  Value drawn;
  DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  PEN_TRY(draw_normal(c, shape, 0, 1, wide, &drawn));
  Rows r(c);
  auto operand = [&](int i) { return c.args[i].tag() == Tag::tensor ? r.cast(r.input(c.tensor(i)), wide) : r.number(c.args[i], wide); };
  int scaled = r.node("mul", wide, r.input(*drawn.tensor()), operand(1));
  return r.give(r.cast(r.node("add", wide, scaled, operand(0)), dtype));
}
PEN_OP(normal_in_place, "aten::normal_(Tensor(a!) self, float mean=0.0, float std=1.0, *, Generator? generator=None) -> Tensor(a!)",
       "aten::normal_functional(Tensor self, float mean=0.0, float std=1.0, *, Generator? generator=None) -> Tensor",
       "aten::normal.out(Tensor self, float mean=0.0, float std=1.0, *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)") {
  return draw_normal(c, shape_of(c.tensor(0)), c.number(1), c.number(2), c.tensor(0).dtype(), &c.results[0]);
}
PEN_OP(uniform_in_place, "[functional]",
       "aten::uniform_(Tensor(a!) self, float from=0.0, float to=1.0, *, Generator? generator=None) -> Tensor(a!)") {
  return draw_uniform(c, shape_of(c.tensor(0)), c.number(1), c.number(2), false, c.tensor(0).dtype(), &c.results[0]);
}
PEN_OP(exponential_in_place, "[functional]",
       "aten::exponential_(Tensor(a!) self, float lambd=1.0, *, Generator? generator=None) -> Tensor(a!)") {
  if (!(c.number(1) > 0)) return c.fail("a lambd above 0", "%g", c.number(1));
  Value drawn;
  PEN_TRY(draw_uniform(c, shape_of(c.tensor(0)), 0, 1, true, DType::f32, &drawn));
  if (!is_floating(c.tensor(0).dtype())) return c.fail("a tensor of floats", "%s", dtype_name(c.tensor(0).dtype()));
  Rows r(c);
  int waited = r.node("mul", DType::f32, r.node("log", DType::f32, r.input(*drawn.tensor())), r.number(-1 / c.number(1), DType::f32));
  return r.give(r.cast(waited, c.tensor(0).dtype()));
}
// The last whole number up to which a dtype has them all.
static int64_t last_whole(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 1 << 24;
    case DType::f64:
      return int64_t{1} << 53;
    case DType::f16:
      return 1 << 11;
    case DType::bf16:
      return 1 << 8;
    case DType::boolean:
      return 1;
    case DType::u8:
      return 255;
    default:
      return INT64_MAX >> (64 - 8 * dtype_size(dtype));
  }
}
PEN_OP(random_in_place, "[functional]", "aten::random_(Tensor(a!) self, *, Generator? generator=None) -> Tensor(a!)") {
  int64_t last = last_whole(c.tensor(0).dtype());
  return draw_integers(c, shape_of(c.tensor(0)), 0, last == INT64_MAX ? last : last + 1, c.tensor(0).dtype(), &c.results[0]);
}
PEN_OP(random_in_place_to, "[functional]", "aten::random_.to(Tensor(a!) self, int to, *, Generator? generator=None) -> Tensor(a!)") {
  return draw_integers(c, shape_of(c.tensor(0)), 0, c.integer(1), c.tensor(0).dtype(), &c.results[0]);
}
PEN_OP(random_in_place_from, "[functional]",
       "aten::random_.from(Tensor(a!) self, int from, int? to, *, Generator? generator=None) -> Tensor(a!)") {
  int64_t last = last_whole(c.tensor(0).dtype());
  return draw_integers(c, shape_of(c.tensor(0)), c.integer(1),
                       c.given(2)          ? c.integer(2)
                       : last == INT64_MAX ? last
                                           : last + 1,
                       c.tensor(0).dtype(), &c.results[0]);
}

// 1 where a number drawn is below p (a number, or a tensor that broadcasts), else 0.
static Status draw_below(Call& c, const Shape& shape, const Value& p, DType dtype, Value* made) {
  Value drawn;
  PEN_TRY(draw_uniform(c, shape, 0, 1, false, DType::f32, &drawn));
  Rows r(c);
  bool number = p.tag() != Tag::tensor;
  if (number && !(p.number() >= 0 && p.number() <= 1)) return c.fail("a probability from 0 to 1", "%g", p.number());
  int limit = number ? r.number(p, DType::f64) : r.cast(r.input(*p.tensor()), DType::f64);
  TensorObject* result;
  PEN_TRY(r.run(r.cast(r.node("lt", DType::f64, r.cast(r.input(*drawn.tensor()), DType::f64), limit), dtype), &result));
  *made = Value::own(result);
  return PEN_OK;
}
static Status check_probabilities(const Call& c, const TensorObject& p) {
  if (!is_floating(p.dtype())) return c.fail("probabilities of floats", "%s", dtype_name(p.dtype()));
  Value row_major;
  PEN_TRY(make_copy(c, p, DType::f64, Format::contiguous, &row_major));
  const double* v = row_major.tensor()->as<double>();
  return in_pieces(c, p.numel(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      if (!(v[i] >= 0 && v[i] <= 1)) return c.fail("probabilities from 0 to 1", "%g", v[i]);
    return PEN_OK;
  });
}
PEN_OP(bernoulli, "[out]", "aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor") {
  PEN_TRY(check_probabilities(c, c.tensor(0)));
  return draw_below(c, shape_of(c.tensor(0)), c.args[0], c.tensor(0).dtype(), &c.results[0]);
}
PEN_OP(bernoulli_p, "aten::bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor",
       "aten::bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)",
       "aten::bernoulli.float_out(Tensor self, float p=0.5, *, Generator? generator=None, Tensor(a!) out) -> Tensor(a!)") {
  return draw_below(c, shape_of(c.tensor(0)), c.args[1], c.tensor(0).dtype(), &c.results[0]);
}
PEN_OP(bernoulli_tensor, "[in_place][out]", "aten::bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor") {
  PEN_TRY(check_probabilities(c, c.tensor(1)));
  return draw_below(c, shape_of(c.tensor(0)), c.args[1], c.tensor(0).dtype(), &c.results[0]);
}

PEN_OP(multinomial, "[out]",
       "aten::multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor") {
  const TensorObject& t = c.tensor(0);
  int64_t count = c.integer(1);
  bool again = c.flag(2);
  if (t.rank() < 1 || t.rank() > 2 || !is_floating(t.dtype()))
    return c.fail("one or two dims of float weights", "%s of rank %d", dtype_name(t.dtype()), t.rank());
  int64_t n = t.dim(t.rank() - 1), rows = t.rank() == 2 ? t.dim(0) : 1;
  if (count <= 0 || (!again && count > n))
    return c.fail("a number of samples that can be drawn", "%lld of %lld", static_cast<long long>(count), static_cast<long long>(n));
  Value weights, drawn;
  PEN_TRY(make_copy(c, t, DType::f64, Format::contiguous, &weights));
  Shape shape = shape_of(t), points;
  shape.dims[shape.rank - 1] = count;
  points = shape;
  PEN_TRY(draw_uniform(c, points, 0, 1, false, DType::f32, &drawn));
  PEN_TRY(make_fresh(c, DType::i64, shape, Format::contiguous, nullptr, &c.results[0]));
  for (int64_t row = 0; row < rows; ++row) {
    double *w = weights.tensor()->as<double>() + row * n, sum = 0;
    PEN_TRY(in_pieces(c, n, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (!(w[i] >= 0) || w[i] - w[i] != 0) return c.fail("finite weights of 0 or more", "%g", w[i]);
        sum += w[i];
      }
      return PEN_OK;
    }));
    if (!(sum > 0)) return c.fail("weights of which not all are 0", "all are");
    for (int64_t k = 0; k < count; ++k) {
      double point = static_cast<double>(drawn.tensor()->as<float>()[row * count + k]) * sum, end = 0;
      int64_t chosen = -1, i = 0;
      for (; i < n; ++i) {
        if (w[i] == 0) continue;
        end += w[i];
        chosen = i;
        if (point < end) break;
      }
      if (chosen < 0) return c.fail("as many weights above 0 as samples", "%lld", static_cast<long long>(k));
      c.results[0].tensor()->as<int64_t>()[row * count + k] = chosen;
      PEN_TRY(c.walk(again ? i : i + n));
      if (again) continue;
      w[chosen] = 0;  // what is left is summed anew: differences would leave crumbs
      sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += w[i];
    }
  }
  return PEN_OK;
}

}  // namespace pen
