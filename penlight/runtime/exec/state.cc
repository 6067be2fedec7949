// What a session keeps from run to run: memory for it, the file's numbers in it at first and after a reset, and callers' looks at it. How
// runs change it: exec/plan.cc (in place, where that can be) and exec/session.cc.
#include "penlight/runtime/exec/session.h"

using namespace pen;

namespace pen {

Status states_create(pen_session* s, uint32_t first, uint64_t limit, pen_error* error) {
  const Model& model = session_model(s);
  uint64_t total = 0;
  Tensor* t;
  for (uint32_t i = 0; const format::State* state = session_state(s, i, &t); ++i) {
    const format::Constant& c = model.constants[state->constant];
    t->dtype = static_cast<DType>(c.dtype);
    t->rank = c.rank;
    for (uint32_t d = 0; d < c.rank; ++d) t->dims[d] = model.ints[c.dims + d];
    int64_t bytes;
    if (!lay_plain(t, &bytes)) return report(error, PEN_ERROR_SHAPE, model.string(state->name), "a tensor below 64 TB", "a larger one");
    total += static_cast<uint64_t>(bytes);
    if (limit && total > limit) {
      char expected[64];
      set_text(expected, sizeof expected, "at most %llu bytes (memory_limit)", static_cast<unsigned long long>(limit));
      return report(error, PEN_ERROR_MEMORY, "state", expected, "more", "Raise the limit");
    }
    if (session_own_memory(s, first + i, bytes, &t->data) != PEN_OK)
      return report(error, PEN_ERROR_MEMORY, model.string(state->name), "memory for a state", "none");
  }
  pen_session_reset(s);
  return PEN_OK;
}

}  // namespace pen

extern "C" {

void pen_session_reset(pen_session* s) {
  const Inside inside(session_handle(s));
  if (!s) return;
  const Model& model = session_model(s);
  Tensor* t;
  for (uint32_t i = 0; const format::State* state = session_state(s, i, &t); ++i) {
    const format::Constant& c = model.constants[state->constant];
    if (c.size) memcpy(t->data, model.data_of(c), c.size);
  }
  session_mend(s);
}

const char* pen_session_state(const pen_session* s, int32_t index, pen_tensor* tensor) {
  const Inside inside(session_handle(s));
  Tensor* t;
  const format::State* state = !s || !tensor || index < 0 ? nullptr : session_state(s, static_cast<uint32_t>(index), &t);
  if (!state) return nullptr;
  *tensor = {t->data, static_cast<int32_t>(t->dtype), t->rank, t->dims, t->strides};
  return session_model(s).string(state->name);
}

}  // extern "C"
