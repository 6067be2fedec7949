// Binding one node: its shape rule, then its schedule on the device of the plan; and what any schedule may ask for (Lay).
#include "penlight/runtime/exec/bind.h"
#include "penlight/runtime/exec/backend.h"

namespace pen {

// Laying out the arena takes time that grows with the square of this.
constexpr int32_t kMaxBuffers = 1 << 15;

Status Given::State::fail(const char* tensor, const char* expected, const char* got) {
  return report(error, {PEN_ERROR_SHAPE, "", entry->key, tensor, expected, got, model->string(node->source)});
}

Status report_over_limit(pen_error* error, uint64_t memory_limit, int64_t bytes, const Given::State* at) {
  char got[64], limit[64];
  set_text(limit, sizeof limit, "at most %llu bytes (memory_limit)", static_cast<unsigned long long>(memory_limit));
  set_text(got, sizeof got, "%lld bytes", static_cast<long long>(bytes));
  return report(error, {PEN_ERROR_MEMORY, "memory", at ? at->entry->key : "", "", limit, got, at ? at->model->string(at->node->source) : "",
                        "Use smaller inputs or raise the limit"});
}
Status Given::State::over_limit(int64_t bytes) { return report_over_limit(error, memory_limit, bytes, this); }

Status Given::State::new_buffer(int64_t bytes, int32_t* index) {
  if (plan->buffers.count >= kMaxBuffers)
    return report(error, {PEN_ERROR_MEMORY, "", entry->key, "", "at most 32768 tensors in a plan", "more"});
  if (memory_limit && static_cast<uint64_t>(bytes) > memory_limit) return over_limit(bytes);
  Buffer b = {Buffer::Kind::arena, -1, bytes, step_index, step_index, 0, -1, nullptr};
  *index = plan->buffers.count;
  return plan->buffers.push(b) ? PEN_OK : out_of_memory();
}

void Given::State::touch(int32_t buffer) {
  Buffer& b = plan->buffers[buffer];
  if (b.first > step_index) b.first = step_index;
  if (b.last < step_index) b.last = step_index;
}

// ---- inputs ----
const char* Lay::in_layout(int i) const { return has(i) ? state->values[state->input_value(i)].layout : "plain"; }
int64_t Lay::in_bytes(int i) const {
  return has(i) ? state->plan->buffers[state->step->in_at[i].buffer].size - state->step->in_at[i].offset : 0;
}
const char* Lay::in_constant(int i) const {
  if (!has(i)) return nullptr;
  const Place& at = state->step->in_at[i];
  const Buffer& buffer = state->plan->buffers[at.buffer];
  return buffer.kind == Buffer::Kind::constant ? buffer.base + at.offset : nullptr;
}

Status Lay::need_plain(int i) const {
  if (strcmp(in_layout(i), "plain") == 0) return PEN_OK;
  return fail(i, "a tensor that is not packed", "one packed as %s", in_layout(i));
}

Status Lay::need(int i, Need need) {
  if (!has(i)) return fail(i, "an input", "none");
  Tensor& t = state->step->in[i];
  PEN_TRY(need_plain(i));
  if (lies_as(&t, need)) return PEN_OK;
  if (need == Need::channels && t.rank < 3) return fail(i, "rank 3 to 5", "rank %d", t.rank);
  Copy c = {};
  c.from = t;
  c.from_at = state->step->in_at[i];
  c.to = t;
  c.to.data = nullptr;
  int64_t bytes;
  if (!(need == Need::channels ? lay_channels(&c.to, state->backend->pitch(t), &bytes) : lay_plain(&c.to, &bytes)))
    return fail(i, "a tensor below 64 TB", "a larger one");
  PEN_TRY(state->new_buffer(bytes, &c.to_at.buffer));
  PEN_TRY(state->backend->bind_copy(*state, &c));
  if (!state->copies.push(c)) return state->out_of_memory();
  t = c.to;
  state->step->in_at[i] = c.to_at;
  return PEN_OK;
}

// ---- outputs ----
const Tensor& Lay::out(int i) const { return state->step->out[i]; }
bool Lay::out_is_nhwc(int i) const {
  const format::Value& declared = state->model->values[state->region->values + state->output_value(i)];
  return static_cast<format::ValueLayout>(declared.layout) == format::ValueLayout::nhwc;
}
bool Lay::out_may_view(int i) const {
  const format::Value& declared = state->model->values[state->region->values + state->output_value(i)];
  return static_cast<format::ValueLayout>(declared.layout) == format::ValueLayout::strided;
}

// The buffer of a value that others are placed in, made when the first of them is bound. Its shape is known from the
// first pass.
Status Given::State::placed_buffer(uint32_t target, Place* at) {
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

Status Given::State::fresh(int index, const char* layout, int64_t packed_bytes) {
  uint32_t v = output_value(index);
  const format::Value& declared = model->values[region->values + v];
  const char* name = value_name(v);
  ValueState& out = values[v];
  Tensor t = step->out[index];
  int64_t bytes;
  bool fits;
  const int64_t images = t.dims[0];
  if (kHasTurns && out.whole) t.dims[0] = out.whole;
  if (static_cast<format::ValueLayout>(declared.layout) == format::ValueLayout::nhwc && packed_bytes < 0) {
    fits = lay_channels(&t, kHasTurns && out.pitch ? out.pitch : backend->pitch(t), &bytes);
  } else {
    fits = lay_plain(&t, &bytes);
    if (packed_bytes >= 0) bytes = packed_bytes;
  }
  if (kHasTurns) t.dims[0] = images;
  if (!fits || bytes > kMaxTensorBytes) return fail(name, "a tensor below 64 TB", "a larger one");
  out.layout = layout;
  out.bound = out.fresh = true;
  if (out.at.buffer >= 0) {  // others were placed inside it before
    for (int d = 0; d < t.rank; ++d)
      if (out.tensor.dims[d] != t.dims[d]) return fail(name, "the same shape in both passes", "another");
    touch(out.at.buffer);
  } else if (out.target >= 0) {
    PEN_TRY(placed_buffer(static_cast<uint32_t>(out.target), &out.at));
    out.at.offset += out.target_offset * dtype_size(t.dtype);
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

Status Lay::output(int index) {
  PEN_TRY(state->fresh(index, "plain", -1));
  return state->values[state->output_value(index)].count ? need_out(index, Need::dense) : PEN_OK;
}
Status Lay::output_turned(int index) {
  PEN_TRY(output(index));
  Tensor& t = state->values[state->output_value(index)].tensor;
  if (t.rank < 3 || !out_may_view(index) || !lies_as(&t, Need::dense)) return PEN_OK;
  t.strides[t.rank - 3] = t.dims[t.rank - 1];
  t.strides[t.rank - 2] = t.dims[t.rank - 1] * t.dims[t.rank - 3];
  state->step->out[index] = t;
  return PEN_OK;
}
Status Lay::packed_output(int index, const char* layout, int64_t bytes) { return state->fresh(index, layout, bytes < 0 ? 0 : bytes); }

Status Lay::view(int index, int input, const int64_t* strides, int64_t offset) {
  State& s = *state;
  if (!has(input)) return fail(-1, "as many inputs as the operator has", "fewer");
  ValueState& out = s.values[s.output_value(index)];
  PEN_TRY(need_plain(input));
  Tensor t = s.step->out[index];
  // The view must stay inside its buffer, whatever the attributes said; and however often it repeats elements, its
  // number of them must be one that kernels can count.
  int64_t size = dtype_size(t.dtype), reach = offset, logical = size;
  bool empty = false, wrong = offset < 0 || t.dtype != in(input).dtype, huge = false;
  for (int d = 0; d < t.rank; ++d) {
    t.strides[d] = strides[d];
    int64_t span;
    if (strides[d] < 0) wrong = true;
    if (t.dims[d] == 0) empty = true;
    huge |= mul_overflows(logical, t.dims[d] > 1 ? t.dims[d] : 1, &logical);
    if (wrong || empty) continue;
    if (mul_overflows(t.dims[d] - 1, strides[d], &span) || add_overflows(reach, span, &reach)) wrong = true;
  }
  if (huge || logical > kMaxTensorBytes) return fail(input, "a tensor below 64 TB", "a larger one");
  if (s.memory_limit && !empty && static_cast<uint64_t>(logical) > s.memory_limit) return s.over_limit(logical);
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

Status Lay::need_out(int index, Need need) {
  Tensor t = state->step->out[index];
  if (lies_as(&t, need)) {
    state->step->out[index] = t;
    return PEN_OK;
  }
  return state->fail(state->value_name(state->output_value(index)),
                     need == Need::channels ? "an output in layout nhwc" : "a row-major output", "another layout");
}

void Lay::may_reuse(int index, int input, bool alone) {
  State::Reuse r = {state->step_index, index, input, alone};
  state->reuses->push(r);  // when out of memory, there is no reuse
}

void Lay::may_place(int input, int index, int64_t offset) {
  if (state->earlier || !has(input)) return;
  State::Placement p = {state->region_index, static_cast<int32_t>(state->input_value(input)),
                        static_cast<int32_t>(state->output_value(index)), offset};
  state->placements->push(p);
}

// ---- one node ----
// The second part of a key says what its kernels read: "conv2d.f32.gemm" takes f32 tensors, "cat.b32" elements of four
// bytes, "permute.view" anything. Parameters that the schema marks with '*' are of another dtype, which their bind rule checks.
static Status check_dtypes(Given::State& s) {
  const char* key = s.entry->key;
  const char* dot = key;
  while (*dot && *dot != '.') ++dot;
  if (!*dot) return PEN_OK;
  const char* part = dot + 1;
  size_t length = 0;
  while (part[length] && part[length] != '.') ++length;
  if (length == 4 && memcmp(part, "view", 4) == 0) return PEN_OK;  // looks at strides, never at data
  int size = part[0] == 'b' && part[1] >= '0' && part[1] <= '9' ? (part[1] == '8' ? 1 : part[1] == '1' ? 2 : part[1] == '3' ? 4 : 8) : 0;
  if (kHasBytes && length == 2 && memcmp(part, "q8", 2) == 0) {  // quantized bytes; what else there is, their rules check
    const Tensor& x = s.step->in[0];
    if (x.dtype == DType::u8 && x.quant && x.quant->axis < 0) return PEN_OK;
    return s.fail(s.value_name(s.input_value(0)), "a quantized tensor of u8 with one scale",
                  x.dtype == DType::u8 ? "one that is not quantized so" : kDTypeNames[static_cast<int>(x.dtype)]);
  }
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

Status bind_node(Given::State& s) {
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
    if (kHasBytes) step.in[i].quant = s.model->quant_of(s.model->values[s.region->values + v]);
    step.in_at[i] = s.values[v].at;
    if (s.values[v].count) return s.fail(s.value_name(v), "a tensor whose size is known", "one whose size only this stage's run tells");
    s.touch(step.in_at[i].buffer);
  }
  for (int i = 0; i < step.out_count; ++i) {
    step.out_at[i].buffer = -1;
    if (kHasBytes) step.out[i].quant = s.model->quant_of(s.model->values[s.region->values + s.output_value(i)]);
  }
  PEN_TRY(evaluate_attrs(s));
  PEN_TRY(check_dtypes(s));
  s.copies.count = 0;
  PEN_TRY(infer_shapes(s));
  Status status = s.backend->bind(s);
  if (kCountsTables && s.starved && s.memory_limit && s.plan->other_bytes > s.memory_limit)
    return s.over_limit(static_cast<int64_t>(s.plan->other_bytes));
  if (s.starved) return s.out_of_memory();
  PEN_TRY(status);
  step.copy_count = s.copies.count;
  step.copies = pool.take_array<Copy>(step.copy_count + 1);
  if (!step.copies) return s.out_of_memory();
  if (step.copy_count) memcpy(static_cast<void*>(step.copies), s.copies.data, sizeof(Copy) * static_cast<size_t>(step.copy_count));
  return PEN_OK;
}

}  // namespace pen
