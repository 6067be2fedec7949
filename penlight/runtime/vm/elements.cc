// Elements of tensors, moved, cast and read one by one: what every operator of the VM may need of them.
#include "penlight/runtime/base/dims.h"
#include "penlight/runtime/cpu/copy.h"
#include "penlight/runtime/vm/graph.h"
#include "penlight/runtime/vm/images.h"
#include "penlight/runtime/vm/rows.h"

namespace pen {

Status move_elements(const Call& c, const Tensor& to, const Tensor& from) {
  PEN_TRY(finish(c.machine));
  return move_elements(c.machine, c.op->name, to, from);
}
Status move_elements(Machine* m, const char* op, const Tensor& to, const Tensor& from) {
  if (to.numel() == 0) return PEN_OK;
  CopyPlan plan = {};
  plan_copy(from, to, &plan);
  Key key = Key::by_size("copy", to.dtype);
  const KernelEntry* entry = find_kernel(key);
  RunFn run = entry ? run_function(*entry, m->isa) : nullptr;
  if (!run) return report(&m->error, {PEN_ERROR_KERNEL, "", op, "", "a kernel for copying", key.text});
  trace_kernel(m->runner.trace, entry);
  Fault fault = {};
  struct Work {
    RunFn run;
    Run arguments;
  } work = {run, {&from, &to, &plan, nullptr, nullptr, 0, plan.tasks, 0, &fault, nullptr, &m->runner.random, Caller{&m->runner, 0}}};
  PEN_TRY(machine_spend(m, op, to.numel()));
  if (plan.tasks <= 1) {
    run(work.arguments);
    return PEN_OK;
  }
  const bool done = run_tasks(
      &m->runner, plan.tasks,
      [](void* context, int64_t begin, int64_t end, int worker) {
        const Work& w = *static_cast<const Work*>(context);
        Run arguments = w.arguments;
        arguments.begin = begin;
        arguments.end = end;
        arguments.caller = w.arguments.caller.on(worker);
        w.run(arguments);
      },
      &work);
  return done ? PEN_OK : report_cancelled(&m->runner);
}

static bool overlap(const Storage& a, const Storage& b) { return a.data < b.data + b.bytes && b.data < a.data + a.bytes; }

// A tensor as a shape that it broadcasts to sees it.
static Tensor spread(const Tensor& t, const Shape& shape) {
  Tensor made = t;
  made.rank = shape.rank;
  for (int d = 0; d < shape.rank; ++d) {
    made.dims[d] = shape.dims[d];
    made.strides[d] = broadcast_stride(shape, d, t, t.rank);
  }
  return made;
}
Status copy_into(const Call& c, TensorObject* to, const TensorObject& from) {
  const Tensor source = from.view();
  const Shape shape = shape_of(*to);
  Shape joined = shape;
  int wrong = broadcast(&joined, source.dims, source.rank), extra = joined.rank - shape.rank;
  for (int d = 0; wrong < 0 && d < joined.rank; ++d)
    if (joined.dims[d] != (d < extra ? 1 : shape.dims[d - extra])) wrong = d - (joined.rank - source.rank);
  if (wrong >= 0)
    return c.fail("a source that can be broadcast to what is written", "size %lld in dim %d, rank %d into rank %d",
                  static_cast<long long>(source.dims[wrong]), wrong, source.rank, to->rank());
  if (to->numel() == 0) return PEN_OK;
  for (int d = 0; d < to->rank(); ++d)  // as in torch: what such a write means depends on its order
    if (to->dim(d) > 1 && to->shape.strides[d] == 0)
      return c.fail("elements that have a place each, to be written",
                    "a tensor that is expanded in dim %d: several share one. Clone it first", d);
  if (!tensor_make_writable(to)) return c.out_of_memory();
  if (from.dtype() == to->dtype() && !overlap(*from.storage, *to->storage)) return move_elements(c, to->view(), spread(from.view(), shape));
  Status status;
  Value between = Value::own(tensor_cast(c, from, to->dtype(), &status));  // fresh memory: the two may overlap
  PEN_TRY(status);
  return move_elements(c, to->view(), spread(between.tensor()->view(), shape));
}

TensorObject* tensor_cast(const Call& c, const TensorObject& t, DType dtype, Status* status) {
  *status = PEN_OK;
  if (dtype == t.dtype()) return tensor_clone(c, t, status);
  Rows r(c);
  TensorObject* made;
  *status = r.run(r.cast(r.input(t), dtype), &made, true);
  return made;
}
TensorObject* tensor_clone(const Call& c, const TensorObject& t, Status* status) {
  TensorObject* made = tensor_create(t.dtype(), t.rank(), t.shape.dims);
  *status = made ? move_elements(c, made->view(), t.view()) : c.out_of_memory();
  if (made && t.quantizer) {
    made->quantizer = t.quantizer;
    ++t.quantizer->refs;
  }
  if (*status == PEN_OK) return made;
  if (made) heap_release(made);
  return nullptr;
}

Status hold_still(const Call& c, const TensorObject& t, Value* made) {
  Status status = PEN_OK;
  *made = t.storage->owned ? Value::share(const_cast<TensorObject*>(&t)) : Value::own(tensor_clone(c, t, &status));
  return status;
}

static uint16_t bf16_bits(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  if (f != f) return 0x7FC0;
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}
static float from_bf16(uint16_t bits) {
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float f;
  memcpy(&f, &wide, 4);
  return f;
}
// f16 by hand: the compiler's own conversions are library calls on some targets.
static float from_f16(uint16_t h) {
  uint32_t sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023, bits;
  float f;
  if (exponent == 31) {
    bits = sign | 0x7F800000u | mantissa << 13;
  } else if (exponent) {
    bits = sign | (exponent + 112) << 23 | mantissa << 13;
  } else {
    f = static_cast<float>(mantissa) * (1.0f / 16777216.0f);
    return sign ? -f : f;
  }
  memcpy(&f, &bits, 4);
  return f;
}
static uint16_t to_f16(double d) {
  float f = static_cast<float>(d);
  uint32_t bits;
  memcpy(&bits, &f, 4);
  uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  if (f != f) return static_cast<uint16_t>(sign | 0x7E00);
  float magnitude = f < 0 ? -f : f;
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7C00);
  if (magnitude < 1.0f / 16384.0f) return static_cast<uint16_t>(sign | static_cast<uint16_t>(nearbyintf(magnitude * 16777216.0f)));
  uint32_t rounded = (bits & 0x7FFFFFFFu) + 0xFFFu + (bits >> 13 & 1);
  return static_cast<uint16_t>(sign | (rounded - (112u << 23)) >> 13);
}

void number_into(const Value& number, DType dtype, void* to) {
  double d = number.number();
  int64_t i = number.tag() == Tag::real ? (d >= 9.2e18 || d <= -9.2e18 || d != d ? INT64_MIN : static_cast<int64_t>(d)) : number.integer();
  switch (dtype) {
    case DType::f32:
      *static_cast<float*>(to) = static_cast<float>(d);
      break;
    case DType::f64:
      *static_cast<double*>(to) = d;
      break;
    case DType::f16:
      *static_cast<uint16_t*>(to) = to_f16(d);
      break;
    case DType::bf16:
      *static_cast<uint16_t*>(to) = bf16_bits(static_cast<float>(d));
      break;
    case DType::i64:
      *static_cast<int64_t*>(to) = i;
      break;
    case DType::i32:
      *static_cast<int32_t*>(to) = static_cast<int32_t>(i);
      break;
    case DType::i16:
      *static_cast<int16_t*>(to) = static_cast<int16_t>(i);
      break;
    case DType::i8:
    case DType::u8:
      *static_cast<uint8_t*>(to) = static_cast<uint8_t>(i);
      break;
    case DType::boolean:
      *static_cast<uint8_t*>(to) = d != 0;
      break;
  }
}
bool number_fits(const Value& number, DType dtype) {
  double d = number.number(), magnitude = d < 0 ? -d : d;
  constexpr double kInf = __builtin_huge_val();
  if (dtype == DType::boolean || dtype == DType::f64) return true;
  if (is_floating(dtype)) {
    double most = dtype == DType::f16 ? 65504.0 : dtype == DType::bf16 ? 3.3895313892515355e38 : 3.4028234663852886e38;
    return !(magnitude > most) || magnitude == kInf;
  }
  if (number.tag() != Tag::real && dtype == DType::i64) return true;
  int64_t bits = dtype_size(dtype) * 8;
  double high = dtype == DType::u8 ? 256 : static_cast<double>(int64_t{1} << (bits - 2)) * 2;  // the first that is too large
  return d < high && (dtype == DType::u8 ? d > -high : d > -high - 1 || (d == -high));
}
Value number_at(DType dtype, const void* from) {
  switch (dtype) {
    case DType::f32:
      return Value(static_cast<double>(*static_cast<const float*>(from)));
    case DType::f64:
      return Value(*static_cast<const double*>(from));
    case DType::f16:
      return Value(static_cast<double>(from_f16(*static_cast<const uint16_t*>(from))));
    case DType::bf16:
      return Value(static_cast<double>(from_bf16(*static_cast<const uint16_t*>(from))));
    case DType::i64:
      return Value(*static_cast<const int64_t*>(from));
    case DType::i32:
      return Value(int64_t{*static_cast<const int32_t*>(from)});
    case DType::i16:
      return Value(int64_t{*static_cast<const int16_t*>(from)});
    case DType::i8:
      return Value(int64_t{*static_cast<const int8_t*>(from)});
    case DType::u8:
      return Value(int64_t{*static_cast<const uint8_t*>(from)});
    case DType::boolean:
      return Value(*static_cast<const uint8_t*>(from) != 0);
  }
  return Value();
}
TensorObject* tensor_of(const Value& number, DType dtype) {
  TensorObject* t = tensor_create(dtype, 0, nullptr);
  if (t) number_into(number, dtype, t->data());
  return t;
}

Status number_in(const Call& c, const TensorObject& t, Value* number) {
  if (t.numel() != 1) return c.fail("a tensor of one element", "one of %lld elements", static_cast<long long>(t.numel()));
  if (t.quantizer && t.quantizer->axis < 0) {
    int64_t stored = number_at(t.dtype(), t.data()).integer();
    *number = Value(static_cast<double>(static_cast<float>(stored - t.quantizer->zero_point) * static_cast<float>(t.quantizer->scale)));
    return PEN_OK;
  }
  *number = number_at(t.dtype(), t.data());
  return PEN_OK;
}

}  // namespace pen
