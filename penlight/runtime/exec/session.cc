// A session: inputs and outputs of one caller, its plans, arena and threads; and the loop that runs a plan.
#include "penlight/runtime/exec/guard.h"
#include "penlight/runtime/exec/plan.h"
#include "penlight/runtime/exec/pool.h"

using namespace pen;

namespace {

constexpr int kDefaultPlans = 8, kMaxPlans = 1024;
constexpr int64_t kHugePage = 2 << 20;

uint64_t now() {
  pen_timespec t = {0, 0};
  clock_gettime(platform::kMonotonic, &t);
  return static_cast<uint64_t>(t.seconds) * 1000000000u + static_cast<uint64_t>(t.nanoseconds);
}

void describe(const Tensor& t, char* text, size_t size) {
  size_t used = static_cast<size_t>(snprintf(text, size, "%s[", kDTypeNames[static_cast<int>(t.dtype)]));
  for (int d = 0; d < t.rank && used + 24 < size; ++d)
    used += static_cast<size_t>(snprintf(text + used, size - used, "%s%lld", d ? ", " : "", static_cast<long long>(t.dims[d])));
  snprintf(text + used, size - used, "]");
}

}  // namespace

struct pen_session {
  const Model* model;
  const format::Method* method;
  Isa isa;
  int threads;
  ThreadPool* pool;
  uint64_t arena_limit;
  bool profiling, guard_weights;
  // io
  Tensor* inputs;
  uint8_t* input_set;
  void** next_outputs;  // the caller's buffers for the next run; null: the plan's own
  void** last_outputs;  // where the last run wrote
  // plans
  Plan** plans;
  int plan_count, plan_capacity;
  Plan* current;
  uint64_t clock;
  bool ran;
  // memory
  char* arena;
  int64_t arena_size;
  Fault fault;
  Random random;
  pen_error error;
};

namespace {

Status fail(pen_session* s, const Problem& p) { return report(&s->error, p); }

struct Job {
  RunFn run;
  const Tensor *in, *out;
  const void* params;
  char* scratch;
  int64_t scratch_stride;
  char* shared;
  int phase;
  Fault* fault;
  const Random* random;
};

void run_tasks(void* context, int64_t begin, int64_t end, int worker) {
  const Job& job = *static_cast<const Job*>(context);
  job.run({job.in, job.out, job.params, job.scratch + worker * job.scratch_stride, job.shared, begin, end, job.phase, job.fault,
           job.random});
}

const char* input_name(const pen_session* s, int i) {
  return s->model->string(s->model->ports[s->method->inputs + static_cast<uint32_t>(i)].name);
}

// Every input is there and has a size that the method takes.
Status check_inputs(pen_session* s) {
  const Model& m = *s->model;
  for (uint32_t i = 0; i < s->method->input_count; ++i)
    if (!s->input_set[i])
      return fail(s, {PEN_ERROR_INPUT, "", "", input_name(s, static_cast<int>(i)), "to be set before the run", "nothing"});
  for (uint32_t i = 0; i < s->method->input_count; ++i) {
    const format::Port& p = m.ports[s->method->inputs + i];
    const Tensor& t = s->inputs[i];
    char shape[128], expected[160];
    for (uint32_t d = 0; d < p.rank; ++d) {
      int64_t least = m.ints[p.ranges + 2 * d], most = m.ints[p.ranges + 2 * d + 1], declared;
      bool fits = t.dims[d] >= least && t.dims[d] <= most;
      if (fits) {
        PEN_TRY(evaluate_dim(m, m.ints[p.dims + d], s->inputs, &declared, &s->error));
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
      return fail(s, {PEN_ERROR_INPUT, "", "", label, expected, shape, "",
                      least == most ? "Export with dynamic shapes to run at other sizes" : ""});
    }
  }
  return PEN_OK;
}

Status find_plan(pen_session* s) {
  ++s->clock;
  if (s->current && plan_fits(*s->current, s->inputs)) {
    s->current->last_used = s->clock;
    return PEN_OK;
  }
  PEN_TRY(check_inputs(s));
  for (int i = 0; i < s->plan_count; ++i) {
    if (!plan_fits(*s->plans[i], s->inputs)) continue;
    s->current = s->plans[i];
    s->current->last_used = s->clock;
    return PEN_OK;
  }
  Status status;
  s->current = nullptr;
  Plan* plan = plan_create({s->model, s->method, s->isa, s->inputs, s->arena_limit, s->threads, &s->error}, &status);
  if (!plan) return status;
  if (s->plan_count == s->plan_capacity) {  // the one used longest ago makes room
    int oldest = 0;
    for (int i = 1; i < s->plan_count; ++i)
      if (s->plans[i]->last_used < s->plans[oldest]->last_used) oldest = i;
    plan_destroy(s->plans[oldest]);
    s->plans[oldest] = s->plans[--s->plan_count];
  }
  plan->last_used = s->clock;
  s->plans[s->plan_count++] = plan;
  s->current = plan;
  return PEN_OK;
}

// Memory for a plan's buffers. Of a large one, the whole huge pages in it are asked for as such: an arena is touched from
// end to end in the first run, and page faults of 4 KB were a fifth of MobileNetV2's. Where there are none, nothing changes.
Status grow_arena(pen_session* s, int64_t need) {
  if (need <= s->arena_size && s->arena) return PEN_OK;
  free(s->arena);
  s->arena = nullptr;
  s->arena_size = 0;
  void* p = nullptr;
  if (need < 64) need = 64;
  int64_t huge = platform::kAdviceHugePages ? need / kHugePage * kHugePage : 0;
  if (posix_memalign(&p, huge ? kHugePage : 64, static_cast<size_t>(need)) != 0) {
    char got[64];
    set_text(got, sizeof got, "no %lld bytes free", static_cast<long long>(need));
    return fail(s, {PEN_ERROR_MEMORY, "arena", "", "", "memory", got});
  }
  if (huge) madvise(p, static_cast<size_t>(huge), platform::kAdviceHugePages);
  s->arena = static_cast<char*>(p);
  s->arena_size = need;
  return PEN_OK;
}

Status prepare(pen_session* s) {
  s->ran = false;
  const Plan* before = s->current;
  PEN_TRY(find_plan(s));
  Plan* plan = s->current;
  if (plan != before) memset(s->next_outputs, 0, sizeof(void*) * s->method->output_count);  // sized for other shapes
  PEN_TRY(grow_arena(s, plan->arena_bytes));
  if (plan->resolved_arena != s->arena) plan_resolve(plan, s->arena);
  return PEN_OK;
}

Status run_step(pen_session* s, Step* step) {
  for (int i = 0; i < step->copy_count; ++i) {
    Copy& c = step->copies[i];
    Job job = {c.run, &c.from, &c.to, c.params, nullptr, 0, nullptr, 0, &s->fault, &s->random};
    pool_run(s->pool, c.tasks, run_tasks, &job);
  }
  if (!step->run) return PEN_OK;
  auto memory = [&](const Place& at) { return at.buffer < 0 ? nullptr : s->arena + s->current->buffers[at.buffer].offset; };
  Job job = {step->run, step->in, step->out, step->params, memory(step->scratch_at), step->scratch_stride, memory(step->shared),
             0,         &s->fault, &s->random};
  for (; job.phase < 3; ++job.phase)
    if (step->tasks[job.phase]) pool_run(s->pool, step->tasks[job.phase], run_tasks, &job);
  if (PEN_LIKELY(!s->fault.set)) return PEN_OK;
  const format::Node& node = s->model->nodes[step->node];
  char expected[96], got[64];
  set_text(expected, sizeof expected, "indices from %lld to %lld", static_cast<long long>(s->fault.low),
           static_cast<long long>(s->fault.high - 1));
  set_text(got, sizeof got, "%lld", static_cast<long long>(s->fault.got));
  const char* tensor = "";
  uint32_t value = s->fault.input >= 0 && static_cast<uint32_t>(s->fault.input) < node.input_count
                       ? s->model->indices[node.inputs + static_cast<uint32_t>(s->fault.input)]
                       : format::kNone;
  if (value != format::kNone) tensor = s->model->string(s->model->values[step->region->values + value].name);
  s->fault.set = 0;
  return fail(s, {PEN_ERROR_DATA, "", step->entry->key, tensor, expected, got, s->model->string(node.source)});
}

Status run(pen_session* s) {
  PEN_TRY(prepare(s));
  Plan* plan = s->current;
  for (int i = 0; i < plan->output_count; ++i) {
    s->last_outputs[i] = s->next_outputs[i] ? s->next_outputs[i] : plan->outputs[i].data;
    s->next_outputs[i] = nullptr;
    if (s->last_outputs[i]) continue;
    int64_t bytes = plan->outputs[i].numel() * dtype_size(plan->outputs[i].dtype);
    void* p = nullptr;
    if (posix_memalign(&p, 64, static_cast<size_t>(bytes > 0 ? bytes : 64)) != 0)
      return fail(s, {PEN_ERROR_MEMORY, "output", "", "", "memory", "none"});
    s->last_outputs[i] = plan->outputs[i].data = static_cast<char*>(p);
  }
  for (int32_t i = 0; i < plan->patches.count; ++i) {
    const Plan::Patch& p = plan->patches[i];
    char* base = p.kind == Buffer::Kind::input ? s->inputs[p.index].data : static_cast<char*>(s->last_outputs[p.index]);
    p.tensor->data = base + p.offset;
  }
  Status status = PEN_OK;
  Guard guard = {s->model, plan, s->arena, s->arena_size, s->threads, s->guard_weights};
  for (int32_t i = 0; i < plan->step_count && status == PEN_OK; ++i) {
    Step* step = &plan->steps[i];
    guard_step(guard, *step);
    if (PEN_LIKELY(!s->profiling)) {
      status = run_step(s, step);
      continue;
    }
    uint64_t start = now();
    status = run_step(s, step);
    step->nanoseconds += now() - start;
    ++step->calls;
  }
  guard_end(guard);
  ++s->random.run;
  s->ran = status == PEN_OK;
  return status;
}

// Of whole elements; kernels need no more of a caller's memory.
bool aligned(const void* data, DType dtype) { return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(dtype_size(dtype)) == 0; }

Status choose_isa(const char* wanted, Isa* isa, pen_error* error) {
  if (!wanted || !wanted[0]) wanted = getenv("PENLIGHT_ISA");
  if (!wanted || !wanted[0]) {
    Isa all[kIsaCount];
    available_isas(all);
    *isa = all[0];
    return PEN_OK;
  }
  if (find_isa(wanted, isa)) return PEN_OK;
  char list[128] = "";
  Isa all[kIsaCount];
  int n = available_isas(all);
  size_t used = 0;
  for (int i = 0; i < n; ++i)
    used += static_cast<size_t>(snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "one of ", isa_name(all[i])));
  return report(error, {PEN_ERROR_ARGUMENT, "instruction set (PENLIGHT_ISA)", "", "", list, wanted});
}

}  // namespace

extern "C" {

pen_status pen_session_create(const pen_model* model, const char* method, const pen_session_options* options, pen_session** out,
                              pen_error* error) {
  *out = nullptr;
  const format::Method* found = find_method(*model, method);
  if (!found) {
    char names[160] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < model->methods.count && used < sizeof names; ++i)
      used += static_cast<size_t>(
          snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "one of ", model->string(model->methods[i].name)));
    return report(error, {PEN_ERROR_ARGUMENT, "method", "", "", names, method ? method : "forward"});
  }
  pen_session_options defaults = {};
  if (!options) options = &defaults;
  if (options->threads < 0) return report(error, {PEN_ERROR_ARGUMENT, "threads", "", "", "0 (one per core) or more", "a negative number"});
  Isa isa;
  PEN_TRY(choose_isa(options->isa, &isa, error));
  pen_session* s = static_cast<pen_session*>(calloc(1, sizeof(pen_session)));
  if (s) {
    s->model = model;
    s->method = found;
    s->isa = isa;
    s->pool = pool_create(options->threads ? options->threads : core_count());
    s->threads = s->pool ? pool_threads(s->pool) : 1;
    s->arena_limit = options->arena_limit;
    const char* guard = PEN_ASAN ? getenv("PENLIGHT_GUARD") : nullptr;
    s->guard_weights = guard && strcmp(guard, "weights") == 0;
    s->plan_capacity = options->plan_cache <= 0 ? kDefaultPlans : (options->plan_cache > kMaxPlans ? kMaxPlans : options->plan_cache);
    s->plans = static_cast<Plan**>(calloc(static_cast<size_t>(s->plan_capacity), sizeof(Plan*)));
    s->inputs = static_cast<Tensor*>(calloc(found->input_count + 1, sizeof(Tensor)));
    s->input_set = static_cast<uint8_t*>(calloc(found->input_count + 1, 1));
    s->next_outputs = static_cast<void**>(calloc(found->output_count + 1, sizeof(void*)));
    s->last_outputs = static_cast<void**>(calloc(found->output_count + 1, sizeof(void*)));
  }
  if (!s || !s->pool || !s->plans || !s->inputs || !s->input_set || !s->next_outputs || !s->last_outputs) {
    pen_session_destroy(s);
    return report(error, {PEN_ERROR_MEMORY, "session", "", "", "memory for a session", "none"});
  }
  *out = s;
  return PEN_OK;
}

void pen_session_destroy(pen_session* s) {
  if (!s) return;
  for (int i = 0; i < s->plan_count; ++i) plan_destroy(s->plans[i]);
  pool_destroy(s->pool);
  free(s->plans);
  free(s->inputs);
  free(s->input_set);
  free(s->next_outputs);
  free(s->last_outputs);
  free(s->arena);
  free(s);
}

pen_status pen_session_set_input(pen_session* s, int32_t index, const pen_tensor* tensor) {
  if (index < 0 || static_cast<uint32_t>(index) >= s->method->input_count) {
    char expected[64], got[32];
    set_text(expected, sizeof expected, "an index below %u", s->method->input_count);
    set_text(got, sizeof got, "%d", index);
    return fail(s, {PEN_ERROR_ARGUMENT, "input", "", "", expected, got});
  }
  const format::Port& p = s->model->ports[s->method->inputs + static_cast<uint32_t>(index)];
  char label[96], expected[96], got[96];
  set_text(label, sizeof label, "input %d (%s)", index, input_name(s, index));
  if (tensor->dtype != p.dtype || tensor->rank != p.rank) {
    set_text(expected, sizeof expected, "%s of rank %u", kDTypeNames[p.dtype], p.rank);
    bool known = tensor->dtype >= 0 && tensor->dtype < kDTypeCount;
    set_text(got, sizeof got, "%s of rank %d", known ? kDTypeNames[tensor->dtype] : "an unknown dtype", tensor->rank);
    return fail(s, {PEN_ERROR_INPUT, "", "", label, expected, got});
  }
  if (!tensor->dims && tensor->rank > 0) return fail(s, {PEN_ERROR_INPUT, "", "", label, "dims", "a null pointer"});
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
      return fail(s, {PEN_ERROR_INPUT, "", "", label, "sizes of 0 or more", got});
    }
  }
  int64_t bytes;
  if (!lay_plain(&t, &bytes)) return fail(s, {PEN_ERROR_INPUT, "", "", label, "a tensor below 64 TB", "a larger one"});
  int64_t reach = 0;
  for (int d = 0; tensor->strides && d < t.rank; ++d) {
    int64_t stride = tensor->strides[d], span;
    if (t.dims[d] <= 1 || empty) continue;  // strides that are never used keep their row-major value
    if (stride < 0 || mul_overflows(stride, t.dims[d] - 1, &span) || add_overflows(reach, span, &reach) || reach > (int64_t{1} << 46)) {
      set_text(got, sizeof got, "%lld in dim %d", static_cast<long long>(stride), d);
      return fail(s, {PEN_ERROR_INPUT, "", "", label, "strides of 0 or more", got, "", "Copy the tensor (.contiguous()) first"});
    }
    t.strides[d] = stride;
  }
  if (!t.data && !empty) return fail(s, {PEN_ERROR_INPUT, "", "", label, "data", "a null pointer"});
  if (!aligned(t.data, t.dtype))
    return fail(s, {PEN_ERROR_INPUT, "", "", label, "data at an address that suits its dtype", "another", "", "Copy the tensor first"});
  s->inputs[index] = t;
  s->input_set[index] = 1;
  return PEN_OK;
}

pen_status pen_session_prepare(pen_session* s) { return prepare(s); }

pen_status pen_session_set_output(pen_session* s, int32_t index, void* data, size_t size) {
  if (!s->current) return fail(s, {PEN_ERROR_ARGUMENT, "output", "", "", "pen_session_prepare before pen_session_set_output", "none"});
  if (index < 0 || index >= s->current->output_count)
    return fail(s, {PEN_ERROR_ARGUMENT, "output", "", "", "the index of an output", "another"});
  const Tensor& t = s->current->outputs[index];
  int64_t bytes = t.numel() * dtype_size(t.dtype);
  if (static_cast<uint64_t>(bytes) > size || (!data && bytes > 0)) {
    char expected[64], got[64];
    set_text(expected, sizeof expected, "%lld bytes", static_cast<long long>(bytes));
    set_text(got, sizeof got, data ? "%zu" : "a null pointer", size);
    return fail(s, {PEN_ERROR_ARGUMENT, "output buffer", "", "", expected, got});
  }
  if (!aligned(data, t.dtype)) return fail(s, {PEN_ERROR_ARGUMENT, "output buffer", "", "", "an address that suits its dtype", "another"});
  s->next_outputs[index] = data;
  return PEN_OK;
}

pen_status pen_session_run(pen_session* s) {
  Status status = run(s);
  if (status != PEN_OK) memset(s->next_outputs, 0, sizeof(void*) * s->method->output_count);
  return status;
}

void pen_session_seed(pen_session* s, uint64_t seed) { s->random = {seed, 0}; }

pen_status pen_session_output(const pen_session* s, int32_t index, pen_tensor* tensor) {
  if (!s->current || index < 0 || index >= s->current->output_count) return PEN_ERROR_ARGUMENT;
  const Tensor& t = s->current->outputs[index];
  *tensor = {s->ran ? s->last_outputs[index] : nullptr, static_cast<int32_t>(t.dtype), t.rank, t.dims, t.strides};
  return PEN_OK;
}

const pen_error* pen_session_error(const pen_session* s) { return &s->error; }
const char* pen_session_isa(const pen_session* s) { return isa_name(s->isa); }
uint64_t pen_session_arena_bytes(const pen_session* s) { return s->current ? static_cast<uint64_t>(s->current->arena_bytes) : 0; }
uint64_t pen_session_live_bytes(const pen_session* s) { return s->current ? static_cast<uint64_t>(s->current->live_bytes) : 0; }
int32_t pen_session_plan_count(const pen_session* s) { return s->plan_count; }

void pen_session_set_profiling(pen_session* s, int32_t on) {
  s->profiling = on != 0;
  for (int i = 0; i < s->plan_count; ++i)
    for (int32_t j = 0; j < s->plans[i]->step_count; ++j) s->plans[i]->steps[j].nanoseconds = s->plans[i]->steps[j].calls = 0;
}
int32_t pen_session_step_count(const pen_session* s) { return s->current ? s->current->step_count : 0; }
pen_status pen_session_step(const pen_session* s, int32_t index, pen_step_profile* out) {
  if (!s->current || index < 0 || index >= s->current->step_count) return PEN_ERROR_ARGUMENT;
  const Step& step = s->current->steps[index];
  const format::Node& node = s->model->nodes[step.node];
  const char* output = s->model->string(s->model->values[step.region->values + s->model->indices[node.outputs]].name);
  *out = {step.entry->key, output, s->model->string(node.source), step.nanoseconds, step.calls};
  return PEN_OK;
}
pen_status pen_session_step_operand(const pen_session* s, int32_t index, int32_t operand, pen_operand* out) {
  if (!s->current || index < 0 || index >= s->current->step_count) return PEN_ERROR_ARGUMENT;
  const Step& step = s->current->steps[index];
  const format::Node& node = s->model->nodes[step.node];
  bool is_output = operand >= step.in_count;
  if (operand < 0 || operand >= step.in_count + step.out_count) return PEN_ERROR_ARGUMENT;
  uint32_t at = static_cast<uint32_t>(is_output ? operand - step.in_count : operand);
  uint32_t value = s->model->indices[(is_output ? node.outputs : node.inputs) + at];
  *out = {};
  out->is_output = is_output;
  if (value == format::kNone) return PEN_OK;
  const Tensor& t = (is_output ? step.out : step.in)[at];
  const Place& place = (is_output ? step.out_at : step.in_at)[at];
  const Buffer& buffer = s->current->buffers[place.buffer];
  out->name = s->model->string(s->model->values[step.region->values + value].name);
  out->tensor = {nullptr, static_cast<int32_t>(t.dtype), t.rank, t.dims, t.strides};
  int64_t bytes = dtype_size(t.dtype);
  for (int d = 0; d < t.rank; ++d) bytes *= t.strides[d] == 0 && t.dims[d] > 1 ? 1 : t.dims[d];
  out->bytes = static_cast<uint64_t>(buffer.kind == Buffer::Kind::constant ? buffer.size - place.offset : bytes);
  for (int i = 0; i < step.copy_count; ++i) out->copied |= step.copies[i].to_at.buffer == place.buffer;
  if (!step.run) out->bytes = 0;
  return PEN_OK;
}

}  // extern "C"
