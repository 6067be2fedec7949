#include "penlight/runtime/vm/graph.h"

#include "penlight/runtime/vm/images.h"

namespace pen {

constexpr int kMaxPlans = 512;

// A graph as tables of a model that exists in memory only, and its plan.
struct GraphCode {
  Model model;
  format::Region region;
  format::Method method;
  MethodCode code;
  uint32_t begin;
  List<char> text;
  List<format::String> strings;
  List<format::Value> values;
  List<format::Node> nodes;
  List<const KernelEntry*> kernels;
  List<format::Attr> attrs;
  List<int64_t> ints;
  List<double> floats;
  List<uint32_t> indices;
  List<Quant> quants;
  List<uint32_t> inputs;  // values, in the order of the registers
  List<MethodCode::Cross> crosses;
  List<Tensor> registers;  // inputs, then results
  List<InputLayout> layouts;
  format::Instruction instructions[2];
  uint64_t hash, last_used;
  Plan* plan;
  uint32_t wrong;  // 1 + the string that names a kernel which this library lacks
  bool starved;
};

namespace {

void destroy(GraphCode* g) {
  if (!g) return;
  plan_destroy(g->plan);
  g->text.release();
  g->strings.release();
  g->values.release();
  g->nodes.release();
  g->kernels.release();
  g->attrs.release();
  g->ints.release();
  g->floats.release();
  g->indices.release();
  g->quants.release();
  g->inputs.release();
  g->crosses.release();
  g->registers.release();
  g->layouts.release();
  free(g);
}

uint32_t add_string(GraphCode* g, const char* text) {
  if (g->starved) return 0;
  for (int32_t i = 0; i < g->strings.count; ++i)
    if (strcmp(g->text.data + g->strings[i].offset, text) == 0) return static_cast<uint32_t>(i);
  format::String s = {static_cast<uint32_t>(g->text.count), static_cast<uint32_t>(strlen(text))};
  for (const char* p = text;; ++p) {
    g->starved |= !g->text.push(*p);
    if (!*p) break;
  }
  g->starved = g->starved || !g->strings.push(s);
  return static_cast<uint32_t>(g->strings.count - 1);
}

int add_value(GraphCode* g, const char* name) {
  format::Value v = {};
  v.name = add_string(g, name);
  v.dtype = kUndeclared;
  v.constant = format::kNone;
  g->starved = g->starved || !g->values.push(v);
  return g->starved ? 0 : g->values.count - 1;
}

uint64_t mix(uint64_t h, const void* data, size_t size) {
  const unsigned char* p = static_cast<const unsigned char*>(data);
  for (; size >= 8; size -= 8, p += 8) {
    uint64_t word;
    memcpy(&word, p, 8);
    h = (h ^ word) * 0x9E3779B97F4A7C15ull;
    h ^= h >> 29;
  }
  for (; size; --size) h = (h ^ *p++) * 1099511628211ull;
  return h;
}
template <class T>
uint64_t mix(uint64_t h, const List<T>& list) {
  h = mix(h, &list.count, sizeof list.count);
  return list.count ? mix(h, list.data, sizeof(T) * static_cast<size_t>(list.count)) : h;
}
template <class T>
bool same(const List<T>& a, const List<T>& b) {
  return a.count == b.count && (a.count == 0 || memcmp(a.data, b.data, sizeof(T) * static_cast<size_t>(a.count)) == 0);
}
bool same_shape(const Tensor& a, const Tensor& b) {
  size_t n = sizeof(int64_t) * static_cast<size_t>(a.rank);
  return a.dtype == b.dtype && a.rank == b.rank && memcmp(a.dims, b.dims, n) == 0 && memcmp(a.strides, b.strides, n) == 0;
}
uint64_t hash_of(const GraphCode& g) {
  uint64_t h = 1469598103934665603ull;
  h = mix(mix(mix(mix(mix(mix(mix(h, g.text), g.values), g.nodes), g.attrs), g.ints), g.floats), g.indices);
  h = mix(mix(mix(mix(h, g.kernels), g.layouts), g.inputs), g.quants);
  for (int32_t i = 0; i < g.inputs.count; ++i) {
    const Tensor& t = g.registers[i];
    h = mix(mix(h ^ static_cast<uint64_t>(t.dtype), t.dims, sizeof(int64_t) * static_cast<size_t>(t.rank)), t.strides,
            sizeof(int64_t) * static_cast<size_t>(t.rank));
  }
  return h;
}
bool same_code(const GraphCode& a, const GraphCode& b) {
  if (a.hash != b.hash || !same(a.inputs, b.inputs)) return false;
  if (!same(a.text, b.text) || !same(a.values, b.values) || !same(a.nodes, b.nodes) || !same(a.attrs, b.attrs) || !same(a.ints, b.ints) ||
      !same(a.floats, b.floats) || !same(a.indices, b.indices) || !same(a.kernels, b.kernels) || !same(a.layouts, b.layouts) ||
      !same(a.quants, b.quants))
    return false;
  for (int32_t i = 0; i < a.inputs.count; ++i)
    if (!same_shape(a.registers[i], b.registers[i])) return false;
  return true;
}

template <class T>
Table<T> table(const List<T>& list) {
  return {list.data, static_cast<uint32_t>(list.count)};
}

// The plan of this code: one that the machine has, or a new one, which it keeps. Null after an error.
GraphCode* find_plan(Machine* m, GraphCode* g, Status* status) {
  g->hash = hash_of(*g);
  ++m->clock;
  for (int i = 0; i < m->plan_count; ++i) {
    if (m->plans[i]->hash != g->hash || !same_code(*m->plans[i], *g)) continue;
    m->plans[i]->last_used = m->clock;
    return m->plans[i];
  }
  *status = PEN_ERROR_MEMORY;
  if (!m->plans) m->plans = static_cast<GraphCode**>(calloc(kMaxPlans, sizeof(GraphCode*)));
  if (!m->plans) return nullptr;
  Model& model = g->model;
  model.text = {reinterpret_cast<const uint8_t*>(g->text.data), static_cast<uint32_t>(g->text.count)};
  model.strings = table(g->strings);
  model.values = table(g->values);
  model.nodes = table(g->nodes);
  model.attrs = table(g->attrs);
  model.ints = table(g->ints);
  model.floats = table(g->floats);
  model.indices = table(g->indices);
  model.quant_info = g->quants.data;
  model.regions = {&g->region, 1};
  model.code = {g->instructions, 2};
  model.kernels = g->kernels.data;
  g->plan = plan_create({m->runner.backend, &m->runner, &model, &g->method, &g->code, 0, m->isa, g->registers.data, m->memory_limit,
                         m->runner.threads, &m->error, m->runner.trace, g->layouts.data},
                        status);
  if (!g->plan) return nullptr;
  if (m->plan_count == kMaxPlans) {
    int oldest = 0;
    for (int i = 1; i < m->plan_count; ++i)
      if (m->plans[i]->last_used < m->plans[oldest]->last_used) oldest = i;
    destroy(m->plans[oldest]);
    m->plans[oldest] = m->plans[--m->plan_count];
  }
  g->last_used = m->clock;
  m->plans[m->plan_count++] = g;
  return g;
}

}  // namespace

void machine_forget_plans(Machine* m) {
  for (int i = 0; i < m->plan_count; ++i) destroy(m->plans[i]);
  free(m->plans);
  m->plans = nullptr;
  m->plan_count = 0;
}

Graph::Graph(const Call& c) : call_(c), code_(static_cast<GraphCode*>(calloc(1, sizeof(GraphCode)))), held_(nullptr), results_() {}
Graph::~Graph() {
  destroy(code_);
  if (held_) heap_release(held_);
  for (TensorObject* t : results_)
    if (t) heap_release(t);
}

// The name that the operator's schema has for the argument in whose memory a tensor lies.
const char* Graph::parameter(const Tensor& t) const {
  const char* near = "a value made on the way";
  for (int i = call_.op->param_count - 1; i >= 0 && t.data; --i) {
    const Value& v = call_.args[i];
    bool list = v.tag() == Tag::list, any = list && v.list()->count > 0 && v.list()->items[0].tag() == Tag::tensor;
    if (v.tag() != Tag::tensor && !any) continue;
    const TensorObject& given = *(list ? v.list()->items[0] : v).tensor();
    if (given.data() == t.data) return call_.op->param(i).name;
    const Storage& memory = *given.storage;
    if (list || (t.data >= memory.data && t.data < memory.data + memory.bytes)) near = call_.op->param(i).name;
  }
  return near;
}

int Graph::input(const TensorObject& t) { return input(memory_of(t)); }
int Graph::input(const Tensor& t) {
  if (!code_) return 0;
  GraphCode* g = code_;
  int value = add_value(g, parameter(t));
  g->starved = g->starved || !g->registers.push(t) || !g->layouts.push({}) || !g->inputs.push(static_cast<uint32_t>(value));
  return g->starved ? 0 : value;
}

int Graph::packed(TensorObject* t, const char* layout) {
  if (!held_) held_ = list_create(2);
  int value = input(*t);
  if (!code_ || code_->starved || !held_ || !list_append(held_, Value::share(t))) {
    if (code_) code_->starved = true;
    return 0;
  }
  code_->layouts[code_->layouts.count - 1] = {layout, t->storage->bytes - t->offset};
  return value;
}

int Graph::node_of(const char* key, const int* inputs, int count) {
  if (!code_) return 0;
  GraphCode* g = code_;
  const KernelEntry* entry = find_kernel(key);
  if (!entry && !g->wrong) g->wrong = 1 + add_string(g, key);
  format::Node n = {};
  n.key = add_string(g, key);
  n.source = format::kNone;
  n.inputs = static_cast<uint32_t>(g->indices.count);
  n.input_count = static_cast<uint32_t>(count);
  for (int i = 0; i < count; ++i) g->starved |= !g->indices.push(inputs[i] < 0 ? format::kNone : static_cast<uint32_t>(inputs[i]));
  n.outputs = static_cast<uint32_t>(g->indices.count);
  n.attrs = static_cast<uint32_t>(g->attrs.count);
  g->starved |= !g->nodes.push(n);
  g->starved |= !g->kernels.push(entry);
  int made = output();
  // In messages, what is made of a single value (cast, reshaped) has the name of that.
  if (!g->starved && count == 1 && inputs[0] >= 0) g->values[made].name = g->values[inputs[0]].name;
  return made;
}
int Graph::output() {
  if (!code_ || code_->starved) return 0;
  int value = add_value(code_, "result");
  code_->starved |= !code_->indices.push(static_cast<uint32_t>(value));
  if (!code_->starved) ++code_->nodes[code_->nodes.count - 1].output_count;
  return value;
}

static void add_attr(GraphCode* g, const char* name, format::AttrKind kind, uint32_t start, uint32_t count) {
  if (!g || g->starved || !g->nodes.count) return;
  format::Attr a = {};
  a.name = add_string(g, name);
  a.kind = static_cast<uint8_t>(kind);
  a.start = start;
  a.count = count;
  g->starved |= !g->attrs.push(a);
  ++g->nodes[g->nodes.count - 1].attr_count;
}
Graph& Graph::ints_as(const char* name, const int64_t* values, int count, bool list) {
  if (!code_) return *this;
  add_attr(code_, name, list ? format::AttrKind::ints : format::AttrKind::integer, static_cast<uint32_t>(code_->ints.count),
           list ? static_cast<uint32_t>(count) : 0);
  constexpr int64_t kLeast = format::kExprBase + format::kExprLimit;  // below it, numbers name dim expressions
  for (int i = 0; i < count; ++i) code_->starved |= !code_->ints.push(values[i] < kLeast ? kLeast : values[i]);
  return *this;
}
Graph& Graph::numbers_as(const char* name, const double* values, int count, bool list) {
  if (!code_) return *this;
  add_attr(code_, name, list ? format::AttrKind::floats : format::AttrKind::real, static_cast<uint32_t>(code_->floats.count),
           list ? static_cast<uint32_t>(count) : 0);
  for (int i = 0; i < count; ++i) code_->starved |= !code_->floats.push(values[i]);
  return *this;
}
Graph& Graph::flag(const char* name, bool value) {
  add_attr(code_, name, format::AttrKind::boolean, value, 0);
  return *this;
}
Graph& Graph::text(const char* name, const char* value) {
  if (code_) add_attr(code_, name, format::AttrKind::str, add_string(code_, value), 0);
  return *this;
}
Graph& Graph::none(const char* name) {
  add_attr(code_, name, format::AttrKind::none, 0, 0);
  return *this;
}
void Graph::channels(int value) {
  if (code_ && !code_->starved) code_->values[value].layout = static_cast<uint8_t>(format::ValueLayout::nhwc);
}
void Graph::strided(int value) {
  if (code_ && !code_->starved) code_->values[value].layout = static_cast<uint8_t>(format::ValueLayout::strided);
}
void Graph::quantized(int value, double scale, int64_t zero, DType made) {
  if (!code_ || code_->starved) return;
  List<Quant>& quants = code_->quants;
  if ((code_->starved = !quants.push({}))) return;
  Quant& q = quants[quants.count - 1];
  memset(static_cast<void*>(&q), 0, sizeof q);  // what lies between its fields is compared too
  q.scale = scale;
  q.zero = zero;
  q.axis = -1;
  format::Value& v = code_->values[value];
  v.quant = static_cast<uint32_t>(quants.count);
  if (made == DType::u8) return;
  v.dtype = static_cast<uint8_t>(made);
  v.rank = kUndeclared;
}
int Graph::copy(int value, DType dtype) {
  int made = node(Key::by_size("copy", dtype), value);
  flag("force", true);
  return made;
}
int Graph::cast(int value, DType from, DType to) {
  if (from == to) return value;
  char key[32];
  set_text(key, sizeof key, "cast.%s.%s", kDTypeNames[static_cast<int>(from)], kDTypeNames[static_cast<int>(to)]);
  int made = node(key, value);
  text("to", kDTypeNames[static_cast<int>(to)]);
  return made;
}

// Plans and kernels do not know the VM operator that called them: its name and source line are put into their error here.
Status Graph::fault(Status status) {
  if (status == PEN_OK) return PEN_OK;
  call_.machine->error.op[0] = 0;
  return locate(&call_.machine->error, call_.op->name, call_.machine->source);
}

static bool lies_in(const Plan::Output& out, const TensorObject& t) {
  const Tensor has = memory_of(t);
  bool same = out.tensor.dtype == has.dtype && out.tensor.rank == has.rank && out.bytes <= t.storage->bytes - t.offset && !out.count;
  for (int d = 0; same && d < has.rank; ++d)
    same = out.tensor.dims[d] == has.dims[d] && (has.dims[d] == 1 || out.tensor.strides[d] == has.strides[d]);
  return same;
}

Status Graph::run_all(const int* wanted, int count) {
  GraphCode* g = code_;
  Machine* m = call_.machine;
  if (!g || g->starved || count > 8) return call_.out_of_memory();
  const char* missing = g->wrong ? g->text.data + g->strings[static_cast<int32_t>(g->wrong - 1)].offset : nullptr;
  if (missing)
    return report(&m->error, {PEN_ERROR_KERNEL, "", call_.op->name, "", "a kernel that this library has", missing, m->source,
                              "Use a library built with it: a full build of this version"});
  PEN_TRY(finish(m));
  // One region: its inputs are the method's registers 0 …, its results the ones after them.
  format::Region& r = g->region;
  r.value_count = static_cast<uint32_t>(g->values.count);
  r.node_count = static_cast<uint32_t>(g->nodes.count);
  r.inputs = static_cast<uint32_t>(g->indices.count);
  r.input_count = static_cast<uint32_t>(g->inputs.count);
  for (int32_t i = 0; i < g->inputs.count; ++i) g->starved |= !g->indices.push(g->inputs[i]);
  r.outputs = static_cast<uint32_t>(g->indices.count);
  r.output_count = static_cast<uint32_t>(count);
  for (int i = 0; i < count; ++i) g->starved |= !g->indices.push(static_cast<uint32_t>(wanted[i]));
  uint32_t registers = static_cast<uint32_t>(g->indices.count);
  for (int i = 0; i < g->inputs.count + count; ++i) {
    g->starved |= !g->indices.push(static_cast<uint32_t>(i));
    g->starved |= !g->crosses.push(i < g->inputs.count ? MethodCode::no : MethodCode::given);
  }
  for (int i = 0; i < count; ++i) g->starved |= !g->registers.push(Tensor());
  if (g->starved) return call_.out_of_memory();
  uint32_t results = registers + r.input_count;
  g->instructions[0] = {static_cast<uint32_t>(format::InstructionOp::region), 0, registers, r.input_count, results, r.output_count};
  g->instructions[1] = {static_cast<uint32_t>(format::InstructionOp::ret), 0, results, 0, results, 0};
  g->method.code_count = 2;
  g->method.registers = r.input_count + r.output_count;
  g->method.input_count = r.input_count;
  g->code.stage_count = 1;
  g->code.begin = &g->begin;
  g->code.crosses = g->crosses.data;
  Status status = PEN_OK;
  GraphCode* planned = find_plan(m, g, &status);
  if (!planned) return status == PEN_ERROR_MEMORY && m->error.status != PEN_ERROR_MEMORY ? call_.out_of_memory() : fault(status);
  Plan* plan = planned->plan;
  if (planned == g) code_ = nullptr;  // the machine's now
  // Operands may be expanded to more elements than any memory has: they count as if they had it, and so does the arena.
  int64_t elements = 0;
  uint64_t most = static_cast<uint64_t>(plan->arena_bytes) + account_used(m->account);
  for (int32_t i = 0; i < g->inputs.count + plan->output_count; ++i) {
    if (i < g->inputs.count && g->layouts[i].name) continue;  // a packed weight
    const Tensor& t = i < g->inputs.count ? g->registers[i] : plan->outputs[i - g->inputs.count].tensor;
    const uint64_t bytes = static_cast<uint64_t>(t.numel()) * static_cast<uint64_t>(dtype_size(t.dtype));
    most = bytes > most ? bytes : most;
    if (add_overflows(elements, t.numel(), &elements)) elements = INT64_MAX;
  }
  if (m->memory_limit && most > m->memory_limit) {
    m->account->refused = true;
    return call_.out_of_memory();
  }
  PEN_TRY(call_.spend(elements));
  PEN_TRY(fault(runner_prepare(&m->runner, plan)));
  Tensor* tensors = g->registers.data;
  for (int32_t i = 0; i < plan->output_count; ++i) {
    const Plan::Output& out = plan->outputs[i];
    int at = static_cast<int>(out.index) - planned->inputs.count;
    if (at == 0 && into_ && lies_in(out, *into_)) {
      ++into_->refs;
      results_[0] = into_;
      tensors[out.index] = memory_of(*into_);
      continue;
    }
    Storage* storage = storage_create(out.bytes);
    TensorObject* t = storage ? tensor_on(storage, out.tensor, 0) : nullptr;
    storage_release(storage);
    if (!t) return call_.out_of_memory();
    results_[at] = t;
    tensors[out.index] = t->view();
  }
  PEN_TRY(fault(run_plan(&m->runner, planned->model, plan, tensors)));
  for (int32_t i = 0; i < plan->output_count; ++i) {
    const Plan::Output& out = plan->outputs[i];
    if (out.count) results_[out.index - static_cast<uint32_t>(planned->inputs.count)]->shape.dims[0] = counted_rows(out);
  }
  return PEN_OK;
}

TensorObject* Graph::take(int index) {
  TensorObject* t = results_[index];
  results_[index] = nullptr;
  return t;
}

Key::Key(const char* op, DType dtype, const char* variant) {
  set_text(text, sizeof text, "%s.%s%s%s", op, kDTypeNames[static_cast<int>(dtype)], variant[0] ? "." : "", variant);
}
Key Key::by_size(const char* op, DType dtype) {
  Key key;
  set_text(key.text, sizeof key.text, "%s.b%d", op, static_cast<int>(dtype_size(dtype)) * 8);
  return key;
}

}  // namespace pen
