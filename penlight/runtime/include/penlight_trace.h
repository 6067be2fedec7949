/* What runs really used of the library: which kernels and which operators of the VM. For `penlight trace`, which chooses by it what a
 * small library holds. Only a library built with PEN_TRACE has these functions, and no shared one exports them: the Python extension
 * links the static one.
 *
 *   pen_trace* trace = pen_trace_create();
 *   pen_session_set_trace(session, trace);
 *   … runs …
 *   for (int i = 0; i < pen_kernel_count(); ++i) if (pen_trace_used_kernel(trace, i)) puts(pen_kernel_key(i)); */
#ifndef PENLIGHT_TRACE_H_
#define PENLIGHT_TRACE_H_

#include "penlight.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pen_trace pen_trace;
/* NULL: no memory. All functions take NULL: nothing is noted, or known. Promise (see penlight.h): [a trace is alive, and outlives the
 * sessions, modules and operators that write into it]; one of them runs at a time. */
pen_trace* pen_trace_create(void);
void pen_trace_destroy(pen_trace* trace);
/* On: planned parts of VM code are interpreted, as where tensors do not fit their plan or memory for it lacks. */
void pen_trace_interpret(pen_trace* trace, int32_t on);
/* Before the first run: what was planned before is not seen. */
void pen_session_set_trace(pen_session* session, pen_trace* trace);
/* Whether the device of this number (pen_backend_name) computes the kernel of that (pen_kernel_key). */
int32_t pen_backend_has_kernel(int32_t backend, int32_t kernel);
pen_status pen_module_set_trace(pen_module* module, pen_trace* trace);
pen_status pen_operators_set_trace(pen_operators* operators, pen_trace* trace);
/* 1 where the kernel of pen_kernel_key(index), or the operator of pen_operator_name(index), was used; else 0. */
int32_t pen_trace_used_kernel(const pen_trace* trace, int32_t index);
int32_t pen_trace_used_operator(const pen_trace* trace, int32_t index);

/* The file as it was opened, whatever has become of its path since: mapped, or in the model's or the caller's memory. Promise: it is not
 * read after pen_model_close. NULL where there is no model; `size` may be NULL. */
const void* pen_model_image(const pen_model* model, size_t* size);
/* For arrays that lend a result's memory: a tensor of their own there, which keeps it whatever code makes of the other one (set_, resize_,
 * an out= of another shape). NULL: no tensor, or no memory. */
pen_value* pen_value_share(const pen_value* tensor);

#ifdef __cplusplus
}
#endif
#endif /* PENLIGHT_TRACE_H_ */
