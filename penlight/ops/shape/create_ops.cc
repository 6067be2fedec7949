// Tensors from sizes and numbers: zeros, full, arange, linspace, eye. They lie on the one device there is, whatever is asked for.
#include "penlight/ops/shape/views.h"

namespace pen {

static Value number_of(double v) { return Value(v); }
static DType dtype_of_number(const Value& v) {
  return v.tag() == Tag::real ? DType::f32 : v.tag() == Tag::boolean ? DType::boolean : DType::i64;
}
// The sizes in argument `sizes`, the dtype in argument `dtype` or `otherwise`, every element `number`.
static Status give_filled(Call& c, int sizes, int dtype, DType otherwise, const Value& number) {
  Shape shape;
  PEN_TRY(sizes_of(c, sizes, &shape));
  DType d;
  PEN_TRY(c.dtype(dtype, otherwise, &d));
  PEN_TRY(make_fresh(c, d, shape, Format::contiguous, nullptr, &c.results[0]));
  return fill(c, c.results[0].tensor(), number);
}
// As argument 0 lies; `dtype` and `format` are the places of these arguments.
static Status give_filled_like(Call& c, int dtype, int format, const Value& number) {
  const TensorObject& t = c.tensor(0);
  DType d;
  Format f;
  PEN_TRY(c.dtype(dtype, t.dtype(), &d));
  PEN_TRY(format_of(c, format, Format::preserve, &f));
  PEN_TRY(make_fresh(c, d, shape_of(t), f, &t, &c.results[0]));
  return fill(c, c.results[0].tensor(), number);
}

PEN_OP(zeros, "[out]",
       "aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor") {
  return give_filled(c, 0, 1, DType::f32, number_of(0));
}
PEN_OP(ones, "[out]",
       "aten::ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor") {
  return give_filled(c, 0, 1, DType::f32, number_of(1));
}
PEN_OP(full, "[out]",
       "aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None) -> Tensor") {
  return give_filled(c, 0, 2, dtype_of_number(c.args[1]), c.args[1]);
}
// Files of operator version 4 and before: a float, whatever the number.
PEN_OP(full_old,
       "upgrade::full_0_4(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None) -> Tensor") {
  return give_filled(c, 0, 2, DType::f32, c.args[1]);
}
// Memory that a file leaves uninitialized is zeros here: the same on every run.
PEN_OP(empty, "[out=out]",
       "aten::empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None, MemoryFormat? memory_format=None) -> Tensor") {
  Shape shape;
  DType dtype;
  Format format;
  PEN_TRY(sizes_of(c, 0, &shape));
  PEN_TRY(c.dtype(1, DType::f32, &dtype));
  PEN_TRY(format_of(c, 5, Format::contiguous, &format));
  if (format == Format::preserve) return c.fail("a memory format to lie in", "preserve_format");
  PEN_TRY(make_fresh(c, dtype, shape, format, nullptr, &c.results[0]));
  return fill(c, c.results[0].tensor(), number_of(0));
}
static Status give_strided(Call& c, int sizes, int strides_at, DType dtype) {
  Shape shape;
  int64_t strides[kMaxRank], numel, reach = 1, span;
  PEN_TRY(sizes_of(c, sizes, &shape));
  PEN_TRY(numel_of(c, shape, &numel));
  if (c.ints(strides_at, strides, kMaxRank) != shape.rank) return c.fail("as many strides as sizes", "%d sizes", shape.rank);
  for (int d = 0; d < shape.rank; ++d) {
    if (strides[d] < 0 || strides[d] > int64_t{1} << 50)
      return c.fail("strides from 0 to 2**50", "%lld", static_cast<long long>(strides[d]));
    if (numel == 0) continue;
    if (mul_overflows(shape.dims[d] - 1, strides[d], &span) || add_overflows(reach, span, &reach))
      return c.fail("strides inside of memory", "%lld", static_cast<long long>(strides[d]));
  }
  int64_t length = numel ? reach : 0;
  TensorObject* all = tensor_create(dtype, 1, &length);
  if (!all) return c.out_of_memory();
  Value kept = Value::own(all);
  PEN_TRY(fill(c, all, number_of(0)));
  return give_view(c, *all, shape, strides);
}
PEN_OP(empty_strided, "[out]",
       "aten::empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None) -> Tensor") {
  DType dtype;
  PEN_TRY(c.dtype(2, DType::f32, &dtype));
  return give_strided(c, 0, 1, dtype);
}
PEN_OP(new_empty_strided, "[out]",
       "aten::new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, Device? "
       "device=None, bool? pin_memory=None) -> Tensor") {
  DType dtype;
  PEN_TRY(c.dtype(3, c.tensor(0).dtype(), &dtype));
  return give_strided(c, 1, 2, dtype);
}

PEN_OP(zeros_like, "[out]",
       "aten::{zeros_like,empty_like}(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None, MemoryFormat? memory_format=None) -> Tensor") {
  return give_filled_like(c, 1, 5, number_of(0));
}
PEN_OP(ones_like, "[out]",
       "aten::ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, "
       "MemoryFormat? memory_format=None) -> Tensor") {
  return give_filled_like(c, 1, 5, number_of(1));
}
PEN_OP(full_like, "[out]",
       "aten::full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None, MemoryFormat? memory_format=None) -> Tensor") {
  return give_filled_like(c, 2, 6, c.args[1]);
}
PEN_OP(new_zeros, "[out]",
       "aten::{new_zeros,new_empty}(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None) -> Tensor") {
  return give_filled(c, 1, 2, c.tensor(0).dtype(), number_of(0));
}
PEN_OP(new_ones, "[out]",
       "aten::new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None) -> Tensor") {
  return give_filled(c, 1, 2, c.tensor(0).dtype(), number_of(1));
}
PEN_OP(new_full, "[out]",
       "aten::new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
       "bool? pin_memory=None) -> Tensor") {
  return give_filled(c, 1, 3, c.tensor(0).dtype(), c.args[2]);
}
PEN_OP(
    scalar_tensor, "[out]",
    "aten::scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor") {
  DType dtype;
  PEN_TRY(c.dtype(1, DType::f32, &dtype));
  return c.give(tensor_of(c.args[0], dtype));
}

// ---- rows of numbers ----
// A fresh row of `count` numbers, each `rule(i)` as a Value.
template <class Rule>
static Status give_row(Call& c, DType dtype, int64_t count, Rule rule) {
  TensorObject* t = tensor_create(dtype, 1, &count);
  PEN_TRY(c.give(t));
  int64_t size = dtype_size(dtype);
  for (int64_t i = 0; i < count; ++i) {
    PEN_TRY(c.walk(1));
    number_into(rule(i), dtype, t->data() + i * size);
  }
  return PEN_OK;
}
static Status give_range(Call& c, const Value& start, const Value& end, const Value& step, int dtype_at, bool with_end) {
  bool reals = start.tag() == Tag::real || end.tag() == Tag::real || step.tag() == Tag::real;
  DType dtype;
  PEN_TRY(c.dtype(dtype_at, with_end || reals ? DType::f32 : DType::i64, &dtype));
  double s = start.number(), e = end.number(), by = step.number(), length;
  if (dtype == DType::i64 && reals) s = trunc(s), e = trunc(e), by = trunc(by);
  constexpr double kMost = 1e15;
  if (s != s || e != e || by != by || s - s != 0 || e - e != 0) return c.fail("finite bounds", "%g and %g", s, e);
  if (by == 0) return c.fail("a step other than 0", "0");
  if ((by > 0 && s > e) || (by < 0 && s < e)) return c.fail("bounds in the direction of the step", "%g to %g by %g", s, e, by);
  bool whole = is_integral(dtype, false);
  constexpr double kLargest = 9.2e18;
  if (whole && reals && !(s < kLargest && s > -kLargest && by < kLargest && by > -kLargest))
    return c.fail("bounds that integers hold", "%g by %g", s, by);
  int64_t first = whole && reals ? static_cast<int64_t>(s) : start.integer(),
          each = whole && reals ? static_cast<int64_t>(by) : step.integer();
  if (whole && !reals) {  // exact beyond 2**53 too
    uint64_t distance = by > 0 ? static_cast<uint64_t>(end.integer()) - static_cast<uint64_t>(first)
                               : static_cast<uint64_t>(first) - static_cast<uint64_t>(end.integer());
    uint64_t stride = by > 0 ? static_cast<uint64_t>(each) : uint64_t{0} - static_cast<uint64_t>(each);
    uint64_t count = with_end ? distance / stride + 1 : distance / stride + (distance % stride != 0);
    length = count > static_cast<uint64_t>(kMost) ? kMost + 1 : static_cast<double>(count);
  } else {
    length = with_end ? floor((e - s) / by) + 1 : ceil((e - s) / by);
  }
  if (!(length <= kMost)) return c.fail("as many numbers as memory holds", "%g", length);
  int64_t count = static_cast<int64_t>(length);
  if (whole)
    return give_row(c, dtype, count, [&](int64_t i) {
      return Value(static_cast<int64_t>(static_cast<uint64_t>(first) + static_cast<uint64_t>(i) * static_cast<uint64_t>(each)));
    });
  return give_row(c, dtype, count, [&](int64_t i) { return Value(s + static_cast<double>(i) * by); });
}
PEN_OP(arange, "[out]",
       "aten::arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor") {
  return give_range(c, Value(int64_t{0}), c.args[0], Value(int64_t{1}), 1, false);
}
PEN_OP(arange_start,
       "aten::arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None) -> Tensor") {
  return give_range(c, c.args[0], c.args[1], Value(int64_t{1}), 2, false);
}
PEN_OP(arange_step, "[out=start_out]",
       "aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? "
       "device=None, bool? pin_memory=None) -> Tensor") {
  return give_range(c, c.args[0], c.args[1], c.args[2], 3, false);
}
PEN_OP(range_step, "[out=out]",
       "aten::range.step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
       "bool? pin_memory=None) -> Tensor") {
  return give_range(c, c.args[0], c.args[1], c.args[2], 3, true);
}
PEN_OP(range, "[out=out_]",
       "aten::range(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) "
       "-> Tensor") {
  return give_range(c, c.args[0], c.args[1], Value(int64_t{1}), 2, true);
}

// `steps` numbers from the one in argument 0 to the one in argument 1; base: powers of it.
static Status give_spaced(Call& c, int64_t steps, DType dtype, const double* base) {
  Value ends[2];
  for (int i = 0; i < 2; ++i) {
    ends[i] = c.args[i];
    if (ends[i].tag() == Tag::tensor) PEN_TRY(number_in(c, c.tensor(i), &ends[i]));
  }
  if (steps < 0) return c.fail("steps of 0 or more", "%lld", static_cast<long long>(steps));
  double start = ends[0].number(), end = ends[1].number();
  if (dtype == DType::f32) start = static_cast<float>(start), end = static_cast<float>(end);
  if (is_integral(dtype, false)) start = trunc(start), end = trunc(end);
  double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  if (dtype == DType::f32) step = static_cast<float>(step);
  return give_row(c, dtype, steps, [&](int64_t i) {
    // from the nearer end, so that both are exact
    double v = i < steps / 2 || steps == 1 ? start + step * static_cast<double>(i) : end - step * static_cast<double>(steps - 1 - i);
    return Value(base ? pow(*base, v) : v);
  });
}
PEN_OP(linspace, "[out]",
       "aten::linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None) -> Tensor",
       "aten::linspace.Tensor_Tensor(Tensor start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? "
       "device=None, bool? pin_memory=None) -> Tensor",
       "aten::linspace.Tensor_Scalar(Tensor start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? "
       "device=None, bool? pin_memory=None) -> Tensor",
       "aten::linspace.Scalar_Tensor(Scalar start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? "
       "device=None, bool? pin_memory=None) -> Tensor",
       "upgrade::linspace_0_7(Scalar start, Scalar end, int? steps=None, *, ScalarType? dtype=None, Layout? layout=None, Device? "
       "device=None, bool? pin_memory=None) -> Tensor") {
  DType dtype;
  PEN_TRY(c.dtype(3, DType::f32, &dtype));
  return give_spaced(c, c.given(2) ? c.integer(2) : 100, dtype, nullptr);
}
PEN_OP(logspace, "[out]",
       "aten::logspace(Scalar start, Scalar end, int steps, float base=10.0, *, ScalarType? dtype=None, Layout? layout=None, Device? "
       "device=None, bool? pin_memory=None) -> Tensor",
       "aten::logspace.Tensor_Tensor(Tensor start, Tensor end, int steps, float base=10.0, *, ScalarType? dtype=None, Layout? layout=None, "
       "Device? device=None, bool? pin_memory=None) -> Tensor",
       "aten::logspace.Tensor_Scalar(Tensor start, Scalar end, int steps, float base=10.0, *, ScalarType? dtype=None, Layout? layout=None, "
       "Device? device=None, bool? pin_memory=None) -> Tensor",
       "aten::logspace.Scalar_Tensor(Scalar start, Tensor end, int steps, float base=10.0, *, ScalarType? dtype=None, Layout? layout=None, "
       "Device? device=None, bool? pin_memory=None) -> Tensor",
       "upgrade::logspace_0_8(Scalar start, Scalar end, int? steps=None, float base=10.0, *, ScalarType? dtype=None, Layout? layout=None, "
       "Device? device=None, bool? pin_memory=None) -> Tensor") {
  DType dtype;
  PEN_TRY(c.dtype(4, DType::f32, &dtype));
  double base = c.number(3);
  return give_spaced(c, c.given(2) ? c.integer(2) : 100, dtype, &base);
}

static Status give_eye(Call& c, int64_t n, int64_t m, int dtype_at) {
  DType dtype;
  PEN_TRY(c.dtype(dtype_at, DType::f32, &dtype));
  Shape shape;
  shape.rank = 2;
  shape.dims[0] = n, shape.dims[1] = m;
  if (n < 0 || m < 0) return c.fail("sizes of 0 or more", "%lld and %lld", static_cast<long long>(n), static_cast<long long>(m));
  PEN_TRY(make_fresh(c, dtype, shape, Format::contiguous, nullptr, &c.results[0]));
  TensorObject* t = c.results[0].tensor();
  PEN_TRY(fill(c, t, number_of(0)));
  int64_t size = dtype_size(dtype);
  for (int64_t i = 0; i < n && i < m; ++i) number_into(number_of(1), dtype, t->data() + i * (m + 1) * size);
  return PEN_OK;
}
PEN_OP(eye, "[out]",
       "aten::eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor") {
  return give_eye(c, c.integer(0), c.integer(0), 1);
}
PEN_OP(eye_m, "[out]",
       "aten::eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> "
       "Tensor") {
  return give_eye(c, c.integer(0), c.integer(1), 2);
}

// Rows and columns of what lies below (or above) a diagonal of a matrix of row x col.
PEN_OP(triangle_indices, "[out]",
       "aten::{tril,triu}_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None) -> Tensor") {
  int64_t rows = c.integer(0), columns = c.integer(1), offset = c.integer(2);
  bool lower = c.word() == 0;
  DType dtype;
  PEN_TRY(c.dtype(3, DType::i64, &dtype));
  if (rows < 0 || columns < 0 || rows > int64_t{1} << 24 || columns > int64_t{1} << 24)
    return c.fail("sizes from 0 to 2**24", "%lld and %lld", static_cast<long long>(rows), static_cast<long long>(columns));
  offset = offset > columns ? columns : offset < -rows ? -rows : offset;
  auto bounds = [&](int64_t r, int64_t* from, int64_t* to) {
    int64_t at = r + offset + (lower ? 1 : 0);
    at = at < 0 ? 0 : at > columns ? columns : at;
    *from = lower ? 0 : at;
    *to = lower ? at : columns;
  };
  int64_t count = 0, from, to;
  for (int64_t r = 0; r < rows; ++r) {
    PEN_TRY(c.walk(1));
    bounds(r, &from, &to);
    count += to - from;
  }
  int64_t dims[] = {2, count};
  TensorObject* t = tensor_create(dtype, 2, dims);
  PEN_TRY(c.give(t));
  int64_t at = 0, size = dtype_size(dtype);
  for (int64_t r = 0; r < rows; ++r) {
    bounds(r, &from, &to);
    for (int64_t k = from; k < to; ++k, ++at) {
      PEN_TRY(c.walk(2));
      number_into(Value(r), dtype, t->data() + at * size);
      number_into(Value(k), dtype, t->data() + (count + at) * size);
    }
  }
  return PEN_OK;
}

}  // namespace pen
