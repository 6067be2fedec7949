// The loader: copies the tables of an untrusted file into private memory and proves every index, size and type in them
// before anything is used (file/SPEC.md). What depends on input shapes is proven later, at bind.
#include "penlight/runtime/base/packed.h"
#include "penlight/runtime/base/sha256.h"
#include "penlight/runtime/file/verify.h"

namespace pen {
namespace {

using namespace format;

constexpr uint32_t kMaxSections = 256;
constexpr int kMaxExprDepth = 32;

struct Loader : Verifier {
  // filled while loading
  const uint8_t* tables = nullptr;  // private copy of [0, tables_size)
  uint64_t tables_size = 0;
  Table<Section> sections = {};
  uint8_t* region_used = nullptr;        // a region belongs to one instruction
  int64_t copies_left = kMaxTableBytes;  // bytes: tables of another version, whose records have another size, are copied

  // ---- header and sections ----
  Status header() {
    if (m->size < sizeof(Header) || memcmp(m->bytes, kMagic, sizeof kMagic) != 0) {
      char got[96];
      if (m->size < 8)
        set_text(got, sizeof got, "%zu bytes", m->size);
      else if (m->bytes[0] == 'P' && m->bytes[1] == 'K')
        set_text(got, sizeof got, "a zip archive (a TorchScript .pt or .ptl? convert it with penlight optimize)");
      else if (memcmp(m->bytes + 4, "PTMF", 4) == 0)
        set_text(got, sizeof got, "a .ptl file (convert it with penlight optimize)");
      else
        set_text(got, sizeof got, "a file that begins with %02x %02x %02x %02x", m->bytes[0], m->bytes[1], m->bytes[2], m->bytes[3]);
      return report(error, PEN_ERROR_FORMAT, name, "a .pen file", got);
    }
    Header h;
    memcpy(&h, m->bytes, sizeof h);
    needs->version = h.version;
    for (int i = 0; i < 32; ++i) set_text(needs->hash + 2 * i, 3, "%02x", h.hash[i]);
    if (h.version > kNewestVersion) {
      char expected[64], got[64];
      set_text(expected, sizeof expected, "format version %u or older", kNewestVersion);
      set_text(got, sizeof got, "version %u", h.version);
      return report(
          error, PEN_ERROR_VERSION, name, expected, got,
          kHasState ? "Update Penlight, or save the model with an older one" : "Use a library built with it: penlight build --model FILE");
    }
    if (h.version == 0) return fail("header", "a format version of 1 or more", "0");
    if (h.header_size < sizeof(Header) || h.header_size > 4096) return fail("header", "a header of 80 to 4096 bytes", "%u", h.header_size);
    if (h.file_size != m->size) {
      char expected[64];
      set_text(expected, sizeof expected, "%llu bytes, as its header says", static_cast<unsigned long long>(h.file_size));
      return fail(h.file_size > m->size ? "truncated" : "file size", expected, "%zu", m->size);
    }
    if (h.section_count > kMaxSections) return fail("header", "at most 256 sections", "%u", h.section_count);
    uint64_t table_end = h.header_size + uint64_t{h.section_count} * sizeof(Section);
    if (h.tables_size > m->size || h.tables_size > static_cast<uint64_t>(kMaxTableBytes) || h.tables_size < table_end)
      return fail("header", "tables inside the file", "tables of %llu bytes", static_cast<unsigned long long>(h.tables_size));
    tables_size = h.tables_size;
    // A private copy: the file may be changed underneath by others while it is mapped.
    uint8_t* copy = m->pool.take_array<uint8_t>(static_cast<int64_t>(tables_size) + 8);
    if (!copy) return out_of_memory();
    memcpy(copy, m->bytes, tables_size);
    if (memcmp(copy, &h, sizeof h) != 0) return fail("header", "a file that does not change while it is loaded", "a change");
    tables = copy;
    Section* list = m->pool.take_array<Section>(h.section_count);
    if (!list) return out_of_memory();
    memcpy(static_cast<void*>(list), tables + h.header_size, h.section_count * sizeof(Section));
    sections = {list, h.section_count};
    return PEN_OK;
  }

  Status find(const char* id, const Section** found) {
    *found = nullptr;
    for (uint32_t i = 0; i < sections.count; ++i) {
      if (memcmp(sections[i].id, id, 4) != 0) continue;
      if (*found) return fail(id, "one section of this name", "two");
      *found = &sections[i];
    }
    return PEN_OK;
  }

  // Where a section's records go, whatever they are: one piece of code for all.
  struct Wanted {
    char id[5];
    bool optional;
    uint16_t record_size, at;  // of its Table in Model
  };
  Status table(const Wanted& w) {
    const Section* s;
    const char* id = w.id;
    PEN_TRY(find(id, &s));
    if (!s) return w.optional ? PEN_OK : fail(id, "a section of this name", "none");
    if (s->record_size < 1 || s->record_size > 4096) return fail(id, "records of 1 to 4096 bytes", "%u", s->record_size);
    if (s->offset % 8 != 0 || s->offset > tables_size || s->count > (tables_size - s->offset) / s->record_size || s->count >= kNone)
      return fail(id, "a section inside the tables", "%llu records of %u bytes at offset %llu of %llu",
                  static_cast<unsigned long long>(s->count), s->record_size, static_cast<unsigned long long>(s->offset),
                  static_cast<unsigned long long>(tables_size));
    const uint32_t count = static_cast<uint32_t>(s->count);
    const uint8_t* rows = tables + s->offset;
    if (s->record_size != w.record_size) {
      if (w.record_size < 16) return fail(id, "records of the size this section has in every version", "%u bytes", s->record_size);
      copies_left -= static_cast<int64_t>(count) * w.record_size;
      if (copies_left < 0) return fail(id, "tables below 256 MB", "%u records of %u bytes", count, s->record_size);
      // Zeroed: fields that an older writer did not know mean "as before".
      uint8_t* copied = m->pool.take_array<uint8_t>(static_cast<int64_t>(count) * w.record_size);
      if (!copied) return out_of_memory();
      size_t part = s->record_size < w.record_size ? s->record_size : w.record_size;
      for (uint32_t i = 0; i < count; ++i) memcpy(copied + uint64_t{i} * w.record_size, rows + uint64_t{i} * s->record_size, part);
      rows = copied;
    }
    char* to = reinterpret_cast<char*>(m) + w.at;
    memcpy(to + offsetof(Table<uint8_t>, data), &rows, sizeof rows);
    memcpy(to + offsetof(Table<uint8_t>, count), &count, sizeof count);
    return PEN_OK;
  }

  Status all_sections() {
#define PEN_SECTION(id, member, optional) {id, optional, sizeof(*Model().member.data), offsetof(Model, member)}
    static const Wanted kWanted[] = {
        PEN_SECTION("STRS", strings, false), PEN_SECTION("CNST", constants, false), PEN_SECTION("EXPR", exprs, false),
        PEN_SECTION("STEP", steps, false),   PEN_SECTION("VALS", values, false),    PEN_SECTION("NODE", nodes, false),
        PEN_SECTION("ATTR", attrs, false),   PEN_SECTION("REGN", regions, false),   PEN_SECTION("CODE", code, false),
        PEN_SECTION("PORT", ports, false),   PEN_SECTION("METH", methods, false),   PEN_SECTION("KEYS", keys, false),
        PEN_SECTION("TEXT", text, false),    PEN_SECTION("INTS", ints, false),      PEN_SECTION("FLTS", floats, false),
        PEN_SECTION("INDX", indices, false), PEN_SECTION("META", metadata, false),  PEN_SECTION("FUNC", functions, true),
        PEN_SECTION("VMCD", vm_code, true),  PEN_SECTION("OPER", operators, true),  PEN_SECTION("DATM", data_values, true),
        PEN_SECTION("CLAS", classes, true),  PEN_SECTION("BNDL", bundles, true),    PEN_SECTION("PROG", programs, true),
        PEN_SECTION("QUNT", quants, true),
    };
#undef PEN_SECTION
    for (const Wanted& w : kWanted) PEN_TRY(table(w));
    if (kHasState) PEN_TRY(table({"STAT", true, sizeof(State), offsetof(Model, states)}));
    const Section* d;
    PEN_TRY(find("DATA", &d));
    if (!d) return fail("DATA", "a section of this name", "none");
    if (d->record_size != 1) return fail("DATA", "records of 1 byte", "%u", d->record_size);
    if (d->offset % kAlignment != 0 || d->offset < tables_size || d->offset > m->size || d->count > m->size - d->offset)
      return fail("DATA", "weights inside the file, 64-byte aligned", "%llu bytes at offset %llu of %zu",
                  static_cast<unsigned long long>(d->count), static_cast<unsigned long long>(d->offset), m->size);
    m->data = m->bytes + d->offset;
    m->data_size = d->count;
    if (m->metadata.count == 0 || m->metadata[m->metadata.count - 1] != 0) return fail("META", "text that ends in a zero byte", "no zero");
    if (m->nodes.count > static_cast<uint64_t>(kMaxNodes)) return fail("NODE", "at most 1048576 nodes", "%u", m->nodes.count);
    return PEN_OK;
  }

  // ---- pools ----
  Status check_strings() {
    for (uint32_t i = 0; i < m->strings.count; ++i) {
      const String& s = m->strings[i];
      if (s.offset >= m->text.count || s.size >= m->text.count - s.offset) return fail("STRS", "text inside TEXT", "string %u outside", i);
      PEN_TRY(spend(uint64_t{s.size} + 1));
      const uint8_t* p = m->text.data + s.offset;
      for (uint32_t j = 0; j < s.size; ++j)
        if (p[j] == 0) return fail("STRS", "text without zero bytes", "one in string %u", i);
      if (p[s.size] != 0) return fail("STRS", "a zero byte after each string", "none after string %u", i);
    }
    return PEN_OK;
  }
  static bool is_expr(int64_t v) { return v < kExprBase + kExprLimit; }

  // Whether VM code can unpack it.
  bool is_packed(const Constant& c) const {
    Packed packed;
    int64_t bytes = describe_packed(m->string(c.layout), c.rank, m->ints.data + c.dims, c.groups, &packed);
    return static_cast<DType>(c.dtype) == DType::f32 && bytes > 0 && static_cast<uint64_t>(bytes) == c.size;
  }

  Status check_constants() {
    for (uint32_t i = 0; i < m->constants.count; ++i) {
      const Constant& c = m->constants[i];
      PEN_TRY(check_string(c.name, "CNST"));
      PEN_TRY(check_string(c.layout, "CNST"));
      const char* called = m->string(c.name);
      if (c.dtype >= kDTypeCount) return fail(called, "a dtype code below 10", "%u", c.dtype);
      if (c.rank > pen::kMaxRank) return fail(called, "a rank of at most 8", "%u", c.rank);
      PEN_TRY(check_span(c.dims, c.rank, m->ints.count, called));
      int64_t bytes = dtype_size(static_cast<DType>(c.dtype));
      for (int d = 0; d < c.rank; ++d) {
        int64_t dim = m->ints[c.dims + static_cast<uint32_t>(d)];
        if (dim < 0 || dim > kMaxDim || mul_overflows(bytes, dim, &bytes))
          return fail(called, "dims of 0 or more whose product fits in 63 bits", "dim %lld", static_cast<long long>(dim));
      }
      if (c.offset % kAlignment != 0 || c.offset > m->data_size || c.size > m->data_size - c.offset)
        return fail(called, "weights inside DATA, 64-byte aligned", "%llu bytes at %llu of %llu", static_cast<unsigned long long>(c.size),
                    static_cast<unsigned long long>(c.offset), static_cast<unsigned long long>(m->data_size));
      if (m->is_half(c) && (static_cast<DType>(c.dtype) != DType::f32 || c.size % 2 || c.groups))
        return fail(called, "numbers of f32, that planned code takes, in layout f16_", "%llu bytes of dtype %u",
                    static_cast<unsigned long long>(c.size), c.dtype);
      if (strcmp(m->layout_of(c), "plain") == 0 && static_cast<uint64_t>(bytes) != m->size_of(c))
        return fail(called, "as many bytes as its dims say", "%llu instead of %lld", static_cast<unsigned long long>(c.size),
                    static_cast<long long>(bytes));
      if (c.groups && !is_packed(c))
        return fail(called, "a weight of f32 in a packed layout that can be undone, in as many bytes as it takes",
                    "%llu bytes in %u groups as %s", static_cast<unsigned long long>(c.size), c.groups, m->string(c.layout));
    }
    return PEN_OK;
  }

  // What integers stand for. That zero points fit a dtype, and scales a shape, is checked with the values that have them. Scales along an
  // axis stay in the file: like weights, they change numbers and nothing else.
  Status check_quants() {
    if (!kHasBytes) return PEN_OK;  // the kernels that need them are not there either: told before
    pen::Quant* info = m->pool.take_array<pen::Quant>(m->quants.count);
    if (m->quants.count && !info) return out_of_memory();
    for (uint32_t i = 0; i < m->quants.count; ++i) {
      const format::Quant& q = m->quants[i];
      pen::Quant& to = info[i];
      PEN_TRY(check_span(q.zeros, q.zero_count, m->ints.count, "QUNT"));
      PEN_TRY(spend(uint64_t{q.zero_count} + 1));
      if (q.count == 0 || q.zero_count == 0 || (q.zero_count != 1 && q.zero_count != q.count))
        return fail("QUNT", "a scale, and a zero point for all or for each scale", "%u and %u", q.count, q.zero_count);
      to = {1.0, m->ints[q.zeros], -1, q.count, nullptr, q.zero_count > 1 ? m->ints.data + q.zeros : nullptr};
      if (q.axis == kNone) {
        PEN_TRY(check_span(q.scales, 1, m->floats.count, "QUNT"));
        to.scale = m->floats[q.scales];
        if (q.count != 1) return fail("QUNT", "one scale for all", "%u", q.count);
        if (!(to.scale > 0 && to.scale <= 1.7976931348623157e308)) return fail("QUNT", "a finite scale above 0", "%g", to.scale);
        continue;
      }
      if (q.axis >= static_cast<uint32_t>(pen::kMaxRank)) return fail("QUNT", "a dim below 8 as axis", "%u", q.axis);
      if (q.scales >= m->constants.count) return fail("QUNT", "scales that exist", "%u of %u", q.scales, m->constants.count);
      const Constant& c = m->constants[q.scales];
      if (static_cast<DType>(c.dtype) != DType::f32 || c.rank != 1 || m->ints[c.dims] != q.count ||
          strcmp(m->string(c.layout), "plain") != 0)
        return fail("QUNT", "as many plain scales of f32 as it says", "others than %u", q.count);
      to.axis = static_cast<int>(q.axis);
      to.scales = reinterpret_cast<const float*>(m->data + c.offset);
    }
    m->quant_info = info;
    return PEN_OK;
  }
  Status check_quant(const Value& v, const char* called) {
    if (!kHasBytes || v.quant == 0) return PEN_OK;
    if (v.quant > m->quants.count) return fail(called, "a quantization that exists", "%u of %u", v.quant - 1, m->quants.count);
    const pen::Quant& q = m->quant_info[v.quant - 1];
    DType d = static_cast<DType>(v.dtype);
    if (d != DType::u8 && d != DType::i8 && d != DType::i32)
      return fail(called, "u8, i8 or i32 as dtype of a quantized tensor", "%u", v.dtype);
    if (q.axis >= 0) {
      if (v.constant == kNone || v.constant >= m->constants.count)
        return fail(called, "scales along a dim of a constant", "dim %d", q.axis);
      const Constant& c = m->constants[v.constant];
      if (q.axis >= c.rank || m->ints[c.dims + static_cast<uint32_t>(q.axis)] != q.count)
        return fail(called, "a scale for each place along a dim", "%lld along dim %d", static_cast<long long>(q.count), q.axis);
    }
    int64_t low = d == DType::u8 ? 0 : d == DType::i8 ? -128 : INT32_MIN, high = d == DType::u8 ? 255 : d == DType::i8 ? 127 : INT32_MAX;
    PEN_TRY(spend(static_cast<uint64_t>(q.zeros ? q.count : 1)));
    for (int64_t i = 0; i < (q.zeros ? q.count : 1); ++i)
      if (q.zero_at(i) < low || q.zero_at(i) > high)
        return fail(called, "zero points that the dtype holds", "%lld", static_cast<long long>(q.zero_at(i)));
    return PEN_OK;
  }

  struct Register {
    uint8_t state, dtype, rank;  // state 0: unwritten, 1: method input, 2: region result, 3: returned
    uint32_t stage;              // that writes it
  };
  // What dims may refer to: the method's inputs, and results of earlier stages. Dims that are there for people only
  // (`shown`) are never evaluated, and may name any register.
  struct Scope {
    const Method& method;
    Register* registers;  // null: inputs only
    uint32_t stage;
    MethodCode* code;
    bool shown;
  };
  bool register_fits(const Scope& s, uint64_t reg, uint64_t dim, bool value) {
    if (s.shown) return reg < s.method.registers && dim < static_cast<uint64_t>(pen::kMaxRank);
    if (reg < s.method.input_count) return !value && dim < m->ports[s.method.inputs + static_cast<uint32_t>(reg)].rank;
    if (!s.registers || reg >= s.method.registers) return false;
    const Register& r = s.registers[reg];
    if (r.state != 2 || r.stage >= s.stage) return false;
    if (value ? r.rank != 0 || r.dtype != static_cast<uint8_t>(DType::i64) : dim >= r.rank) return false;
    s.code->crosses[reg] = MethodCode::kept;
    return true;
  }

  // A dim expression: known operations, registers that are known by then, a stack that comes out even.
  Status check_expr(uint32_t index, const Scope& scope) {
    if (index >= m->exprs.count) return fail("EXPR", "a dim expression that exists", "%u of %u", index, m->exprs.count);
    const Expr& e = m->exprs[index];
    PEN_TRY(check_span(e.start, e.count, m->steps.count, "EXPR"));
    if (e.count > static_cast<uint64_t>(kMaxExprSteps)) return fail("EXPR", "at most 4096 steps", "%u", e.count);
    PEN_TRY(spend(e.count));
    int depth = 0;
    for (uint32_t i = 0; i < e.count; ++i) {
      const Step& s = m->steps[e.start + i];
      if (s.op >= kStepOpCount) return fail("STEP", "a known operation", "%u", s.op);
      StepOp op = static_cast<StepOp>(s.op);
      if (op == StepOp::register_dim || op == StepOp::register_value) {
        bool value = op == StepOp::register_value;
        uint64_t arg = static_cast<uint64_t>(s.arg);
        if (s.arg < 0 || !register_fits(scope, value ? arg : arg / 256, value ? 0 : arg % 256, value))
          return fail("STEP", "a dim of an input, or a dim or value of an earlier stage's result", "%lld", static_cast<long long>(s.arg));
        ++depth;
      } else if (op == StepOp::constant) {
        ++depth;
      } else if (--depth < 1) {
        return fail("EXPR", "two operands for each operation", "fewer in expression %u", index);
      }
      if (depth > kMaxExprDepth) return fail("EXPR", "a depth of at most 32", "more in expression %u", index);
    }
    if (depth != 1) return fail("EXPR", "one result", "%d in expression %u", depth, index);
    return PEN_OK;
  }
  Status check_dims(uint32_t start, uint64_t count, const Scope& scope, const char* where) {
    PEN_TRY(check_span(start, count, m->ints.count, where));
    PEN_TRY(spend(count));
    for (uint64_t i = 0; i < count; ++i) {
      int64_t v = m->ints[start + static_cast<uint32_t>(i)];
      if (is_expr(v)) PEN_TRY(check_expr(static_cast<uint32_t>(v - kExprBase), scope));
    }
    return PEN_OK;
  }

  // ---- nodes ----
  // Walks a schema "x:T b:T? xs:T[] stride:i[]"; returns false at its end.
  struct Param {
    const char* name;
    size_t name_size;
    const char* kind;
    size_t kind_size;
  };
  static bool next_param(const char** p, Param* out) {
    while (**p == ' ') ++*p;
    if (!**p) return false;
    out->name = *p;
    while (**p != ':') ++*p;
    out->name_size = static_cast<size_t>(*p - out->name);
    out->kind = ++*p;
    while (**p && **p != ' ') ++*p;
    out->kind_size = static_cast<size_t>(*p - out->kind);
    return true;
  }
  static bool kind_fits(const Param& p, AttrKind kind) {
    char k = p.kind[0];
    bool list = p.kind_size >= 3 && p.kind[p.kind_size - 1] == ']';
    if (kind == AttrKind::none) return p.kind[p.kind_size - 1] == '?';
    if (k == 'i') return kind == (list ? AttrKind::ints : AttrKind::integer);
    if (k == 'f') return kind == (list ? AttrKind::floats : AttrKind::real);
    return k == 'b' ? kind == AttrKind::boolean : k == 's' && kind == AttrKind::str;
  }

  Status check_node(const Node& n, const Region& r, const Scope& scope, uint8_t* defined, uint32_t index) {
    PEN_TRY(check_string(n.key, "NODE"));
    PEN_TRY(check_string(n.source, "NODE", true));
    const char* key = m->string(n.key);
    PEN_TRY(check_span(n.inputs, n.input_count, m->indices.count, key));
    PEN_TRY(check_span(n.outputs, n.output_count, m->indices.count, key));
    PEN_TRY(check_span(n.attrs, n.attr_count, m->attrs.count, key));
    if (n.input_count > static_cast<uint64_t>(kMaxInputs) || n.output_count > static_cast<uint64_t>(kMaxInputs))
      return fail(key, "at most 4096 inputs and outputs", "%u and %u", n.input_count, n.output_count);
    if (n.attr_count > 64) return fail(key, "at most 64 attributes", "%u", n.attr_count);
    PEN_TRY(link(uint64_t{n.input_count} + n.output_count));
    PEN_TRY(spend(uint64_t{n.attr_count} * 8 + 16));
    const KernelEntry* entry = m->kernels[index];
    uint32_t results = entry->outputs;
    if (n.output_count != results)
      return fail(key, results == 1 ? "one result" : "as many results as the operator has", "%u", n.output_count);
    const char* at = entry->schema;
    Param p;
    uint32_t input = 0, attr = 0;
    while (next_param(&at, &p)) {
      if (p.kind[0] == 'T') {
        bool list = p.kind_size >= 3 && memcmp(p.kind + 1, "[]", 2) == 0, optional = p.kind_size >= 2 && p.kind[1] == '?';
        uint32_t take = list ? n.input_count - input : 1;
        for (uint32_t i = 0; i < take; ++i, ++input) {
          if (input >= n.input_count) return fail(key, "an input for every tensor parameter", "%u inputs", n.input_count);
          uint32_t v = m->indices[n.inputs + input];
          if (v == kNone && optional) continue;
          if (v >= r.value_count || !defined[v]) return fail(key, "inputs that are computed before", "value %u as input %u", v, input);
        }
      } else {
        const Attr* found = nullptr;
        for (uint32_t i = 0; i < n.attr_count && !found; ++i) {
          const Attr& a = m->attrs[n.attrs + i];
          PEN_TRY(check_string(a.name, key));
          if (m->strings[a.name].size == p.name_size && memcmp(m->string(a.name), p.name, p.name_size) == 0) found = &a;
        }
        char label[64];
        set_text(label, sizeof label, "%s: attribute %.*s", key, static_cast<int>(p.name_size), p.name);
        if (!found) return fail(label, "to be there", "nothing");
        if (found->kind >= kAttrKindCount || !kind_fits(p, static_cast<AttrKind>(found->kind)))
          return fail(label, "the kind that the operator takes", "kind %u", found->kind);
        switch (static_cast<AttrKind>(found->kind)) {
          case AttrKind::integer:
            PEN_TRY(check_dims(found->start, 1, scope, label));
            break;
          case AttrKind::ints:
            PEN_TRY(check_dims(found->start, found->count, scope, label));
            break;
          case AttrKind::real:
            PEN_TRY(check_span(found->start, 1, m->floats.count, label));
            break;
          case AttrKind::floats:
            PEN_TRY(check_span(found->start, found->count, m->floats.count, label));
            break;
          case AttrKind::str:
            PEN_TRY(check_string(found->start, label));
            break;
          case AttrKind::boolean:
            if (found->start > 1) return fail(label, "0 or 1", "%u", found->start);
            break;
          case AttrKind::none:
            break;
        }
        ++attr;
      }
    }
    if (input != n.input_count) return fail(key, "as many inputs as the operator takes", "%u", n.input_count);
    if (attr != n.attr_count) return fail(key, "only attributes that the operator has", "%u, %u of them known", n.attr_count, attr);
    for (uint32_t i = 0; i < n.output_count; ++i) {
      uint32_t v = m->indices[n.outputs + i];
      if (v >= r.value_count || defined[v] || m->values[r.values + v].constant != kNone)
        return fail(key, "results that nothing else computes", "value %u", v);
      defined[v] = 1;
    }
    return PEN_OK;
  }

  Status check_region(const Region& r, const Scope& scope) {
    PEN_TRY(check_span(r.values, r.value_count, m->values.count, "REGN"));
    PEN_TRY(check_span(r.nodes, r.node_count, m->nodes.count, "REGN"));
    PEN_TRY(check_span(r.inputs, r.input_count, m->indices.count, "REGN"));
    PEN_TRY(check_span(r.outputs, r.output_count, m->indices.count, "REGN"));
    PEN_TRY(link(uint64_t{r.value_count} + r.input_count + r.output_count));
    uint8_t* defined = static_cast<uint8_t*>(calloc(r.value_count + 1, 1));
    if (!defined) return out_of_memory();
    Status status = [&] {
      for (uint32_t i = 0; i < r.value_count; ++i) {
        const Value& v = m->values[r.values + i];
        PEN_TRY(check_string(v.name, "VALS"));
        const char* called = m->string(v.name);
        if (v.dtype >= kDTypeCount || v.rank > pen::kMaxRank || v.layout >= kValueLayoutCount)
          return fail(called, "a known dtype, rank and layout", "%u, %u, %u", v.dtype, v.rank, v.layout);
        if (v.layout == static_cast<uint32_t>(ValueLayout::nhwc) && (v.rank < 3 || v.rank > 5))
          return fail(called, "rank 3 to 5 for layout nhwc", "%u", v.rank);
        PEN_TRY(check_dims(v.dims, v.rank, {scope.method, nullptr, 0, nullptr, true}, called));
        PEN_TRY(check_quant(v, called));
        if (v.constant == kNone) continue;
        if (v.constant >= m->constants.count) return fail(called, "a constant that exists", "%u of %u", v.constant, m->constants.count);
        const Constant& c = m->constants[v.constant];
        if (c.dtype != v.dtype || c.rank != v.rank) return fail(called, "the dtype and rank of its constant", "%u and %u", v.dtype, v.rank);
        defined[i] = 1;
      }
      for (uint32_t i = 0; i < r.input_count; ++i) {
        uint32_t v = m->indices[r.inputs + i];
        if (v >= r.value_count || defined[v]) return fail("REGN", "inputs that are values of their own", "value %u", v);
        defined[v] = 1;
      }
      for (uint32_t i = 0; i < r.node_count; ++i) PEN_TRY(check_node(m->nodes[r.nodes + i], r, scope, defined, r.nodes + i));
      for (uint32_t i = 0; i < r.output_count; ++i) {
        uint32_t v = m->indices[r.outputs + i];
        if (v >= r.value_count || !defined[v]) return fail("REGN", "outputs that are computed", "value %u", v);
      }
      return PEN_OK;
    }();
    free(defined);
    return status;
  }

  // ---- methods ----
  Status check_port(const Port& p, const Method& method, bool input) {
    PEN_TRY(check_string(p.name, "PORT"));
    const char* called = m->string(p.name);
    if (p.dtype >= kDTypeCount || p.rank > pen::kMaxRank)
      return fail(called, "a known dtype and a rank of at most 8", "%u and %u", p.dtype, p.rank);
    PEN_TRY(check_dims(p.dims, p.rank, {method, nullptr, 0, nullptr, !input}, called));
    if (input) PEN_TRY(check_span(p.ranges, uint64_t{p.rank} * 2, m->ints.count, called));
    for (uint32_t d = 0; input && d < p.rank; ++d) {
      int64_t least = m->ints[p.ranges + 2 * d], most = m->ints[p.ranges + 2 * d + 1];
      if (least < 0 || most < least || most > kMaxDim)
        return fail(called, "a range of sizes", "%lld to %lld", static_cast<long long>(least), static_cast<long long>(most));
    }
    return PEN_OK;
  }

  Status check_code(const Method& method, Register* regs, MethodCode* code) {
    for (uint32_t i = 0; i < method.input_count; ++i) {
      const Port& p = m->ports[method.inputs + i];
      regs[i] = {1, p.dtype, p.rank, 0};
    }
    for (uint32_t i = 0; kHasState && i < code->state_count; ++i) {
      const Constant& c = m->constants[m->states[code->states + i].constant];
      regs[method.input_count + i] = {1, c.dtype, c.rank, 0};
    }
    uint32_t stage = 0;
    code->begin[0] = 0;
    for (uint32_t pc = 0; pc < method.code_count; ++pc) {
      const Instruction& in = m->code[method.code + pc];
      PEN_TRY(check_span(in.args, in.arg_count, m->indices.count, "CODE"));
      PEN_TRY(link(uint64_t{in.arg_count} + in.result_count));
      PEN_TRY(check_span(in.results, in.result_count, m->indices.count, "CODE"));
      if (in.op >= kInstructionOpCount) return fail("CODE", "a known instruction", "%u", in.op);
      for (uint32_t i = 0; i < in.arg_count; ++i) {
        uint32_t reg = m->indices[in.args + i];
        if (reg >= method.registers || !regs[reg].state) return fail("CODE", "registers that were written before", "register %u", reg);
        if (regs[reg].state == 2 && regs[reg].stage < stage) code->crosses[reg] = MethodCode::kept;
      }
      bool last = pc + 1 == method.code_count;
      if ((static_cast<InstructionOp>(in.op) == InstructionOp::ret) != last)
        return fail("CODE", "return as the last instruction, once", "another order");
      if (last) {
        if (in.arg_count != method.output_count || in.result_count != 0) return fail("CODE", "a return of all outputs", "%u", in.arg_count);
        for (uint32_t i = 0; i < in.arg_count; ++i) {
          Register& reg = regs[m->indices[in.args + i]];
          const Port& p = m->ports[method.outputs + i];
          if (reg.state != 2) return fail("CODE", "each output to be a region's result of its own", "an input, or a result returned twice");
          if (reg.dtype != p.dtype || reg.rank != p.rank) return fail("CODE", "outputs of the declared dtype and rank", "another");
          reg.state = 3;
          code->crosses[m->indices[in.args + i]] = MethodCode::returned;
        }
        for (uint32_t i = 0; kHasState && i < code->state_count; ++i) {
          const State& s = m->states[code->states + i];
          const bool written = s.result < method.registers && regs[s.result].state == 2;
          if (!written) return fail("STAT", "a region's result of its own as a state's next value", "register %u", s.result);
          PEN_TRY(check_state(this, s, regs[s.result].dtype, regs[s.result].rank));
          regs[s.result].state = 3;
          code->crosses[s.result] = MethodCode::returned;
        }
        return PEN_OK;
      }
      if (static_cast<InstructionOp>(in.op) == InstructionOp::stage) {
        if (in.arg_count != 0 || in.result_count != 0) return fail("CODE", "a stage without registers", "%u", in.arg_count);
        if (in.target >= kStageDeviceCount) return fail("CODE", "a stage on a device that is known", "%u", in.target);
        PEN_TRY(link(method.registers));  // each stage's plan has a table of them
        if (pc > 0) ++stage;
        code->begin[stage] = pc + 1;
        code->on_cpu[stage] = static_cast<StageDevice>(in.target) == StageDevice::cpu;
        continue;
      }
      if (in.target >= m->regions.count) return fail("CODE", "a region that exists", "%u of %u", in.target, m->regions.count);
      if (region_used[in.target]) return fail("CODE", "each region to be run by one instruction", "region %u by two", in.target);
      region_used[in.target] = 1;
      const Region& r = m->regions[in.target];
      PEN_TRY(check_region(r, {method, regs, stage, code, false}));
      if (in.arg_count != r.input_count || in.result_count != r.output_count)
        return fail("CODE", "as many registers as the region has inputs and outputs", "%u and %u", in.arg_count, in.result_count);
      for (uint32_t i = 0; i < in.arg_count; ++i) {
        const Value& v = m->values[r.values + m->indices[r.inputs + i]];
        const Register& reg = regs[m->indices[in.args + i]];
        if (v.dtype != reg.dtype || v.rank != reg.rank) return fail("CODE", "region inputs of the register's dtype and rank", "another");
      }
      for (uint32_t i = 0; i < in.result_count; ++i) {
        uint32_t reg = m->indices[in.results + i];
        if (reg >= method.registers || regs[reg].state) return fail("CODE", "results in registers of their own", "register %u", reg);
        const Value& v = m->values[r.values + m->indices[r.outputs + i]];
        regs[reg] = {2, v.dtype, v.rank, stage};
      }
    }
    return fail("CODE", "a return", "none");
  }

  Status check_method(const Method& method, MethodCode* code) {
    PEN_TRY(check_string(method.name, "METH"));
    PEN_TRY(check_string(method.input_spec, "METH"));
    PEN_TRY(check_string(method.output_spec, "METH"));
    PEN_TRY(check_span(method.code, method.code_count, m->code.count, "METH"));
    PEN_TRY(check_span(method.inputs, method.input_count, m->ports.count, "METH"));
    PEN_TRY(check_span(method.outputs, method.output_count, m->ports.count, "METH"));
    const uint64_t given = uint64_t{method.input_count} + (kHasState ? code->state_count : 0);
    if (method.registers > m->indices.count + given || method.registers < given || given > static_cast<uint64_t>(kMaxInputs))
      return fail("METH", "a register for each input and result", "%u", method.registers);
    PEN_TRY(link(uint64_t{method.registers} + method.output_count));
    for (uint32_t i = 0; i < method.input_count; ++i) PEN_TRY(check_port(m->ports[method.inputs + i], method, true));
    for (uint32_t i = 0; i < method.output_count; ++i) PEN_TRY(check_port(m->ports[method.outputs + i], method, false));
    PEN_TRY(spend(method.code_count));
    code->stage_count = 1;
    for (uint32_t pc = 1; pc < method.code_count; ++pc)
      code->stage_count += static_cast<InstructionOp>(m->code[method.code + pc].op) == InstructionOp::stage;
    if (code->stage_count > static_cast<uint64_t>(kMaxStages)) return fail("CODE", "at most 4096 stages", "%u", code->stage_count);
    code->begin = m->pool.take_array<uint32_t>(code->stage_count);
    code->crosses = m->pool.take_array<MethodCode::Cross>(method.registers + 1);
    Register* regs = static_cast<Register*>(calloc(method.registers + 1, sizeof(Register)));
    code->on_cpu = m->pool.take_array<uint8_t>(code->stage_count);
    if (!code->begin || !code->on_cpu || !code->crosses || !regs) {
      free(regs);
      return out_of_memory();
    }
    Status status = check_code(method, regs, code);
    free(regs);
    return status;
  }

  // ---- kernels ----
  Status check_keys() {
    for (uint32_t i = 0; i < m->keys.count; ++i) {
      PEN_TRY(check_string(m->keys[i].key, "KEYS"));
      PEN_TRY(spend(16));
      if (!find_kernel(m->string(m->keys[i].key))) lacks(m->string(m->keys[i].key));
    }
    m->kernels = m->pool.take_array<const KernelEntry*>(m->nodes.count);
    if (!m->kernels) return out_of_memory();
    for (uint32_t i = 0; i < m->nodes.count; ++i) {
      PEN_TRY(check_string(m->nodes[i].key, "NODE"));
      const char* key = m->string(m->nodes[i].key);
      m->kernels[i] = find_kernel(key);
      if (!m->kernels[i] && needs->missing_count == 0) lacks(key);  // a node whose key KEYS does not list
    }
    return needs->missing_count == 0 ? PEN_OK : report_missing(*needs, name, error);
  }

  Status run() {
    PEN_TRY(header());
    PEN_TRY(all_sections());
    PEN_TRY(check_strings());
    PEN_TRY(check_keys());
    PEN_TRY(check_constants());
    PEN_TRY(check_quants());
    region_used = m->pool.take_array<uint8_t>(m->regions.count);
    if (!region_used) return out_of_memory();
    if (m->methods.count == 0 && m->functions.count == 0) return fail("METH", "at least one method", "none");
    m->method_code = m->pool.take_array<MethodCode>(m->methods.count);
    if (!m->method_code) return out_of_memory();
    if (kHasState) PEN_TRY(check_states(this));
    for (uint32_t i = 0; i < m->methods.count; ++i) PEN_TRY(check_method(m->methods[i], &m->method_code[i]));
    PEN_TRY(check_script(this));
    return kHasHalves ? expand_halves(this) : PEN_OK;
  }
};

}  // namespace

Status Verifier::fail(const char* where, const char* expected, const char* got_format, ...) {
  char got[160], what[256];
  __builtin_va_list args;
  __builtin_va_start(args, got_format);
  vsnprintf(got, sizeof got, got_format, args);
  __builtin_va_end(args);
  set_text(what, sizeof what, "%s: damaged .pen file: %s", name, where);
  return report(error, PEN_ERROR_FORMAT, what, expected, got);
}
void Verifier::lacks(const char* key) {
  size_t used = strlen(needs->missing), room = sizeof needs->missing - used;
  ++needs->missing_count;
  if (strlen(key) + 3 < room) set_text(needs->missing + used, room, "%s%s", used ? ", " : "", key);
}
Status Verifier::out_of_memory() { return report(error, PEN_ERROR_MEMORY, name, "memory for the file's tables"); }
Status Verifier::check_string(uint32_t s, const char* where, bool optional) {
  if (s < m->strings.count || (optional && s == format::kNone)) return PEN_OK;
  return fail(where, "a string index", "%u of %u", s, m->strings.count);
}
Status Verifier::check_span(uint32_t start, uint64_t count, uint32_t total, const char* where) {
  if (start <= total && count <= total - start) return PEN_OK;
  return fail(where, "a range inside its table", "%llu from %u of %u", static_cast<unsigned long long>(count), start, total);
}
Status Verifier::spend(uint64_t steps) {
  if (steps > static_cast<uint64_t>(steps_left)) return fail("complexity", "a model that can be verified in 16 million steps", "more");
  steps_left -= static_cast<int64_t>(steps);
  return PEN_OK;
}
Status Verifier::link(uint64_t count) {
  if (count > static_cast<uint64_t>(links_left)) return fail("complexity", "at most 1048576 values, registers, inputs and outputs", "more");
  links_left -= static_cast<int64_t>(count);
  return PEN_OK;
}
Status Verifier::check_indices(uint32_t start, uint32_t count, uint32_t below, const char* where) {
  PEN_TRY(check_span(start, count, m->indices.count, where));
  PEN_TRY(spend(count));
  for (uint32_t i = 0; i < count; ++i)
    if (m->indices[start + i] >= below) return fail(where, "an index inside its table", "%u of %u", m->indices[start + i], below);
  return PEN_OK;
}

#if defined(PEN_TARGET)  // the build driver's name for what this library was built for
#define PEN_REMEDY \
  "Build one that has them: penlight build --model %s --target " PEN_TARGET " (and --model for each other file that it runs)"
#else
#define PEN_REMEDY "Update Penlight, or build a library that has them: penlight build --model %s"
#endif

Status report_missing(const pen_needs& needs, const char* name, pen_error* error) {
  const char* file = name;
  for (const char* c = name; *c; ++c)
    if (*c == '/') file = c + 1;
  for (const char* c = file; *c; ++c)
    if (*c == ' ') file = "FILE";  // "model in memory", or a name that a shell would take apart
  char got[sizeof needs.missing + 64], advice[256];
  set_text(got, sizeof got, "a file that needs %u more: %s", needs.missing_count, needs.missing);
  set_text(advice, sizeof advice, PEN_REMEDY, file);
  return report(error, PEN_ERROR_KERNEL, name, "kernels and operators that this library has", got, advice);
}

Status load_tables(Model* model, const char* name, pen_needs* needs, pen_error* error) {
  Loader loader{{model, name, error, needs}};
  return loader.run();
}

Status verify_hash(const Model& model, const char* name, pen_error* error) {
  Sha256 sha;
  uint8_t digest[32], zero[32] = {};
  sha.begin();
  sha.update(model.bytes, format::kHashOffset);
  sha.update(zero, sizeof zero);
  size_t rest = format::kHashOffset + sizeof zero;
  sha.update(model.bytes + rest, model.size - rest);
  sha.finish(digest);
  if (memcmp(digest, model.bytes + format::kHashOffset, sizeof digest) == 0) return PEN_OK;
  return report(error, PEN_ERROR_CHECKSUM, name, "the content that its SHA-256 describes", "other bytes",
                "The file was changed or damaged after it was written: copy it again");
}

const KernelEntry* find_kernel(const char* key) { return find_by_name(kKernels, kKernelCount, &KernelEntry::key, key); }

const format::Method* find_method(const Model* model, const char* name) {
  if (kAsks && model && model->planned_by_name.count) {  // a library with the VM has sorted them
    const Table<uint32_t>& sorted = model->planned_by_name;
    auto order = [&](uint32_t i) { return strcmp(model->string(model->methods[sorted[i]].name), name ? name : "forward"); };
    uint32_t low = 0;
    for (uint32_t high = sorted.count; low < high;) {
      const uint32_t middle = low + (high - low) / 2;
      if (order(middle) < 0)
        low = middle + 1;
      else
        high = middle;
    }
    return low < sorted.count && order(low) == 0 ? &model->methods[sorted[low]] : nullptr;
  }
  for (uint32_t i = 0; model && i < model->methods.count; ++i)
    if (strcmp(model->string(model->methods[i].name), name ? name : "forward") == 0) return &model->methods[i];
  return nullptr;
}

}  // namespace pen
