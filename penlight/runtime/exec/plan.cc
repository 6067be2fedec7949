// Building a plan of one stage: bind every node in order, decide which values live inside others, lay the rest into the arena.
#include "penlight/runtime/exec/backend.h"
#include "penlight/runtime/exec/bind.h"
#include "penlight/runtime/exec/turns.h"

namespace pen {

// ---- dims ----
Status evaluate_dim(const Model& m, int64_t stored, const Tensor* registers, int64_t* value, pen_error* error, uint16_t* used) {
  if (stored >= format::kExprBase + format::kExprLimit) {
    *value = stored;
    return PEN_OK;
  }
  const format::Expr& e = m.exprs[static_cast<uint32_t>(stored - format::kExprBase)];
  int64_t stack[40];  // the loader allows a depth of 32
  int depth = 0;
  bool wrong = false;
  for (uint32_t i = 0; i < e.count && !wrong; ++i) {
    const format::Step& s = m.steps[e.start + i];
    format::StepOp op = static_cast<format::StepOp>(s.op);
    if (op == format::StepOp::constant) {
      stack[depth++] = s.arg;
      continue;
    }
    if (op == format::StepOp::register_dim) {
      if (used) used[s.arg / 256] |= static_cast<uint16_t>(1u << (s.arg % 256));
      stack[depth++] = registers[s.arg / 256].dims[s.arg % 256];
      continue;
    }
    if (op == format::StepOp::register_value) {
      if (used) used[s.arg] |= 1u << Plan::kValue;
      stack[depth++] = *registers[s.arg].as<int64_t>();
      continue;
    }
    int64_t b = stack[--depth], a = stack[depth - 1], r = 0;
    switch (op) {
      case format::StepOp::add:
        wrong = add_overflows(a, b, &r);
        break;
      case format::StepOp::sub:
        wrong = __builtin_sub_overflow(a, b, &r);
        break;
      case format::StepOp::mul:
        wrong = mul_overflows(a, b, &r);
        break;
      case format::StepOp::max:
        r = a > b ? a : b;
        break;
      case format::StepOp::min:
        r = a < b ? a : b;
        break;
      default:
        wrong = b == 0 || (a == INT64_MIN && b == -1);
        if (wrong) break;
        r = a / b - (a % b != 0 && (a % b < 0) != (b < 0));  // Python's floor division
        if (op == format::StepOp::mod) r = a - r * b;
    }
    stack[depth - 1] = r;
  }
  if (wrong) return report(error, PEN_ERROR_SHAPE, "a symbolic size", "a number that fits in 64 bits", "an overflow or a division by zero");
  *value = stack[0];
  return PEN_OK;
}

namespace {

constexpr int32_t kMaxNested = 16;  // concatenations in concatenations: placing follows them by recursion

struct Builder {
  const PlanRequest& request;
  const Model& m;
  const format::Method& method;
  Plan* plan = nullptr;
  Pool scrap = {};  // what only the planning needs
  ValueState* registers = nullptr;
  uint16_t* used = nullptr;         // of each register: which dims were asked for. Null in the first stage: inputs are in the key anyway
  uint32_t begin = 0, regions = 0;  // instructions of the stage
  List<Given::State::Reuse> reuses = {};
  List<Given::State::Placement> placements = {};

  const format::Instruction& instruction(uint32_t i) const { return m.code[method.code + begin + i]; }
  const format::Region& region(uint32_t i) const { return m.regions[instruction(i).target]; }

  // One pass over the whole stage. `earlier`: the value states of the first pass, one array per instruction.
  Status pass(ValueState** earlier, ValueState** states) {
    int32_t step_index = 0;
    plan->steps = plan->pool.take_array<Step>(plan->step_count + 1);
    if (!plan->steps) return out_of_memory();
    for (int32_t i = 0; i < plan->input_count; ++i) {
      const Tensor& t = plan->inputs[i].tensor;
      uint32_t index = plan->inputs[i].index;
      int64_t reach = 0, bytes = 0;
      for (int d = 0; d < t.rank; ++d) reach += t.dims[d] > 0 ? (t.dims[d] - 1) * t.strides[d] : 0;
      bytes = t.numel() == 0 ? 0 : (reach + 1) * dtype_size(t.dtype);
      const char* layout = request.layouts && index < method.input_count ? request.layouts[index].name : nullptr;
      if (layout) bytes = request.layouts[index].bytes;
      Buffer b = {Buffer::Kind::input, static_cast<int32_t>(index), bytes, 0, 0, 0, -1, nullptr};
      registers[index] = {};
      registers[index].tensor = t;
      registers[index].at = {plan->buffers.count, 0};
      registers[index].layout = layout ? layout : "plain";
      registers[index].bound = true;
      registers[index].target = -1;
      if (!plan->buffers.push(b)) return out_of_memory();
    }
    Given::State s = {};
    s.model = &m;
    s.method = &method;
    s.registers = request.registers;
    s.used = used;
    s.backend = request.backend;
    s.runner = request.runner;
    s.isa = request.isa;
    s.workers = request.workers;
    s.memory_limit = request.memory_limit;
    s.plan = plan;
    s.reuses = &reuses;
    s.placements = &placements;
    s.error = request.error;
    s.trace = request.trace;
    s.spare = scrap.take(Bind::kMaxParams);
    if (!s.spare) return out_of_memory();
    Status status = PEN_OK;
    int32_t turn = 0;
    for (uint32_t pc = 0; pc < regions && status == PEN_OK; ++pc) {
      const format::Instruction& in = instruction(pc);
      const format::Region& r = region(pc);
      s.region = &r;
      s.region_index = pc;
      s.values = states[pc];
      s.earlier = earlier ? earlier[pc] : nullptr;
      if (kHasTurns && plan->turns.count) {
        s.last_reader = last_readers(m, r, &scrap);
        if (!s.last_reader) status = out_of_memory();
      }
      for (uint32_t v = 0; v < r.value_count && status == PEN_OK; ++v) status = begin_value(r, v, states[pc][v]);
      for (uint32_t i = 0; i < in.arg_count; ++i) {
        ValueState& state = states[pc][m.indices[r.inputs + i]];
        state = registers[m.indices[in.args + i]];
        state.fresh = false;  // made elsewhere: it cannot be placed in a value of this region
        state.target = -1;
      }
      for (uint32_t n = 0; n < r.node_count && status == PEN_OK; ++n) {
        s.node = &m.nodes[r.nodes + n];
        s.entry = m.kernels[r.nodes + n];
        s.step_index = step_index;
        s.step = &plan->steps[step_index++];
        s.step->node = r.nodes + n;
        s.step->region = &r;
        Turns* turns = kHasTurns && turn < plan->turns.count && step_index > plan->turns[turn].begin ? &plan->turns[turn] : nullptr;
        if (kHasTurns && turns) begin_turn(s, *turns);
        status = bind_node(s);
        if (kHasTurns && turns && status == PEN_OK) status = end_turn(s, turns);
        if (kHasTurns && turns && step_index == turns->end) ++turn;
        s.scrap.rewind();
      }
      for (uint32_t i = 0; i < in.result_count && status == PEN_OK; ++i)
        registers[m.indices[in.results + i]] = states[pc][m.indices[r.outputs + i]];
    }
    s.copies.release();
    s.scrap.release();
    return status;
  }

  Status begin_value(const format::Region& r, uint32_t v, ValueState& state) {
    int32_t target = state.target;  // chosen between the passes
    int64_t target_offset = state.target_offset;
    const int64_t pitch = kHasTurns ? state.pitch : 0;
    bool returned = state.returned;
    state = {};
    if (kHasTurns) state.pitch = pitch;
    state.at.buffer = -1;
    state.target = target;
    state.target_offset = target_offset;
    state.returned = returned;
    state.layout = "plain";
    const format::Value& declared = m.values[r.values + v];
    if (declared.constant == format::kNone) return PEN_OK;
    const format::Constant& c = m.constants[declared.constant];
    Tensor& t = state.tensor;
    t.dtype = static_cast<DType>(c.dtype);
    t.rank = c.rank;
    for (uint32_t d = 0; d < c.rank; ++d) t.dims[d] = m.ints[c.dims + d];
    int64_t bytes;
    if (!lay_plain(&t, &bytes))
      return report(request.error, {PEN_ERROR_SHAPE, "", "", m.string(declared.name), "a tensor below 64 TB", "a larger one"});
    char* data = const_cast<char*>(m.data_of(c));
    state.layout = m.layout_of(c);
    if (strcmp(state.layout, "plain") == 0) t.data = data;  // rules may look at it
    Buffer b = {Buffer::Kind::constant, -1, static_cast<int64_t>(m.size_of(c)), 0, 0, 0, -1, data};
    state.at = {plan->buffers.count, 0};
    state.bound = true;
    return plan->buffers.push(b) ? PEN_OK : out_of_memory();
  }

  Status out_of_memory() { return report(request.error, PEN_ERROR_MEMORY, "", "memory for the plan"); }

  // A value may be computed inside its concatenation if it is the region's own, lies like it (nhwc along the channels,
  // or row-major with nothing before the dim) and is not placed yet. See Bind::may_place.
  bool choose_placements(ValueState** states) {
    bool any = false;
    for (int32_t i = 0; i < placements.count; ++i) {
      const Given::State::Placement& p = placements[i];
      uint32_t pc = p.region;
      const format::Region& r = region(pc);
      ValueState& v = states[pc][p.value];
      ValueState& t = states[pc][p.target];
      const format::Value &dv = m.values[r.values + static_cast<uint32_t>(p.value)],
                          &dt = m.values[r.values + static_cast<uint32_t>(p.target)];
      if (kHasTurns && (v.whole || t.whole)) continue;  // images of theirs are elsewhere in every turn
      if (!v.fresh || !t.fresh || v.returned || v.target >= 0 || dv.layout != dt.layout || p.value == p.target) continue;
      if (strcmp(v.layout, "plain") != 0 || v.tensor.numel() == 0) continue;
      if (v.tensor.rank != t.tensor.rank || v.tensor.dtype != t.tensor.dtype || v.nested >= kMaxNested) continue;
      bool channels = static_cast<format::ValueLayout>(dv.layout) == format::ValueLayout::nhwc;
      bool same = true, leading = true;  // all dims but one equal; for row-major, that one is preceded by ones only
      for (int d = 0; d < v.tensor.rank; ++d) {
        if (v.tensor.dims[d] != t.tensor.dims[d]) {
          same &= channels ? d == 1 : leading;
          for (int e = d + 1; !channels && e < v.tensor.rank; ++e) same &= v.tensor.dims[e] == t.tensor.dims[e];
        }
        leading &= t.tensor.dims[d] == 1;
      }
      if (!same) continue;
      if (t.nested <= v.nested) t.nested = v.nested + 1;
      v.target = p.target;
      v.target_offset = p.offset;
      any = true;
    }
    return any;
  }
  // Turns keep values out of the concatenations that they would lie in otherwise. Their pixels get the pitch that they would have there:
  // some operators add up in the order in which memory lies, and bits must not depend on whether a batch takes turns.
  void keep_pitches(ValueState** states) {
    choose_placements(states);
    for (uint32_t pc = 0; pc < regions; ++pc) {
      const format::Region& r = region(pc);
      for (uint32_t i = 0; i < r.value_count; ++i) {
        ValueState &v = states[pc][i], *root = &v;
        while (root->target >= 0) root = &states[pc][root->target];
        const bool channels = static_cast<format::ValueLayout>(m.values[r.values + i].layout) == format::ValueLayout::nhwc;
        if (root != &v && channels) v.pitch = root->tensor.strides[root->tensor.rank - 1];
      }
      for (uint32_t i = 0; i < r.value_count; ++i) states[pc][i].target = -1;
    }
  }
  void reset() {
    plan->other_bytes = 0;
    plan->buffers.count = 0;
    if (kHasTurns) plan->moves.count = 0;
    reuses.count = 0;
    plan->pool.release();
  }

  Status build() {
    begin = request.code->begin[request.stage];
    while (static_cast<format::InstructionOp>(instruction(regions).op) == format::InstructionOp::region)
      plan->step_count += static_cast<int32_t>(region(regions++).node_count);
    registers = scrap.take_array<ValueState>(method.registers + 1);
    if (request.stage > 0) used = scrap.take_array<uint16_t>(method.registers + 1);
    if (request.stage > 0 && !used) return out_of_memory();
    PEN_TRY(find_inputs());
    ValueState** states = scrap.take_array<ValueState*>(regions + 1);
    ValueState** first = scrap.take_array<ValueState*>(regions + 1);
    if (!registers || !states || !first) return out_of_memory();
    for (uint32_t pc = 0; pc < regions; ++pc) {
      const format::Region& r = region(pc);
      states[pc] = scrap.take_array<ValueState>(r.value_count + 1);
      first[pc] = scrap.take_array<ValueState>(r.value_count + 1);
      if (!states[pc] || !first[pc]) return out_of_memory();
      for (uint32_t v = 0; v < r.value_count; ++v) states[pc][v].target = -1;
      for (uint32_t i = 0; i < r.output_count; ++i) states[pc][m.indices[r.outputs + i]].returned = true;
    }
    PEN_TRY(pass(nullptr, states));
    if (kHasTurns && request.backend == &kCpu && request.code->state_count == 0) {
      int32_t steps = 0;
      for (uint32_t pc = 0; pc < regions; ++pc) {
        if (!choose_turns(plan, m, region(pc), states[pc], steps, &scrap)) return out_of_memory();
        steps += static_cast<int32_t>(region(pc).node_count);
      }
      if (plan->turns.count) {
        keep_pitches(states);
        reset();
        placements.count = 0;
        PEN_TRY(pass(nullptr, states));
      }
    }
    if (choose_placements(states)) {
      for (uint32_t pc = 0; pc < regions; ++pc) {
        const format::Region& r = region(pc);
        memcpy(static_cast<void*>(first[pc]), states[pc], sizeof(ValueState) * r.value_count);
        for (uint32_t v = 0; v < r.value_count; ++v)
          if (first[pc][v].at.buffer >= 0) first[pc][v].buffer_bytes = plan->buffers[first[pc][v].at.buffer].size;
      }
      reset();
      PEN_TRY(pass(first, states));
    }
    PEN_TRY(bind_outputs());
    for (int32_t i = 0; kHasState && i < plan->output_count; ++i)
      if (plan->outputs[i].state >= 0) change_in_place(&plan->outputs[i]);
    reuse_inputs();
    PEN_TRY(lay_buffers());
    PEN_TRY(collect_patches());
    return collect_references();
  }

  // The first stage takes all of the method's inputs, later ones the registers that their regions read. They are the plan's key, in
  // memory of their own: a second pass takes back all that the first one took from the pool.
  Status find_inputs() {
    uint8_t* written = scrap.take_array<uint8_t>(method.registers + 1);
    uint32_t most = method.input_count;
    for (uint32_t pc = 0; pc < regions; ++pc) most += instruction(pc).arg_count;
    plan->inputs = plan->key.take_array<Plan::Input>(most + 1);
    if (!written || !plan->inputs) return out_of_memory();
    auto add = [&](uint32_t index) {
      if (written[index]) return;
      written[index] = 1;
      plan->inputs[plan->input_count] = {index, request.registers[index]};
      plan->inputs[plan->input_count++].tensor.data = nullptr;
    };
    for (uint32_t i = 0; i < method.input_count && request.stage == 0; ++i) add(i);
    for (uint32_t pc = 0; pc < regions; ++pc) {
      const format::Instruction& in = instruction(pc);
      for (uint32_t i = 0; i < in.arg_count; ++i) add(m.indices[in.args + i]);
      for (uint32_t i = 0; i < in.result_count; ++i) written[m.indices[in.results + i]] = 1;
    }
    return PEN_OK;
  }

  Status bind_outputs() {
    int32_t most = 0;
    for (uint32_t pc = 0; pc < regions; ++pc) most += static_cast<int32_t>(instruction(pc).result_count);
    plan->outputs = plan->pool.take_array<Plan::Output>(most + 1);
    if (!plan->outputs) return out_of_memory();
    for (uint32_t pc = 0; pc < regions; ++pc) {
      const format::Instruction& in = instruction(pc);
      for (uint32_t i = 0; i < in.result_count; ++i) {
        uint32_t index = m.indices[in.results + i];
        MethodCode::Cross crosses = request.code->crosses[index];
        if (crosses == MethodCode::no) continue;
        ValueState& v = registers[index];
        Buffer& b = plan->buffers[v.at.buffer];
        Tensor t = v.tensor;
        // The next stage of a file would read a packed result as a plain one.
        bool packed = crosses != MethodCode::given && strcmp(v.layout, "plain") != 0;
        bool wrong = b.kind != Buffer::Kind::arena || v.at.offset != 0 || !v.fresh || packed;
        if (wrong || (crosses == MethodCode::returned && !lies_as(&t, Need::dense)))
          return report(request.error, {PEN_ERROR_FORMAT, "output", "", result_name(index), "a row-major result of its own",
                                        "a view, a packed one, or one that another output shares"});
        b.kind = Buffer::Kind::output;
        b.index = static_cast<int32_t>(index);
        plan->other_bytes += static_cast<uint64_t>(b.size);
        plan->outputs[plan->output_count++] = {index, 0, false, t, b.size, v.count};
        if (kHasState) PEN_TRY(find_state(&plan->outputs[plan->output_count - 1]));
      }
    }
    return PEN_OK;
  }

  // ---- states ----
  // Whose next value an output is. A state never changes its size: that of its constant.
  Status find_state(Plan::Output* out) {
    out->state = -1;
    for (uint32_t i = 0; i < request.code->state_count; ++i) {
      const format::State& s = m.states[request.code->states + i];
      if (s.result != out->index) continue;
      out->state = static_cast<int16_t>(i);  // there are 4096 at most
      const int64_t* dims = m.ints.data + m.constants[s.constant].dims;
      if (out->count || memcmp(dims, out->tensor.dims, sizeof(int64_t) * static_cast<size_t>(out->tensor.rank)) != 0)
        return report(request.error, {PEN_ERROR_FORMAT, "state", "", m.string(s.name), "a next value of the same size", "another"});
    }
    return PEN_OK;
  }

  // A large state is changed where it lies: a cache of which a run writes one row is not copied for that. Its next value must come
  // from it by operators that can work in place, one after another, and nobody may look at the old value any more. A small state is not
  // worth that: its next value has memory of its own, so that a run that fails leaves it as it was.
  void change_in_place(Plan::Output* out) {
    constexpr int64_t kWorth = 4096;
    const uint32_t before = method.input_count + static_cast<uint32_t>(out->state);
    const int32_t home = registers[before].bound ? registers[before].at.buffer : -1, last = registers[out->index].at.buffer;
    if (request.backend != &kCpu || home < 0 || plan->buffers[last].size < kWorth) return;
    for (uint32_t pc = begin + regions; pc < method.code_count; ++pc) {  // later stages
      const format::Instruction& in = m.code[method.code + pc];
      for (uint32_t i = 0; i < in.arg_count; ++i)
        if (m.indices[in.args + i] == before) return;
    }
    // Backwards, to ever earlier steps: once to see whether it is so, once to do it.
    for (bool all = false; !out->in_place; all = true) {
      for (int32_t at = last; at != home;) {
        const Given::State::Reuse* link = nullptr;
        for (int32_t i = 0, from; i < reuses.count; ++i) {
          const Given::State::Reuse& r = reuses[i];
          const Step& step = plan->steps[r.step];
          Buffer *a, *b;
          if (step.out_at[r.out].buffer != at || !can_reuse(r, false, &from, &a, &b) || step.in_at[r.in].buffer != from) continue;
          if (from == home || (!link && plan->buffers[from].kind == Buffer::Kind::arena)) link = &r;
        }
        if (!link) return;
        if (all) plan->buffers[at].merged = home;
        if (all) plan->steps[link->step].writes_state = true;
        at = plan->steps[link->step].in_at[link->in].buffer;
      }
      out->in_place = all;
    }
  }

  // The name of a method's output, or of the value that another register holds.
  const char* result_name(uint32_t index) {
    const format::Instruction& ret = m.code[method.code + method.code_count - 1];
    for (uint32_t i = 0; i < ret.arg_count; ++i)
      if (m.indices[ret.args + i] == index) return m.string(m.ports[method.outputs + i].name);
    for (uint32_t pc = 0; pc < regions; ++pc)
      for (uint32_t i = 0; i < instruction(pc).result_count; ++i)
        if (m.indices[instruction(pc).results + i] == index)
          return m.string(m.values[region(pc).values + m.indices[region(pc).outputs + i]].name);
    return "";
  }

  // Sizes and numbers that the dims of this stage were computed from: part of the plan's key, as another size needs another plan.
  Status collect_references() {
    int32_t most = 0;
    for (uint32_t i = 0; used && i < method.registers; ++i)
      for (uint32_t mask = used[i]; mask; mask &= mask - 1) ++most;
    plan->references = plan->pool.take_array<Plan::Reference>(most + 1);
    if (!plan->references) return out_of_memory();
    for (uint32_t i = 0; used && i < method.registers; ++i)
      for (int32_t d = 0; d <= Plan::kValue; ++d)
        if (used[i] >> d & 1) plan->references[plan->reference_count++] = {i, d, referred(request.registers[i], d)};
    return PEN_OK;
  }
  static int64_t referred(const Tensor& t, int32_t dim) { return dim == Plan::kValue ? *t.as<int64_t>() : t.dims[dim]; }

  // Whether a result may take the memory of an input: that dies there and lies exactly alike. `root`: where that input lies.
  PEN_INLINE bool can_reuse(const Given::State::Reuse& r, bool only_arena, int32_t* root, Buffer** from, Buffer** to) const {
    const Step& step = plan->steps[r.step];
    Place in = step.in_at[r.in], out = step.out_at[r.out];
    if (in.buffer < 0 || out.buffer < 0 || in.offset != 0 || out.offset != 0) return false;
    *root = in.buffer;
    while (plan->buffers[*root].merged >= 0) *root = plan->buffers[*root].merged;
    Buffer &a = plan->buffers[*root], &b = plan->buffers[out.buffer];
    *from = &a;
    *to = &b;
    if (*root == out.buffer || b.merged >= 0) return false;
    if (only_arena && (a.kind != Buffer::Kind::arena || b.kind != Buffer::Kind::arena)) return false;
    if (a.last != r.step || b.first != r.step || plan->buffers[in.buffer].size != b.size) return false;
    const Tensor &x = step.in[r.in], &y = step.out[r.out];
    bool same = x.rank == y.rank && x.dtype == y.dtype;
    for (int d = 0; same && d < x.rank; ++d) same = x.dims[d] == y.dims[d] && (x.strides[d] == y.strides[d] || x.dims[d] == 1);
    for (int j = 0; same && j < step.in_count; ++j) {  // another operand may look at the same memory in another order
      int32_t other = step.in_at[j].buffer;
      while (other >= 0 && plan->buffers[other].merged >= 0) other = plan->buffers[other].merged;
      if (j == r.in || other != *root) continue;
      const Tensor& z = step.in[j];
      same = !r.alone && step.in_at[j].offset == 0 && z.rank == x.rank && memcmp(z.dims, x.dims, sizeof x.dims) == 0 &&
             memcmp(z.strides, x.strides, sizeof x.strides) == 0;
    }
    return same;
  }

  // In-place: an elementwise result takes the memory of an input.
  void reuse_inputs() {
    for (int32_t i = 0, root; i < reuses.count; ++i) {
      const Given::State::Reuse& r = reuses[i];
      Buffer *a, *b;
      if (!can_reuse(r, true, &root, &a, &b)) continue;
      b->merged = root;
      a->last = b->last;
    }
  }

  // Several threads: the scratch of all steps is one piece for each of them, which only it ever writes. Where it lay among the values, its
  // cache lines would have to be fetched from other cores, and taken from them, at every step.
  Status join_scratch() {
    int64_t most = 0;
    for (int32_t i = 0; i < plan->step_count; ++i) most = plan->steps[i].scratch_stride > most ? plan->steps[i].scratch_stride : most;
    if (request.workers < 2 || most == 0) return PEN_OK;
    const int32_t joined = plan->buffers.count;
    const int64_t stride = most + kApart;
    for (int32_t i = 0; i < plan->step_count; ++i) {
      Step& step = plan->steps[i];
      if (step.scratch_at.buffer < 0) continue;
      plan->buffers[step.scratch_at.buffer].size = 0;
      step.scratch_at.buffer = joined;
      step.scratch_stride = stride;
    }
    const Buffer b = {Buffer::Kind::arena, -1, stride * (request.workers - 1) + most, 0, plan->step_count - 1, 0, -1, nullptr};
    return plan->buffers.push(b) ? PEN_OK : out_of_memory();
  }

  Status lay_buffers() {
    PEN_TRY(join_scratch());
    int64_t room = request.memory_limit ? static_cast<int64_t>(request.memory_limit - plan->other_bytes) : INT64_MAX;
    if (request.workers < 2 || request.backend != &kCpu) room = 0;
    if (!lay_arena(plan, room, &scrap)) return out_of_memory();
    if (plan->arena_bytes > kMaxTensorBytes) return report(request.error, PEN_ERROR_MEMORY, "arena", "less than 64 TB", "more");
    const uint64_t bytes = static_cast<uint64_t>(plan->arena_bytes) + plan->other_bytes;
    if (!request.memory_limit || bytes <= request.memory_limit) return PEN_OK;
    return report_over_limit(request.error, request.memory_limit, static_cast<int64_t>(bytes), nullptr);
  }

  Status patch(Tensor* t, const Place& at) {
    if (at.buffer < 0) return PEN_OK;
    int32_t i = at.buffer;
    while (kHasState && plan->buffers[i].merged >= 0) i = plan->buffers[i].merged;
    const Buffer& b = plan->buffers[i];
    if (b.kind != Buffer::Kind::input && b.kind != Buffer::Kind::output) return PEN_OK;
    Plan::Patch p = {t, b.index, at.offset};
    return plan->patches.push(p) ? PEN_OK : out_of_memory();
  }
  Status collect_patches() {
    for (int32_t i = 0; i < plan->step_count; ++i) {
      Step& s = plan->steps[i];
      for (int j = 0; j < s.in_count; ++j) PEN_TRY(patch(&s.in[j], s.in_at[j]));
      for (int j = 0; j < s.out_count; ++j) PEN_TRY(patch(&s.out[j], s.out_at[j]));
      for (int j = 0; j < s.copy_count; ++j) {
        PEN_TRY(patch(&s.copies[j].from, s.copies[j].from_at));
        PEN_TRY(patch(&s.copies[j].to, s.copies[j].to_at));
      }
    }
    return PEN_OK;
  }
};

}  // namespace

Plan* plan_create(const PlanRequest& request, Status* status) {
  Plan* plan = static_cast<Plan*>(calloc(1, sizeof(Plan)));
  if (!plan) {
    *status = report(request.error, PEN_ERROR_MEMORY, "", "memory for the plan");
    return nullptr;
  }
  plan->stage = request.stage;
  plan->backend = request.backend;
  Builder builder{request, *request.model, *request.method};
  builder.plan = plan;
  *status = builder.build();
  builder.scrap.release();
  builder.reuses.release();
  builder.placements.release();
  if (*status == PEN_OK) return plan;
  plan_destroy(plan);
  return nullptr;
}

void plan_destroy(Plan* plan) {
  if (!plan) return;
  if (plan->held) plan->backend->release(plan);
  plan->buffers.release();
  plan->patches.release();
  if (kHasTurns) plan->turns.release(), plan->moves.release();
  plan->pool.release();
  plan->key.release();
  free(plan);
}

bool plan_fits(const Plan& plan, const Tensor* registers) {
  for (int32_t i = 0; i < plan.input_count; ++i) {
    const Tensor &a = plan.inputs[i].tensor, &b = registers[plan.inputs[i].index];
    if (memcmp(a.dims, b.dims, sizeof(int64_t) * static_cast<size_t>(a.rank)) != 0) return false;
    if (memcmp(a.strides, b.strides, sizeof(int64_t) * static_cast<size_t>(a.rank)) != 0) return false;
  }
  for (int32_t i = 0; i < plan.reference_count; ++i) {
    const Plan::Reference& r = plan.references[i];
    if (Builder::referred(registers[r.index], r.dim) != r.number) return false;
  }
  return true;
}

void plan_resolve(Plan* plan, char* arena) {
  auto resolve = [&](Tensor* t, const Place& at) {
    if (at.buffer < 0) return;
    int32_t i = at.buffer;
    while (plan->buffers[i].merged >= 0) i = plan->buffers[i].merged;
    const Buffer& b = plan->buffers[i];
    if (b.kind == Buffer::Kind::arena) t->data = arena + b.offset + at.offset;
    if (b.kind == Buffer::Kind::constant) t->data = b.base + at.offset;
  };
  for (int32_t i = 0; i < plan->step_count; ++i) {
    Step& s = plan->steps[i];
    for (int j = 0; j < s.in_count; ++j) resolve(&s.in[j], s.in_at[j]);
    for (int j = 0; j < s.out_count; ++j) resolve(&s.out[j], s.out_at[j]);
    for (int j = 0; j < s.copy_count; ++j) {
      resolve(&s.copies[j].from, s.copies[j].from_at);
      resolve(&s.copies[j].to, s.copies[j].to_at);
    }
  }
  plan->resolved_arena = arena;
}

}  // namespace pen
