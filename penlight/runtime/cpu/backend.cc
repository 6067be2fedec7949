// The CPU as a device: schedules of operators (Bind), and plans that run cut into tasks over the threads of a pool.
#include "penlight/runtime/cpu/copy.h"
#include "penlight/runtime/cpu/special.h"
#include "penlight/runtime/exec/backend.h"
#include "penlight/runtime/exec/bind.h"
#include "penlight/runtime/exec/guard.h"
#include "penlight/runtime/exec/run.h"

namespace pen {

constexpr int64_t kMaxTasks = int64_t{1} << 30;
constexpr int kMaxActivationArgs = 4;
// A pixel pitch that is a multiple of this many bytes puts neighbouring rows into the same cache sets: measured as a
// 2-3x slowdown of convolutions. One more cache line spreads them.
constexpr int64_t kPitchCliff = 2048;
constexpr int64_t kPitchPad = 64;

Isa Bind::isa() const { return state->isa; }
int Bind::threads() const { return state->workers; }
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
  if (kCountsTables && size > kMaxParams) state->plan->other_bytes += size;
  const bool over = kCountsTables && state->memory_limit && state->plan->other_bytes > state->memory_limit;
  state->step->params = over ? nullptr : state->plan->pool.take(size);
  if (state->step->params) return state->step->params;
  // Rules fill params right away: when out of memory, a block that is thrown away with the failed plan.
  state->starved = true;
  return size <= kMaxParams ? state->spare : nullptr;
}

bool Bind::may_take(int64_t bytes) {
  const uint64_t held = state->plan->other_bytes, all = held + static_cast<uint64_t>(bytes);
  if (!kCountsTables || !state->memory_limit || all <= state->memory_limit) return true;
  state->plan->other_bytes = all;  // for the error
  state->starved = true;
  return false;
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

namespace {

int64_t pitch(const Tensor& t) {
  int64_t size = dtype_size(t.dtype), bytes = t.dims[1] * size;
  bool one_pixel = true;
  for (int d = 2; d < t.rank; ++d) one_pixel &= t.dims[d] <= 1;
  return !one_pixel && bytes > 0 && bytes % kPitchCliff == 0 ? t.dims[1] + kPitchPad / size : t.dims[1];
}

Status bind(Given::State& s) {
  Bind b;
  b.state = &s;
  PEN_TRY(bind_function(s.entry->rules)(b));
  Step& step = *s.step;
  bool works = false;
  for (int64_t count : step.tasks) {
    if (count < 0 || count > kMaxTasks) return s.fail("", "at most 2^30 pieces of work", "more");
    works |= count != 0;
  }
  step.run = works ? run_function(*s.entry, s.isa) : nullptr;
  return works && !step.run ? s.fail("", "a kernel for this CPU", "none") : PEN_OK;
}

Status bind_copy(Given::State& s, Copy* c) {
  char key[16];
  set_text(key, sizeof key, "copy.b%d", static_cast<int>(8 * dtype_size(c->to.dtype)));
  const KernelEntry* found = find_kernel(key);
  if (!found)
    return report(s.error, {PEN_ERROR_KERNEL, "", s.entry->key, "", "a kernel that lays an input as this operator needs it", key, "",
                            "Use a library built with it: penlight build --model FILE"});
  CopyPlan* plan = s.plan->pool.take_array<CopyPlan>(1);
  if (!plan) return s.out_of_memory();
  plan_copy(c->from, c->to, plan);
  trace_kernel(s.trace, found);
  c->run = run_function(*found, s.isa);
  c->params = plan;
  c->tasks = plan->tasks;
  return PEN_OK;
}

constexpr int64_t kAskedNumbers = 1 << 16;
constexpr int64_t kHugePage = 2 << 20;

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
  Caller caller;
};

void run_job(void* context, int64_t begin, int64_t end, int worker) {
  const Job& job = *static_cast<const Job*>(context);
  job.run({job.in, job.out, job.params, job.scratch + worker * job.scratch_stride, job.shared, begin, end, job.phase, job.fault, job.counts,
           job.random, job.caller.on(worker)});
}

struct Repeated {
  Runner* runner;
  const Job* job;
  int64_t count;
};

void run_repeated(void* context, int64_t begin, int64_t end, int worker) {
  const Repeated& all = *static_cast<const Repeated*>(context);
  if (PEN_UNLIKELY(__atomic_load_n(&all.job->fault->set, __ATOMIC_RELAXED))) return;
  if (kAsks && worker == 0) is_cancelled(all.runner);  // the caller's own thread
  if (kAsks && PEN_UNLIKELY(__atomic_load_n(&all.runner->cancelled, __ATOMIC_RELAXED))) return;
  const int64_t phase = begin / all.count;
  Job job = *all.job;
  job.phase = static_cast<int>(phase);
  run_job(&job, begin - phase * all.count, end - phase * all.count, worker);
}

void repeat(Runner* r, void* job, const Step& step) {
  Repeated all = {r, static_cast<const Job*>(job), step.tasks[0]};
  pool_repeat(r->pool, static_cast<int32_t>(step.tasks[0]), step.phases, run_repeated, &all);
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
    return report(r->error, PEN_ERROR_MEMORY, "arena", "memory", got);
  }
  if (huge) madvise(p, static_cast<size_t>(huge), platform::kAdviceHugePages);
  r->arena = static_cast<char*>(p);
  r->arena_size = need;
  return PEN_OK;
}

// What the elements of a step that loops take (KernelEntry::loops), each at every place that it is broadcast to: as the VM counts it where
// it computes the same without a plan (vm/rows.cc).
Status spend_loops(Runner* r, const Model& model, const Step& step) {
  const Tensor& t = step.in[step.entry->loops - 1];
  const int64_t numbers = t.numel(), repeats = numbers ? step.out[0].numel() / numbers : 0;
  int64_t index[kMaxRank] = {}, at = 0;
  for (int64_t i = 0; i < numbers; ++i) {
    const double degree = t.dtype == DType::f64 ? reinterpret_cast<const double*>(t.data)[at]
                                                : static_cast<double>(reinterpret_cast<const float*>(t.data)[at]);
    int64_t steps;
    if (mul_overflows(special::steps_of(degree), repeats, &steps)) steps = INT64_MAX;
    if (!take_steps(r->meter, steps)) return report_over_steps(r, step.entry->key, model.string(model.nodes[step.node].source));
    if (i % kAskedNumbers == 0 && is_cancelled(r)) return report_cancelled(r);
    for (int d = t.rank - 1; d >= 0; --d) {
      at += t.strides[d];
      if (++index[d] < t.dims[d]) break;
      at -= index[d] * t.strides[d];
      index[d] = 0;
    }
  }
  return PEN_OK;
}

Status run_step(Runner* r, const Model& model, const Plan& plan, Step* step) {
  for (int i = 0; i < step->copy_count; ++i) {
    Copy& c = step->copies[i];
    Job job = {c.run, &c.from, &c.to, c.params, nullptr, 0, nullptr, 0, &r->fault, nullptr, &r->random, Caller{r, 0}};
    if (!run_tasks(r, c.tasks, run_job, &job)) return report_cancelled(r);
  }
  if (!step->run) return PEN_OK;
  if (kAsks && r->meter && step->entry->loops) PEN_TRY(spend_loops(r, model, *step));
  auto memory = [&](const Place& at) { return at.buffer < 0 ? nullptr : r->arena + plan.buffers[at.buffer].offset; };
  Job job = {step->run, step->in,     step->out,  step->params, memory(step->scratch_at), step->scratch_stride, memory(step->shared), 0,
             &r->fault, step->counts, &r->random, Caller{r, 0}};
  for (; job.phase < 3 && PEN_LIKELY(!r->fault.set); ++job.phase) {
    if (!step->tasks[job.phase]) continue;
    if (kHasState && step->writes_state && (job.phase == 2 || !step->tasks[job.phase + 1])) r->wrote_state = true;
    if (kHasSteps && step->repeat) {
      step->repeat(r, &job, *step);
      if (kAsks && r->cancelled) return report_cancelled(r);
    } else if (!run_tasks(r, step->tasks[job.phase], run_job, &job)) {
      return report_cancelled(r);
    }
  }
  if (PEN_LIKELY(!r->fault.set)) return PEN_OK;
  return report_fault(r, model, *step);
}

void move_operands(const Plan& plan, const Turns& turns, int64_t by) {
  for (int32_t i = 0; i < turns.moves; ++i) {
    const Plan::Move& m = plan.moves[turns.first_move + i];
    m.tensor->data += by * m.bytes;
  }
}

Status prepare(Runner* r, Plan* plan) {
  PEN_TRY(grow_arena(r, plan->arena_bytes));
  if (plan->resolved_arena != r->arena) plan_resolve(plan, r->arena);
  return PEN_OK;
}

Status run(Runner* r, const Model& model, Plan* plan, const Tensor* registers) {
  for (int32_t i = 0; i < plan->patches.count; ++i) {
    const Plan::Patch& p = plan->patches[i];
    p.tensor->data = registers[p.index].data + p.offset;
  }
  Status status = PEN_OK;
  Guard guard = {&model, plan, r->arena, r->arena_size, r->threads, r->guard_weights};
  int64_t turn = 0;
  const Turns* turns = plan->turns.data;
  for (int32_t i = 0, left = plan->turns.count; i < plan->step_count && status == PEN_OK; ++i) {
    Step* step = &plan->steps[i];
    guard_step(guard, *step);
    const int64_t start = PEN_LIKELY(!r->profiling) ? 0 : now_ns();
    status = run_step(r, model, *plan, step);
    if (PEN_UNLIKELY(r->profiling)) step->nanoseconds += static_cast<uint64_t>(now_ns() - start), step->calls += turn == 0;
    if (!kHasTurns || left == 0 || i + 1 != turns->end || status != PEN_OK) continue;
    move_operands(*plan, *turns, 1);
    if (++turn < turns->count) {
      i = turns->begin - 1;
      continue;
    }
    move_operands(*plan, *turns++, -turn);
    turn = 0, --left;
  }
  if (kHasTurns && turn) move_operands(*plan, *turns, -turn);  // a run that failed
  guard_end(guard);
  return status;
}

}  // namespace

bool Bind::repeat_tasks(int64_t count, int64_t phases) {
  if (!kHasSteps || count > kMaxTasks || phases > kMaxTasks || count * phases > kMaxTasks) return false;
  tasks(count);
  state->step->phases = static_cast<int32_t>(phases);
  state->step->repeat = repeat;
  return true;
}

const Backend kCpu = {"cpu", nullptr, nullptr, nullptr, nullptr, bind, bind_copy, pitch, prepare, run, nullptr, nullptr, nullptr, nullptr};

}  // namespace pen
