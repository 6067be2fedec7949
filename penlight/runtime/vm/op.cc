// What every operator of the VM shares: arguments, errors, dtypes, casting and copying.
#include "penlight/runtime/vm/op.h"

#include "penlight/runtime/cpu/copy.h"
#include "penlight/runtime/vm/graph.h"
#include "penlight/runtime/vm/machine.h"
#include "penlight/runtime/vm/rows.h"

namespace pen {

const OpEntry* find_operator(const char* name) {
  int low = 0, high = kOperatorCount - 1;
  while (low <= high) {
    int middle = low + (high - low) / 2, order = strcmp(name, kOperators[middle].name);
    if (order == 0) return &kOperators[middle];
    if (order < 0)
      high = middle - 1;
    else
      low = middle + 1;
  }
  return nullptr;
}

OpFn find_quantized_form(const char* name) {
  int low = 0, high = kQuantizedFormCount - 1;
  while (low <= high) {
    int middle = low + (high - low) / 2, order = strcmp(name, kQuantizedForms[middle].name);
    if (order == 0) return kQuantizedForms[middle].run;
    if (order < 0)
      high = middle - 1;
    else
      low = middle + 1;
  }
  return nullptr;
}

// ---- errors ----
Status Call::out_of_memory() const {
  char expected[64];
  bool over = machine->account->refused;
  return report(&machine->error,
                {PEN_ERROR_MEMORY, "", op->name, "", memory_expected(*machine, expected), over ? "more" : "none", machine->source});
}
Status Call::fail(const char* expected, const char* got_format, ...) const {
  char got[160];
  __builtin_va_list list;
  __builtin_va_start(list, got_format);
  vsnprintf(got, sizeof got, got_format, list);
  __builtin_va_end(list);
  return report(&machine->error, {PEN_ERROR_SHAPE, "", op->name, "", expected, got, machine->source});
}
Status Call::raise(const char* format, ...) const {
  char text[600];
  __builtin_va_list list;
  __builtin_va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  __builtin_va_end(list);
  return report(&machine->error, {PEN_ERROR_RAISED, text, "", "", "", "", machine->source});
}

// ---- arguments ----
int Call::ints(int i, int64_t* to, int most) const {
  if (!given(i)) return 0;
  const ListObject& l = list(i);
  for (int64_t k = 0; k < l.count && k < most; ++k) to[k] = l.items[k].integer();
  return l.count > INT32_MAX ? INT32_MAX : static_cast<int>(l.count);
}
Status Call::dim(int i, int rank, int* to) const { return dim(args[i].integer(), rank, to); }
Status Call::dim(int64_t d, int rank, int* to) const {
  int64_t n = rank > 0 ? rank : 1;
  if (d < -n || d >= n) {
    char expected[64];
    set_text(expected, sizeof expected, "a dim from %lld to %lld", static_cast<long long>(-n), static_cast<long long>(n - 1));
    return fail(expected, "%lld", static_cast<long long>(d));
  }
  *to = static_cast<int>(d < 0 ? d + n : d);
  return PEN_OK;
}

static const struct {
  int64_t code;
  DType dtype;
  const char* name;
} kDTypeCodes[] = {{0, DType::u8, "Byte"},       {1, DType::i8, "Char"},   {2, DType::i16, "Short"},  {3, DType::i32, "Int"},
                   {4, DType::i64, "Long"},      {5, DType::f16, "Half"},  {6, DType::f32, "Float"},  {7, DType::f64, "Double"},
                   {11, DType::boolean, "Bool"}, {12, DType::i8, "QInt8"}, {13, DType::u8, "QUInt8"}, {14, DType::i32, "QInt32"},
                   {15, DType::bf16, "BFloat16"}};

DType dtype_of_code(int64_t code, bool* known) {
  for (const auto& row : kDTypeCodes)
    if (row.code == code) {
      *known = true;
      return row.dtype;
    }
  *known = false;
  return DType::f32;
}
int64_t code_of_dtype(DType dtype) {
  for (const auto& row : kDTypeCodes)
    if (row.dtype == dtype) return row.code;
  return 6;
}
const char* dtype_name(DType dtype) {
  for (const auto& row : kDTypeCodes)
    if (row.dtype == dtype) return row.name;
  return "?";
}
Status Call::dtype(int i, DType otherwise, DType* to) const {
  *to = otherwise;
  if (!given(i)) return PEN_OK;
  bool known;
  *to = dtype_of_code(args[i].integer(), &known);
  if (!known)
    return fail("a dtype that tensors can have here (no complex numbers)", "torch's dtype number %lld",
                static_cast<long long>(args[i].integer()));
  return PEN_OK;
}

bool is_floating(DType d) { return d == DType::f32 || d == DType::f64 || d == DType::f16 || d == DType::bf16; }
bool is_integral(DType d, bool with_bool) { return !is_floating(d) && (with_bool || d != DType::boolean); }

// ---- promotion ----
static int category(DType d) { return is_floating(d) ? 2 : d == DType::boolean ? 0 : 1; }
static DType join(DType a, DType b) {
  static const DType kOrder[] = {DType::boolean, DType::u8,  DType::i8,   DType::i16, DType::i32,
                                 DType::i64,     DType::f16, DType::bf16, DType::f32, DType::f64};
  auto is = [&](DType x, DType y) { return (a == x && b == y) || (a == y && b == x); };
  if (is(DType::f16, DType::bf16)) return DType::f32;
  if (is(DType::u8, DType::i8)) return DType::i16;
  int at = 0, bt = 0;
  for (int i = 0; i < 10; ++i) {
    if (kOrder[i] == a) at = i;
    if (kOrder[i] == b) bt = i;
  }
  return at > bt ? a : b;
}
static void add_dtype(int8_t* level, DType d) { *level = static_cast<int8_t>(*level < 0 ? d : join(static_cast<DType>(*level), d)); }
void Promotion::add(const TensorObject& t) { add_dtype(&by_level[t.rank() ? 0 : 1], t.dtype()); }
void Promotion::add(const Value& number) {
  add_dtype(&by_level[2], number.tag() == Tag::real ? DType::f32 : number.tag() == Tag::boolean ? DType::boolean : DType::i64);
}
DType Promotion::result() const {
  int chosen = -1;
  for (int8_t level : by_level)
    if (level >= 0 && (chosen < 0 || category(static_cast<DType>(level)) > category(static_cast<DType>(chosen)))) chosen = level;
  return chosen < 0 ? DType::f32 : static_cast<DType>(chosen);
}

// ---- moving elements ----
Status move_elements(const Call& c, const Tensor& to, const Tensor& from) {
  if (to.numel() == 0) return PEN_OK;
  CopyPlan plan = {};
  plan_copy(from, to, &plan);
  Key key = Key::by_size("copy", to.dtype);
  const KernelEntry* entry = find_kernel(key);
  RunFn run = entry ? run_function(*entry, c.machine->isa) : nullptr;
  if (!run) return report(&c.machine->error, {PEN_ERROR_KERNEL, "", c.op->name, "", "a kernel for copying", key.text});
  Fault fault = {};
  struct Work {
    RunFn run;
    Run arguments;
  } work = {run, {&from, &to, &plan, nullptr, nullptr, 0, plan.tasks, 0, &fault, nullptr, &c.machine->runner.random}};
  if (plan.tasks <= 1) {
    run(work.arguments);
    return PEN_OK;
  }
  pool_run(
      c.machine->runner.pool, plan.tasks,
      [](void* context, int64_t begin, int64_t end, int) {
        const Work& w = *static_cast<const Work*>(context);
        Run arguments = w.arguments;
        arguments.begin = begin;
        arguments.end = end;
        w.run(arguments);
      },
      &work);
  return PEN_OK;
}

static bool overlap(const Storage& a, const Storage& b) { return a.data < b.data + b.bytes && b.data < a.data + a.bytes; }

Status copy_into(const Call& c, TensorObject* to, const TensorObject& from) {
  Tensor source = from.view();
  if (source.rank > to->rank()) {
    int extra = source.rank - to->rank();
    for (int d = 0; d < extra; ++d)
      if (source.dims[d] != 1) return c.fail("a source that can be broadcast", "rank %d into rank %d", source.rank, to->rank());
  }
  Tensor spread = to->shape;  // the source as the target's shape sees it
  spread.dtype = source.dtype;
  spread.data = source.data;
  for (int d = to->rank() - 1, s = source.rank - 1; d >= 0; --d, --s) {
    bool one = s < 0 || source.dims[s] == 1;
    if (!one && source.dims[s] != to->dim(d))
      return c.fail("a source that can be broadcast", "size %lld in dim %d of %lld", static_cast<long long>(source.dims[s]), d,
                    static_cast<long long>(to->dim(d)));
    spread.strides[d] = one ? 0 : source.strides[s];
  }
  if (!tensor_make_writable(to)) return c.out_of_memory();
  if (to->numel() == 0) return PEN_OK;
  if (from.dtype() == to->dtype() && !overlap(*from.storage, *to->storage)) return move_elements(c, to->view(), spread);
  Status status;
  Value between = Value::own(tensor_cast(c, from, to->dtype(), &status));  // fresh memory: the two may overlap
  PEN_TRY(status);
  const TensorObject& cast = *between.tensor();
  spread.dtype = to->dtype();
  spread.data = cast.data();
  for (int d = to->rank() - 1, s = cast.rank() - 1; d >= 0; --d, --s)
    spread.strides[d] = s < 0 || cast.dim(s) == 1 ? 0 : cast.shape.strides[s];
  return move_elements(c, to->view(), spread);
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

// ---- calling ----
static const char* kind_name(Kind kind) {
  static const char* kNames[] = {
      "any value",         "a Tensor", "an int",         "a float",          "a bool",          "a str",
      "a number",          "a list",   "a list of ints", "a list of floats", "a list of bools", "a list of Tensors",
      "a list of strings", "a dict",   "a tuple",        "an object"};
  return kNames[static_cast<int>(kind)];
}

static bool all_are(const ListObject& list, Tag tag, bool optional) {
  for (int64_t i = 0; i < list.count; ++i)
    if (list.items[i].tag() != tag && !(optional && list.items[i].is_none())) return false;
  return true;
}

static bool fits(const Param& p, Value* v) {
  switch (p.kind) {
    case Kind::any:
      return true;
    case Kind::tensor:
      return v->tag() == Tag::tensor;
    case Kind::integer:
      return v->tag() == Tag::integer;
    case Kind::real:
      if (v->tag() == Tag::integer) *v = Value(static_cast<double>(v->integer()));
      return v->tag() == Tag::real;
    case Kind::boolean:
      return v->tag() == Tag::boolean;
    case Kind::string:
      return v->tag() == Tag::string;
    case Kind::number:
      return v->is_number();
    case Kind::list:
      return v->tag() == Tag::list;
    case Kind::integers:
      return v->tag() == Tag::list && all_are(*v->list(), Tag::integer, false);
    case Kind::reals:
      return v->tag() == Tag::list && all_are(*v->list(), Tag::real, false);
    case Kind::booleans:
      return v->tag() == Tag::list && all_are(*v->list(), Tag::boolean, false);
    case Kind::tensors:
      return v->tag() == Tag::list && all_are(*v->list(), Tag::tensor, p.optional);
    case Kind::strings:
      return v->tag() == Tag::list && all_are(*v->list(), Tag::string, false);
    case Kind::dict:
      return v->tag() == Tag::dict;
    case Kind::tuple:
      return v->tag() == Tag::tuple;
    case Kind::object:
      return v->tag() == Tag::object;
  }
  return false;
}

static bool is_quantized(const Value& v) {
  if (v.tag() == Tag::tensor) return v.tensor()->quantizer != nullptr;
  return v.tag() == Tag::list && v.list()->count > 0 && v.list()->items[0].tag() == Tag::tensor && v.list()->items[0].tensor()->quantizer;
}

static bool fill_default(const Param& p, Value* v) {
  switch (p.default_tag) {
    case Tag::boolean:
      *v = Value(p.integer != 0);
      return true;
    case Tag::integer:
      *v = Value(p.integer);
      return true;
    case Tag::real:
      *v = Value(p.real);
      return true;
    case Tag::string:
      *v = Value::own(string_create(p.text));
      return !v->is_none();
    case Tag::list: {
      ListObject* list = list_create(4);
      if (!list) return false;
      *v = Value::own(list);
      for (const char* at = p.text; *at;) {
        bool minus = *at == '-';
        int64_t n = 0;
        for (at += minus; *at >= '0' && *at <= '9'; ++at) n = n * 10 + (*at - '0');
        if (!list_append(list, Value(minus ? -n : n))) return false;
        at += *at == ',';
      }
      return true;
    }
    default:
      *v = Value();
      return true;
  }
}

// torch writes a result into a tensor of another dtype unless that would lose its kind: no floats into integers, no numbers
// into bools.
static Status write_back(Call& c) {
  TensorObject& to = *c.args[c.op->writes].tensor();
  if (c.results[0].tag() != Tag::tensor) return PEN_OK;
  const TensorObject& from = *c.results[0].tensor();
  if (&from == &to) return PEN_OK;
  if (category(from.dtype()) > category(to.dtype()))
    return c.fail("a result that can be cast to the tensor written", "result type %s can't be cast to the desired output type %s",
                  dtype_name(from.dtype()), dtype_name(to.dtype()));
  bool same = from.rank() == to.rank();
  for (int d = 0; same && d < from.rank(); ++d) same = from.dim(d) == to.dim(d);
  bool is_out = strcmp(c.op->params[c.op->writes].name, "out") == 0;
  if (!same && !is_out)
    return c.fail("a result of the shape of the tensor that is written in place", "rank %d, another shape", from.rank());
  if (!same) {  // out= takes on the result's shape
    Value kept = c.results[0];
    Status status;
    Value cast = Value::own(tensor_cast(c, from, to.dtype(), &status));
    PEN_TRY(status);
    TensorObject& fresh = *cast.tensor();
    ++fresh.storage->refs;
    storage_release(to.storage);
    to.storage = fresh.storage;
    to.offset = fresh.offset;
    to.shape = fresh.shape;
  } else {
    PEN_TRY(copy_into(c, &to, from));
  }
  if (from.quantizer && to.quantizer != from.quantizer) {
    ++from.quantizer->refs;
    tensor_set_quantizer(&to, from.quantizer);
  }
  c.results[0] = c.args[c.op->writes];
  return PEN_OK;
}

Status call_operator(Machine* m, const OpEntry& op, Value* given, int count, Value* results) {
  constexpr int kFew = 24;
  Value few[kFew];
  Call c = {m, &op, given, count, results};
  if (count > op.param_count && !op.variadic) return c.fail("as many arguments as its schema has", "%d of %d", count, op.param_count);
  Value* args = given;
  if (count < op.param_count) {
    if (op.param_count > kFew) return c.fail("at most 24 arguments", "%d", op.param_count);
    for (int i = 0; i < count; ++i) few[i].swap(given[i]);
    args = few;
    for (int i = count; i < op.param_count; ++i) {
      if (!op.params[i].has_default) return c.fail("all arguments without a default", "%d, without %s", count, op.params[i].name);
      if (!fill_default(op.params[i], &args[i])) return c.out_of_memory();
    }
    c.count = op.param_count;
  }
  c.args = args;
  OpFn run = op.run;
  for (int i = 0; i < op.param_count; ++i) {
    const Param& p = op.params[i];
    // Of a list of tensors, the elements may be None; the list itself only where that is its default.
    if (p.optional && args[i].is_none() && (p.kind != Kind::tensors || p.has_default)) continue;
    if (fits(p, &args[i])) {
      if (!op.quantized && run == op.run && is_quantized(args[i])) {
        run = find_quantized_form(op.name);
        if (!run) return c.fail("a tensor that is not quantized", "a quantized %s", p.name);
      }
      continue;
    }
    char expected[96];
    set_text(expected, sizeof expected, "%s for %s", kind_name(p.kind), p.name);
    return c.fail(expected, "%s", args[i].tag_name());
  }
  PEN_TRY(run(c));
  return op.writes >= 0 ? write_back(c) : PEN_OK;
}

bool machine_create(Machine* m, const Model* model, Isa isa, int threads, uint64_t memory_limit) {
  m->model = model;
  m->memory_limit = memory_limit;
  m->account = account_create(memory_limit, model);
  m->isa = isa;
  m->source = "";
  if (!m->account || !runner_create(&m->runner, threads, &m->error)) return false;
  m->runner.guard_weights = false;  // a step's inputs may be weights too
  return true;
}
const char* memory_expected(const Machine& m, char (&buffer)[64]) {
  if (!m.account || !m.account->refused) return "memory";
  set_text(buffer, sizeof buffer, "values of at most %llu bytes (memory_limit)", static_cast<unsigned long long>(m.memory_limit));
  return buffer;
}
void machine_destroy(Machine* m) {
  machine_forget_plans(m);
  machine_forget_weights(m);
  runner_destroy(&m->runner);
  account_orphan(m->account);
}

}  // namespace pen
