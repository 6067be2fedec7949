// Verifies what methods keep from run to run: section STAT. What depends on code, load.cc asks for when it has checked that; the
// sizes of what code computes are known at bind, which compares them (exec/plan.cc).
#include "penlight/runtime/file/verify.h"

namespace pen {

Status check_states(Verifier* v) {
  Model* m = v->m;
  if (m->states.count && v->needs->version < format::kVersionWithState)
    return v->fail("STAT", "a format version that has states", "%u", v->needs->version);
  uint32_t last = 0;
  for (uint32_t i = 0; i < m->states.count; ++i) {
    const format::State& s = m->states[i];
    if (s.method < last || s.method >= m->methods.count)
      return v->fail("STAT", "methods that exist, in their order", "%u of %u after %u", s.method, m->methods.count, last);
    last = s.method;
    PEN_TRY(v->check_string(s.name, "STAT"));
    const char* called = m->string(s.name);
    if (s.constant >= m->constants.count) return v->fail(called, "a constant that exists", "%u of %u", s.constant, m->constants.count);
    const char* layout = m->string(m->constants[s.constant].layout);
    if (strcmp(layout, "plain") != 0) return v->fail(called, "a state that starts from a plain constant", "%s", layout);
    MethodCode& code = m->method_code[s.method];
    if (!code.state_count++) code.states = i;
  }
  return PEN_OK;
}

Status check_state(Verifier* v, const format::State& s, uint8_t dtype, uint8_t rank) {
  const format::Constant& c = v->m->constants[s.constant];
  if (c.dtype == dtype && c.rank == rank) return PEN_OK;
  return v->fail(v->m->string(s.name), "a next value of the dtype and rank that it starts with", "dtype %u of rank %u", dtype, rank);
}

}  // namespace pen
