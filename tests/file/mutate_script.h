// Mutations of VM code: methods of a few operators, any that there are, on constants, arguments and each other's results, of
// the kinds that their schemas ask for, mostly; and numbers of the tables changed where it hurts.
#pragma once
#include "mutate_tables.h"
#include "penlight/runtime/vm/op.h"  // the table of operators

struct ScriptMaker {
  File& f;
  Rng& rng;
  uint32_t registers = 0;

  uint32_t datum(DatumKind kind, int64_t number = 0, uint32_t start = 0, uint32_t count = 0, uint32_t type = 0) {
    Datum d = {};
    d.kind = static_cast<uint32_t>(kind);
    d.type = type;
    d.number = number;
    d.start = start;
    d.count = count;
    return f.append("DATM", d);
  }
  uint32_t integer() { return datum(DatumKind::integer, rng.one_in(3) ? wild_number(rng, 1) : likely_int(rng)); }
  uint32_t real() {
    double d = rng.one_in(3) ? wild_float(rng, 1) : 0.5 * static_cast<double>(rng.below(5));
    int64_t bits;
    memcpy(&bits, &d, 8);
    return datum(DatumKind::real, bits);
  }
  uint32_t boolean() { return datum(DatumKind::boolean, static_cast<int64_t>(rng.below(2))); }
  uint32_t text() {
    static const char* const kTexts[] = {"mean", "none", "sum",     "floor", "trunc", "tanh", "reflect", "constant", "bilinear",
                                         "ij",   "xy",   "nearest", "cpu",   "",      "%d",   "{}{}",    "a,b",      "\xff"};
    return datum(DatumKind::str, f.string(kTexts[rng.below(18)]));
  }
  uint32_t constant(const char* layout, uint8_t dtype, const std::vector<int64_t>& dims, uint64_t size, uint16_t groups) {
    Bytes& data = f.sections.at("DATA").bytes;
    data.resize((data.size() + 63) / 64 * 64);
    Constant c = {};
    c.name = f.string("made");
    c.layout = f.string(layout);
    c.dtype = dtype;
    c.rank = static_cast<uint8_t>(dims.size());
    c.groups = groups;
    c.dims = static_cast<uint32_t>(f.count("INTS"));
    for (int64_t d : dims) f.append("INTS", d);
    c.offset = data.size();
    c.size = size;
    for (uint64_t i = 0; i < size / 4; ++i) {
      float x = static_cast<float>(i % 13) - 5.5f;
      const uint8_t* p = reinterpret_cast<const uint8_t*>(&x);
      data.insert(data.end(), p, p + 4);
    }
    return f.append("CNST", c);
  }
  // A weight that lies packed; *bytes: what it is when unpacked.
  uint32_t packed(int64_t* bytes) {
    int64_t groups = 1 + static_cast<int64_t>(rng.below(3)), outputs = groups * static_cast<int64_t>(1 + rng.below(18));
    int64_t inputs = 1 + static_cast<int64_t>(rng.below(3)), taps = 1 + static_cast<int64_t>(rng.below(4));
    *bytes = outputs * inputs * taps * 4;
    int64_t panels = groups * ((outputs / groups + 15) / 16), size = panels * 16 * inputs * taps * 4;
    const char* layout = "panel16";
    if (rng.one_in(3)) {
      layout = "grouped";
      size = (outputs + 15) / 16 * 16 * inputs * taps * 4;
    } else if (inputs == 1 && rng.one_in(2)) {
      layout = "taps";
      size = *bytes;
    }
    std::vector<int64_t> dims = {outputs, inputs, taps};
    if (layout[0] != 't' && rng.one_in(3)) {  // the other way round, as transposed convolutions have it
      layout = layout[0] == 'p' ? "panel16t" : "groupedt";
      dims = {inputs * groups, outputs / groups, taps};
    }
    if (rng.one_in(24)) groups = likely_int(rng) & 0xffff;
    return constant(layout, PEN_F32, dims, static_cast<uint64_t>(size), static_cast<uint16_t>(groups));
  }
  // A view of a storage of a few hundred bytes; one storage for most, so that tensors overlap.
  uint32_t tensor() {
    uint32_t storage = UINT32_MAX;
    int64_t bytes = 512;
    if (rng.one_in(8)) storage = packed(&bytes);
    for (uint32_t i = 0; i < f.count("CNST") && storage == UINT32_MAX; ++i)
      if (f.get<Constant>("CNST", i).size == 512) storage = i;
    if (storage == UINT32_MAX) storage = constant("plain", PEN_U8, {512}, 512, 0);
    int64_t dtype = rng.one_in(2) ? int64_t{PEN_F32} : rng.one_in(3) ? int64_t{PEN_I64} : static_cast<int64_t>(rng.below(10));
    int64_t room = bytes / static_cast<int64_t>(kElementSize[dtype]), rank = static_cast<int64_t>(rng.below(5)), stride = 1;
    std::vector<int64_t> dims, strides(static_cast<size_t>(rank));
    for (int64_t d = 0; d < rank; ++d) dims.push_back(rng.one_in(12) ? 0 : static_cast<int64_t>(1 + rng.below(rank > 2 ? 4 : 6)));
    for (size_t d = dims.size(); d-- > 0;) {
      strides[d] = rng.one_in(16) ? 0 : stride;
      stride *= dims[d] ? dims[d] : 1;
    }
    if (stride > room) return tensor();
    uint32_t start = f.append("INTS", int64_t{storage});
    f.append("INTS", dtype);
    f.append("INTS", static_cast<int64_t>(rng.below(static_cast<uint64_t>(room - stride) + 1)));
    f.append("INTS", rank);
    for (int64_t d : dims) f.append("INTS", d);
    for (int64_t s : strides) f.append("INTS", s);
    bool quantized = (dtype == PEN_U8 || dtype == PEN_I8 || dtype == PEN_I32) && rng.one_in(2);
    int64_t axis = !quantized ? -2 : rank && rng.one_in(3) ? static_cast<int64_t>(rng.below(static_cast<uint64_t>(rank))) : -1;
    int64_t channels = axis == -2 ? 0 : axis == -1 ? 1 : dims[static_cast<size_t>(axis)];
    if (axis >= 0 && !channels) axis = -1, channels = 1;
    f.append("INTS", axis);
    f.append("INTS", channels);
    for (int64_t i = 0; i < channels; ++i) f.append("INTS", rng.one_in(8) ? wild_number(rng, 0) : static_cast<int64_t>(rng.below(5)));
    for (int64_t i = 0; i < channels; ++i) {
      double scale = rng.one_in(8) ? wild_float(rng, 1) : 0.25;
      int64_t bits;
      memcpy(&bits, &scale, 8);
      f.append("INTS", bits);
    }
    return datum(DatumKind::tensor, 0, start, static_cast<uint32_t>(f.count("INTS")) - start);
  }
  template <class Make>
  uint32_t list(Make make, DatumKind kind = DatumKind::list, uint32_t type = 0) {
    std::vector<uint32_t> parts;
    for (uint64_t n = rng.below(5); n > 0; --n) parts.push_back(make());
    uint32_t start = static_cast<uint32_t>(f.count("INDX"));
    for (uint32_t p : parts) f.append("INDX", p);
    return datum(kind, 0, start, static_cast<uint32_t>(parts.size()), type);
  }
  uint32_t dict() {
    uint32_t key = rng.one_in(2) ? text() : integer(), value = any(2), start = f.append("INDX", key);
    f.append("INDX", value);
    return datum(DatumKind::dict, 0, start, 2);
  }
  uint32_t any(int depth = 0) {
    switch (rng.below(depth > 1 ? 6 : 9)) {
      case 0:
        return datum(DatumKind::none);
      case 1:
        return integer();
      case 2:
        return real();
      case 3:
        return boolean();
      case 4:
        return text();
      case 6:
        return list([&] { return any(depth + 1); });
      case 7:
        return list([&] { return any(depth + 1); }, DatumKind::tuple, kNone);
      case 8:
        return dict();
      default:
        return tensor();
    }
  }
  uint32_t of_kind(const pen::Param& p) {
    if (rng.one_in(24)) return any();
    if (p.optional && rng.one_in(2)) return datum(DatumKind::none);
    switch (p.kind) {
      case pen::Kind::tensor:
        return tensor();
      case pen::Kind::integer:
        return integer();
      case pen::Kind::real:
        return real();
      case pen::Kind::boolean:
        return boolean();
      case pen::Kind::string:
        return text();
      case pen::Kind::number:
        return rng.one_in(2) ? integer() : real();
      case pen::Kind::integers:
        return list([&] { return integer(); });
      case pen::Kind::reals:
        return list([&] { return real(); });
      case pen::Kind::booleans:
        return list([&] { return boolean(); });
      case pen::Kind::tensors:
        return list([&] { return tensor(); });
      case pen::Kind::strings:
        return list([&] { return text(); });
      case pen::Kind::list:
        return list([&] { return any(1); });
      case pen::Kind::dict:
        return dict();
      case pen::Kind::tuple:
        return list([&] { return any(1); }, DatumKind::tuple, kNone);
      default:
        return any();
    }
  }

  VmInstruction instruction(VmOp op, uint32_t target, const std::vector<uint32_t>& args, const std::vector<uint32_t>& results) {
    VmInstruction in = {};
    in.op = static_cast<uint32_t>(op);
    in.target = target;
    in.args = static_cast<uint32_t>(f.count("INDX"));
    for (uint32_t a : args) f.append("INDX", a);
    in.arg_count = static_cast<uint32_t>(args.size());
    in.results = static_cast<uint32_t>(f.count("INDX"));
    for (uint32_t r : results) f.append("INDX", r);
    in.result_count = static_cast<uint32_t>(results.size());
    in.source = kNone;
    return in;
  }

  // The first function becomes a method of a few operators, in a loop or not.
  void solo() {
    Function fn = f.get<Function>("FUNC", 0);
    fn.param_count = 1 + static_cast<uint32_t>(rng.below(3));
    fn.default_count = 0;
    registers = fn.param_count;
    std::vector<VmInstruction> code;
    std::vector<uint32_t> known;  // registers with something in them
    for (uint32_t r = 1; r < fn.param_count; ++r) known.push_back(r);
    uint32_t result = 0;
    for (uint64_t n = 1 + rng.below(4); n > 0; --n) {
      const pen::OpEntry& op = pen::kOperators[rng.below(static_cast<uint64_t>(pen::kOperatorCount))];
      std::vector<uint32_t> args, results;
      for (int i = 0; i < op.param_count; ++i) {
        const pen::Param& p = op.param(i);
        if (p.has_default && rng.one_in(3)) break;  // the rest is left out
        bool reuse = !known.empty() && rng.one_in(p.kind == pen::Kind::tensor || p.kind == pen::Kind::any ? 3 : 12);
        args.push_back(reuse ? known[rng.below(known.size())] : 1u << 31 | of_kind(p));
      }
      for (uint64_t more = op.variadic ? rng.below(3) : 0; more > 0; --more) args.push_back(1u << 31 | any());
      for (int i = 0; i < op.result_count; ++i) results.push_back(registers++);
      Operator row = {f.string(op.name.text()), 1};
      code.push_back(instruction(VmOp::op, f.append("OPER", row), args, results));
      known.insert(known.end(), results.begin(), results.end());
      if (!results.empty()) result = results[0];
      if (rng.one_in(6)) {  // what containers do with each other
        uint32_t a = known.empty() ? 0 : known[rng.below(known.size())];
        switch (rng.below(5)) {
          case 0:
            code.push_back(instruction(VmOp::list, 0, {a, result, a}, {registers}));
            break;
          case 1:
            code.push_back(instruction(VmOp::tuple, kNone, {a, result}, {registers}));
            break;
          case 2:
            code.push_back(instruction(VmOp::dict, 0, {1u << 31 | integer(), a}, {registers}));
            break;
          case 3:
            code.push_back(instruction(VmOp::set_attr, static_cast<uint32_t>(rng.below(3)), {0, a}, {}));
            code.push_back(instruction(VmOp::get_attr, static_cast<uint32_t>(rng.below(3)), {0}, {registers}));
            break;
          default:
            code.push_back(
                instruction(VmOp::isinstance, f.string("List[Optional[Tensor]]|Dict[str, int]|Tuple[int, Any]"), {a}, {registers}));
        }
        known.push_back(result = registers++);
      }
    }
    if (rng.one_in(4)) code.push_back(instruction(VmOp::jump, static_cast<uint32_t>(rng.below(code.size())), {}, {}));
    code.push_back(instruction(VmOp::ret, 0, {result}, {}));
    fn.code = static_cast<uint32_t>(f.count("VMCD"));
    for (const VmInstruction& in : code) f.append("VMCD", in);
    fn.code_count = static_cast<uint32_t>(code.size());
    fn.registers = registers;
    fn.first_slot = rng.one_in(2) ? registers : static_cast<uint32_t>(rng.below(registers + 1));
    f.set("FUNC", 0, fn);
  }
};

inline void change_script(File& f, Rng& rng) {
  static const char* const kTables[] = {"VMCD", "VMCD", "VMCD", "VMCD", "FUNC", "FUNC", "DATM", "DATM", "DATM", "OPER",
                                        "CLAS", "BNDL", "PROG", "INDX", "INDX", "INDX", "INTS", "INTS", "STRS", "CNST"};
  bool alone = !rng.one_in(3);
  if (alone) ScriptMaker{f, rng}.solo();
  for (uint64_t n = alone && !rng.one_in(4) ? 0 : 1 + rng.below(3); n > 0; --n) {
    if (rng.one_in(8))
      change_records(f, rng);
    else
      change_field(f, rng, kTables[rng.below(sizeof kTables / sizeof *kTables)]);
  }
}
