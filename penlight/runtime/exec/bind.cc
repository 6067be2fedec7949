#include "penlight/runtime/exec/bind.h"
#include "penlight/runtime/cpu/copy.h"
#include "penlight/runtime/exec/guard.h"

namespace pen {

// Laying out the arena takes time that grows with the square of this.
constexpr int32_t kMaxBuffers = 1 << 15;

Status Bind::State::fail(const char* tensor, const char* expected, const char* got) {
  return report(error, {PEN_ERROR_SHAPE, "", entry->key, tensor, expected, got, model->string(node->source)});
}

Status Bind::State::over_limit(int64_t bytes) {
  char got[64], limit[64];
  set_text(limit, sizeof limit, "at most %llu bytes (arena_limit)", static_cast<unsigned long long>(arena_limit));
  set_text(got, sizeof got, "%lld bytes", static_cast<long long>(bytes));
  return report(error, {PEN_ERROR_MEMORY, "", entry->key, "", limit, got, model->string(node->source)});
}

Status Bind::State::new_buffer(int64_t bytes, int32_t* index) {
  if (plan->buffers.count >= kMaxBuffers)
    return report(error, {PEN_ERROR_MEMORY, "", entry->key, "", "at most 32768 tensors in a plan", "more"});
  if (arena_limit && static_cast<uint64_t>(bytes) > arena_limit) return over_limit(bytes);
  Buffer b = {Buffer::Kind::arena, -1, bytes, step_index, step_index, 0, -1, nullptr};
  *index = plan->buffers.count;
  return plan->buffers.push(b) ? PEN_OK : out_of_memory();
}

Status Bind::State::find_copy(DType dtype, RunFn* run) {
  char key[16];
  set_text(key, sizeof key, "copy.b%d", static_cast<int>(8 * dtype_size(dtype)));
  const KernelEntry* found = find_kernel(key);
  if (!found)
    return report(error, {PEN_ERROR_KERNEL, "", entry->key, "", "a kernel that lays an input as this operator needs it", key, "",
                          "Use a library built with it: penlight build --model FILE"});
  trace_kernel(trace, found);
  *run = run_function(*found, isa);
  return PEN_OK;
}

void Bind::State::touch(int32_t buffer) {
  Buffer& b = plan->buffers[buffer];
  if (b.first > step_index) b.first = step_index;
  if (b.last < step_index) b.last = step_index;
}

// ---- inputs ----
int Bind::input_count() const { return state->step->in_count; }
bool Bind::has(int i) const { return i < state->step->in_count && state->input_value(i) != format::kNone; }
const Tensor& Bind::in(int i) const { return state->step->in[i]; }
const char* Bind::in_layout(int i) const { return has(i) ? state->values[state->input_value(i)].layout : "plain"; }
int64_t Bind::in_bytes(int i) const {
  return has(i) ? state->plan->buffers[state->step->in_at[i].buffer].size - state->step->in_at[i].offset : 0;
}

Status Bind::need(int i, Need need) {
  if (!has(i)) return fail(i, "an input", "none");
  Tensor& t = state->step->in[i];
  if (strcmp(in_layout(i), "plain") != 0) return fail(i, "a tensor that is not packed", "one packed as %s", in_layout(i));
  if (lies_as(&t, need)) return PEN_OK;
  if (need == Need::channels && t.rank < 3) return fail(i, "rank 3 to 5", "rank %d", t.rank);
  Copy c = {};
  c.from = t;
  c.from_at = state->step->in_at[i];
  c.to = t;
  c.to.data = nullptr;
  int64_t bytes;
  if (!(need == Need::channels ? lay_channels(&c.to, channels_pitch(t), &bytes) : lay_plain(&c.to, &bytes)))
    return fail(i, "a tensor below 64 TB", "a larger one");
  PEN_TRY(state->new_buffer(bytes, &c.to_at.buffer));
  CopyPlan* plan = state->plan->pool.take_array<CopyPlan>(1);
  if (!plan) return state->out_of_memory();
  plan_copy(c.from, c.to, plan);
  PEN_TRY(state->find_copy(t.dtype, &c.run));
  c.params = plan;
  c.tasks = plan->tasks;
  if (!state->copies.push(c)) return state->out_of_memory();
  t = c.to;
  state->step->in_at[i] = c.to_at;
  return PEN_OK;
}

// ---- attributes ----
static const BoundAttr& attribute(const Bind::State& s, const char* name) {
  for (int i = 0; i < s.attr_count; ++i)
    if (strcmp(s.attrs[i].name, name) == 0) return s.attrs[i];
  __builtin_trap();  // a bind rule asks for an attribute that its own schema lacks: a bug that the operator tests meet
}
int64_t Bind::integer(const char* name) const { return attribute(*state, name).ints[0]; }
double Bind::number(const char* name) const { return attribute(*state, name).floats[0]; }
bool Bind::flag(const char* name) const { return attribute(*state, name).ints[0] != 0; }
const char* Bind::text(const char* name) const { return attribute(*state, name).text; }
IntList Bind::ints(const char* name) const {
  const BoundAttr& a = attribute(*state, name);
  return {a.ints, a.count};
}
FloatList Bind::floats(const char* name) const {
  const BoundAttr& a = attribute(*state, name);
  return {a.floats, a.count};
}
bool Bind::is_none(const char* name) const { return attribute(*state, name).kind == format::AttrKind::none; }
FloatList Bind::all_numbers() const {
  double* list = state->scrap.take_array<double>(state->attr_count + 1);
  state->starved |= !list;
  int n = 0;
  for (int i = 0; list && i < state->attr_count; ++i)
    if (state->attrs[i].kind == format::AttrKind::real) list[n++] = state->attrs[i].floats[0];
  return {list, n};
}

// ---- outputs ----
int Bind::output_count() const { return state->step->out_count; }
const Tensor& Bind::out(int i) const { return state->step->out[i]; }
bool Bind::out_is_nhwc(int i) const {
  const format::Value& declared = state->model->values[state->region->values + state->output_value(i)];
  return static_cast<format::ValueLayout>(declared.layout) == format::ValueLayout::nhwc;
}
bool Bind::out_may_view(int i) const {
  const format::Value& declared = state->model->values[state->region->values + state->output_value(i)];
  return static_cast<format::ValueLayout>(declared.layout) == format::ValueLayout::strided;
}

// The buffer of a value that others are placed in, made when the first of them is bound. Its shape is known from the
// first pass.
Status Bind::State::placed_buffer(uint32_t target, Place* at) {
  ValueState& t = values[target];
  if (t.at.buffer < 0) {
    const ValueState& known = earlier[target];
    if (t.target >= 0) {
      PEN_TRY(placed_buffer(static_cast<uint32_t>(t.target), &t.at));
      t.at.offset += t.target_offset * dtype_size(known.tensor.dtype);
      t.tensor = known.tensor;
      memcpy(t.tensor.strides, values[t.target].tensor.strides, sizeof t.tensor.strides);
    } else {
      t.tensor = known.tensor;
      PEN_TRY(new_buffer(known.buffer_bytes, &t.at.buffer));
    }
  }
  touch(t.at.buffer);
  *at = t.at;
  return PEN_OK;
}

// What the file says that an output is must be what the operator gives.
Status Bind::State::check_declared(uint32_t value, DType dtype, int rank) {
  const format::Value& declared = model->values[region->values + value];
  if (declared.dtype == kUndeclared || (static_cast<DType>(declared.dtype) == dtype && declared.rank == rank)) return PEN_OK;
  char expected[96], got[96];
  set_text(expected, sizeof expected, "dtype code %u, rank %d, as the operator gives", static_cast<unsigned>(dtype), rank);
  set_text(got, sizeof got, "dtype code %u, rank %u", declared.dtype, declared.rank);
  return fail(value_name(value), expected, got);
}

Status Bind::State::fresh(int index, DType dtype, const Shape& shape, const char* layout, int64_t packed_bytes) {
  if (index >= step->out_count) return fail("", "as many outputs as the operator has", "fewer");
  uint32_t v = output_value(index);
  const format::Value& declared = model->values[region->values + v];
  const char* name = value_name(v);
  char got[96];
  PEN_TRY(check_declared(v, dtype, shape.rank));
  ValueState& out = values[v];
  Tensor t;
  t.dtype = dtype;
  t.rank = shape.rank;
  for (int d = 0; d < shape.rank; ++d) {
    if (shape.dims[d] < 0 || shape.dims[d] > format::kMaxDim) {
      set_text(got, sizeof got, "%lld in dim %d", static_cast<long long>(shape.dims[d]), d);
      return fail(name, "sizes of 0 or more", got);
    }
    t.dims[d] = shape.dims[d];
  }
  int64_t bytes;
  bool fits;
  if (static_cast<format::ValueLayout>(declared.layout) == format::ValueLayout::nhwc && packed_bytes < 0) {
    fits = lay_channels(&t, channels_pitch(t), &bytes);
  } else {
    fits = lay_plain(&t, &bytes);
    if (packed_bytes >= 0) bytes = packed_bytes;
  }
  if (!fits || bytes > kMaxTensorBytes) return fail(name, "a tensor below 64 TB", "a larger one");
  out.layout = layout;
  out.bound = out.fresh = true;
  if (out.at.buffer >= 0) {  // others were placed inside it before
    for (int d = 0; d < t.rank; ++d)
      if (out.tensor.dims[d] != t.dims[d]) return fail(name, "the same shape in both passes", "another");
    touch(out.at.buffer);
  } else if (out.target >= 0) {
    PEN_TRY(placed_buffer(static_cast<uint32_t>(out.target), &out.at));
    out.at.offset += out.target_offset * dtype_size(dtype);
    memcpy(t.strides, values[out.target].tensor.strides, sizeof t.strides);
    out.tensor = t;
  } else {
    out.tensor = t;
    out.at.offset = 0;
    PEN_TRY(new_buffer(bytes, &out.at.buffer));
  }
  step->out[index] = out.tensor;
  step->out_at[index] = out.at;
  return PEN_OK;
}

Status Bind::output(int index, DType dtype, const Shape& shape) { return state->fresh(index, dtype, shape, "plain", -1); }
Status Bind::output_at_most(int index, DType dtype, const Shape& shape) {
  PEN_TRY(state->fresh(index, dtype, shape, "plain", -1));
  if (shape.rank < 1) return fail(-1, "a result with dims", "rank 0");
  PEN_TRY(need_out(index, Need::dense));
  Step& step = *state->step;
  if (!step.counts) step.counts = state->plan->pool.take_array<int64_t>(step.out_count);
  if (!step.counts) return state->out_of_memory();
  state->values[state->output_value(index)].count = &step.counts[index];
  return PEN_OK;
}
Status Bind::packed_output(int index, DType dtype, const Shape& shape, const char* layout, int64_t bytes) {
  return state->fresh(index, dtype, shape, layout, bytes < 0 ? 0 : bytes);
}

Status Bind::view(int index, int input, const Shape& shape, const int64_t* strides, int64_t offset) {
  State& s = *state;
  if (index >= s.step->out_count || !has(input)) return fail(-1, "as many inputs and outputs as the operator has", "fewer");
  uint32_t v = s.output_value(index);
  const Tensor& source = in(input);
  if (strcmp(in_layout(input), "plain") != 0) return fail(input, "a tensor that is not packed", "one packed as %s", in_layout(input));
  PEN_TRY(s.check_declared(v, source.dtype, shape.rank));
  ValueState& out = s.values[v];
  Tensor t;
  t.dtype = source.dtype;
  t.rank = shape.rank;
  // The view must stay inside its buffer, whatever the attributes said; and however often it repeats elements, its
  // number of them must be one that kernels can count.
  int64_t size = dtype_size(t.dtype), reach = offset, logical = size;
  bool empty = false, wrong = offset < 0, huge = false;
  for (int d = 0; d < shape.rank; ++d) {
    t.dims[d] = shape.dims[d];
    t.strides[d] = strides[d];
    int64_t span;
    if (shape.dims[d] < 0 || shape.dims[d] > format::kMaxDim || strides[d] < 0) wrong = true;
    if (shape.dims[d] == 0) empty = true;
    huge |= mul_overflows(logical, shape.dims[d] > 1 ? shape.dims[d] : 1, &logical);
    if (wrong || empty) continue;
    if (mul_overflows(shape.dims[d] - 1, strides[d], &span) || add_overflows(reach, span, &reach)) wrong = true;
  }
  if (huge || logical > kMaxTensorBytes) return fail(input, "a tensor below 64 TB", "a larger one");
  if (s.arena_limit && !empty && static_cast<uint64_t>(logical) > s.arena_limit) return s.over_limit(logical);
  int64_t bytes = 0, start = 0;
  if (!empty && !wrong)
    wrong = add_overflows(reach, 1, &bytes) || mul_overflows(bytes, size, &bytes) || mul_overflows(offset, size, &start);
  Place at = s.step->in_at[input];
  if (wrong || (!empty && bytes > s.plan->buffers[at.buffer].size - at.offset))
    return fail(input, "a view inside the tensor", "one that reaches outside");
  at.offset += empty ? 0 : start;
  out = {};
  out.tensor = t;
  out.at = at;
  out.layout = "plain";
  out.bound = true;
  out.target = -1;
  s.step->out[index] = t;
  s.step->out_at[index] = at;
  return PEN_OK;
}

Status Bind::need_out(int index, Need need) {
  Tensor t = state->step->out[index];
  if (lies_as(&t, need)) {
    state->step->out[index] = t;
    return PEN_OK;
  }
  return state->fail(state->value_name(state->output_value(index)),
                     need == Need::channels ? "an output in layout nhwc" : "a row-major output", "another layout");
}

void Bind::may_reuse(int index, int input, bool alone) {
  State::Reuse r = {state->step_index, index, input, alone};
  state->reuses->push(r);  // when out of memory, there is no reuse
}

void Bind::may_place(int input, int index, int64_t offset) {
  if (state->earlier || !has(input)) return;
  State::Placement p = {state->region_index, static_cast<int32_t>(state->input_value(input)),
                        static_cast<int32_t>(state->output_value(index)), offset};
  state->placements->push(p);
}

// ---- work ----
void Bind::tasks(int64_t count, int64_t phase1, int64_t phase2) {
  int64_t all[3] = {count, phase1, phase2};
  for (int i = 0; i < 3; ++i) state->step->tasks[i] = all[i];
}
Status Bind::scratch(int64_t bytes) {
  if (bytes < 0 || bytes > (int64_t{1} << 40)) return fail(-1, "scratch memory below 1 TB", "%lld bytes", static_cast<long long>(bytes));
  if (bytes == 0) return PEN_OK;
  state->step->scratch = bytes;
  state->step->scratch_stride = round_up(bytes + kGuardGap, 64);
  return state->new_buffer(state->step->scratch_stride * state->workers, &state->step->scratch_at.buffer);
}
Status Bind::shared(int64_t bytes) {
  if (bytes < 0 || bytes > (int64_t{1} << 44)) return fail(-1, "scratch memory below 16 TB", "%lld bytes", static_cast<long long>(bytes));
  return state->new_buffer(bytes, &state->step->shared.buffer);
}
void* Bind::params_bytes(size_t size) {
  state->step->params = state->plan->pool.take(size);
  if (state->step->params) return state->step->params;
  // Rules fill params right away: when out of memory, a block that is thrown away with the failed plan.
  state->starved = true;
  return size <= kMaxParams ? state->spare : nullptr;
}

// Whether an elementwise operator maps one f32 to one f32, with at most as many float attributes as an activation can
// carry. The name comes from the file: "cast.i64" and "add" are operators too.
static bool is_activation(const KernelEntry& entry) {
  if (entry.dtype != DType::f32 || entry.result != DType::f32) return false;
  int tensors = 0, numbers = 0, others = 0;
  for (const char* p = entry.schema; *p; ++p) {
    if (*p != ':') continue;
    bool single = p[2] == 0 || p[2] == ' ';
    ++(single && p[1] == 'T' ? tensors : single && p[1] == 'f' ? numbers : others);
  }
  return tensors == 1 && numbers <= kMaxActivationArgs && others == 0;
}

RowFn Bind::row_function(const char* name) const {
  char key[96];
  set_text(key, sizeof key, "%s.f32", name);
  const KernelEntry* entry = find_kernel(key);
  if (!entry || !is_activation(*entry)) return nullptr;
  trace_kernel(state->trace, entry);
  return pen::row_function(*entry, state->isa);
}
RowFn Bind::row_function() const { return pen::row_function(*state->entry, state->isa); }
const char* Bind::key() const { return state->entry->key; }
DType Bind::elementwise_dtype() const { return state->entry->dtype; }
DType Bind::elementwise_result() const { return state->entry->result; }

Status Bind::fail(int input, const char* expected, const char* got_format, ...) {
  char got[160], tensor[96] = "";
  __builtin_va_list args;
  __builtin_va_start(args, got_format);
  vsnprintf(got, sizeof got, got_format, args);
  __builtin_va_end(args);
  if (input >= 0 && has(input)) set_text(tensor, sizeof tensor, "input %d (%s)", input, state->value_name(state->input_value(input)));
  return state->fail(tensor, expected, got);
}

// ---- one node ----
static Status evaluate_attrs(Bind::State& s) {
  const Model& m = *s.model;
  s.attr_count = static_cast<int>(s.node->attr_count);
  s.attrs = s.scrap.take_array<BoundAttr>(s.attr_count + 1);
  if (!s.attrs) return s.out_of_memory();
  for (int i = 0; i < s.attr_count; ++i) {
    const format::Attr& a = m.attrs[s.node->attrs + static_cast<uint32_t>(i)];
    BoundAttr& b = s.attrs[i];
    b.name = m.string(a.name);
    b.kind = static_cast<format::AttrKind>(a.kind);
    b.text = "";
    switch (b.kind) {
      case format::AttrKind::integer:
      case format::AttrKind::ints: {
        b.count = b.kind == format::AttrKind::ints ? static_cast<int>(a.count) : 1;
        int64_t* values = s.scrap.take_array<int64_t>(b.count + 1);
        if (!values) return s.out_of_memory();
        for (int j = 0; j < b.count; ++j)
          PEN_TRY(evaluate_dim(m, m.ints[a.start + static_cast<uint32_t>(j)], s.registers, &values[j], s.error, s.used));
        b.ints = values;
        break;
      }
      case format::AttrKind::boolean: {
        int64_t* value = s.scrap.take_array<int64_t>(1);
        if (!value) return s.out_of_memory();
        *value = a.start;
        b.ints = value;
        break;
      }
      case format::AttrKind::real:
      case format::AttrKind::floats:
        b.count = b.kind == format::AttrKind::floats ? static_cast<int>(a.count) : 1;
        b.floats = m.floats.data + a.start;
        break;
      case format::AttrKind::str:
        b.text = m.string(a.start);
        break;
      case format::AttrKind::none:
        break;
    }
  }
  return PEN_OK;
}

// The second part of a key says what its kernels read: "conv2d.f32.gemm" takes f32 tensors, "cat.b32" elements of four
// bytes, "permute.view" anything. Parameters that the schema marks with '*' are of another dtype, which their bind rule checks.
static Status check_dtypes(Bind::State& s) {
  const char* key = s.entry->key;
  const char* dot = key;
  while (*dot && *dot != '.') ++dot;
  if (!*dot) return PEN_OK;
  const char* part = dot + 1;
  size_t length = 0;
  while (part[length] && part[length] != '.') ++length;
  if (length == 4 && memcmp(part, "view", 4) == 0) return PEN_OK;  // looks at strides, never at data
  int size = part[0] == 'b' && part[1] >= '0' && part[1] <= '9' ? (part[1] == '8' ? 1 : part[1] == '1' ? 2 : part[1] == '3' ? 4 : 8) : 0;
  const char* p = s.entry->schema;
  int input = 0;
  while (*p && input < s.step->in_count) {
    const char* kind = p;
    while (*kind != ':') ++kind;
    const char* end = kind;
    while (*end && *end != ' ') ++end;
    if (kind[1] == 'T') {
      bool mixed = end[-1] == '*', list = end - kind >= 4 && kind[2] == '[';
      for (int n = list ? s.step->in_count - input : 1; n > 0; --n, ++input) {
        if (mixed || s.input_value(input) == format::kNone) continue;
        DType d = s.step->in[input].dtype;
        const char* name = kDTypeNames[static_cast<int>(d)];
        bool fits = size ? dtype_size(d) == size : strlen(name) == length && memcmp(name, part, length) == 0;
        if (!fits) return s.fail(s.value_name(s.input_value(input)), "the dtype that the kernel reads", name);
      }
    }
    p = *end ? end + 1 : end;
  }
  return PEN_OK;
}

Status bind_node(Bind::State& s) {
  Step& step = *s.step;
  Pool& pool = s.plan->pool;
  step.entry = s.entry;
  trace_kernel(s.trace, s.entry);
  step.in_count = static_cast<int32_t>(s.node->input_count);
  step.out_count = static_cast<int32_t>(s.node->output_count);
  step.in = pool.take_array<Tensor>(step.in_count + 1);
  step.out = pool.take_array<Tensor>(step.out_count + 1);
  step.in_at = pool.take_array<Place>(step.in_count + 1);
  step.out_at = pool.take_array<Place>(step.out_count + 1);
  if (!step.in || !step.out || !step.in_at || !step.out_at) return s.out_of_memory();
  step.shared.buffer = step.scratch_at.buffer = -1;
  for (int i = 0; i < step.in_count; ++i) {
    uint32_t v = s.input_value(i);
    step.in_at[i].buffer = -1;
    if (v == format::kNone) continue;
    step.in[i] = s.values[v].tensor;
    step.in_at[i] = s.values[v].at;
    if (s.values[v].count) return s.fail(s.value_name(v), "a tensor whose size is known", "one whose size only this stage's run tells");
    s.touch(step.in_at[i].buffer);
  }
  for (int i = 0; i < step.out_count; ++i) step.out_at[i].buffer = -1;
  PEN_TRY(evaluate_attrs(s));
  PEN_TRY(check_dtypes(s));
  s.copies.count = 0;
  Bind b;
  b.state = &s;
  Status status = bind_function(s.entry->bind)(b);
  if (s.starved) return s.out_of_memory();
  PEN_TRY(status);
  for (int i = 0; i < step.out_count; ++i)
    if (step.out_at[i].buffer < 0)
      return s.fail(s.value_name(s.output_value(i)), "an output that the operator computes", "one more than it has");
  step.copy_count = s.copies.count;
  step.copies = pool.take_array<Copy>(step.copy_count + 1);
  if (!step.copies) return s.out_of_memory();
  if (step.copy_count) memcpy(static_cast<void*>(step.copies), s.copies.data, sizeof(Copy) * static_cast<size_t>(step.copy_count));
  for (int64_t count : step.tasks)
    if (count < 0 || count > kMaxTasks) return s.fail("", "at most 2^30 pieces of work", "more");
  step.run = step.tasks[0] || step.tasks[1] || step.tasks[2] ? run_function(*s.entry, s.isa) : nullptr;
  if ((step.tasks[0] || step.tasks[1] || step.tasks[2]) && !step.run) return s.fail("", "a kernel for this CPU", "none");
  return PEN_OK;
}

}  // namespace pen
