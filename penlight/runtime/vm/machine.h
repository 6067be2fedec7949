// The machine that runs VM code: one module's state, its threads and memory, and the plans of the kernels that its operators
// called. One caller at a time.
#pragma once
#include "penlight/runtime/exec/run.h"
#include "penlight/runtime/vm/op.h"

namespace pen {

struct GraphCode;

// A constant in the layout that its kernel reads, kept between calls (packing.h). It holds references to the constant's storage and
// quantizer, so that no other one can take their addresses.
struct PackedWeight {
  Storage* storage;
  Quantizer* quantizer;  // null: not quantized
  Tensor weight;         // data: where in the storage
  const char* layout;
  int64_t groups;
  TensorObject* packed;
};

// A call whose result has memory but no numbers yet, and what they become (images.h).
constexpr int kMostWaitingArgs = 16;
struct Waiting {
  const OpEntry* op;  // null: nothing waits
  const char* source;
  Value args[kMostWaitingArgs];
  int count;
  Value made;      // an image of f32
  Value residual;  // an image of the same size that is added to it; None: none is
  char act[32];    // an elementwise function of what that gives; "": none
  double act_args[3];
};

struct Machine {
  const Model* model;  // null: single operators only (pen_operator_run)
  Isa isa;
  Runner runner;
  Account* account;       // of the values that it makes
  uint64_t memory_limit;  // bytes of values, and of arena and scratch; 0: no limit
  Meter meter;            // instructions of one run, and elements that operators go through (of text: 16 bytes)
  bool running;
  const char* source;  // the line that the instruction at hand came from, or ""
  pen_error error;
  // plans of graphs, by hash
  GraphCode** plans;
  int plan_count, plan_capacity;
  uint64_t clock;
  List<PackedWeight> packed;
  Waiting waiting;
};

bool machine_create(Machine* m, const Model* model, Isa isa, int threads, uint64_t memory_limit, int32_t (*interrupted)(void* context),
                    void* interrupt_context);
void machine_destroy(Machine* m);
void machine_forget_plans(Machine* m);    // graph.cc
void machine_forget_weights(Machine* m);  // packing.cc
#if defined(PEN_TRACE)
Status machine_set_trace(Machine* m, pen_trace* trace);
#endif
// One run at a time: an error in words where one is under way. The second is to follow the first.
Status machine_begin(Machine* m);
void machine_end(Machine* m);
// Counts steps. An error over the limit, and where the caller wants the run to end.
Status machine_spend(Machine* m, const char* op, int64_t steps);
// For messages when there is no more: "memory", or the limit that the caller set.
const char* memory_expected(const Machine& m, char (&buffer)[64]);
// Calls an operator on arguments as they come: fills in defaults, checks kinds, and writes in-place results back. `results`:
// entry.result_count Values. `nhwc`: images among them may lie so underneath (images.h).
Status call_operator(Machine* m, const OpEntry& entry, Value* args, int count, Value* results, bool nhwc = false);

}  // namespace pen
