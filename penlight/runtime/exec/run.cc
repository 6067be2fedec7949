#include "penlight/runtime/exec/run.h"

#include "penlight/runtime/exec/guard.h"

namespace pen {
namespace {

constexpr int64_t kHugePage = 2 << 20;

uint64_t now() {
  pen_timespec t = {0, 0};
  clock_gettime(platform::kMonotonic, &t);
  return static_cast<uint64_t>(t.seconds) * 1000000000u + static_cast<uint64_t>(t.nanoseconds);
}

struct Job {
  RunFn run;
  const Tensor *in, *out;
  const void* params;
  char* scratch;
  int64_t scratch_stride;
  char* shared;
  int phase;
  Fault* fault;
  int64_t* counts;
  const Random* random;
};

void run_tasks(void* context, int64_t begin, int64_t end, int worker) {
  const Job& job = *static_cast<const Job*>(context);
  job.run({job.in, job.out, job.params, job.scratch + worker * job.scratch_stride, job.shared, begin, end, job.phase, job.fault, job.counts,
           job.random});
}

// Memory for a plan's buffers. The system is asked for huge pages where it is large: the first run touches all of it, and page faults
// of 4 KB took a fifth of MobileNetV2's first run. A system without huge pages ignores that.
Status grow_arena(Runner* r, int64_t need) {
  if (need <= r->arena_size && r->arena) return PEN_OK;
  free(r->arena);
  r->arena = nullptr;
  r->arena_size = 0;
  void* p = nullptr;
  if (need < 64) need = 64;
  int64_t huge = platform::kAdviceHugePages ? need / kHugePage * kHugePage : 0;
  if (posix_memalign(&p, huge ? kHugePage : 64, static_cast<size_t>(need)) != 0) {
    char got[64];
    set_text(got, sizeof got, "no %lld bytes free", static_cast<long long>(need));
    return report(r->error, {PEN_ERROR_MEMORY, "arena", "", "", "memory", got});
  }
  if (huge) madvise(p, static_cast<size_t>(huge), platform::kAdviceHugePages);
  r->arena = static_cast<char*>(p);
  r->arena_size = need;
  return PEN_OK;
}

// What the schema calls an input: "index" of "x:T index:T* dim:i"; the last name stands for a whole list.
struct Text {
  const char* start;
  int length;
};
Text tensor_parameter(const char* schema, int input) {
  Text name = {schema, 0};
  for (const char* at = schema; *at; --input) {
    const char* end = at;
    while (*end && *end != ':') ++end;
    if (!*end || end[1] != 'T') break;
    name = {at, static_cast<int>(end - at)};
    if (input == 0) break;
    while (*end && *end != ' ') ++end;
    at = *end ? end + 1 : end;
  }
  return name;
}

Status run_step(Runner* r, const Model& model, const Plan& plan, Step* step) {
  for (int i = 0; i < step->copy_count; ++i) {
    Copy& c = step->copies[i];
    Job job = {c.run, &c.from, &c.to, c.params, nullptr, 0, nullptr, 0, &r->fault, nullptr, &r->random};
    pool_run(r->pool, c.tasks, run_tasks, &job);
  }
  if (!step->run) return PEN_OK;
  auto memory = [&](const Place& at) { return at.buffer < 0 ? nullptr : r->arena + plan.buffers[at.buffer].offset; };
  Job job = {step->run, step->in,  step->out,    step->params, memory(step->scratch_at), step->scratch_stride, memory(step->shared),
             0,         &r->fault, step->counts, &r->random};
  for (; job.phase < 3; ++job.phase)
    if (step->tasks[job.phase]) pool_run(r->pool, step->tasks[job.phase], run_tasks, &job);
  if (PEN_LIKELY(!r->fault.set)) return PEN_OK;
  const format::Node& node = model.nodes[step->node];
  char expected[96], got[64];
  set_text(expected, sizeof expected, "indices from %lld to %lld", static_cast<long long>(r->fault.low),
           static_cast<long long>(r->fault.high - 1));
  set_text(got, sizeof got, "%lld", static_cast<long long>(r->fault.got));
  if (r->fault.expected) {
    set_text(expected, sizeof expected, "%s", r->fault.expected);
    set_text(got, sizeof got, "%s%lld", r->fault.found, static_cast<long long>(r->fault.got));
  }
  char tensor[128] = "";
  uint32_t value = r->fault.input >= 0 && static_cast<uint32_t>(r->fault.input) < node.input_count
                       ? model.indices[node.inputs + static_cast<uint32_t>(r->fault.input)]
                       : format::kNone;
  if (value != format::kNone) {
    Text parameter = tensor_parameter(step->entry->schema, r->fault.input);
    set_text(tensor, sizeof tensor, "%.*s (%s)", parameter.length, parameter.start,
             model.string(model.values[step->region->values + value].name));
  }
  r->fault.set = 0;
  return report(r->error, {PEN_ERROR_DATA, "", step->entry->key, tensor, expected, got, model.string(node.source)});
}

}  // namespace

bool runner_create(Runner* r, int threads, pen_error* error) {
  r->error = error;
  r->pool = pool_create(threads ? threads : core_count());
  if (!r->pool) return false;
  r->threads = pool_threads(r->pool);
  const char* guard = PEN_ASAN ? getenv("PENLIGHT_GUARD") : nullptr;
  r->guard_weights = guard && strcmp(guard, "weights") == 0;
  return true;
}
void runner_destroy(Runner* r) {
  pool_destroy(r->pool);
  free(r->arena);
}
Status runner_prepare(Runner* r, Plan* plan) {
  PEN_TRY(grow_arena(r, plan->arena_bytes));
  if (plan->resolved_arena != r->arena) plan_resolve(plan, r->arena);
  return PEN_OK;
}

Status run_plan(Runner* r, const Model& model, Plan* plan, const Tensor* registers) {
  for (int32_t i = 0; i < plan->patches.count; ++i) {
    const Plan::Patch& p = plan->patches[i];
    p.tensor->data = registers[p.index].data + p.offset;
  }
  Status status = PEN_OK;
  Guard guard = {&model, plan, r->arena, r->arena_size, r->threads, r->guard_weights};
  for (int32_t i = 0; i < plan->step_count && status == PEN_OK; ++i) {
    Step* step = &plan->steps[i];
    guard_step(guard, *step);
    if (PEN_LIKELY(!r->profiling)) {
      status = run_step(r, model, *plan, step);
      continue;
    }
    uint64_t start = now();
    status = run_step(r, model, *plan, step);
    step->nanoseconds += now() - start;
    ++step->calls;
  }
  guard_end(guard);
  ++r->random.run;  // the next stage, or the next run, draws other numbers
  return status;
}

int64_t counted_rows(const Plan::Output& out) {
  int64_t count = *out.count, most = out.tensor.dims[0];
  return count < 0 ? 0 : count > most ? most : count;
}

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

}  // namespace pen
