// What the VM needs of sessions: to run a planned method with the threads and the memory of its module; and what buffers do.
#pragma once
#include "penlight/runtime/exec/run.h"

namespace pen {

// Like pen_session_create; with the caller's runner, if `shared` is not null, which must outlive the session.
Status session_create(const Model* model, const char* method, const pen_session_options* options, Runner* shared, pen_session** session,
                      pen_error* error);

// An input's register, or an output's, and where memory of the device for it is written down.
Tensor* session_input(pen_session* session, uint32_t index, void*** bound);
Tensor* session_output(pen_session* session, int32_t index, void*** bound);
#if defined(PEN_PROMISES)
const Handle<HandleKind::session>* session_handle(const pen_session* s);
#else
static PEN_INLINE const void* session_handle(const pen_session* s) { return s; }
#endif
const Runner& session_runner(const pen_session* session);
bool session_is_staged(const pen_session* session);
// Memory of the session's own for a register.
Status session_own_memory(pen_session* session, uint32_t index, int64_t bytes, char** data);
// What the stages that are planned go through: elements that their steps read, weights left out, and write.
int64_t session_elements(const pen_session* session);
// Called before a stage runs.
void session_set_fetch(pen_session* session, Status (*fetch)(pen_session* session, const Runner& runner, const Plan& plan));
pen_error* session_error(pen_session* session);

// What a session keeps from run to run (state.cc). Of a state, its record and its register; null past the last.
const format::State* session_state(const pen_session* session, uint32_t index, Tensor** tensor);
const Model& session_model(const pen_session* session);
void session_mend(pen_session* session);  // its states are whole again
// Memory for them, and in it what the file says. `first`: the register of the first one.
Status states_create(pen_session* session, uint32_t first, uint64_t limit, pen_error* error);

}  // namespace pen
