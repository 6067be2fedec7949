// In place of runtime/vm in a library for planned models only: a file with VM code is refused. Its bundled inputs, which are values of
// the VM, are not looked at. (pen_module_*, pen_value_* and pen_operators_* do not exist in such a library.)
#include "penlight/runtime/file/verify.h"

namespace pen {

Status check_script(Verifier* v) {
  if (v->m->functions.count == 0) return PEN_OK;
  v->lacks("the VM");
  return report_missing(*v->needs, v->name, v->error);
}

}  // namespace pen
