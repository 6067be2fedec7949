// Running plans, on any device. Sessions and the VM both use it.
#pragma once
#include "penlight/runtime/exec/plan.h"
#include "penlight/runtime/exec/pool.h"
#include "penlight/runtime/exec/trace.h"

namespace pen {

// What a run of code has taken and may take (max_steps): instructions, and elements. 0: any number.
struct Meter {
  int64_t steps, most;
};

struct Runner {
  const Backend* backend;
  void* device;  // what the backend opened; null for the CPU
  ThreadPool* pool;
  int threads;
  char* arena;  // memory of the plans' buffers; grows
  int64_t arena_size;
  bool profiling, guard_weights;
  Fault fault;
  Random random;
  bool wrote_state;  // in place, since a session cleared it
  pen_error* error;
  pen_trace* trace;          // null: nobody asks what is used
  void* const* bound;        // of each register: the device's memory that it has in place of the host's; null: none has any
  pen_device_report report;  // of the run under way or the last one; the backend counts
  // What the caller's options say (penlight.h), when it was last asked, and whether it said yes.
  int32_t (*interrupted)(void* context);
  void* interrupt_context;
  int64_t asked;
  int32_t cancelled;
  Meter* meter;  // of the code that the plan is a part of; null: nobody counts
};

// Threads (0: one per core), and the device: `which` of the backend's. After an error it may be destroyed all the same.
Status runner_create(Runner* r, const Backend* backend, const char* which, bool f16, int threads, pen_error* error);
void runner_destroy(Runner* r);
// Memory for this plan, and its operands pointing into it.
Status runner_prepare(Runner* r, Plan* plan);
// Before: the plan's outputs have memory in `registers`. After: the sizes that the data decided are in plan->outputs[].count.
Status run_plan(Runner* r, const Model& model, Plan* plan, const Tensor* registers);
// Tasks on the runner's threads, as pool_run has it; between them the caller is asked whether to go on. False: it said no, and what had not
// begun was left out.
bool run_asking(Runner* r, int64_t count, TaskFn run, void* context);
static PEN_INLINE bool run_tasks(Runner* r, int64_t count, TaskFn run, void* context) {
  if (kAsks && r->interrupted) return run_asking(r, count, run, context);
  pool_run(r->pool, count, run, context);
  return true;
}
// Asks, where that is some milliseconds ago. True: the run is to end.
bool is_cancelled(Runner* r);
Status report_cancelled(Runner* r);
// Counts steps. False: over the meter's limit.
bool take_steps(Meter* meter, int64_t steps);
Status report_over_steps(Runner* r, const char* op, const char* source);
// What the data of a run showed to be wrong, in r->fault: reported, and forgotten.
Status report_fault(Runner* r, const Model& model, const Step& step);
// The size of dim 0 that the run found out, where the plan had only a bound.
int64_t counted_rows(const Plan::Output& out);
// The instruction set asked for; by default what PENLIGHT_ISA names, or the best that this CPU has. All that runs kernels begins with this:
// an error too where PENLIGHT_PROCESSOR has no meaning.
Status choose_isa(const char* wanted, Isa* isa, pen_error* error);

}  // namespace pen
