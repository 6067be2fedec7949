// The inside of Given (Shapes, Bind) while a plan is built: the node being bound, and everything known so far.
#pragma once
#include "penlight/runtime/exec/plan.h"

namespace pen {

struct BoundAttr {
  const char* name;
  format::AttrKind kind;
  const int64_t* ints;
  const double* floats;
  const char* text;
  int count;
};

// Whether tables that kernels need (of an FFT) count as memory. A library for models of f32 alone is smaller without.
#if defined(PEN_FLOATS_ONLY)
constexpr bool kCountsTables = false;
#else
constexpr bool kCountsTables = true;
#endif

// `at`: the node that asks for so much; null: the whole plan does.
Status report_over_limit(pen_error* error, uint64_t memory_limit, int64_t bytes, const Given::State* at);

struct Given::State {
  const Model* model;
  const format::Method* method;
  const format::Region* region;
  uint32_t region_index;  // instruction that runs it
  const format::Node* node;
  const KernelEntry* entry;
  const Tensor* registers;  // of the method: inputs, and results of earlier stages
  uint16_t* used;           // see evaluate_dim
  const Backend* backend;
  Runner* runner;
  Isa isa;
  int workers;
  uint64_t memory_limit;
  Plan* plan;
  Pool scrap;                   // for what only this node's rule needs
  ValueState* values;           // of the region
  const ValueState* earlier;    // the same after the first pass, for placed values; null in the first pass
  const uint32_t* last_reader;  // of each value: the last node that reads it, counted from 1; where steps take turns, else null
  int32_t step_index;
  Step* step;
  BoundAttr* attrs;
  int attr_count;
  int inferred;  // how many outputs the shape rule has given
  List<Copy> copies;
  struct Reuse {
    int32_t step, out, in;
    bool alone;
  };
  List<Reuse>* reuses;
  struct Placement {
    uint32_t region;
    int32_t value, target;
    int64_t offset;
  };
  List<Placement>* placements;
  pen_error* error;
  pen_trace* trace;
  void* spare;   // kMaxParams bytes, see params_bytes
  bool starved;  // the rule was given no memory for its params

  uint32_t input_value(int i) const { return model->indices[node->inputs + static_cast<uint32_t>(i)]; }
  uint32_t output_value(int i) const { return model->indices[node->outputs + static_cast<uint32_t>(i)]; }
  const char* value_name(uint32_t v) const { return model->string(model->values[region->values + v].name); }
  Status out_of_memory() { return report(error, {PEN_ERROR_MEMORY, "", entry ? entry->key : "", "", "memory for the plan"}); }
  Status fail(const char* tensor, const char* expected, const char* got);

  Status over_limit(int64_t bytes);
  // A new arena buffer that is in use from this step on.
  Status new_buffer(int64_t bytes, int32_t* index);
  void touch(int32_t buffer);
  Status fresh(int index, const char* layout, int64_t packed_bytes);
  Status placed_buffer(uint32_t target, Place* at);
};

Status evaluate_attrs(Given::State& s);
// Calls the shape rule of a node: its outputs have dtype and dims afterwards.
Status infer_shapes(Given::State& s);
// Binds one node: evaluates its attributes, checks dtypes, calls its rules and completes the step.
Status bind_node(Given::State& s);

}  // namespace pen
