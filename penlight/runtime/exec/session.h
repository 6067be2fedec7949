// What the VM needs of sessions: to run a planned method with the threads and the memory of its module.
#pragma once
#include "penlight/runtime/exec/run.h"

namespace pen {

// Like pen_session_create; with the caller's runner, if `shared` is not null, which must outlive the session.
Status session_create(const Model& model, const char* method, const pen_session_options* options, Runner* shared, pen_session** session,
                      pen_error* error);

}  // namespace pen
