#include "penlight/runtime/cpu/epilogue.h"

namespace pen {

Status bind_activation(Bind& b, Activation* a, const char* name_attribute, const char* args_attribute) {
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

}  // namespace pen
