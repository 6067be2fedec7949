// The interpreter: runs functions of register code (file/SPEC.md, VM instructions) over values. The loader proved every
// register, constant and target; what depends on values (is it a list, is it a bool) is checked here, in words. Calls are
// frames on a stack of our own, so code may call itself to any depth that is allowed, whatever the thread's stack.
#include "penlight/runtime/exec/backend.h"
#include "penlight/runtime/exec/session.h"
#include "penlight/runtime/vm/data.h"
#include "penlight/runtime/vm/images.h"
#include "penlight/runtime/vm/types.h"
#include "penlight/runtime/vm/value_api.h"

using namespace pen;

namespace {

constexpr int kMaxFrames = static_cast<int>(format::kMaxFrames);
constexpr uint32_t kConstant = 1u << 31;
constexpr int kFewArgs = 16;

struct Frame {
  const format::Function* function;
  uint32_t pc;
  int64_t base;     // of its registers
  uint32_t result;  // register of the caller's that takes what it returns
};

// A method that VM code runs in place of a stretch of its own, where the tensors fit.
struct PlannedPart {
  const format::VmInstruction* call;  // the first that does so; null: none does
  pen_session* session;               // made when first met
  uint64_t taken, unfit, failed;
  char unfit_reason[320], failed_reason[320];  // of the first time
};

}  // namespace

struct pen_module : Handle<HandleKind::module> {
  Machine machine;
  char device[64];  // that its planned parts run on
  bool f16;
  pen_device_report used;  // of it, by the parts of the last run
  const Model* model;
  Data data;
  const OpEntry** operators;  // by OPER; null: not in this library
  PlannedPart* parts;         // by method
  Value* registers;           // of all frames
  int64_t register_count;
  Frame frames[kMaxFrames];
  int frame_count;
};

namespace {

Status fail(pen_module* m, Status status, const char* op, const char* expected, const char* got) {
  return report(&m->machine.error, {status, "", op, "", expected, got, m->machine.source});
}
Status out_of_memory(pen_module* m) {
  char expected[64];
  bool over = m->machine.account->refused;
  return fail(m, PEN_ERROR_MEMORY, "VM", memory_expected(m->machine, expected), over ? "more" : "none");
}

bool reserve_registers(pen_module* m, int64_t need) {
  if (need <= m->register_count) return true;
  int64_t larger = m->register_count * 2 > need ? m->register_count * 2 : need;
  Account* account = m->machine.account;
  const size_t more = sizeof(Value) * static_cast<size_t>(larger - m->register_count);
  if (!account_take(account, more)) return false;
  Value* grown = static_cast<Value*>(calloc(static_cast<size_t>(larger), sizeof(Value)));
  if (!grown) {
    account_give(account, more);
    return false;
  }
  if (m->register_count) memcpy(static_cast<void*>(grown), m->registers, sizeof(Value) * static_cast<size_t>(m->register_count));
  free(m->registers);
  m->registers = grown;
  m->register_count = larger;
  return true;
}

struct Interpreter {
  pen_module* m;
  const Model& model;
  Frame* frame;
  Value* registers;  // of this frame
  uint32_t instructions = 0;

  // Reads an argument; reading a slot empties it.
  void take(uint32_t arg, Value* to) const {
    if (arg & kConstant)
      *to = m->data.values[arg & ~kConstant];
    else if (arg >= frame->function->first_slot)
      *to = static_cast<Value&&>(registers[arg]);
    else
      *to = registers[arg];
  }
  // An operator's argument: taken out of a register that the next instruction empties anyway, so that the operator sees whether
  // anybody else has it.
  void take_last(const format::VmInstruction& in, uint32_t i, Value* to) const {
    const uint32_t from = arg(in, i);
    const format::VmInstruction& next = (&in)[1];  // an operator is never the last instruction
    bool last = !(from & kConstant) && static_cast<format::VmOp>(next.op) == format::VmOp::drop && next.arg_count <= kFewArgs;
    for (uint32_t k = i + 1; last && k < in.arg_count; ++k) last = arg(in, k) != from;
    bool dropped = false;
    for (uint32_t k = 0; last && k < next.arg_count; ++k) dropped |= arg(next, k) == from;
    if (dropped)
      *to = static_cast<Value&&>(registers[from]);
    else
      take(from, to);
  }
  // Before a value leaves the registers (images.h).
  Status settled(const Value& v) const { return settle(&m->machine, "VM", v); }
  // Whether a list is for the next instruction only, and that an operator that takes images as they lie.
  bool is_for_images(const format::VmInstruction& in) const {
    const format::VmInstruction& next = (&in)[1];
    const uint32_t made = model.indices[in.results];
    const OpEntry* op = static_cast<format::VmOp>(next.op) == format::VmOp::op ? m->operators[next.target] : nullptr;
    return op && op->nhwc && op->param_count > 0 && made >= frame->function->first_slot && next.arg_count > 0 && arg(next, 0) == made &&
           op->param(0).kind == Kind::tensors;
  }
  Value taken(uint32_t arg) const {
    Value v;
    take(arg, &v);
    return v;
  }
  const Value& look(uint32_t arg) const { return arg & kConstant ? m->data.values[arg & ~kConstant] : registers[arg]; }
  uint32_t arg(const format::VmInstruction& in, uint32_t i) const { return model.indices[in.args + i]; }
  Value& result(const format::VmInstruction& in, uint32_t i) const { return registers[model.indices[in.results + i]]; }

  // Constants that the instruction takes: weights that lie packed in the file are unpacked when code first asks for them.
  Status unpack_constants(const format::VmInstruction& in) {
    for (uint32_t i = 0; i < in.arg_count; ++i)
      if ((arg(in, i) & kConstant) && !value_unpack(look(arg(in, i)))) return out_of_memory(m);
    return PEN_OK;
  }

  void enter(const format::Function& function, int64_t base, uint32_t result_register) {
    frame = &m->frames[m->frame_count++];
    *frame = {&function, 0, base, result_register};
    registers = m->registers + base;
  }

  Status call_op(const format::VmInstruction& in) {
    const OpEntry* op = m->operators[in.target];
    if (!op) {
      const char* name = model.string(model.operators[in.target].name);
      return report(&m->machine.error, {PEN_ERROR_KERNEL, "operator", name, "", "an operator that this library has", "none of this name",
                                        m->machine.source, "penlight lint tells which operators of a model are missing"});
    }
    if (op->result_count != in.result_count)
      return report(&m->machine.error, {PEN_ERROR_FORMAT, "operator", op->name, "", "code that takes as many results as it has", "another",
                                        m->machine.source});
    Value few[kFewArgs], results[8];
    Value* args = few;
    Value many;  // keeps the memory of a long list of arguments
    if (in.arg_count > kFewArgs) {
      TupleObject* room = tuple_create(in.arg_count);
      if (!room) return out_of_memory(m);
      many = Value::own(room);
      args = room->items;
    }
    for (uint32_t i = 0; i < in.arg_count; ++i) take_last(in, i, &args[i]);
    PEN_TRY(call_operator(&m->machine, *op, args, static_cast<int>(in.arg_count), results, true));
    for (uint32_t i = 0; i < in.result_count; ++i) result(in, i) = static_cast<Value&&>(results[i]);
    return PEN_OK;
  }

  Status construct(const format::VmInstruction& in) {
    switch (static_cast<format::VmOp>(in.op)) {
      case format::VmOp::list: {
        ListObject* list = list_create(in.arg_count);
        Value made = Value::own(list);
        const bool joined = is_for_images(in);
        for (uint32_t i = 0; list && i < in.arg_count; ++i) {
          Value item = taken(arg(in, i));
          if (!joined) PEN_TRY(settled(item));
          if (!list_append(list, item)) return out_of_memory(m);
        }
        result(in, 0) = static_cast<Value&&>(made);
        return list ? PEN_OK : out_of_memory(m);
      }
      case format::VmOp::tuple: {
        TupleObject* tuple = tuple_create(in.arg_count);
        if (!tuple) return out_of_memory(m);
        Value made = Value::own(tuple);
        for (uint32_t i = 0; i < in.arg_count; ++i) {
          take(arg(in, i), &tuple->items[i]);
          PEN_TRY(settled(tuple->items[i]));
        }
        if (in.target != format::kNone) tuple->type = &model.class_info[in.target];
        result(in, 0) = static_cast<Value&&>(made);
        return PEN_OK;
      }
      default: {
        DictObject* dict = dict_create();
        if (!dict) return out_of_memory(m);
        Value made = Value::own(dict);
        for (uint32_t i = 0; i < in.arg_count; i += 2) {
          Value key = taken(arg(in, i)), value = taken(arg(in, i + 1));
          if (!dict_can_hold(key)) return fail(m, PEN_ERROR_SHAPE, "dict", "keys that are numbers or strings", key.tag_name());
          PEN_TRY(settled(value));
          if (!dict_set(dict, key, value)) return out_of_memory(m);
        }
        result(in, 0) = static_cast<Value&&>(made);
        return PEN_OK;
      }
    }
  }

  Status unpack(const format::VmInstruction& in) {
    Value v = taken(arg(in, 0));
    const Value* items = v.tag() == Tag::list ? v.list()->items : v.tag() == Tag::tuple ? v.tuple()->items : nullptr;
    int64_t count = v.tag() == Tag::list ? v.list()->count : v.tag() == Tag::tuple ? v.tuple()->count : -1;
    char expected[64], got[64];
    if (count != static_cast<int64_t>(in.result_count)) {
      set_text(expected, sizeof expected, "%u elements to unpack", in.result_count);
      if (count < 0)
        set_text(got, sizeof got, "%s", v.tag_name());
      else
        set_text(got, sizeof got, "%lld", static_cast<long long>(count));
      return fail(m, PEN_ERROR_SHAPE, "unpack", expected, got);
    }
    for (uint32_t i = 0; i < in.result_count; ++i) result(in, i) = items[i];
    return PEN_OK;
  }

  Status attribute(const format::VmInstruction& in) {
    Value object = taken(arg(in, 0));
    if (object.tag() != Tag::object) return fail(m, PEN_ERROR_SHAPE, "attribute", "an object", object.tag_name());
    Instance* self = object.object();
    int32_t slot = static_cast<int32_t>(in.target);
    if (static_cast<format::VmOp>(in.op) == format::VmOp::set_attr) {
      if (!instance_reserve(self, slot)) return out_of_memory(m);
      Value v = taken(arg(in, 1));
      PEN_TRY(settled(v));
      PEN_TRY(finish(&m->machine));  // the object may hold the weights of what waits
      self->slots[slot] = static_cast<Value&&>(v);
      return PEN_OK;
    }
    if (slot >= self->count) {
      char got[64];
      set_text(got, sizeof got, "attribute %d of %d", slot, self->count);
      return fail(m, PEN_ERROR_SHAPE, "attribute", "one that the object has", got);
    }
    if (!value_unpack(self->slots[slot])) return out_of_memory(m);
    result(in, 0) = self->slots[slot];
    return PEN_OK;
  }

  const format::Function* find_method(const char* type, const char* name) const {
    const size_t n = strlen(type);
    auto order = [&](const char* full) {  // of "type.name" beside it
      int by_type = strncmp(type, full, n);
      if (by_type) return by_type;
      return full[n] == '.' ? strcmp(name, full + n + 1) : '.' < static_cast<unsigned char>(full[n]) ? -1 : 1;
    };
    const Table<uint32_t>& sorted = model.functions_by_name;
    for (uint32_t low = 0, high = sorted.count; low < high;) {
      const uint32_t middle = low + (high - low) / 2;
      const format::Function& found = model.functions[sorted[middle]];
      const int ordered = order(model.string(found.name));
      if (ordered == 0) return &found;
      if (ordered < 0)
        high = middle;
      else
        low = middle + 1;
    }
    return nullptr;
  }

  Status call(const format::VmInstruction& in) {
    const format::Function* function;
    if (static_cast<format::VmOp>(in.op) == format::VmOp::call) {
      function = &model.functions[in.target];
    } else {
      const Value& self = look(arg(in, 0));
      const char* name = model.string(in.target);
      const char* type = self.tag() == Tag::object && self.object()->type_name ? self.object()->type_name : self.tag_name();
      function = self.tag() == Tag::object ? find_method(type, name) : nullptr;
      if (!function) {
        char expected[96];
        set_text(expected, sizeof expected, "an object with a method %s", name);
        return fail(m, PEN_ERROR_SHAPE, "call", expected, type);
      }
      if (function->param_count != in.arg_count)
        return fail(m, PEN_ERROR_SHAPE, "call", "as many arguments as the method has", "another number");
    }
    if (m->frame_count == kMaxFrames) return fail(m, PEN_ERROR_LIMIT, "call", "at most 2000 calls inside each other", "more");
    int64_t base = frame->base + frame->function->registers;
    if (base + function->registers > format::kMaxLiveRegisters)
      return fail(m, PEN_ERROR_LIMIT, "call", "at most 4194304 registers in all calls that wait for each other", "more");
    m->machine.meter.steps += function->registers >> 5;  // to empty them on return takes time
    if (!reserve_registers(m, base + function->registers)) return out_of_memory(m);
    registers = m->registers + frame->base;
    for (uint32_t i = 0; i < in.arg_count; ++i) take(arg(in, i), &m->registers[base + i]);
    enter(*function, base, model.indices[in.results]);
    return PEN_OK;
  }

  // What a planned part's session said last: its threads and arena are the machine's, and so are their errors.
  const pen_error& session_error(const PlannedPart& part) const {
    return m->machine.error.status != PEN_OK ? m->machine.error : *pen_session_error(part.session);
  }
  static void count(uint64_t* times, char (&reason)[320], const char* words) {
    if (!(*times)++) set_text(reason, sizeof reason, "%s", words);
  }
  // A plan for the arguments at hand. Without one the code is interpreted, and that is counted: tensors of other kinds or sizes
  // than it was planned for are one thing, a plan that should have worked another.
  bool plan(const format::VmInstruction& in, PlannedPart* part) {
    Status status = PEN_OK;
    pen::session_error(part->session)->status = PEN_OK;  // of a run before this one, which may have been cancelled
    for (uint32_t i = 0; status == PEN_OK && i < in.arg_count; ++i) {
      const Value& v = look(arg(in, i));
      if (v.tag() != Tag::tensor || v.tensor()->quantizer) {
        char words[96];
        set_text(words, sizeof words, "input %u: expected a tensor, got %s", i, v.tag() == Tag::tensor ? "a quantized one" : v.tag_name());
        count(&part->unfit, part->unfit_reason, words);
        return false;
      }
      const TensorObject& t = *v.tensor();
      pen_tensor given = {t.data(), static_cast<int32_t>(t.dtype()), t.rank(), t.shape.dims, t.shape.strides};
      status = pen_session_set_input(part->session, static_cast<int32_t>(i), &given);
    }
    if (status == PEN_OK) status = pen_session_prepare(part->session);
    if (status == PEN_ERROR_INPUT)
      count(&part->unfit, part->unfit_reason, session_error(*part).message);
    else if (status != PEN_OK && status != PEN_ERROR_CANCELLED)
      count(&part->failed, part->failed_reason, session_error(*part).message);
    m->machine.error.status = PEN_OK;
    return status == PEN_OK;
  }

  // Straight-line code as a planned method. Where there is no plan for it, nothing has happened and *done is false.
  Status planned(const format::VmInstruction& in, bool* done) {
    PlannedPart& part = m->parts[in.target];
    pen_session*& session = part.session;
    *done = false;
    if (trace_interprets(m->machine.runner.trace)) return PEN_OK;
    m->machine.error.status = PEN_OK;
    for (uint32_t i = 0; i < in.arg_count; ++i) PEN_TRY(settled(look(arg(in, i))));
    PEN_TRY(finish(&m->machine));
    if (!session) {
      pen_session_options options = PEN_SESSION_OPTIONS;
      options.memory_limit = m->machine.memory_limit;
      options.isa = isa_name(m->machine.isa);
      options.device = m->device;
      options.f16 = m->f16;
      const char* name = model.string(model.methods[in.target].name);
      PEN_TRY(session_create(&model, name, &options, &m->machine.runner, &session, &m->machine.error));
    }
    if (!plan(in, &part)) {
      if (session_error(part).status != PEN_ERROR_CANCELLED) return PEN_OK;
      m->machine.error = session_error(part);
      return PEN_ERROR_CANCELLED;
    }
    // The stages that are planned; those whose sizes the run's data decides follow when it is known.
    const int64_t known = session_elements(session);
    PEN_TRY(machine_spend(&m->machine, "run", known));
    Status status = pen_session_run(session);
    if (status == PEN_OK) PEN_TRY(machine_spend(&m->machine, "run", session_elements(session) - known));
    if (status != PEN_OK) {
      m->machine.error = session_error(part);
      return status;
    }
    pen_device_report one;
    pen_session_device_report(session, &one);
    m->used.device = one.device;
    m->used.dispatches += one.dispatches;
    m->used.copies += one.copies;
    m->used.bytes_up += one.bytes_up;
    m->used.bytes_down += one.bytes_down;
    for (uint32_t i = 0; i < in.arg_count; ++i) taken(arg(in, i));  // slots are emptied
    for (uint32_t i = 0; i < in.result_count; ++i) {
      pen_tensor out;
      pen_session_output(session, static_cast<int32_t>(i), &out);
      Tensor shape;
      shape.dtype = static_cast<DType>(out.dtype);
      shape.rank = out.rank;
      for (int d = 0; d < out.rank; ++d) shape.dims[d] = out.dims[d];
      row_major_strides(shape.rank, shape.dims, shape.strides);
      int64_t bytes = shape.numel() * dtype_size(shape.dtype);
      void* memory = pen_session_take_output(session, static_cast<int32_t>(i));
      Storage* storage = memory ? storage_adopt(memory, bytes) : storage_create(bytes);
      if (!storage) return out_of_memory(m);
      if (!memory && bytes) memcpy(storage->data, out.data, static_cast<size_t>(bytes));
      TensorObject* t = tensor_on(storage, shape, 0);
      storage_release(storage);
      if (!t) return out_of_memory(m);
      result(in, i) = Value::own(t);
    }
    ++part.taken;
    *done = true;
    return PEN_OK;
  }

  // The line of the instruction at hand; where it has none (code that a compiler put between lines), the one before it, or the
  // call's.
  const char* source_line() const {
    for (int f = m->frame_count - 1; f >= 0; --f)
      for (uint32_t pc = m->frames[f].pc; pc-- > 0;) {
        const char* line = model.string(model.vm_code[m->frames[f].function->code + pc].source);
        if (line[0]) return line;
      }
    return "";
  }

  Status run(Value* returned) {
    for (;;) {
      const format::VmInstruction& in = model.vm_code[frame->function->code + frame->pc++];
      Machine& machine = m->machine;
      machine.source = model.string(in.source);
      machine.meter.steps += 1 + (in.arg_count >> 4);
      // The clock is not asked at every instruction.
      if (PEN_UNLIKELY((machine.meter.most && machine.meter.steps > machine.meter.most) || (++instructions & 63) == 0))
        PEN_TRY(machine_spend(&machine, "run", 0));
      if (m->data.any_packed) PEN_TRY(unpack_constants(in));
      switch (static_cast<format::VmOp>(in.op)) {
        case format::VmOp::move: {
          Value v = taken(arg(in, 0));
          result(in, 0) = static_cast<Value&&>(v);
          break;
        }
        case format::VmOp::op:
          PEN_TRY(call_op(in));
          break;
        case format::VmOp::jump:
          frame->pc = in.target;
          break;
        case format::VmOp::branch: {
          Value condition = taken(arg(in, 0));
          if (condition.tag() != Tag::boolean) return fail(m, PEN_ERROR_SHAPE, "if", "a bool", condition.tag_name());
          if (!condition.boolean()) frame->pc = in.target;
          break;
        }
        case format::VmOp::loop: {
          Value* slots = &registers[arg(in, 0)];  // trip, limit, condition, carried …
          if (slots[0].tag() != Tag::integer || slots[1].tag() != Tag::integer || slots[2].tag() != Tag::boolean)
            return fail(m, PEN_ERROR_SHAPE, "loop", "an int count, an int limit and a bool condition", "others");
          int64_t trip = slots[0].integer();
          if (trip < slots[1].integer() && slots[2].boolean()) {
            slots[2] = Value(trip);
            slots[0] = Value(trip + 1);
            break;
          }
          for (uint32_t i = 3; i < in.arg_count; ++i) slots[i - 3] = static_cast<Value&&>(slots[i]);
          for (uint32_t i = in.arg_count - 3; i < in.arg_count; ++i) slots[i] = Value();
          frame->pc = in.target;
          break;
        }
        case format::VmOp::ret: {
          Value v = taken(arg(in, 0));
          for (uint32_t i = 0; i < frame->function->registers; ++i) registers[i] = Value();
          uint32_t to = frame->result;
          if (m->frame_count == 1) {
            PEN_TRY(settled(v));
            PEN_TRY(finish(&m->machine));
          }
          if (--m->frame_count == 0) {
            *returned = static_cast<Value&&>(v);
            return PEN_OK;
          }
          frame = &m->frames[m->frame_count - 1];
          registers = m->registers + frame->base;
          registers[to] = static_cast<Value&&>(v);
          break;
        }
        case format::VmOp::list:
        case format::VmOp::tuple:
        case format::VmOp::dict:
          PEN_TRY(construct(in));
          break;
        case format::VmOp::unpack:
          PEN_TRY(unpack(in));
          break;
        case format::VmOp::get_attr:
        case format::VmOp::set_attr:
          PEN_TRY(attribute(in));
          break;
        case format::VmOp::create: {
          const ClassInfo& type = model.class_info[in.target];
          Instance* made = instance_create(type.name, &type, type.field_count);
          if (!made) return out_of_memory(m);
          result(in, 0) = Value::own(made);
          break;
        }
        case format::VmOp::isinstance: {
          Value v = taken(arg(in, 0));
          int64_t looks = 0;
          result(in, 0) = Value(is_instance(v, model.string(in.target), &looks));
          machine.meter.steps += looks;
          if (PEN_UNLIKELY(looks > 4096)) PEN_TRY(machine_spend(&machine, "isinstance", 0));
          break;
        }
        case format::VmOp::call:
        case format::VmOp::call_method:
          PEN_TRY(call(in));
          break;
        case format::VmOp::drop:
          for (uint32_t i = 0; i < in.arg_count; ++i)
            if (!(arg(in, i) & kConstant)) registers[arg(in, i)] = Value();
          break;
        case format::VmOp::planned: {
          bool done;
          PEN_TRY(planned(in, &done));
          if (done) frame->pc = in.extra;
          break;
        }
      }
    }
  }
};

// Whatever an error left in the registers.
void clear(pen_module* m) {
  forget_waiting(&m->machine);
  for (int64_t i = 0; i < m->register_count; ++i) m->registers[i] = Value();
  m->frame_count = 0;
}

// The module's constants and state; they are part of what its values take.
bool create_data(pen_module* m, Data* data) {
  Account* before = account_enter(m->machine.account);
  bool made = data_create(data, *m->model);
  account_enter(before);
  return made;
}

const format::Function* find_function(const Model& model, const char* method) {
  const Table<uint32_t>& sorted = model.methods_by_name;
  for (uint32_t low = 0, high = sorted.count; low < high;) {
    const uint32_t middle = low + (high - low) / 2;
    const format::Function& found = model.functions[sorted[middle]];
    const int order = strcmp(method, model.string(found.method));
    if (order == 0) return &found;
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return nullptr;
}

Status run_method(pen_module* m, const char* name, pen_value* const* args, size_t count, Value* result) {
  const Model& model = *m->model;
  Machine& machine = m->machine;
  machine.source = "";
  m->used = {};
  const format::Function* function = find_function(model, name);
  if (!function) {
    char names[160] = "one of";
    size_t used = strlen(names);
    for (uint32_t i = 0; i < model.entry_points.count && used < sizeof names; ++i)
      used += static_cast<size_t>(
          snprintf(names + used, sizeof names - used, " %s", model.string(model.functions[model.entry_points[i]].method)));
    return report(&machine.error, PEN_ERROR_ARGUMENT, "method", names, name);
  }
  size_t most = function->param_count - 1, least = function->default_count > most ? 0 : most - function->default_count;
  if (function->param_count == 0 || count > most || count < least) {
    char expected[64], got[32];
    set_text(expected, sizeof expected, least == most ? "%zu" : "%zu to %zu", least, most);
    set_text(got, sizeof got, "%zu", count);
    return report(&machine.error, {PEN_ERROR_ARGUMENT, "arguments of", name, "", expected, got});
  }
  if (!reserve_registers(m, function->registers)) return out_of_memory(m);
  m->registers[0] = m->data.values[model.programs[0].module];
  for (size_t i = 0; i < count; ++i) m->registers[1 + i] = args[i]->value;  // of which none is NULL
  for (size_t i = count; i < most; ++i)
    m->registers[1 + i] = m->data.values[model.indices[function->defaults + static_cast<uint32_t>(function->default_count - (most - i))]];
  bool unpacked = true;
  for (size_t i = count; i < most; ++i) unpacked = unpacked && value_unpack(m->registers[1 + i]);
  if (!unpacked) {
    clear(m);
    return out_of_memory(m);
  }
  Interpreter vm = {m, model, nullptr, nullptr, 0};
  vm.enter(*function, 0, 0);
  account_collect_sometimes(machine.account);
  Account* before = account_enter(machine.account);
  Status status = vm.run(result);
  if (status != PEN_OK) {
    locate(&machine.error, name, vm.source_line());
    clear(m);
  }
  account_enter(before);
  return status;
}

}  // namespace

extern "C" {

pen_status pen_module_create(const pen_model* model, const pen_module_options* options, pen_module** out, pen_error* error) {
  if (!out) return report(error, PEN_ERROR_ARGUMENT, "module", "room for one", "NULL");
  *out = nullptr;
  if (!model) return report(error, PEN_ERROR_ARGUMENT, "module", "a model", "NULL");
  alive(model);
  pen_module_options own;
  PEN_TRY(take_options(options, &own, sizeof own, error));
  const Backend* backend;
  const char* which;
  PEN_TRY(choose_backend(own.device, &backend, &which, error));
  if (model->programs.count == 0)
    return report(error, PEN_ERROR_ARGUMENT, "module", "a model with VM code", "one that is planned as a whole",
                  "Run it with pen_session_create");
  if (own.threads < 0) return report(error, PEN_ERROR_ARGUMENT, "threads", "0 (one per core) or more", "a negative number");
  Isa isa;
  PEN_TRY(choose_isa(own.isa, &isa, error));
  pen_module* m = static_cast<pen_module*>(calloc(1, sizeof(pen_module)));
  bool made = m && machine_create(&m->machine, model, isa, own.threads, own.memory_limit, own.interrupted, own.interrupt_context);
  if (m) {
    handle_begin(m);
    depend(model);
    set_text(m->device, sizeof m->device, "%s", own.device ? own.device : "");
    m->f16 = own.f16 != 0;
    m->model = model;
    m->machine.meter.most = own.max_steps;
    m->operators = static_cast<const OpEntry**>(calloc(model->operators.count + 1, sizeof(OpEntry*)));
    m->parts = static_cast<PlannedPart*>(calloc(model->methods.count + 1, sizeof(PlannedPart)));
  }
  if (!made || !m->operators || !m->parts || !create_data(m, &m->data)) {
    pen_module_destroy(m);
    return report(error, PEN_ERROR_MEMORY, "module", "memory for a module", "none");
  }
  for (uint32_t i = 0; i < model->operators.count; ++i) m->operators[i] = find_operator(model->string(model->operators[i].name));
  for (uint32_t f = 0; f < model->functions.count; ++f)  // the loader has checked no other code
    for (uint32_t i = 0; i < model->functions[f].code_count; ++i) {
      const format::VmInstruction& in = model->vm_code[model->functions[f].code + i];
      if (static_cast<format::VmOp>(in.op) == format::VmOp::planned && !m->parts[in.target].call) m->parts[in.target].call = &in;
    }
  *out = m;
  return PEN_OK;
}

void pen_module_destroy(pen_module* m) {
  if (!m) return;
  handle_end(m);
  depend_no_more(m->model);
  clear(m);
  for (uint32_t i = 0; m->parts && i < m->model->methods.count; ++i) pen_session_destroy(m->parts[i].session);
  if (m->data.model) data_destroy(&m->data);
  account_give(m->machine.account, sizeof(Value) * static_cast<size_t>(m->register_count));
  machine_destroy(&m->machine);  // last: it may be the account that keeps the model
  free(m->operators);
  free(m->parts);
  free(m->registers);
  free(m);
}

pen_status pen_module_run(pen_module* m, const char* method, pen_value* const* args, size_t count, pen_value** result) {
  const Inside inside(m);
  if (!m) return PEN_ERROR_ARGUMENT;
  if (result) *result = nullptr;
  PEN_TRY(machine_begin(&m->machine));
  Status status = result ? PEN_OK : report(&m->machine.error, PEN_ERROR_ARGUMENT, "result", "room for it", "NULL");
  for (size_t i = 0; i < count && status == PEN_OK && count < 1u << 20; ++i)
    if (!args || !args[i])
      status = report(&m->machine.error, PEN_ERROR_ARGUMENT, "arguments", "values", "NULL");
    else
      alive(args[i]);
  {
    Value returned;
    if (status == PEN_OK) status = run_method(m, method ? method : "forward", args, count, &returned);
    if (status == PEN_OK) *result = box(returned);
    if (status == PEN_OK && !*result) status = out_of_memory(m);
  }
  machine_end(&m->machine);
  return status;
}

pen_status pen_module_reset(pen_module* m) {
  const Inside inside(m);
  if (!m) return PEN_ERROR_ARGUMENT;
  PEN_TRY(machine_begin(&m->machine));
  Data fresh = {};
  m->machine.source = "";
  Status status = create_data(m, &fresh) ? PEN_OK : out_of_memory(m);
  if (status == PEN_OK) {
    machine_forget_weights(&m->machine);  // they are of storages that nobody asks for again
    Account* before = account_enter(m->machine.account);
    data_destroy(&m->data);
    account_enter(before);
    m->data = fresh;
    account_collect(m->machine.account);
  }
  machine_end(&m->machine);
  return status;
}
void pen_module_device_report(const pen_module* m, pen_device_report* out) {
  const Inside inside(m);
  if (!out) return;
  *out = m ? m->used : pen_device_report{};
  if (!out->device) out->device = "cpu";
}

void pen_module_seed(pen_module* m, uint64_t seed) {
  const Inside inside(m);
  if (m) m->machine.runner.random = {seed, 0};
}
const pen_error* pen_module_error(const pen_module* m) {
  const Inside inside(m);
  return m ? &m->machine.error : nullptr;
}
pen_status pen_module_planned_part(const pen_module* m, int32_t index, pen_planned_part* out) {
  const Inside inside(m);
  for (uint32_t i = 0; m && out && index >= 0 && i < m->model->methods.count; ++i) {
    const PlannedPart& part = m->parts[i];
    if (!part.call || index-- != 0) continue;
    *out = {m->model->string(m->model->methods[i].name),
            m->model->string(part.call->source),
            part.taken,
            part.unfit,
            part.failed,
            part.unfit_reason,
            part.failed_reason};
    return PEN_OK;
  }
  return PEN_ERROR_ARGUMENT;
}
#if defined(PEN_TRACE)
pen_status pen_module_set_trace(pen_module* m, pen_trace* trace) {
  const Inside inside(m);
  return m ? machine_set_trace(&m->machine, trace) : PEN_ERROR_ARGUMENT;
}
#endif
pen_value* pen_module_state(const pen_module* m) {
  const Inside inside(m);
  return m ? box(m->data.values[m->model->programs[0].module]) : nullptr;
}

}  // extern "C"
