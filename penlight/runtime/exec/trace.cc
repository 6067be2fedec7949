#include "penlight/runtime/exec/trace.h"

#if defined(PEN_TRACE)

using namespace pen;

extern "C" {

pen_trace* pen_trace_create(void) {
  pen_trace* trace = static_cast<pen_trace*>(calloc(1, sizeof(pen_trace)));
  if (trace) trace->kernels = static_cast<uint8_t*>(calloc(static_cast<size_t>(kKernelCount) + 1, 1));
  if (trace) handle_begin(trace);
  if (trace && trace->kernels) return trace;
  free(trace);
  return nullptr;
}
void pen_trace_destroy(pen_trace* trace) {
  if (!trace) return;
  handle_end(trace);
  free(trace->kernels);
  free(trace->operators);
  free(trace);
}
void pen_trace_interpret(pen_trace* trace, int32_t on) {
  alive(trace);
  if (trace) trace->interpret = on != 0;
}
int32_t pen_trace_used_kernel(const pen_trace* trace, int32_t index) {
  alive(trace);
  return trace && index >= 0 && index < kKernelCount ? trace->kernels[index] : 0;
}

}  // extern "C"
#endif
