// From real numbers to quantized tensors and back, and what can be asked of one.
#include "penlight/ops/quantized/quantized.h"

#include "penlight/runtime/base/dims.h"
#include "penlight/runtime/vm/graph.h"

namespace pen {

bool is_quantized_dtype(DType d) { return d == DType::u8 || d == DType::i8 || d == DType::i32; }

Status affine_of(const Call& c, const TensorObject& t, Affine* to) {
  if (!t.quantizer) return c.fail("a quantized tensor", "one of %s", dtype_name(t.dtype()));
  if (!is_quantized_dtype(t.dtype())) return c.fail("quantized integers of 8 or 32 bits", "%s", dtype_name(t.dtype()));
  if (t.quantizer->axis >= 0) return c.fail("a tensor quantized with one scale", "one with a scale for each channel");
  *to = {t.quantizer->scale, t.quantizer->zero_point};
  return check_zero_point(c, to->zero, t.dtype());
}
Status channels_fit(const Call& c, const TensorObject& t) {
  const Quantizer& q = *t.quantizer;
  if (!is_quantized_dtype(t.dtype())) return c.fail("quantized integers of 8 or 32 bits", "%s", dtype_name(t.dtype()));
  if (q.axis < 0) return PEN_OK;
  if (q.axis < t.rank() && t.dim(q.axis) == q.channels) return PEN_OK;
  return c.fail("as many scales as the tensor has channels", "%lld, for dim %d of a tensor of rank %d", static_cast<long long>(q.channels),
                q.axis, t.rank());
}
Status check_zero_point(const Call& c, int64_t zero_point, DType dtype) {
  Levels l = levels_of(dtype);
  if (zero_point >= l.low && zero_point <= l.high) return PEN_OK;
  return c.fail("a zero point that the dtype can hold", "%lld for %s", static_cast<long long>(zero_point), dtype_name(dtype));
}
Status check_scale(const Call& c, double scale) {
  if (scale > 0 && 1.0f / static_cast<float>(scale) > 0 && static_cast<float>(scale) > 0) return PEN_OK;
  return c.fail("a scale above zero that f32 can hold", "%g", scale);
}
Status quantized_dtype(const Call& c, int i, DType otherwise, DType* to) {
  *to = otherwise;
  if (!c.given(i)) return PEN_OK;
  int64_t code = c.integer(i);
  if (code < 12 || code > 14) return c.fail("quint8, qint8 or qint32", "torch's dtype number %lld", static_cast<long long>(code));
  *to = code == 12 ? DType::i8 : code == 13 ? DType::u8 : DType::i32;
  return PEN_OK;
}

// ---- tensors in an order ----
static void channels_last_strides(int rank, const int64_t* dims, int64_t* strides) {
  int64_t step = 1;
  auto put = [&](int d) {
    strides[d] = step;
    step *= dims[d] > 1 ? dims[d] : 1;
  };
  put(1);
  for (int d = rank - 1; d > 1; --d) put(d);
  put(0);
}
static bool lies_as(const TensorObject& t, const int64_t* strides) {
  for (int d = 0; d < t.rank(); ++d)
    if (t.dim(d) == 0) return true;
  for (int d = 0; d < t.rank(); ++d)
    if (t.dim(d) > 1 && t.shape.strides[d] != strides[d]) return false;
  return true;
}
static bool lies_channels_last(const TensorObject& t) {
  int64_t strides[kMaxRank];
  if (t.rank() != 4 && t.rank() != 5) return false;
  channels_last_strides(t.rank(), t.shape.dims, strides);
  return lies_as(t, strides);
}
Order order_of(const TensorObject& t) { return lies_channels_last(t) && !tensor_is_contiguous(t) ? Order::channels : Order::rows; }

TensorObject* ordered_create(DType dtype, int rank, const int64_t* dims, Order order) {
  TensorObject* t = tensor_create(dtype, rank, dims);
  if (t && order == Order::channels && rank >= 3) channels_last_strides(rank, dims, t->shape.strides);
  return t;
}
TensorObject* quantized_create(DType dtype, int rank, const int64_t* dims, Order order, double scale, int64_t zero_point) {
  TensorObject* t = ordered_create(dtype, rank, dims, order);
  if (!t) return nullptr;
  t->quantizer = quantizer_create(scale, zero_point);
  if (t->quantizer) return t;
  heap_release(t);
  return nullptr;
}
static void share_quantizer(TensorObject* to, const TensorObject& from) {
  if (!from.quantizer) return;
  ++from.quantizer->refs;
  tensor_set_quantizer(to, from.quantizer);
}
TensorObject* ordered(const Call& c, const TensorObject& t, Order order, Status* status) {
  *status = PEN_OK;
  if (order == Order::rows ? tensor_is_contiguous(t) : lies_channels_last(t)) {
    ++const_cast<TensorObject&>(t).refs;
    return const_cast<TensorObject*>(&t);
  }
  TensorObject* made = ordered_create(t.dtype(), t.rank(), t.shape.dims, order);
  if (!made) {
    *status = c.out_of_memory();
    return nullptr;
  }
  *status = copy_into(c, made, t);
  if (*status != PEN_OK) {
    heap_release(made);
    return nullptr;
  }
  share_quantizer(made, t);
  return made;
}

static Status flip_signs(const Call& c, const char* from, char* to, int64_t bytes) {
  return in_parts(c, bytes, 1 << 16, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<char>(from[i] ^ 0x80);
  });
}
Status bytes_of(const Call& c, const TensorObject& t, Order order, Value* to, Affine* a) {
  PEN_TRY(affine_of(c, t, a));
  if (t.dtype() == DType::i32) return c.fail("an input of quint8 or qint8", "qint32");
  Status status;
  *to = Value::own(ordered(c, t, order, &status));
  if (status != PEN_OK || t.dtype() == DType::u8) return status;
  Value dense = *to;
  *to = Value::own(ordered_create(DType::u8, t.rank(), t.shape.dims, order));
  if (to->is_none()) return c.out_of_memory();
  PEN_TRY(flip_signs(c, dense.tensor()->data(), to->tensor()->data(), t.numel()));
  a->zero = byte_zero(DType::i8, a->zero);
  return PEN_OK;
}
Status from_bytes(const Call& c, DType dtype, Order order, double scale, int64_t zero_point, Value* made) {
  if (made->is_none()) return c.out_of_memory();
  Status status;
  *made = Value::own(ordered(c, *made->tensor(), order, &status));
  PEN_TRY(status);
  TensorObject& t = *made->tensor();
  if (dtype == DType::i8) PEN_TRY(flip_signs(c, t.data(), t.data(), t.numel()));
  t.shape.dtype = dtype;
  tensor_set_quantizer(&t, quantizer_create(scale, zero_point));
  return t.quantizer ? PEN_OK : c.out_of_memory();
}

// ---- real numbers to integers and back ----
template <class F>
static Status each_channel(const Call& c, const TensorObject& t, const F& f) {
  const Quantizer& q = *t.quantizer;  // t is row-major
  int64_t inner = 1, outer = 1;
  for (int d = 0; d < t.rank(); ++d) (d < q.axis ? outer : inner) *= d == q.axis ? 1 : t.dim(d);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t k = 0; k < q.channels; ++k) {
      const int64_t first = (o * q.channels + k) * inner;
      PEN_TRY(
          in_pieces(c, inner, [&](int64_t begin, int64_t end) { f(first + begin, end - begin, Affine{q.scales[k], q.zero_points[k]}); }));
    }
  return PEN_OK;
}

// What a graph of one node makes of x, which lies as x does.
static TensorObject* convert(const Call& c, Graph* g, int made, Order order, Status* status) {
  if (order == Order::channels) g->channels(made);
  *status = g->run(made);
  if (*status != PEN_OK) return nullptr;
  Value result = Value::own(g->take(0));
  if (!result.is_none()) return ordered(c, *result.tensor(), order, status);
  *status = c.out_of_memory();
  return nullptr;
}

TensorObject* dequantized(const Call& c, const TensorObject& t, Status* status) {
  const Quantizer& q = *t.quantizer;
  *status = channels_fit(c, t);
  if (*status != PEN_OK) return nullptr;
  if (q.axis < 0) {
    Graph g(c);
    int x = g.input(t);
    g.quantized(x, q.scale, q.zero_point);
    return convert(c, &g, g.node(Key("dequantize", t.dtype()), x), order_of(t), status);
  }
  Value dense = Value::own(ordered(c, t, Order::rows, status));
  if (*status != PEN_OK) return nullptr;
  TensorObject* made = tensor_create(DType::f32, t.rank(), t.shape.dims);
  if (!made) {
    *status = c.out_of_memory();
    return nullptr;
  }
  // torch computes these in f64
  *status = each_channel(c, *dense.tensor(), [&](int64_t begin, int64_t count, Affine a) {
    for (int64_t i = begin; i < begin + count; ++i)
      made->as<float>()[i] = static_cast<float>(static_cast<double>(stored(*dense.tensor(), i) - a.zero) * a.scale);
  });
  if (*status == PEN_OK) return made;
  heap_release(made);
  return nullptr;
}

TensorObject* quantized_from(const Call& c, const TensorObject& real, double scale, int64_t zero_point, DType dtype, Status* status) {
  if (real.quantizer || real.dtype() != DType::f32) {
    *status = c.fail("a tensor of Float to quantize", "%s", real.quantizer ? "a quantized one" : dtype_name(real.dtype()));
    return nullptr;
  }
  *status = check_zero_point(c, zero_point, dtype);
  if (*status != PEN_OK) return nullptr;
  Levels levels = levels_of(dtype);
  Graph g(c);
  int y = g.node("quantize.f32", real);
  g.integer("low", levels.low).integer("high", levels.high);
  g.quantized(y, scale, zero_point, dtype);
  TensorObject* made = convert(c, &g, y, order_of(real), status);
  if (!made) return nullptr;
  tensor_set_quantizer(made, quantizer_create(scale, zero_point));
  if (made->quantizer) return made;
  heap_release(made);
  *status = c.out_of_memory();
  return nullptr;
}

Status look_up(Call& c, const TensorObject& x, const uint8_t* table, double scale, int64_t zero_point) {
  const int64_t size = 256;
  Value numbers = Value::own(tensor_create(DType::u8, 1, &size));
  if (numbers.is_none()) return c.out_of_memory();
  memcpy(numbers.tensor()->data(), table, 256);
  Tensor bytes = x.view();
  bytes.dtype = DType::u8;
  Graph g(c);
  int in = g.input(bytes), y = g.node("lookup.q8", in, *numbers.tensor());
  g.quantized(in, 1.0, 0);  // the table knows better
  g.quantized(y, 1.0, 0);
  Status status;
  Value made = Value::own(convert(c, &g, y, order_of(x), &status));
  PEN_TRY(status);
  made.tensor()->shape.dtype = x.dtype();
  tensor_set_quantizer(made.tensor(), quantizer_create(scale, zero_point));
  return made.tensor()->quantizer ? c.give(static_cast<Value&&>(made)) : c.out_of_memory();
}

Status smallest_and_largest(const Call& c, const TensorObject& t, float* low, float* high) {
  const float* x = t.as<float>();
  int64_t n = t.numel();
  *low = *high = n ? x[0] : 0.0f;
  bool numbers = true;
  float least = *low, most = *high;
  PEN_TRY(in_pieces(c, n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      least = x[i] < least ? x[i] : least;
      most = x[i] > most ? x[i] : most;
      numbers &= x[i] == x[i];
    }
  }));
  *low = least, *high = most;
  if (!numbers) *low = *high = __builtin_nanf("");
  return PEN_OK;
}

// ---- operators ----
static Status quantize(Call& c, double scale, int64_t zero_point, int dtype_at) {
  DType dtype;
  PEN_TRY(quantized_dtype(c, dtype_at, DType::u8, &dtype));
  Status status;
  TensorObject* made = quantized_from(c, c.tensor(0), scale, zero_point, dtype, &status);
  return status == PEN_OK ? c.give(made) : status;
}
PEN_OP(quantize_per_tensor, "[out]", "aten::quantize_per_tensor(Tensor self, float scale, int zero_point, ScalarType dtype) -> Tensor") {
  return quantize(c, c.number(1), c.integer(2), 3);
}
// A number of tensor t at place i, as torch's item() reads it.
static Status number_at(const Call& c, const TensorObject& t, int64_t i, Value* number) {
  Value one = Value::own(tensor_view(t, 0, nullptr, nullptr, t.offset + i * (t.rank() ? t.shape.strides[0] : 0) * dtype_size(t.dtype())));
  return one.is_none() ? c.out_of_memory() : number_in(c, *one.tensor(), number);
}
static int64_t whole(const Value& v) {
  return v.tag() == Tag::real ? (v.real() > -9e18 && v.real() < 9e18 ? static_cast<int64_t>(v.real()) : INT64_MAX) : v.integer();
}
PEN_OP(quantize_per_tensor_qparams, "[out]",
       "aten::quantize_per_tensor.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, ScalarType dtype) -> Tensor") {
  Value scale, zero;
  PEN_TRY(number_in(c, c.tensor(1), &scale));
  PEN_TRY(number_in(c, c.tensor(2), &zero));
  return quantize(c, scale.number(), whole(zero), 3);
}
PEN_OP(quantize_per_tensor_tensors, "[out]",
       "aten::quantize_per_tensor.tensors(Tensor[] tensors, Tensor scales, Tensor zero_points, ScalarType dtype) -> Tensor[]") {
  const ListObject& tensors = c.list(0);
  const TensorObject &scales = c.tensor(1), &zeros = c.tensor(2);
  DType dtype;
  PEN_TRY(quantized_dtype(c, 3, DType::u8, &dtype));
  if (scales.rank() > 1 || zeros.rank() > 1 || scales.numel() < tensors.count || zeros.numel() < tensors.count)
    return c.fail("a scale and a zero point for each tensor", "%lld and %lld for %lld", static_cast<long long>(scales.numel()),
                  static_cast<long long>(zeros.numel()), static_cast<long long>(tensors.count));
  Value made = Value::own(list_create(tensors.count));
  if (made.is_none()) return c.out_of_memory();
  for (int64_t i = 0; i < tensors.count; ++i) {
    Value scale, zero;
    PEN_TRY(number_at(c, scales, i, &scale));
    PEN_TRY(number_at(c, zeros, i, &zero));
    Status status;
    Value one = Value::own(quantized_from(c, *tensors.items[i].tensor(), scale.number(), whole(zero), dtype, &status));
    PEN_TRY(status);
    if (!list_append(made.list(), one)) return c.out_of_memory();
  }
  return c.give(static_cast<Value&&>(made));
}
// reduce_range leaves a bit unused, for engines whose products saturate.
static Levels dynamic_levels(DType d, bool reduce_range) {
  Levels l = levels_of(d);
  return reduce_range ? Levels{l.low / 2, l.high / 2} : l;
}
PEN_OP(quantize_per_tensor_dynamic, "[out]",
       "aten::quantize_per_tensor_dynamic(Tensor self, ScalarType dtype, bool reduce_range) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  DType dtype;
  PEN_TRY(quantized_dtype(c, 1, DType::u8, &dtype));
  if (dtype == DType::i32) return c.fail("quint8 or qint8", "qint32");
  if (x.dtype() != DType::f32) return c.fail("a tensor of Float to quantize", "%s", dtype_name(x.dtype()));
  Status status;
  Value dense = Value::own(ordered(c, x, order_of(x), &status));
  PEN_TRY(status);
  float low, high;
  Affine a;
  PEN_TRY(smallest_and_largest(c, *dense.tensor(), &low, &high));
  Levels levels = dynamic_levels(dtype, c.flag(2));
  if (!choose_scale(low, high, levels.low, levels.high, &a)) return c.fail("numbers to quantize", "NaN");
  TensorObject* made = quantized_from(c, *dense.tensor(), a.scale, a.zero, dtype, &status);
  return status == PEN_OK ? c.give(made) : status;
}
PEN_OP(choose_qparams, "aten::_choose_qparams_per_tensor(Tensor self, bool reduce_range=False) -> (float, int)") {
  if (c.tensor(0).dtype() != DType::f32) return c.fail("a tensor of Float", "%s", dtype_name(c.tensor(0).dtype()));
  Status status;
  Value dense = Value::own(ordered(c, c.tensor(0), Order::rows, &status));
  PEN_TRY(status);
  float low, high;
  Affine a;
  PEN_TRY(smallest_and_largest(c, *dense.tensor(), &low, &high));
  if (!choose_scale(low, high, 0, dynamic_levels(DType::u8, c.flag(1)).high, &a)) return c.fail("numbers to quantize", "NaN");
  PEN_TRY(c.give(Value(a.scale), 0));
  return c.give(Value(a.zero), 1);
}

// The quantizer of a tensor of these dims, from tensors of scales and zero points.
static Status channel_quantizer(Call& c, const TensorObject& x, DType dtype, int scales_at, int zeros_at, int axis_at, Quantizer** to) {
  const TensorObject &scales = c.tensor(scales_at), &zeros = c.tensor(zeros_at);
  int axis;
  PEN_TRY(c.dim(axis_at, x.rank(), &axis));
  int64_t channels = x.rank() ? x.dim(axis) : 0;
  if (scales.rank() != 1 || zeros.rank() != 1 || scales.numel() != channels || zeros.numel() != channels)
    return c.fail("a row of scales and one of zero points, one for each channel", "%lld and %lld for %lld channels",
                  static_cast<long long>(scales.numel()), static_cast<long long>(zeros.numel()), static_cast<long long>(channels));
  if (is_floating(zeros.dtype())) return c.fail("zero points that are integers", "%s", dtype_name(zeros.dtype()));
  Quantizer* q = quantizer_create(axis, channels);
  if (!q) return c.out_of_memory();
  Status status = PEN_OK;
  for (int64_t i = 0; i < channels && status == PEN_OK; ++i) {
    Value scale, zero;
    status = number_at(c, scales, i, &scale);
    if (status == PEN_OK) status = number_at(c, zeros, i, &zero);
    if (status != PEN_OK) break;
    q->scales[i] = scale.number();
    q->zero_points[i] = zero.integer();
    status = check_zero_point(c, q->zero_points[i], dtype);
  }
  if (status != PEN_OK) {
    quantizer_release(q);
    return status;
  }
  *to = q;
  return PEN_OK;
}
PEN_OP(quantize_per_channel, "[out]",
       "aten::quantize_per_channel(Tensor self, Tensor scales, Tensor zero_points, int axis, ScalarType dtype) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  DType dtype;
  PEN_TRY(quantized_dtype(c, 4, DType::i8, &dtype));
  if (x.dtype() != DType::f32) return c.fail("a tensor of Float to quantize", "%s", dtype_name(x.dtype()));
  Status status;
  Value dense = Value::own(ordered(c, x, Order::rows, &status));
  PEN_TRY(status);
  Value made = Value::own(tensor_create(dtype, x.rank(), x.shape.dims));
  if (made.is_none()) return c.out_of_memory();
  PEN_TRY(channel_quantizer(c, x, dtype, 1, 2, 3, &made.tensor()->quantizer));
  const float* from = dense.tensor()->as<float>();
  PEN_TRY(each_channel(c, *made.tensor(), [&](int64_t begin, int64_t count, Affine a) {
    Quantize q(a.scale, a.zero, dtype);
    for (int64_t i = begin; i < begin + count; ++i) store(*made.tensor(), i, q.wide(from[i]));
  }));
  return c.give(static_cast<Value&&>(made));
}
PEN_OP(make_per_tensor_quantized, "[out]", "aten::_make_per_tensor_quantized_tensor(Tensor self, float scale, int zero_point) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  if (!is_quantized_dtype(x.dtype())) return c.fail("integers of 8 or 32 bits", "%s", dtype_name(x.dtype()));
  PEN_TRY(check_zero_point(c, c.integer(2), x.dtype()));
  Status status;
  Value made = Value::own(tensor_clone(c, x, &status));
  PEN_TRY(status);
  Quantizer* q = quantizer_create(c.number(1), c.integer(2));
  if (!q) return c.out_of_memory();
  tensor_set_quantizer(made.tensor(), q);
  return c.give(static_cast<Value&&>(made));
}
PEN_OP(make_per_channel_quantized, "[out]",
       "aten::_make_per_channel_quantized_tensor(Tensor self, Tensor scale, Tensor zero_point, int axis) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  if (!is_quantized_dtype(x.dtype())) return c.fail("integers of 8 or 32 bits", "%s", dtype_name(x.dtype()));
  Status status;
  Value made = Value::own(tensor_clone(c, x, &status));
  PEN_TRY(status);
  Quantizer* q = nullptr;
  PEN_TRY(channel_quantizer(c, x, x.dtype(), 1, 2, 3, &q));
  tensor_set_quantizer(made.tensor(), q);
  return c.give(static_cast<Value&&>(made));
}
PEN_OP(empty_affine_quantized, "[out]",
       "aten::_empty_affine_quantized(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? "
       "pin_memory=None, float scale=1., int zero_point=0, MemoryFormat? memory_format=0) -> Tensor") {
  int64_t dims[kMaxRank];
  int rank = c.ints(0, dims, kMaxRank);
  if (rank > kMaxRank) return c.fail("at most 8 dims", "%d", rank);
  for (int d = 0; d < rank; ++d)
    if (dims[d] < 0) return c.fail("sizes of 0 or more", "%lld", static_cast<long long>(dims[d]));
  DType dtype;
  PEN_TRY(quantized_dtype(c, 1, DType::u8, &dtype));
  PEN_TRY(check_zero_point(c, c.integer(6), dtype));
  Order order = c.given(7) && c.integer(7) == 2 ? Order::channels : Order::rows;
  TensorObject* made = quantized_create(dtype, rank, dims, order, c.number(5), c.integer(6));
  if (made) memset(made->data(), 0, static_cast<size_t>(made->numel() * dtype_size(dtype)));
  return c.give(made);
}

// What is not quantized is only cast.
static Status dequantize(const Call& c, const TensorObject& t, Value* to) {
  Status status;
  if (t.quantizer)
    *to = Value::own(dequantized(c, t, &status));
  else if (t.dtype() == DType::f32)
    *to = Value::share(const_cast<TensorObject*>(&t)), status = PEN_OK;
  else
    *to = Value::own(tensor_cast(c, t, DType::f32, &status));
  return status;
}
PEN_OP(dequantize, "[quantized]", "aten::dequantize.self(Tensor self) -> Tensor", "aten::dequantize.tensor(Tensor qtensor) -> Tensor",
       "aten::dequantize(Tensor self) -> Tensor", "aten::dequantize.self_out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)") {
  return dequantize(c, c.tensor(0), &c.results[0]);
}
static Status dequantize_list(const Call& c, const ListObject& from, Value* to) {
  Value made = Value::own(list_create(from.count));
  if (made.is_none()) return c.out_of_memory();
  for (int64_t i = 0; i < from.count; ++i) {
    if (from.items[i].tag() != Tag::tensor) return c.fail("a list of Tensors", "%s among them", from.items[i].tag_name());
    Value one;
    PEN_TRY(dequantize(c, *from.items[i].tensor(), &one));
    if (!list_append(made.list(), one)) return c.out_of_memory();
  }
  *to = static_cast<Value&&>(made);
  return PEN_OK;
}
PEN_OP(dequantize_tensors, "[quantized]", "[out]aten::dequantize.tensors(Tensor[] tensors) -> Tensor[]",
       "aten::dequantize.list(Tensor[] qtensors) -> Tensor[]") {
  return dequantize_list(c, c.list(0), &c.results[0]);
}
PEN_OP(dequantize_any, "[quantized]", "aten::dequantize.any(Any tensors) -> Any") {
  const Value& given = c.args[0];
  if (given.tag() == Tag::tensor) return dequantize(c, *given.tensor(), &c.results[0]);
  if (given.tag() == Tag::list) return dequantize_list(c, *given.list(), &c.results[0]);
  if (given.tag() != Tag::tuple) return c.fail("a Tensor, or a list or tuple of Tensors", "%s", given.tag_name());
  const TupleObject& from = *given.tuple();
  Value made = Value::own(tuple_create(from.count));
  if (made.is_none()) return c.out_of_memory();
  for (int64_t i = 0; i < from.count; ++i) {
    if (from.items[i].tag() != Tag::tensor) return c.fail("a tuple of Tensors", "%s among them", from.items[i].tag_name());
    PEN_TRY(dequantize(c, *from.items[i].tensor(), &made.tuple()->items[i]));
  }
  return c.give(static_cast<Value&&>(made));
}

// ---- questions ----
PEN_OP(int_repr, "[quantized][out]", "aten::int_repr(Tensor self) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  if (!x.quantizer) return c.fail("a quantized tensor", "one of %s", dtype_name(x.dtype()));
  Value made = Value::own(ordered_create(x.dtype(), x.rank(), x.shape.dims, order_of(x)));
  if (made.is_none()) return c.out_of_memory();
  PEN_TRY(copy_into(c, made.tensor(), x));
  return c.give(static_cast<Value&&>(made));
}
PEN_OP(q_scale, "[quantized]", "aten::q_scale(Tensor self) -> float") {
  Affine a;
  PEN_TRY(affine_of(c, c.tensor(0), &a));
  return c.give(a.scale);
}
PEN_OP(q_zero_point, "[quantized]", "aten::q_zero_point(Tensor self) -> int") {
  Affine a;
  PEN_TRY(affine_of(c, c.tensor(0), &a));
  return c.give(a.zero);
}
static Status channels_of(const Call& c, const Quantizer** to) {
  *to = c.tensor(0).quantizer;
  if (*to && (*to)->axis >= 0) return PEN_OK;
  return c.fail("a tensor quantized with a scale for each channel", "%s", *to ? "one with one scale" : "one that is not quantized");
}
PEN_OP(q_per_channel_axis, "[quantized]", "aten::q_per_channel_axis(Tensor self) -> int") {
  const Quantizer* q;
  PEN_TRY(channels_of(c, &q));
  return c.give(int64_t{q->axis});
}
PEN_OP(q_per_channel_scales, "[quantized][out]", "aten::q_per_channel_scales(Tensor self) -> Tensor") {
  const Quantizer* q;
  PEN_TRY(channels_of(c, &q));
  TensorObject* made = tensor_create(DType::f64, 1, &q->channels);
  if (made) memcpy(made->data(), q->scales, static_cast<size_t>(q->channels) * 8);
  return c.give(made);
}
PEN_OP(q_per_channel_zero_points, "[quantized][out]", "aten::q_per_channel_zero_points(Tensor self) -> Tensor") {
  const Quantizer* q;
  PEN_TRY(channels_of(c, &q));
  TensorObject* made = tensor_create(DType::i64, 1, &q->channels);
  if (made) memcpy(made->data(), q->zero_points, static_cast<size_t>(q->channels) * 8);
  return c.give(made);
}
// torch's numbers: per_tensor_affine 0, per_channel_affine 1.
PEN_OP(qscheme, "[quantized]", "aten::qscheme(Tensor self) -> QScheme") {
  const Quantizer* q = c.tensor(0).quantizer;
  if (!q) return c.fail("a quantized tensor", "one of %s", dtype_name(c.tensor(0).dtype()));
  return c.give(int64_t{q->axis >= 0});
}

}  // namespace pen
