// A session: inputs and outputs of one caller, its plans, arena and threads; and the loop that runs a method, stage by
// stage. Where a method has one stage, as most have, a run allocates nothing and plans nothing that it has seen before.
#include "penlight/runtime/exec/session.h"

#include "penlight/runtime/exec/backend.h"

using namespace pen;

namespace {

constexpr int kDefaultPlans = 8, kMaxPlans = 1024;

void describe(const Tensor& t, char* text, size_t size) {
  size_t used = static_cast<size_t>(snprintf(text, size, "%s[", kDTypeNames[static_cast<int>(t.dtype)]));
  for (int d = 0; d < t.rank && used + 24 < size; ++d)
    used += static_cast<size_t>(snprintf(text + used, size - used, "%s%lld", d ? ", " : "", static_cast<long long>(t.dims[d])));
  snprintf(text + used, size - used, "]");
}

}  // namespace

struct pen_session : Handle<HandleKind::session> {
  const Model* model;
  const format::Method* method;
  const MethodCode* code;
  Isa isa;
  uint64_t memory_limit;
  // The method's registers: inputs as the caller set them, results that outlive their stage.
  Tensor* registers;
  uint8_t* known;  // of each register: an input that was set, or a result whose shape is known
  struct Memory {
    char* data;
    int64_t size;
  };
  Memory* memory;       // the session's own, for results; grows
  void** next_outputs;  // the caller's buffers for the next run, by output; null: the session's own
  void** bound;         // of each register: memory of the device, a caller's; null: the host's. None with one device
  Status (*fetch)(pen_session* s, const Runner& runner, const Plan& plan);  // what a stage elsewhere reads of these; null: there are none
  // plans
  Plan** plans;
  int plan_count, plan_capacity;
  Plan** current;         // of each stage, the last one used
  uint32_t stages_ready;  // how many of these the last prepare or run reached
  uint64_t clock;
  bool ran;
  bool outputs_bound;  // by the caller, since the last run
  bool torn;           // a run failed when it had begun to change states in place: what they hold is of no use
  Runner own;
  Runner* runner;  // its own, or that of the module whose VM code runs it
  Runner island;   // for stages on the CPU, where the rest runs elsewhere; made when the first of them runs
  int threads;
  pen_error error;
};

namespace {

Status fail(pen_session* s, const Problem& p) { return report(&s->error, p); }
Status fail(pen_session* s, Status status, const char* what, const char* expected, const char* got) {
  return report(&s->error, status, what, expected, got);
}
Status fail_input(pen_session* s, const char* label, const char* expected, const char* got, const char* advice = "") {
  return fail(s, {PEN_ERROR_INPUT, "", "", label, expected, got, "", advice});
}

const char* input_name(const pen_session* s, int i) {
  return s->model->string(s->model->ports[s->method->inputs + static_cast<uint32_t>(i)].name);
}

// Every input is there and has a size that the method takes.
Status check_inputs(pen_session* s) {
  const Model& m = *s->model;
  for (uint32_t i = 0; i < s->method->input_count; ++i)
    if (!s->known[i]) return fail_input(s, input_name(s, static_cast<int>(i)), "to be set before the run", "nothing");
  for (uint32_t i = 0; i < s->method->input_count; ++i) {
    const format::Port& p = m.ports[s->method->inputs + i];
    const Tensor& t = s->registers[i];
    char shape[128], expected[160];
    for (uint32_t d = 0; d < p.rank; ++d) {
      int64_t least = m.ints[p.ranges + 2 * d], most = m.ints[p.ranges + 2 * d + 1], declared;
      bool fits = t.dims[d] >= least && t.dims[d] <= most;
      if (fits) {
        PEN_TRY(evaluate_dim(m, m.ints[p.dims + d], s->registers, &declared, &s->error));
        if (declared == t.dims[d]) continue;
        set_text(expected, sizeof expected, "size %lld in dim %u (it follows from the other inputs)", static_cast<long long>(declared), d);
      } else if (least == most) {
        set_text(expected, sizeof expected, "size %lld in dim %u", static_cast<long long>(least), d);
      } else if (most >= format::kMaxDim) {
        set_text(expected, sizeof expected, "size %lld or more in dim %u", static_cast<long long>(least), d);
      } else {
        set_text(expected, sizeof expected, "size %lld to %lld in dim %u", static_cast<long long>(least), static_cast<long long>(most), d);
      }
      describe(t, shape, sizeof shape);
      char label[96];
      set_text(label, sizeof label, "input %u (%s)", i, m.string(p.name));
      return fail_input(s, label, expected, shape, least == most ? "Compile it with dynamic_shapes to run at other sizes" : "");
    }
  }
  return PEN_OK;
}

// What a stage runs on.
Status stage_runner(pen_session* s, uint32_t stage, Runner** runner) {
  *runner = s->runner;
  if (kOneDevice || !s->code->on_cpu[stage] || s->runner->backend == &kCpu) return PEN_OK;
  *runner = &s->island;
  if (s->island.pool) return PEN_OK;
  PEN_TRY(runner_create(&s->island, &kCpu, "", false, s->threads, &s->error));
  s->island.profiling = s->runner->profiling;
  s->island.random = s->runner->random;
  s->island.trace = s->runner->trace;
  if (kAsks)
    s->island.interrupted = s->runner->interrupted, s->island.interrupt_context = s->runner->interrupt_context,
    s->island.meter = s->runner->meter;
  return PEN_OK;
}

Status find_plan(pen_session* s, uint32_t stage) {
  ++s->clock;
  Plan*& current = s->current[stage];
  if (current && plan_fits(*current, s->registers)) {
    current->last_used = s->clock;
    return PEN_OK;
  }
  if (stage == 0) PEN_TRY(check_inputs(s));
  for (int i = 0; i < s->plan_count; ++i) {
    if (s->plans[i]->stage != stage || !plan_fits(*s->plans[i], s->registers)) continue;
    current = s->plans[i];
    current->last_used = s->clock;
    return PEN_OK;
  }
  Status status;
  current = nullptr;
  Runner* runner;
  PEN_TRY(stage_runner(s, stage, &runner));
  Plan* plan = plan_create({runner->backend, runner, s->model, s->method, s->code, stage, s->isa, s->registers, s->memory_limit,
                            runner->threads, &s->error, runner->trace},
                           &status);
  if (!plan) return status;
  if (s->plan_count == s->plan_capacity) {  // the one used longest ago makes room; all stages of one run fit in
    int oldest = 0;
    for (int i = 1; i < s->plan_count; ++i)
      if (s->plans[i]->last_used < s->plans[oldest]->last_used) oldest = i;
    if (s->current[s->plans[oldest]->stage] == s->plans[oldest]) s->current[s->plans[oldest]->stage] = nullptr;
    plan_destroy(s->plans[oldest]);
    s->plans[oldest] = s->plans[--s->plan_count];
  }
  plan->last_used = s->clock;
  s->plans[s->plan_count++] = plan;
  current = plan;
  return PEN_OK;
}

// A stage's plan and memory, and the shapes of its results as far as they are known.
Status prepare_stage(pen_session* s, uint32_t stage) {
  PEN_TRY(find_plan(s, stage));
  Plan* plan = s->current[stage];
  Runner* runner;
  PEN_TRY(stage_runner(s, stage, &runner));
  PEN_TRY(runner_prepare(runner, plan));
  for (int32_t i = 0; i < plan->output_count; ++i) {
    const Plan::Output& out = plan->outputs[i];
    s->registers[out.index] = out.tensor;
    s->known[out.index] = !out.count;
  }
  s->stages_ready = stage + 1;
  return PEN_OK;
}

uint32_t output_register(const pen_session* s, int32_t index) {
  const format::Instruction& ret = s->model->code[s->method->code + s->method->code_count - 1];
  return s->model->indices[ret.args + static_cast<uint32_t>(index)];
}

// What the caller bound to outputs counts for one run.
void forget_outputs(pen_session* s) {
  s->outputs_bound = false;
  memset(s->next_outputs, 0, sizeof(void*) * s->method->output_count);
  if (!kOneDevice) memset(s->bound + s->method->input_count, 0, sizeof(void*) * (s->method->registers - s->method->input_count));
}

Status prepare(pen_session* s) {
  s->ran = false;
  s->stages_ready = 0;
  if (s->code->stage_count > 1) memset(s->known + s->method->input_count, 0, s->method->registers - s->method->input_count);
  const Plan* before = s->current[0];
  const Status status = prepare_stage(s, 0);
  if (status != PEN_OK || s->current[0] != before) forget_outputs(s);  // sized for other shapes
  return status;
}

// So many bytes of the session's own for a register.
Status own_memory(pen_session* s, uint32_t index, int64_t bytes) {
  pen_session::Memory& own = s->memory[index];
  if (own.data && own.size >= bytes) return PEN_OK;
  void* p = nullptr;
  free(own.data);
  own = {};
  if (posix_memalign(&p, 64, static_cast<size_t>(bytes > 0 ? bytes : 64)) != 0)
    return fail(s, PEN_ERROR_MEMORY, "output", "memory", "none");
  own = {static_cast<char*>(p), bytes};
  return PEN_OK;
}

// Memory for each result that outlives the stage: the caller's, or the session's own.
Status place_outputs(pen_session* s, const Plan& plan) {
  for (int32_t i = 0; i < plan.output_count; ++i) s->registers[plan.outputs[i].index].data = nullptr;
  for (uint32_t i = 0; i < s->method->output_count; ++i) {
    if (!s->next_outputs[i]) continue;
    s->registers[output_register(s, static_cast<int32_t>(i))].data = static_cast<char*>(s->next_outputs[i]);
  }
  for (int32_t i = 0; i < plan.output_count; ++i) {
    const Plan::Output& out = plan.outputs[i];
    Tensor& t = s->registers[out.index];
    if (kHasState && out.in_place) t.data = s->registers[s->method->input_count + static_cast<uint32_t>(out.state)].data;
    if (t.data || (!kOneDevice && s->bound[out.index])) continue;
    PEN_TRY(own_memory(s, out.index, out.bytes));
    t.data = s->memory[out.index].data;
  }
  return PEN_OK;
}

// Puts the sizes that the stage's data decided into the registers.
void settle(pen_session* s, const Plan& plan) {
  for (int32_t i = 0; i < plan.output_count; ++i) {
    const Plan::Output& out = plan.outputs[i];
    if (!out.count) continue;
    s->registers[out.index].dims[0] = counted_rows(out);
    s->known[out.index] = 1;
  }
}

Status run_stage(pen_session* s, Plan* plan) {
  PEN_TRY(place_outputs(s, *plan));
  Runner* runner;
  PEN_TRY(stage_runner(s, plan->stage, &runner));
  if (!kOneDevice && s->fetch) PEN_TRY(s->fetch(s, *runner, *plan));
  if (!kOneDevice) runner->bound = runner->backend->memory ? s->bound : nullptr;
  PEN_TRY(run_plan(runner, *s->model, plan, s->registers));
  settle(s, *plan);
  return PEN_OK;
}

// What states have become: where that lies elsewhere, the two memories change places.
void keep_states(pen_session* s) {
  for (uint32_t stage = 0; stage < s->code->stage_count; ++stage) {
    const Plan& plan = *s->current[stage];
    for (int32_t i = 0; i < plan.output_count; ++i) {
      const Plan::Output& out = plan.outputs[i];
      if (out.state < 0 || out.in_place) continue;
      const uint32_t before = s->method->input_count + static_cast<uint32_t>(out.state);
      const pen_session::Memory old = s->memory[before];
      s->memory[before] = s->memory[out.index];
      s->memory[out.index] = old;
      s->registers[before].data = s->memory[before].data;
    }
  }
}

#if defined(PEN_PROMISES)
// Outputs that are bound share no memory with inputs or each other.
void check_bound(const pen_session* s) {
  auto apart = [](const Tensor& a, const void* at, const Tensor& b) {
    const uintptr_t bytes_a = static_cast<uintptr_t>(a.numel() * dtype_size(a.dtype)), from = reinterpret_cast<uintptr_t>(at);
    uintptr_t last = 0;
    for (int d = 0; d < b.rank; ++d) last += static_cast<uintptr_t>((b.dims[d] - 1) * b.strides[d]);
    const uintptr_t other = reinterpret_cast<uintptr_t>(b.data), bytes_b = (last + 1) * static_cast<uintptr_t>(dtype_size(b.dtype));
    return bytes_a == 0 || b.numel() == 0 || !other || from + bytes_a <= other || other + bytes_b <= from;
  };
  for (uint32_t i = 0; i < s->method->output_count; ++i) {
    if (!s->next_outputs[i]) continue;
    const Tensor& t = s->registers[output_register(s, static_cast<int32_t>(i))];
    for (uint32_t k = 0; k < s->method->input_count; ++k)
      if (!apart(t, s->next_outputs[i], s->registers[k])) promise_broken("pen_session_run", "an output is bound to memory of an input");
    for (uint32_t k = 0; k < i; ++k) {
      Tensor other = s->registers[output_register(s, static_cast<int32_t>(k))];
      other.data = static_cast<char*>(s->next_outputs[k]);
      if (!apart(t, s->next_outputs[i], other)) promise_broken("pen_session_run", "two outputs are bound to the same memory");
    }
  }
}
#else
PEN_INLINE void check_bound(const pen_session*) {}
#endif

Status run(pen_session* s) {
  if (kHasState && s->torn)
    return fail(s, PEN_ERROR_ARGUMENT, "state", "pen_session_reset (in Python: Model.reset) first",
                "a run after one that failed while it changed it");
  const bool bound = s->outputs_bound;
  PEN_TRY(prepare(s));
  if (bound && !s->outputs_bound)
    return fail(s, PEN_ERROR_ARGUMENT, "output buffer", "pen_session_prepare before pen_session_set_output", "other inputs");
  check_bound(s);
  s->runner->report = {};
  PEN_TRY(run_stage(s, s->current[0]));
  for (uint32_t stage = 1; stage < s->code->stage_count; ++stage) {
    PEN_TRY(prepare_stage(s, stage));
    PEN_TRY(run_stage(s, s->current[stage]));
  }
  s->ran = true;
  return PEN_OK;
}

// A step of the last run by its number, counted through all stages.
const Step* find_step(const pen_session* s, int32_t index, const Plan** plan) {
  for (uint32_t stage = 0; !absent(s) && stage < s->stages_ready && index >= 0; ++stage) {
    *plan = s->current[stage];
    if (index < (*plan)->step_count) return &(*plan)->steps[index];
    index -= (*plan)->step_count;
  }
  return nullptr;
}

// Whether this is an output of a session that was prepared.
bool has_output(const pen_session* s, int32_t index) {
  return s && s->stages_ready && index >= 0 && static_cast<uint32_t>(index) < s->method->output_count;
}

// Of the plans of the last run, one for each stage, the largest number of this kind.
uint64_t most_bytes(const pen_session* s, int64_t Plan::* bytes) {
  int64_t most = 0;
  for (uint32_t i = 0; !absent(s) && i < s->stages_ready; ++i) most = s->current[i]->*bytes > most ? s->current[i]->*bytes : most;
  return static_cast<uint64_t>(most);
}

// A caller's memory must be aligned to whole elements; kernels need no more.
bool aligned(const void* data, DType dtype) { return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(dtype_size(dtype)) == 0; }

}  // namespace

namespace pen {

Status session_create(const Model* of, const char* method, const pen_session_options* options, Runner* shared, pen_session** out,
                      pen_error* error) {
  if (!of || !out) return report(error, PEN_ERROR_ARGUMENT, "session", "", "none");
  alive(of);
  const Model& model = *of;
  *out = nullptr;
  pen_session_options own;
  PEN_TRY(take_options(options, &own, sizeof own, error));
  const Backend* backend;
  const char* which;
  PEN_TRY(choose_backend(own.device, &backend, &which, error));
  const format::Method* found = find_method(*backend, model, method);
  if (!found) {
    char names[160];
    names[0] = 0;
    size_t used = 0;
    for (uint32_t i = 0; i < model.methods.count && used < sizeof names; ++i)
      used += static_cast<size_t>(
          snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "one of ", model.string(model.methods[i].name)));
    return report(error, PEN_ERROR_ARGUMENT, "method", names, method ? method : "forward");
  }
  PEN_TRY(check_method(*backend, model, *found, error));
  if (own.threads < 0) return report(error, PEN_ERROR_ARGUMENT, "threads", "0 (one per core) or more", "a negative number");
  Isa isa;
  PEN_TRY(choose_isa(own.isa, &isa, error));
  pen_session* s = static_cast<pen_session*>(calloc(1, sizeof(pen_session)));
  if (s) {
    handle_begin(s);
    depend(&model);
    s->model = &model;
    s->runner = shared && shared->backend == backend ? shared : &s->own;
    s->method = found;
    s->code = &model.method_code[found - model.methods.data];
    s->isa = isa;
    s->threads = own.threads;
    s->memory_limit = own.memory_limit;
    s->plan_capacity = own.plan_cache <= 0 ? kDefaultPlans : (own.plan_cache > kMaxPlans ? kMaxPlans : own.plan_cache);
    s->plan_capacity *= static_cast<int>(s->code->stage_count);
    s->plans = static_cast<Plan**>(calloc(static_cast<size_t>(s->plan_capacity), sizeof(Plan*)));
    s->current = static_cast<Plan**>(calloc(s->code->stage_count, sizeof(Plan*)));
    s->registers = static_cast<Tensor*>(calloc(found->registers + 1, sizeof(Tensor)));
    s->known = static_cast<uint8_t*>(calloc(found->registers + 1, 1));
    s->memory = static_cast<pen_session::Memory*>(calloc(found->registers + 1, sizeof(pen_session::Memory)));
    s->next_outputs = static_cast<void**>(calloc(found->output_count + 1, sizeof(void*)));
    if (!kOneDevice) s->bound = static_cast<void**>(calloc(found->registers + 1, sizeof(void*)));
  }
  bool made = s && s->plans && s->current && s->registers && s->known && s->memory && s->next_outputs && (kOneDevice || s->bound);
  Status status = made ? PEN_OK : report(error, PEN_ERROR_MEMORY, "session", "memory for a session", "none");
  if (made && s->runner == &s->own) {
    status = runner_create(&s->own, backend, which, own.f16 != 0, own.threads, error);
    s->own.error = &s->error;
    if (kAsks) s->own.interrupted = own.interrupted, s->own.interrupt_context = own.interrupt_context;
    if (kAsks && shared) s->own.interrupted = shared->interrupted, s->own.interrupt_context = shared->interrupt_context;
    if (kAsks && shared) s->own.meter = shared->meter;
  }
  if (kHasState && status == PEN_OK) status = states_create(s, found->input_count, own.memory_limit, error);
  if (status != PEN_OK) {
    pen_session_destroy(s);
    return status;
  }
  *out = s;
  return PEN_OK;
}

// For the VM, which a library of planned models does without.
int64_t session_elements(const pen_session* s) {
  int64_t all = 0;
  for (uint32_t i = 0; i < s->stages_ready; ++i) {
    const Plan& plan = *s->current[i];
    for (int32_t k = 0; k < plan.step_count; ++k) {
      const Step& step = plan.steps[k];
      for (int32_t j = 0; step.run && j < step.in_count + step.out_count; ++j) {
        const bool is_output = j >= step.in_count;
        const Place& at = is_output ? step.out_at[j - step.in_count] : step.in_at[j];
        if (at.buffer < 0 || plan.buffers[at.buffer].kind == Buffer::Kind::constant) continue;
        const Tensor& t = kHasTurns && step.whole ? step.whole[j] : is_output ? step.out[j - step.in_count] : step.in[j];
        if (add_overflows(all, t.numel(), &all)) return INT64_MAX;
      }
    }
  }
  return all;
}
// For buffer.cc, which a library for the CPU only does without.
#if defined(PEN_PROMISES)
const Handle<HandleKind::session>* session_handle(const pen_session* s) { return s; }
#endif
const Runner& session_runner(const pen_session* s) { return *s->runner; }
Tensor* session_input(pen_session* s, uint32_t index, void*** bound) {
  *bound = &s->bound[index];
  return &s->registers[index];
}
Tensor* session_output(pen_session* s, int32_t index, void*** bound) {
  s->next_outputs[index] = nullptr;
  s->outputs_bound = true;
  return session_input(s, output_register(s, index), bound);
}
bool session_is_staged(const pen_session* s) { return s->code->stage_count > 1; }
Status session_own_memory(pen_session* s, uint32_t index, int64_t bytes, char** data) {
  PEN_TRY(own_memory(s, index, bytes));
  *data = s->memory[index].data;
  return PEN_OK;
}
void session_mend(pen_session* s) { s->torn = false; }
const format::State* session_state(const pen_session* s, uint32_t index, Tensor** tensor) {
  if (index >= s->code->state_count) return nullptr;
  *tensor = &s->registers[s->method->input_count + index];
  return &s->model->states[s->code->states + index];
}
const Model& session_model(const pen_session* s) { return *s->model; }
void session_set_fetch(pen_session* s, Status (*fetch)(pen_session* s, const Runner& runner, const Plan& plan)) { s->fetch = fetch; }
pen_error* session_error(pen_session* s) { return &s->error; }

}  // namespace pen

extern "C" {

pen_status pen_session_create(const pen_model* model, const char* method, const pen_session_options* options, pen_session** out,
                              pen_error* error) {
  return session_create(model, method, options, nullptr, out, error);
}

void pen_session_destroy(pen_session* s) {
  if (!s) return;
  handle_end(s);
  depend_no_more(s->model);
  if (s->runner == &s->own) depend_no_more(s->own.trace);
  for (int i = 0; i < s->plan_count; ++i) plan_destroy(s->plans[i]);
  if (s->runner == &s->own) runner_destroy(&s->own);
  if (!kOneDevice) runner_destroy(&s->island);
  for (uint32_t i = 0; s->memory && i < s->method->registers; ++i) free(s->memory[i].data);
  free(s->plans);
  free(s->current);
  free(s->registers);
  free(s->known);
  free(s->memory);
  free(s->next_outputs);
  if (!kOneDevice) free(s->bound);
  free(s);
}

pen_status pen_session_set_input(pen_session* s, int32_t index, const pen_tensor* tensor) {
  const Inside inside(s);
  if (!s) return PEN_ERROR_ARGUMENT;
  if (index < 0 || static_cast<uint32_t>(index) >= s->method->input_count) {
    char expected[64], got[32];
    set_text(expected, sizeof expected, "an index below %u", s->method->input_count);
    set_text(got, sizeof got, "%d", index);
    return fail(s, PEN_ERROR_ARGUMENT, "input", expected, got);
  }
  const format::Port& p = s->model->ports[s->method->inputs + static_cast<uint32_t>(index)];
  char label[96], expected[96], got[96];
  set_text(label, sizeof label, "input %d (%s)", index, input_name(s, index));
  if (!tensor || (!tensor->dims && tensor->rank > 0)) return fail_input(s, label, "dims", "a null pointer");
  if (tensor->dtype != p.dtype || tensor->rank != p.rank) {
    set_text(expected, sizeof expected, "%s of rank %u", kDTypeNames[p.dtype], p.rank);
    bool known = tensor->dtype >= 0 && tensor->dtype < kDTypeCount;
    set_text(got, sizeof got, "%s of rank %d", known ? kDTypeNames[tensor->dtype] : "an unknown dtype", tensor->rank);
    return fail_input(s, label, expected, got);
  }
  Tensor t;
  t.data = static_cast<char*>(tensor->data);
  t.dtype = static_cast<DType>(p.dtype);
  t.rank = p.rank;
  bool empty = false;
  for (int d = 0; d < t.rank; ++d) {
    t.dims[d] = tensor->dims[d];
    empty |= t.dims[d] == 0;
    if (t.dims[d] < 0 || t.dims[d] > format::kMaxDim) {
      set_text(got, sizeof got, "%lld in dim %d", static_cast<long long>(t.dims[d]), d);
      return fail_input(s, label, "sizes of 0 or more", got);
    }
  }
  int64_t bytes;
  if (!lay_plain(&t, &bytes)) return fail_input(s, label, "a tensor below 64 TB", "a larger one");
  int64_t reach = 0;
  for (int d = 0; tensor->strides && d < t.rank; ++d) {
    int64_t stride = tensor->strides[d], span;
    if (t.dims[d] <= 1 || empty) continue;  // strides that are never used keep their row-major value
    if (stride < 0 || mul_overflows(stride, t.dims[d] - 1, &span) || add_overflows(reach, span, &reach) || reach > (int64_t{1} << 46)) {
      set_text(got, sizeof got, "%lld in dim %d", static_cast<long long>(stride), d);
      return fail_input(s, label, "strides of 0 or more", got, "Copy the tensor (.contiguous()) first");
    }
    t.strides[d] = stride;
  }
  if (!t.data && !empty) return fail_input(s, label, "data", "a null pointer");
  if (!aligned(t.data, t.dtype)) return fail_input(s, label, "data at an address that suits its dtype", "another", "Copy the tensor first");
  s->registers[index] = t;
  s->known[index] = 1;
  if (!kOneDevice) s->bound[index] = nullptr;
  return PEN_OK;
}

pen_status pen_session_prepare(pen_session* s) {
  const Inside inside(s, true);
  return s ? prepare(s) : PEN_ERROR_ARGUMENT;
}

pen_status pen_session_set_output(pen_session* s, int32_t index, void* data, size_t size) {
  const Inside inside(s);
  if (!s) return PEN_ERROR_ARGUMENT;
  if (!s->stages_ready) return fail(s, PEN_ERROR_ARGUMENT, "output", "pen_session_prepare before pen_session_set_output", "none");
  if (index < 0 || static_cast<uint32_t>(index) >= s->method->output_count)
    return fail(s, PEN_ERROR_ARGUMENT, "output", "the index of an output", "another");
  if (!pen_session_output_is_fixed(s, index))
    return fail(
        s, {PEN_ERROR_ARGUMENT, "output", "", s->model->string(s->model->ports[s->method->outputs + static_cast<uint32_t>(index)].name),
            "one whose size is known before the run", "one that depends on the data", "", "Read it with pen_session_output after the run"});
  const Tensor& t = s->registers[output_register(s, index)];
  int64_t bytes = t.numel() * dtype_size(t.dtype);
  if (static_cast<uint64_t>(bytes) > size || (!data && bytes > 0)) {
    char expected[64], got[64];
    set_text(expected, sizeof expected, "%lld bytes", static_cast<long long>(bytes));
    set_text(got, sizeof got, data ? "%zu" : "a null pointer", size);
    return fail(s, PEN_ERROR_ARGUMENT, "output buffer", expected, got);
  }
  if (!aligned(data, t.dtype)) return fail(s, PEN_ERROR_ARGUMENT, "output buffer", "an address that suits its dtype", "another");
  s->next_outputs[index] = data;
  s->outputs_bound = true;
  if (!kOneDevice) s->bound[output_register(s, index)] = nullptr;
  return PEN_OK;
}

pen_status pen_session_run(pen_session* s) {
  const Inside inside(s, true);
  if (!s) return PEN_ERROR_ARGUMENT;
  if (kHasState) s->runner->wrote_state = s->island.wrote_state = false;
  Status status = run(s);
  forget_outputs(s);
  if (kHasState && status == PEN_OK) keep_states(s);
  if (kHasState && status != PEN_OK) s->torn |= s->runner->wrote_state | s->island.wrote_state;
  return status;
}

void pen_session_device_report(const pen_session* s, pen_device_report* out) {
  const Inside inside(s);
  if (absent(s) || absent(out)) return;
  const Runner& r = *s->runner;
  *out = r.report;
  out->device = !kOneDevice && r.backend->name_of ? r.backend->name_of(r.device) : r.backend->name;
}

void pen_session_seed(pen_session* s, uint64_t seed) {
  const Inside inside(s);
  if (absent(s)) return;
  s->runner->random = {seed, 0};
  if (!kOneDevice) s->island.random = {seed, 0};
}

pen_status pen_session_output(const pen_session* s, int32_t index, pen_tensor* tensor) {
  const Inside inside(s);
  static const int64_t kUnknown[kMaxRank] = {-1, -1, -1, -1, -1, -1, -1, -1};
  if (!tensor || !has_output(s, index)) return PEN_ERROR_ARGUMENT;
  uint32_t reg = output_register(s, index);
  const Tensor& t = s->registers[reg];
  const format::Port& port = s->model->ports[s->method->outputs + static_cast<uint32_t>(index)];
  if (s->known[reg])
    *tensor = {s->ran ? t.data : nullptr, static_cast<int32_t>(t.dtype), t.rank, t.dims, t.strides};
  else
    *tensor = {nullptr, port.dtype, port.rank, kUnknown, kUnknown};
  return PEN_OK;
}

void* pen_session_take_output(pen_session* s, int32_t index) {
  const Inside inside(s);
  if (!has_output(s, index) || !s->ran) return nullptr;
  uint32_t reg = output_register(s, index);
  pen_session::Memory& own = s->memory[reg];
  const Tensor& t = s->registers[reg];
  if (!own.data || own.data != t.data || t.numel() * dtype_size(t.dtype) < own.size / 2) return nullptr;
  void* taken = own.data;
  own = {};
  return taken;
}
void pen_free(void* memory) { free(memory); }

int32_t pen_session_output_is_fixed(const pen_session* s, int32_t index) {
  const Inside inside(s);
  if (!has_output(s, index)) return 0;
  const Plan& first = *s->current[0];
  const uint32_t reg = output_register(s, index);
  for (int32_t i = 0; i < first.output_count; ++i)
    if (first.outputs[i].index == reg) return !first.outputs[i].count;
  return 0;
}

const pen_error* pen_session_error(const pen_session* s) {
  const Inside inside(s);
  return absent(s) ? nullptr : &s->error;
}
const char* pen_session_isa(const pen_session* s) {
  const Inside inside(s);
  return absent(s) ? nullptr : isa_name(s->isa);
}
uint64_t pen_session_arena_bytes(const pen_session* s) {
  const Inside inside(s);
  return most_bytes(s, &Plan::arena_bytes);
}
uint64_t pen_session_live_bytes(const pen_session* s) {
  const Inside inside(s);
  return most_bytes(s, &Plan::live_bytes);
}
int32_t pen_session_plan_count(const pen_session* s) {
  const Inside inside(s);
  return absent(s) ? 0 : s->plan_count;
}

void pen_session_set_profiling(pen_session* s, int32_t on) {
  const Inside inside(s);
  if (absent(s)) return;
  s->runner->profiling = s->island.profiling = on != 0;
  for (int i = 0; i < s->plan_count; ++i)
    for (int32_t j = 0; j < s->plans[i]->step_count; ++j) s->plans[i]->steps[j].nanoseconds = s->plans[i]->steps[j].calls = 0;
}
int32_t pen_session_step_count(const pen_session* s) {
  const Inside inside(s);
  int32_t count = 0;
  for (uint32_t i = 0; !absent(s) && i < s->stages_ready; ++i) count += s->current[i]->step_count;
  return count;
}
pen_status pen_session_step(const pen_session* s, int32_t index, pen_step_profile* out) {
  const Inside inside(s);
  const Plan* plan;
  const Step* found = find_step(s, index, &plan);
  if (!found || absent(out)) return PEN_ERROR_ARGUMENT;
  const Step& step = *found;
  const format::Node& node = s->model->nodes[step.node];
  const char* output = s->model->string(s->model->values[step.region->values + s->model->indices[node.outputs]].name);
  *out = {step.entry->key, output, s->model->string(node.source), step.nanoseconds, step.calls};
  return PEN_OK;
}
pen_status pen_session_step_operand(const pen_session* s, int32_t index, int32_t operand, pen_operand* out) {
  const Inside inside(s);
  const Plan* plan;
  const Step* found = find_step(s, index, &plan);
  if (!found || absent(out)) return PEN_ERROR_ARGUMENT;
  const Step& step = *found;
  const format::Node& node = s->model->nodes[step.node];
  bool is_output = operand >= step.in_count;
  if (operand < 0 || operand >= step.in_count + step.out_count) return PEN_ERROR_ARGUMENT;
  uint32_t at = static_cast<uint32_t>(is_output ? operand - step.in_count : operand);
  uint32_t value = s->model->indices[(is_output ? node.outputs : node.inputs) + at];
  *out = {};
  out->is_output = is_output;
  if (value == format::kNone) return PEN_OK;
  const Tensor& t = kHasTurns && step.whole ? step.whole[operand] : (is_output ? step.out : step.in)[at];
  const Place& place = (is_output ? step.out_at : step.in_at)[at];
  const Buffer& buffer = plan->buffers[place.buffer];
  out->name = s->model->string(s->model->values[step.region->values + value].name);
  out->tensor = {nullptr, static_cast<int32_t>(t.dtype), t.rank, t.dims, t.strides};
  int64_t bytes = dtype_size(t.dtype);
  for (int d = 0; d < t.rank; ++d) bytes *= t.strides[d] == 0 && t.dims[d] > 1 ? 1 : t.dims[d];
  out->bytes = static_cast<uint64_t>(buffer.kind == Buffer::Kind::constant ? buffer.size - place.offset : bytes);
  for (int i = 0; i < step.copy_count; ++i) out->copied |= step.copies[i].to_at.buffer == place.buffer;
  if (!step.run) out->bytes = 0;
  return PEN_OK;
}
#if defined(PEN_TRACE)
void pen_session_set_trace(pen_session* s, pen_trace* trace) {
  const Inside inside(s);
  if (!s) return;
  alive(trace);
  depend_no_more(s->runner->trace);
  depend(trace);
  s->runner->trace = s->island.trace = trace;
}
#endif

}  // extern "C"
