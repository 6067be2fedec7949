// What a matrix kernel does to a result before it leaves: y = act(sum + bias + residual). Bias and residual start the
// accumulators, relu and clamp happen in registers; any other activation is the row function of its elementwise
// operator, applied to rows that have just been stored and still lie in the nearest cache.
#pragma once
#include "penlight/runtime/exec/kernel.h"

namespace pen {

constexpr int kMaxActArgs = 4;

// Filled at bind, part of the kernel's params.
struct Activation {
  RowFn row;  // null: none, or clamp
  double args[kMaxActArgs];
  float lo, hi;
  bool clamped;
};

// Reads an activation's attributes, its name and its arguments.
Status bind_activation(Bind& b, Activation* a, const char* name_attribute = "act", const char* args_attribute = "act_args");

static PEN_INLINE void apply_row(const Activation& a, float* row, int64_t n) {
  const void* in[1] = {row};
  const int64_t steps[1] = {1};
  a.row(row, in, steps, n, a.args);
}

}  // namespace pen
