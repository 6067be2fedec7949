// Proves VM code (file/SPEC.md, VM code): every register, constant, part, class and target exists, parts come before what they
// are part of, and nothing is nested deeper than recursive code over values allows. What depends on values (is it a list, is it
// a bool) is checked when the code runs.
#include "penlight/runtime/file/verify.h"
#include "penlight/runtime/vm/op.h"

namespace pen {
namespace {

using namespace format;

constexpr uint32_t kConstantBit = 1u << 31;

struct ScriptVerifier {
  Verifier& v;
  Model* m;

  Status check_classes() {
    ClassInfo* info = m->pool.take_array<ClassInfo>(m->classes.count);
    m->class_info = info;
    if (!info) return v.out_of_memory();
    for (uint32_t i = 0; i < m->classes.count; ++i) {
      const Class& c = m->classes[i];
      PEN_TRY(v.check_string(c.name, "CLAS"));
      PEN_TRY(v.check_indices(c.fields, c.field_count, m->strings.count, "CLAS"));
      PEN_TRY(v.link(c.field_count));
      const char** fields = m->pool.take_array<const char*>(c.field_count);
      if (!fields) return v.out_of_memory();
      for (uint32_t k = 0; k < c.field_count; ++k) fields[k] = m->string(m->indices[c.fields + k]);
      info[i] = {m->string(c.name), fields, static_cast<int32_t>(c.field_count)};
    }
    return PEN_OK;
  }

  // ---- constants and state ----
  // Of a packed weight, what it is when unpacked.
  uint64_t storage_bytes(const Constant& c) const {
    int64_t bytes = 4;
    for (uint32_t i = 0; c.groups && i < c.rank; ++i) bytes *= m->ints[c.dims + i];
    return c.groups ? static_cast<uint64_t>(bytes) : c.size;
  }
  // A view of a storage: see ScriptTables._tensor in file/script_writer.py.
  Status check_tensor(const Datum& d) {
    PEN_TRY(v.check_span(d.start, d.count, m->ints.count, "DATM"));
    PEN_TRY(v.spend(d.count));
    const int64_t* n = m->ints.data + d.start;
    if (d.count < 6) return v.fail("DATM", "a tensor's constant, dtype, offset, rank, axis and channels", "%u numbers", d.count);
    int64_t rank = n[3];
    if (n[0] < 0 || n[0] >= m->constants.count) return v.fail("DATM", "a constant that exists", "%lld", static_cast<long long>(n[0]));
    if (n[1] < 0 || n[1] >= kDTypeCount) return v.fail("DATM", "a dtype code below 10", "%lld", static_cast<long long>(n[1]));
    if (rank < 0 || rank > pen::kMaxRank || d.count < 6 + 2 * rank)
      return v.fail("DATM", "a rank of at most 8", "%lld", static_cast<long long>(rank));
    const Constant& c = m->constants[static_cast<uint32_t>(n[0])];
    if (m->is_half(c)) return v.fail("DATM", "a storage as its dtype has it", "layout %s", m->string(c.layout));
    const uint64_t storage = storage_bytes(c);
    int64_t size = dtype_size(static_cast<DType>(n[1])), bytes = size, reach = 0, span, start, end;
    bool empty = false, wrong = n[2] < 0;
    for (int64_t i = 0; i < rank; ++i) {
      int64_t dim = n[4 + i], stride = n[4 + rank + i];
      if (dim < 0 || dim > kMaxDim || stride < 0)
        return v.fail("DATM", "dims and strides of 0 or more", "%lld and %lld", static_cast<long long>(dim),
                      static_cast<long long>(stride));
      empty |= dim == 0;
      // Strides may be 0, so dims may be more than the storage has: their product is checked by itself.
      wrong |= mul_overflows(bytes, dim > 1 ? dim : 1, &bytes) || mul_overflows(dim > 1 ? dim - 1 : 0, stride, &span) ||
               add_overflows(reach, span, &reach);
    }
    wrong = wrong || mul_overflows(n[2], size, &start) || add_overflows(reach, 1, &end) || mul_overflows(end, size, &end);
    if (wrong ||
        (!empty && (static_cast<uint64_t>(start) > storage || static_cast<uint64_t>(end) > storage - static_cast<uint64_t>(start))))
      return v.fail("DATM", "a tensor inside its storage", "one that reaches outside of %llu bytes",
                    static_cast<unsigned long long>(storage));
    int64_t axis = n[4 + 2 * rank], channels = n[5 + 2 * rank];
    if (axis < -2 || axis >= rank || channels < 0 || channels > static_cast<int64_t>(d.count) ||
        static_cast<int64_t>(d.count) != 6 + 2 * rank + 2 * channels || (axis == -2) != (channels == 0) || (axis == -1 && channels != 1) ||
        (axis >= 0 && channels != n[4 + axis]))
      return v.fail("DATM", "scales for the axis that they are along", "%lld for axis %lld", static_cast<long long>(channels),
                    static_cast<long long>(axis));
    DType dtype = static_cast<DType>(n[1]);
    if (axis >= -1 && dtype != DType::u8 && dtype != DType::i8 && dtype != DType::i32)
      return v.fail("DATM", "a quantized tensor of u8, i8 or i32", "dtype code %lld", static_cast<long long>(n[1]));
    const Levels levels = levels_of(dtype);
    for (int64_t i = 0; i < channels; ++i) {
      const int64_t zero = n[6 + 2 * rank + i];
      if (zero < levels.low || zero > levels.high)
        return v.fail("DATM", "zero points that the dtype holds", "%lld", static_cast<long long>(zero));
    }
    return PEN_OK;
  }

  // Parts come first, so nothing contains itself.
  Status check_parts(const Datum& d, uint32_t index, uint8_t* depths) {
    PEN_TRY(v.check_indices(d.start, d.count, index, "DATM"));
    PEN_TRY(v.link(d.count));
    DatumKind kind = static_cast<DatumKind>(d.kind);
    if (kind == DatumKind::dict && d.count % 2) return v.fail("DATM", "a value for each key", "%u parts", d.count);
    for (uint32_t k = 0; k < d.count; ++k) {
      uint32_t part = m->indices[d.start + k], part_kind = m->data_values[part].kind;
      bool number = part_kind >= static_cast<uint32_t>(DatumKind::boolean) && part_kind <= static_cast<uint32_t>(DatumKind::str);
      // What is in a list is read without asking; an attribute is unpacked by whoever reads it.
      if (kind != DatumKind::object && part_kind == static_cast<uint32_t>(DatumKind::tensor) &&
          m->constants[static_cast<uint32_t>(m->ints[m->data_values[part].start])].groups)
        return v.fail("DATM", "packed weights as attributes of objects only", "one in a list, tuple or dict");
      if (kind == DatumKind::dict && k % 2 == 0 && !number) return v.fail("DATM", "keys that are numbers or strings", "kind %u", part_kind);
      if (depths[part] + 1 > depths[index]) depths[index] = static_cast<uint8_t>(depths[part] + 1);
    }
    if (depths[index] > kMaxDatumDepth) return v.fail("DATM", "values nested at most 64 deep", "deeper ones");
    bool classed = kind == DatumKind::object || (kind == DatumKind::tuple && d.type != kNone);
    if (classed && (d.type >= m->classes.count || m->classes[d.type].field_count < d.count))
      return v.fail("DATM", "a class with a field for each part", "%u", d.type);
    return PEN_OK;
  }
  Status check_data() {
    static_assert(kMaxDatumDepth < 255, "depths are bytes");
    PEN_TRY(v.spend(m->data_values.count));
    uint8_t* depths = static_cast<uint8_t*>(calloc(m->data_values.count + 1, 1));
    if (!depths) return v.out_of_memory();
    Status status = PEN_OK;
    for (uint32_t i = 0; i < m->data_values.count && status == PEN_OK; ++i) {
      const Datum& d = m->data_values[i];
      switch (static_cast<DatumKind>(d.kind)) {
        case DatumKind::none:
        case DatumKind::boolean:
        case DatumKind::integer:
        case DatumKind::real:
          break;
        case DatumKind::str:
          if (d.number < 0 || d.number >= m->strings.count)
            status = v.fail("DATM", "a string that exists", "%lld", static_cast<long long>(d.number));
          break;
        case DatumKind::tensor:
          status = check_tensor(d);
          break;
        case DatumKind::list:
        case DatumKind::tuple:
        case DatumKind::dict:
        case DatumKind::object:
          status = check_parts(d, i, depths);
          break;
        default:
          status = v.fail("DATM", "a known kind", "%u", d.kind);
      }
    }
    free(depths);
    return status;
  }

  // ---- code ----
  struct Form {
    int8_t args, results;  // -1: any number
  };
  static Form form_of(VmOp op) {
    switch (op) {
      case VmOp::move:
      case VmOp::get_attr:
      case VmOp::isinstance:
        return {1, 1};
      case VmOp::op:
      case VmOp::planned:
        return {-1, -1};
      case VmOp::jump:
        return {0, 0};
      case VmOp::branch:
      case VmOp::ret:
        return {1, 0};
      case VmOp::loop:
      case VmOp::drop:
        return {-1, 0};
      case VmOp::list:
      case VmOp::tuple:
      case VmOp::dict:
      case VmOp::call:
      case VmOp::call_method:
        return {-1, 1};
      case VmOp::unpack:
        return {1, -1};
      case VmOp::set_attr:
        return {2, 0};
      case VmOp::create:
        return {0, 1};
    }
    return {0, 0};
  }
  // How many there are of what an instruction's target names; kNone: it names nothing.
  uint32_t targets_of(VmOp op, const VmInstruction& in, const Function& fn) const {
    switch (op) {
      case VmOp::op:
        return m->operators.count;
      case VmOp::jump:
      case VmOp::branch:
      case VmOp::loop:
        return fn.code_count;
      case VmOp::tuple:
        return in.target == kNone ? kNone : m->classes.count;
      case VmOp::create:
        return m->classes.count;
      case VmOp::isinstance:
      case VmOp::call_method:
        return m->strings.count;
      case VmOp::call:
        return m->functions.count;
      case VmOp::planned:
        return m->methods.count;
      case VmOp::get_attr:
      case VmOp::set_attr:
        return static_cast<uint32_t>(kMaxRegisters);
      default:
        return kNone;
    }
  }

  Status check_args(const VmInstruction& in, const Function& fn) {
    PEN_TRY(v.check_span(in.args, in.arg_count, m->indices.count, "VMCD"));
    PEN_TRY(v.spend(in.arg_count));
    VmOp op = static_cast<VmOp>(in.op);
    for (uint32_t i = 0; i < in.arg_count; ++i) {
      uint32_t a = m->indices[in.args + i];
      bool constant = a & kConstantBit;
      if (constant ? (a & ~kConstantBit) >= m->data_values.count : a >= fn.registers)
        return v.fail("VMCD", "a register or a constant that exists", "%u", a);
      if (constant && op == VmOp::drop) return v.fail("VMCD", "registers to empty", "a constant");
      if (op == VmOp::loop && (constant || a != m->indices[in.args] + i))
        return v.fail("VMCD", "consecutive registers of a loop", "others");
    }
    return PEN_OK;
  }

  Status check_instruction(const VmInstruction& in, const Function& fn, uint32_t pc) {
    if (in.op >= kVmOpCount) return v.fail("VMCD", "a known instruction", "%u", in.op);
    VmOp op = static_cast<VmOp>(in.op);
    PEN_TRY(v.check_string(in.source, "VMCD", true));
    PEN_TRY(v.check_indices(in.results, in.result_count, fn.registers, "VMCD"));
    PEN_TRY(check_args(in, fn));
    Form form = form_of(op);
    if ((form.args >= 0 && in.arg_count != static_cast<uint32_t>(form.args)) ||
        (form.results >= 0 && in.result_count != static_cast<uint32_t>(form.results)))
      return v.fail("VMCD", "as many arguments and results as the instruction has", "%u and %u in instruction %u", in.arg_count,
                    in.result_count, pc);
    uint32_t targets = targets_of(op, in, fn);
    if (targets != kNone && in.target >= targets) return v.fail("VMCD", "a target that exists", "%u of %u", in.target, targets);
    switch (op) {
      case VmOp::op:
        if (in.result_count > kMaxOperatorResults || in.arg_count > kMaxOperatorArgs)
          return v.fail("VMCD", "at most 4096 arguments and 8 results", "%u and %u", in.arg_count, in.result_count);
        break;
      case VmOp::dict:
        if (in.arg_count % 2) return v.fail("VMCD", "a value for each key", "%u", in.arg_count);
        break;
      case VmOp::call_method:
        if (in.arg_count < 1) return v.fail("VMCD", "an object to call a method of", "none");
        break;
      case VmOp::call:
        if (in.arg_count != m->functions[in.target].param_count)
          return v.fail("VMCD", "as many arguments as the function has", "%u", in.arg_count);
        break;
      case VmOp::loop:
        if (in.arg_count < 3) return v.fail("VMCD", "a loop's count, limit and condition", "%u", in.arg_count);
        break;
      case VmOp::planned: {
        const Method& method = m->methods[in.target];
        if (in.extra >= fn.code_count || in.arg_count != method.input_count || in.result_count != method.output_count ||
            (kHasState && m->method_code[in.target].state_count))
          return v.fail("VMCD", "a planned method's inputs and outputs", "%u and %u", in.arg_count, in.result_count);
        break;
      }
      default:
        break;
    }
    if (pc + 1 == fn.code_count && op != VmOp::ret && op != VmOp::jump)
      return v.fail("VMCD", "return or jump as the last instruction", "%u", in.op);
    return PEN_OK;
  }

  Status check_function(const Function& fn) {
    PEN_TRY(v.check_string(fn.name, "FUNC"));
    PEN_TRY(v.check_string(fn.method, "FUNC", true));
    PEN_TRY(v.check_string(fn.schema, "FUNC"));
    PEN_TRY(v.check_span(fn.code, fn.code_count, m->vm_code.count, "FUNC"));
    if (fn.registers > static_cast<uint64_t>(kMaxRegisters) || fn.param_count > fn.registers || fn.first_slot > fn.registers)
      return v.fail("FUNC", "a register for each parameter, and at most 1048576", "%u", fn.registers);
    PEN_TRY(v.link(fn.registers));
    bool method = fn.method != kNone;
    if (method && fn.param_count == 0) return v.fail("FUNC", "a method that takes the module itself", "no parameters");
    PEN_TRY(v.check_indices(fn.defaults, fn.default_count, m->data_values.count, "FUNC"));
    if (fn.default_count > fn.param_count - method) return v.fail("FUNC", "at most one default for each parameter", "%u", fn.default_count);
    if (fn.code_count == 0) return v.fail("FUNC", "a function that returns", "no instructions");
    PEN_TRY(v.spend(fn.code_count));
    for (uint32_t pc = 0; pc < fn.code_count; ++pc) PEN_TRY(check_instruction(m->vm_code[fn.code + pc], fn, pc));
    return PEN_OK;
  }

  // Names by which functions, their methods, or methods that are planned are found: sorted, so that no choice of names makes it slow. Each
  // has its own; of planned ones, the first is found.
  enum class Of { functions, methods, planned };
  uint32_t name_of(uint32_t row, Of what) const {
    return what == Of::planned ? m->methods[row].name : what == Of::methods ? m->functions[row].method : m->functions[row].name;
  }
  Status merge_names(uint32_t* order, uint32_t* room, uint32_t count, Of what) {
    for (uint64_t width = 1; width < count; width *= 2) {
      for (uint64_t start = 0; start < count; start += 2 * width) {
        uint64_t middle = start + width < count ? start + width : count, end = start + 2 * width < count ? start + 2 * width : count;
        uint64_t i = start, k = middle, to = start;
        while (i < middle || k < end) {
          bool first = k == end;
          if (i < middle && k < end) {
            uint32_t a = name_of(order[i], what), b = name_of(order[k], what);
            uint32_t shorter = m->strings[a].size < m->strings[b].size ? m->strings[a].size : m->strings[b].size;
            PEN_TRY(v.spend(1 + shorter / 16));
            int ordered = strcmp(m->string(a), m->string(b));
            if (ordered == 0 && what != Of::planned)
              return v.fail("FUNC", what == Of::methods ? "methods with names of their own" : "functions with names of their own", "two %s",
                            m->string(a));
            first = ordered <= 0;
          }
          room[to++] = first ? order[i++] : order[k++];
        }
      }
      memcpy(order, room, sizeof(uint32_t) * count);
    }
    return PEN_OK;
  }
  Status sort_names(Of what, Table<uint32_t>* to) {
    const uint32_t rows = what == Of::planned ? m->methods.count : m->functions.count;
    uint32_t count = 0;
    uint32_t* order = m->pool.take_array<uint32_t>(int64_t{rows} + 1);
    uint32_t* room = static_cast<uint32_t*>(calloc(rows + size_t{1}, sizeof(uint32_t)));
    Status status = PEN_OK;
    for (uint32_t i = 0; order && i < rows && status == PEN_OK; ++i) {
      if (name_of(i, what) == kNone) continue;
      status = v.spend(m->strings[name_of(i, what)].size);
      order[count++] = i;
    }
    if (order && what == Of::methods) {  // as they stand in the file
      uint32_t* kept = m->pool.take_array<uint32_t>(int64_t{count} + 1);
      if (kept) memcpy(kept, order, sizeof(uint32_t) * count);
      m->entry_points = {kept, count};
      if (!kept) order = nullptr;
    }
    if (status == PEN_OK) status = order && room ? merge_names(order, room, count, what) : v.out_of_memory();
    free(room);
    *to = {order, count};
    return status;
  }

  Status check_bundles() {
    for (uint32_t i = 0; i < m->bundles.count; ++i) {
      const Bundle& b = m->bundles[i];
      PEN_TRY(v.check_string(b.method, "BNDL"));
      PEN_TRY(v.check_string(b.info, "BNDL", true));
      if (b.args >= m->data_values.count || (b.outputs != kNone && b.outputs >= m->data_values.count) ||
          static_cast<DatumKind>(m->data_values[b.args].kind) != DatumKind::tuple)
        return v.fail("BNDL", "a tuple of arguments", "%u", b.args);
    }
    return PEN_OK;
  }

  Status run() {
    PEN_TRY(check_classes());
    PEN_TRY(check_data());
    uint32_t* missing = m->pool.take_array<uint32_t>(int64_t{m->operators.count} + 1);
    if (!missing) return v.out_of_memory();
    m->missing_operators = {missing, 0};
    for (uint32_t i = 0; i < m->operators.count; ++i) {
      PEN_TRY(v.check_string(m->operators[i].name, "OPER"));
      if (find_operator(m->string(m->operators[i].name))) continue;
      v.lacks(m->string(m->operators[i].name));
      missing[m->missing_operators.count++] = i;
    }
    for (uint32_t i = 0; i < m->functions.count; ++i) PEN_TRY(check_function(m->functions[i]));
    PEN_TRY(sort_names(Of::functions, &m->functions_by_name));
    PEN_TRY(sort_names(Of::methods, &m->methods_by_name));
    PEN_TRY(sort_names(Of::planned, &m->planned_by_name));
    PEN_TRY(check_bundles());
    if (m->programs.count > 1 || (m->functions.count && m->programs.count != 1))
      return v.fail("PROG", "one module", "%u", m->programs.count);
    if (m->programs.count && (m->programs[0].module >= m->data_values.count ||
                              static_cast<DatumKind>(m->data_values[m->programs[0].module].kind) != DatumKind::object))
      return v.fail("PROG", "an object", "%u", m->programs[0].module);
    return PEN_OK;
  }
};

}  // namespace

Status check_script(Verifier* verifier) { return ScriptVerifier{*verifier, verifier->m}.run(); }

#if defined(__ELF__)
// Bindings name these weakly, since libraries without the VM lack them; and a weak name takes nothing out of a static library. So what
// loads every model asks for them here. Linkers drop this table, and what nobody calls.
struct TakenAlong {
  decltype(&pen_module_create) modules;
  decltype(&pen_value_none) values;
  decltype(&pen_model_function_count) functions;
};
__attribute__((used)) static const TakenAlong kTakenAlong = {pen_module_create, pen_value_none, pen_model_function_count};
#endif

}  // namespace pen
