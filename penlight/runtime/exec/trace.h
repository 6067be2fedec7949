// Notes of what runs use (penlight_trace.h), a byte for each line of the tables of kernels and operators. Without PEN_TRACE nothing is
// noted and nothing of this is compiled.
#pragma once
#include "penlight/runtime/base/promise.h"
#include "penlight/runtime/exec/kernel.h"
#include "penlight/runtime/include/penlight_trace.h"

struct pen_trace : pen::Handle<pen::HandleKind::trace> {
  uint8_t* kernels;    // one per line of kKernels
  uint8_t* operators;  // one per line of kOperators; null until a module writes into it
  bool interpret;
};

namespace pen {

#if defined(PEN_TRACE)
static PEN_INLINE void trace_kernel(pen_trace* trace, const KernelEntry* entry) {
  if (trace && entry) trace->kernels[entry - kKernels] = 1;
}
static PEN_INLINE bool trace_interprets(const pen_trace* trace) { return trace && trace->interpret; }
#else
static PEN_INLINE void trace_kernel(pen_trace*, const KernelEntry*) {}
static PEN_INLINE bool trace_interprets(const pen_trace*) { return false; }
#endif

}  // namespace pen
