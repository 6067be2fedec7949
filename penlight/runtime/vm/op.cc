// Calling an operator of the VM: its arguments, errors and dtypes, and what comes of its result.
#include "penlight/runtime/vm/op.h"

#include "pen_dtypes.h"  // generated from penlight/ir/dtypes.py
#include "penlight/runtime/exec/backend.h"
#include "penlight/runtime/vm/images.h"
#include "penlight/runtime/vm/rows.h"

namespace pen {

const OpEntry* find_operator(const char* name) { return find_by_name(kOperators, kOperatorCount, &OpEntry::name, name); }
OpFn find_quantized_form(const char* name) {
  const QuantizedForm* found = find_by_name(kQuantizedForms, kQuantizedFormCount, &QuantizedForm::name, name);
  return found ? operator_function(found->function) : nullptr;
}

// ---- errors ----
Status Call::spend(int64_t elements) const { return machine_spend(machine, op->name, elements); }
Status Call::walk(int64_t items) const {
  constexpr int kAskedEvery = 12;  // 2^12 steps
  const uint64_t steps = static_cast<uint64_t>(machine->meter.steps), next = steps + static_cast<uint64_t>(items);
  if ((steps ^ next) >> kAskedEvery) return spend(items);
  machine->meter.steps = static_cast<int64_t>(next);  // the interpreter looks at the sum before its next instruction
  return PEN_OK;
}
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
  report(&machine->error, {PEN_ERROR_RAISED, text, "", "", "", "", machine->source});
  set_text(machine->error.op, sizeof machine->error.op, "%s", op->name.text());  // not in the message: that is the exception's
  return PEN_ERROR_RAISED;
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
  char name[9];
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
int64_t code_of_dtype(const TensorObject& t) {
  if (!t.quantizer) return code_of_dtype(t.dtype());
  return t.dtype() == DType::i8 ? 12 : t.dtype() == DType::u8 ? 13 : 14;
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
static int category(DType d) { return kDTypeCategories[static_cast<int>(d)]; }
static DType join(DType a, DType b) { return static_cast<DType>(kJoinedDTypes[static_cast<int>(a)][static_cast<int>(b)]); }
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
      *v = Value(kDefaultIntegers[p.value] != 0);
      return true;
    case Tag::integer:
      *v = Value(kDefaultIntegers[p.value]);
      return true;
    case Tag::real:
      *v = Value(kDefaultReals[p.value]);
      return true;
    case Tag::string:
      *v = Value::own(string_create(kOperatorText + p.value));
      return !v->is_none();
    case Tag::list: {
      ListObject* list = list_create(4);
      if (!list) return false;
      *v = Value::own(list);
      for (const char* at = kOperatorText + p.value; *at;) {
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
static Status write_back(const Call& c, const Value& target, Value* result) {
  TensorObject& to = *target.tensor();
  if (result->tag() != Tag::tensor) return PEN_OK;
  const TensorObject& from = *result->tensor();
  if (&from == &to) return PEN_OK;
  PEN_TRY(settle(c.machine, c.op->name, target));
  if (!from.quantizer && to.quantizer) return c.fail("a tensor to write that is not quantized", "a quantized one");
  if (category(from.dtype()) > category(to.dtype()))
    return c.fail("a result that can be cast to the tensor written", "result type %s can't be cast to the desired output type %s",
                  dtype_name(from.dtype()), dtype_name(to.dtype()));
  bool same = from.rank() == to.rank();
  for (int d = 0; same && d < from.rank(); ++d) same = from.dim(d) == to.dim(d);
  if (!same && !c.op->outs)
    return c.fail("a result of the shape of the tensor that is written in place", "rank %d, another shape", from.rank());
  if (!same) {  // out= takes on the result's shape
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
  *result = target;
  return PEN_OK;
}

// The out= form of an operator that makes a tensor, by the function of the operator itself: what is written says the dtype.
static Status call_with_options(Call& c, OpFn run) {
  const OpEntry& whole = *c.op->whole();
  const int options = c.op->options_at;
  constexpr int kMost = 16;
  Value args[kMost];
  if (whole.param_count > kMost) return c.fail("at most 12 arguments before out", "%d", c.inputs());
  for (int i = 0; i < c.inputs(); ++i) args[i < options ? i : i + 4] = c.args[i];
  args[options] = Value(code_of_dtype(c.tensor(c.op->writes)));
  Call inner = {c.machine, &whole, args, whole.param_count, c.results};
  return run(inner);
}

// The out= form of one that gives a list of tensors: out is a list of as many.
static Status call_into_list(Call& c, OpFn run) {
  Value made;
  Call inner = {c.machine, c.op, c.args, c.count, &made};
  PEN_TRY(run(inner));
  ListObject &from = *made.list(), &to = c.list(c.inputs());
  if (from.count != to.count)
    return c.fail("as many tensors in out as there are results", "%lld for %lld", static_cast<long long>(to.count),
                  static_cast<long long>(from.count));
  for (int64_t i = 0; i < from.count; ++i) PEN_TRY(write_back(c, to.items[i], &from.items[i]));
  return PEN_OK;
}

// What an operator is expected to go through of an argument that it takes for a list of one kind or for text, which is looked at as a whole
// to begin with. Operators count other lists, and what they make.
static int64_t walked(const Param& p, const Value& v) {
  if (p.kind == Kind::string) return v.string()->size >> 4;
  return p.kind >= Kind::integers && p.kind <= Kind::strings ? v.list()->count : 0;
}

// Operators that take an object read its attributes: packed convolutions of the mobile optimizer.
static bool attributes_unpack(const Instance& object) {
  for (int32_t i = 0; i < object.count; ++i)
    if (!value_unpack(object.slots[i])) return false;
  return true;
}

// Elements of a result that no argument shares: the operator wrote them.
static int64_t written(const Value& v) {
  if (v.tag() == Tag::list) return v.list()->refs == 1 ? v.list()->count : 0;
  if (v.tag() != Tag::tensor) return 0;
  const TensorObject& t = *v.tensor();
  return t.refs == 1 && t.storage->refs == 1 ? t.numel() : 0;
}

Status call_operator(Machine* m, const OpEntry& op, Value* given, int count, Value* results, bool nhwc) {
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
      if (!op.param(i).has_default) return c.fail("all arguments without a default", "%d, without %s", count, op.param(i).name.text());
      if (!fill_default(op.param(i), &args[i])) return c.out_of_memory();
    }
    c.count = op.param_count;
  }
  c.args = args;
  OpFn run = op.run();
#if defined(PEN_TRACE)
  if (m->runner.trace) m->runner.trace->operators[&op - kOperators] = 1;
#endif
  int64_t items = 0;
  for (int i = 0; i < op.param_count; ++i) {
    const Param& p = op.param(i);
    // Of a list of tensors, the elements may be None; the list itself only where that is its default.
    if (p.optional && args[i].is_none() && (p.kind != Kind::tensors || p.has_default)) continue;
    if (fits(p, &args[i])) {
      if (!op.counts) items += walked(p, args[i]);
      if (args[i].tag() == Tag::object && !attributes_unpack(*args[i].object())) return c.out_of_memory();
      bool is_out = i >= c.inputs();
      if (!op.quantized && !is_out && run == op.run() && is_quantized(args[i])) {
        run = find_quantized_form(op.name);
        if (!run) return c.fail("a tensor that is not quantized", "a quantized %s", p.name.text());
      }
      continue;
    }
    char expected[96];
    set_text(expected, sizeof expected, "%s for %s", kind_name(p.kind), p.name.text());
    return c.fail(expected, "%s", args[i].tag_name());
  }
  if (items) PEN_TRY(c.walk(items));
  const bool settled = !op.nhwc || run != op.run();
  bool looks = false;  // at data
  for (int i = 0; i < c.count; ++i) {
    looks |= args[i].tag() >= Tag::tensor;
    // More elements than there are steps left, in an operand that need not have memory for them.
    if (args[i].tag() == Tag::tensor && m->meter.most && args[i].tensor()->numel() > m->meter.most - m->meter.steps)
      return machine_spend(m, op.name, args[i].tensor()->numel());
    if (!settled && i < c.inputs()) continue;
    PEN_TRY(settle(m, op.name, args[i]));
    const ListObject* list =
        args[i].tag() == Tag::list && i < op.param_count && op.param(i).kind == Kind::tensors ? args[i].list() : nullptr;
    for (int64_t k = 0; list && k < list->count; ++k) PEN_TRY(settle(m, op.name, list->items[k]));
  }
  if (settled && looks) PEN_TRY(finish(m));
  c.nhwc = nhwc && !settled && op.writes < 0;
  if (op.outs && op.result_count == 0) return call_into_list(c, run);
  const int64_t before = m->meter.steps;
  PEN_TRY(op.whole() ? call_with_options(c, run) : run(c));
  int64_t least = 0;  // steps, whatever it counted itself
  for (int i = 0; i < op.result_count; ++i) least += written(results[i]);
  if (least > m->meter.steps - before) PEN_TRY(c.spend(least - (m->meter.steps - before)));
  for (int i = 0; op.writes >= 0 && i < (op.outs ? op.outs : 1); ++i) PEN_TRY(write_back(c, args[op.writes + i], &results[i]));
  return PEN_OK;
}

bool machine_create(Machine* m, const Model* model, Isa isa, int threads, uint64_t memory_limit, int32_t (*interrupted)(void* context),
                    void* interrupt_context) {
  m->model = model;
  m->memory_limit = memory_limit;
  m->account = account_create(memory_limit, model);
  m->isa = isa;
  m->source = "";
  if (!m->account || runner_create(&m->runner, &kCpu, "", false, threads, &m->error) != PEN_OK) return false;
  m->runner.guard_weights = false;  // a step's inputs may be weights too
  m->runner.interrupted = interrupted;
  m->runner.interrupt_context = interrupt_context;
  m->runner.meter = &m->meter;
  return true;
}
Status machine_begin(Machine* m) {
  if (m->running) return PEN_ERROR_ARGUMENT;  // the error in words is that of the run under way
  m->running = true;
  m->meter.steps = 0;
  m->error = {};
  m->account->refused = false;
  account_begin_run(m->account);
  return PEN_OK;
}
void machine_end(Machine* m) {
  m->running = false;
  account_end_run(m->account);
}
Status machine_spend(Machine* m, const char* op, int64_t steps) {
  if (!take_steps(&m->meter, steps)) return report_over_steps(&m->runner, op, m->source);
  return is_cancelled(&m->runner) ? report_cancelled(&m->runner) : PEN_OK;
}
#if defined(PEN_TRACE)
Status machine_set_trace(Machine* m, pen_trace* trace) {
  alive(trace);
  if (trace && !trace->operators) trace->operators = static_cast<uint8_t*>(calloc(static_cast<size_t>(kOperatorCount) + 1, 1));
  if (trace && !trace->operators) return report(&m->error, PEN_ERROR_MEMORY, "trace", "memory", "none");
  depend_no_more(m->runner.trace);
  depend(trace);
  m->runner.trace = trace;
  return PEN_OK;
}
#endif
const char* memory_expected(const Machine& m, char (&buffer)[64]) {
  if (!m.account || !m.account->refused) return "memory";
  set_text(buffer, sizeof buffer, "values of at most %llu bytes (memory_limit)", static_cast<unsigned long long>(m.memory_limit));
  return buffer;
}
void machine_destroy(Machine* m) {
  forget_waiting(m);
  machine_forget_plans(m);
  machine_forget_weights(m);
  depend_no_more(m->runner.trace);
  runner_destroy(&m->runner);
  account_orphan(m->account);
}

}  // namespace pen
