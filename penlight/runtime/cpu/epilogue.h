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
static PEN_INLINE Status bind_activation(Bind& b, Activation* a, const char* name_attribute = "act",
                                         const char* args_attribute = "act_args") {
  const char* name = b.text(name_attribute);
  FloatList args = b.floats(args_attribute);
  if (args.count > kMaxActArgs) return b.fail(-1, "at most 4 activation arguments", "%d", args.count);
  for (int i = 0; i < args.count; ++i) a->args[i] = args[i];
  if (name[0] == 0) return PEN_OK;
  if (strcmp(name, "relu") == 0) {
    a->clamped = true;
    a->lo = 0;
    a->hi = __builtin_inff();
    return PEN_OK;
  }
  if (strcmp(name, "clamp") == 0) {
    if (args.count != 2) return b.fail(-1, "two arguments (lo, hi) for the activation clamp", "%d", args.count);
    a->clamped = true;
    a->lo = static_cast<float>(args[0]);
    a->hi = static_cast<float>(args[1]);
    return PEN_OK;
  }
  a->row = b.row_function(name);
  if (a->row == nullptr) return b.fail(-1, "an elementwise operator of this library as activation", "\"%s\"", name);
  return PEN_OK;
}

static PEN_INLINE void apply_row(const Activation& a, float* row, int64_t n) {
  const void* in[1] = {row};
  const int64_t steps[1] = {1};
  a.row(row, in, steps, n, a.args);
}

}  // namespace pen
