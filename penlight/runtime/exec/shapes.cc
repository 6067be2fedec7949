// What the rules of an operator ask about their node (Given), and shape rules, which are the same on every device.
#include "penlight/runtime/exec/bind.h"

namespace pen {

int Given::input_count() const { return state->step->in_count; }
bool Given::has(int i) const { return i < state->step->in_count && state->input_value(i) != format::kNone; }
const Tensor& Given::in(int i) const { return state->step->in[i]; }
int Given::output_count() const { return state->step->out_count; }

// ---- attributes ----
static const BoundAttr& attribute(const Given::State& s, const char* name) {
  for (int i = 0; i < s.attr_count; ++i)
    if (strcmp(s.attrs[i].name, name) == 0) return s.attrs[i];
  __builtin_trap();  // a bind rule asks for an attribute that its own schema lacks: a bug that the operator tests meet
}
int64_t Given::integer(const char* name) const { return attribute(*state, name).ints[0]; }
double Given::number(const char* name) const { return attribute(*state, name).floats[0]; }
bool Given::flag(const char* name) const { return attribute(*state, name).ints[0] != 0; }
const char* Given::text(const char* name) const { return attribute(*state, name).text; }
IntList Given::ints(const char* name) const {
  const BoundAttr& a = attribute(*state, name);
  return {a.ints, a.count};
}
FloatList Given::floats(const char* name) const {
  const BoundAttr& a = attribute(*state, name);
  return {a.floats, a.count};
}
bool Given::is_none(const char* name) const { return attribute(*state, name).kind == format::AttrKind::none; }
FloatList Given::all_numbers() const {
  double* list = state->scrap.take_array<double>(state->attr_count + 1);
  state->starved |= !list;
  int n = 0;
  for (int i = 0; list && i < state->attr_count; ++i)
    if (state->attrs[i].kind == format::AttrKind::real) list[n++] = state->attrs[i].floats[0];
  return {list, n};
}

const char* Given::key() const { return state->entry->key; }
DType Given::declared_dtype(int i) const {
  uint8_t dtype = state->model->values[state->region->values + state->output_value(i)].dtype;
  if (dtype != kUndeclared) return static_cast<DType>(dtype);
  return declared_quant(i) ? DType::u8 : DType::f32;
}
const Quant* Given::declared_quant(int i) const { return state->step->out[i].quant; }
DType Given::elementwise_dtype() const { return state->entry->dtype; }
DType Given::elementwise_result() const { return state->entry->result; }
bool Given::elementwise_loops() const { return state->entry->loops != 0; }

Status Given::fail(int input, const char* expected, const char* got_format, ...) const {
  char got[160], tensor[96];
  tensor[0] = 0;
  __builtin_va_list args;
  __builtin_va_start(args, got_format);
  vsnprintf(got, sizeof got, got_format, args);
  __builtin_va_end(args);
  if (input >= 0 && has(input)) set_text(tensor, sizeof tensor, "input %d (%s)", input, state->value_name(state->input_value(input)));
  return state->fail(tensor, expected, got);
}

Status evaluate_attrs(Given::State& s) {
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

// ---- shapes ----
// What the file says that an output is must be what the operator gives.
static Status check_declared(Given::State& s, uint32_t value, DType dtype, int rank) {
  const format::Value& declared = s.model->values[s.region->values + value];
  bool same_rank = declared.rank == kUndeclared || declared.rank == rank;
  if (declared.dtype == kUndeclared || (static_cast<DType>(declared.dtype) == dtype && same_rank)) return PEN_OK;
  char expected[96], got[96];
  set_text(expected, sizeof expected, "dtype code %u, rank %d, as the operator gives", static_cast<unsigned>(dtype), rank);
  set_text(got, sizeof got, "dtype code %u, rank %u", declared.dtype, declared.rank);
  return s.fail(s.value_name(value), expected, got);
}

Status Shapes::output(int index, DType dtype, const Shape& shape) {
  State& s = *state;
  if (index >= s.step->out_count) return s.fail("", "as many outputs as the operator has", "fewer");
  uint32_t v = s.output_value(index);
  PEN_TRY(check_declared(s, v, dtype, shape.rank));
  Tensor& t = s.step->out[index];
  t.dtype = dtype;
  t.rank = shape.rank;
  for (int d = 0; d < shape.rank; ++d) {
    char got[64];
    if (shape.dims[d] < 0 || shape.dims[d] > format::kMaxDim) {
      set_text(got, sizeof got, "%lld in dim %d", static_cast<long long>(shape.dims[d]), d);
      return s.fail(s.value_name(v), "sizes of 0 or more", got);
    }
    t.dims[d] = shape.dims[d];
  }
  ++s.inferred;
  return PEN_OK;
}

Status Shapes::output_at_most(int index, DType dtype, const Shape& shape) {
  PEN_TRY(output(index, dtype, shape));
  if (shape.rank < 1) return fail(-1, "a result with dims", "rank 0");
  Step& step = *state->step;
  if (!step.counts) step.counts = state->plan->pool.take_array<int64_t>(step.out_count);
  if (!step.counts) return state->out_of_memory();
  state->values[state->output_value(index)].count = &step.counts[index];
  return PEN_OK;
}

Status infer_shapes(Given::State& state) {
  Shapes s;
  s.state = &state;
  state.inferred = 0;
  PEN_TRY(shape_function(state.entry->rules)(s));
  if (state.inferred == state.step->out_count) return PEN_OK;
  return state.fail("", "as many outputs as the operator computes", "more");
}

}  // namespace pen
