// What the parts of the loader share: errors, the budget of one verification, and checks of ranges.
#pragma once
#include "penlight/runtime/file/model.h"

namespace pen {

constexpr uint32_t kNewestVersion = kHasState ? format::kVersion : format::kVersionWithState - 1;  // that this library reads

struct Verifier {
  Model* m;
  const char* name;
  pen_error* error;
  pen_needs* needs;
  // Tables may share storage (two nodes one list of inputs), so a small file can describe a huge model. These bound
  // the time that verifying takes, and the memory that a plan takes later.
  int64_t steps_left = format::kMaxVerifySteps, links_left = format::kMaxLinks;

  Status fail(const char* where, const char* expected, const char* got_format, ...) __attribute__((format(printf, 4, 5)));
  Status out_of_memory();
  void lacks(const char* key);  // notes what this library does not have
  Status spend(uint64_t steps);
  Status link(uint64_t count);
  Status check_string(uint32_t s, const char* where, bool optional = false);
  Status check_span(uint32_t start, uint64_t count, uint32_t total, const char* where);
  // A list in INDX of numbers below a limit.
  Status check_indices(uint32_t start, uint32_t count, uint32_t below, const char* where);
};

// VM code, its constants and bundled inputs (load_script.cc). Methods have been checked before.
Status check_script(Verifier* v);
// What methods keep from run to run (states.cc). Rows of STAT, before methods are checked: each finds its own.
Status check_states(Verifier* v);
// A state of a method whose code was checked, and what register `result` of it holds.
Status check_state(Verifier* v, const format::State& state, uint8_t dtype, uint8_t rank);
// Fills Model::halves (halves.cc). Constants have been checked before.
Status expand_halves(Verifier* v);

}  // namespace pen
