// A runner: threads and memory that plans run with, on a device (exec/backend.h).
#include "penlight/runtime/exec/run.h"

#include "penlight/runtime/exec/backend.h"
#include "penlight/runtime/exec/bind.h"
#include "penlight/runtime/exec/processor.h"

namespace pen {
namespace {

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

}  // namespace

Status Bind::go_on() const {
  if (!is_cancelled(state->runner)) return PEN_OK;
  state->runner->cancelled = 0;
  return report(state->error, {PEN_ERROR_CANCELLED, "the run was cancelled"});
}

Status report_fault(Runner* r, const Model& model, const Step& step) {
  const format::Node& node = model.nodes[step.node];
  char expected[96], got[64];
  set_text(expected, sizeof expected, "indices from %lld to %lld", static_cast<long long>(r->fault.low),
           static_cast<long long>(r->fault.high - 1));
  set_text(got, sizeof got, "%lld", static_cast<long long>(r->fault.got));
  if (r->fault.expected) {
    set_text(expected, sizeof expected, "%s", r->fault.expected);
    set_text(got, sizeof got, "%s%lld", r->fault.found, static_cast<long long>(r->fault.got));
  }
  char tensor[128];
  tensor[0] = 0;
  uint32_t value = r->fault.input >= 0 && static_cast<uint32_t>(r->fault.input) < node.input_count
                       ? model.indices[node.inputs + static_cast<uint32_t>(r->fault.input)]
                       : format::kNone;
  if (value != format::kNone) {
    Text parameter = tensor_parameter(step.entry->schema, r->fault.input);
    set_text(tensor, sizeof tensor, "%.*s (%s)", parameter.length, parameter.start,
             model.string(model.values[step.region->values + value].name));
  }
  r->fault.set = 0;
  return report(r->error, {PEN_ERROR_DATA, "", step.entry->key, tensor, expected, got, model.string(node.source)});
}

constexpr int64_t kAskEvery = 5000000;  // 5 ms: nobody notices, and nothing is slower for it

bool is_cancelled(Runner* r) {
  if (!kAsks || !r->interrupted) return false;
  const int64_t now = now_ns();
  if (now - r->asked < kAskEvery) return false;
  r->asked = now;
  if (r->interrupted(r->interrupt_context)) __atomic_store_n(&r->cancelled, 1, __ATOMIC_RELAXED);
  return r->cancelled;
}
bool is_to_end(Runner* runner, int worker) {
  return worker == 0 ? is_cancelled(runner) : kAsks && __atomic_load_n(&runner->cancelled, __ATOMIC_RELAXED);
}
Status report_cancelled(Runner* r) {
  r->cancelled = 0;
  r->fault.set = 0;  // by a task that was over
  return report(r->error, {PEN_ERROR_CANCELLED, "the run was cancelled"});
}

bool take_steps(Meter* meter, int64_t steps) {
  if (add_overflows(meter->steps, steps, &meter->steps)) meter->steps = INT64_MAX;
  return !meter->most || meter->steps <= meter->most;
}
Status report_over_steps(Runner* r, const char* op, const char* source) {
  char expected[64];
  set_text(expected, sizeof expected, "at most %lld steps (max_steps)", static_cast<long long>(r->meter->most));
  return report(r->error, {PEN_ERROR_LIMIT, "", op, "", expected, "more: an endless loop, or tensors of too many elements?", source});
}

namespace {

struct Asked {
  Runner* runner;
  TaskFn run;
  void* context;
};
// One thread alone is given all tasks at once: it does a few, then twice as many at a time, until they take as long as the time between two
// questions. (There are 256 of them at most where a step is long: a few are little of it. Where one may be much, the kernel has Patience.)
constexpr int64_t kMany = 64;
void run_asked(void* context, int64_t begin, int64_t end, int worker) {
  const Asked& a = *static_cast<const Asked*>(context);
  for (int64_t piece = end - begin < kMany ? 4 : 1; begin < end && !__atomic_load_n(&a.runner->cancelled, __ATOMIC_RELAXED);) {
    int64_t until = end - begin > piece ? begin + piece : end;
    a.run(a.context, begin, until, worker);
    begin = until;
    if (worker != 0) continue;  // the caller's own thread is 0
    const int64_t before = a.runner->asked;
    is_cancelled(a.runner);
    piece = a.runner->asked == before ? 2 * piece : 1;
  }
}

}  // namespace

bool run_asking(Runner* r, int64_t count, TaskFn run, void* context) {
  Asked asked = {r, run, context};
  // A caller that leaves the work to others, being slow, asks while it waits for them.
  pool_while_waiting(r->pool, [](void* work) { is_cancelled(static_cast<Asked*>(work)->runner); });
  pool_run(r->pool, count, run_asked, &asked);
  pool_while_waiting(r->pool, nullptr);
  return !r->cancelled;
}

Status runner_create(Runner* r, const Backend* backend, const char* which, bool f16, int threads, pen_error* error) {
  r->backend = backend;
  r->error = error;
  r->pool = pool_create(threads ? threads : core_count());
  if (!r->pool) return report(error, PEN_ERROR_MEMORY, "", "memory for threads");
  r->threads = pool_threads(r->pool);
  const char* guard = PEN_ASAN ? getenv("PENLIGHT_GUARD") : nullptr;
  r->guard_weights = guard && strcmp(guard, "weights") == 0;
  return !kOneDevice && backend->open ? backend->open(which, f16, &r->device, error) : PEN_OK;
}
void runner_destroy(Runner* r) {
  if (!kOneDevice && r->device) r->backend->close(r->device);
  pool_destroy(r->pool);
  free(r->arena);
}
Status runner_prepare(Runner* r, Plan* plan) { return r->backend->prepare(r, plan); }
Status run_plan(Runner* r, const Model& model, Plan* plan, const Tensor* registers) {
  Status status = r->backend->run(r, model, plan, registers);
  ++r->random.run;  // the next stage, or the next run, draws other numbers
  return status;
}

int64_t counted_rows(const Plan::Output& out) {
  int64_t count = *out.count, most = out.tensor.dims[0];
  return count < 0 ? 0 : count > most ? most : count;
}

Status choose_isa(const char* wanted, Isa* isa, pen_error* error) {
  PEN_TRY(check_processor(error));
  if (!wanted || !wanted[0]) wanted = getenv("PENLIGHT_ISA");
  const bool best = !wanted || !wanted[0];
  char list[128];  // filled by the loop: there is one at least, base
  list[0] = 0;
  Isa all[kIsaCount];
  int n = available_isas(all);
  size_t used = 0;
  for (int i = 0; i < n; ++i) {
    *isa = all[i];
    if (best || strcmp(wanted, isa_name(all[i])) == 0) return PEN_OK;
    used += static_cast<size_t>(snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "one of ", isa_name(all[i])));
  }
  return report(error, PEN_ERROR_ARGUMENT, "instruction set (PENLIGHT_ISA)", list, wanted);
}

}  // namespace pen
