// What the caller holds of a module's values: boxes, made by its thread and given back by any.
#include "penlight/runtime/vm/value_api.h"

namespace pen {

pen_value* box(const Value& value) {
  if (!value_unpack(value)) return nullptr;                                 // a weight of the module's state, which nothing has read so far
  pen_value* made = static_cast<pen_value*>(calloc(1, sizeof(pen_value)));  // zeroed: None
  if (!made) return nullptr;
  handle_begin(made);
  made->value = value;
  if (value.tag() >= Tag::list && value.heap()->account) account_box(made->account = value.heap()->account);
  return made;
}

}  // namespace pen

extern "C" void pen_value_release(pen_value* value) {
  if (!value) return;
  pen::handle_end(value);
  // The caller's own container may have become a module's meanwhile, and contain itself: no box of it was counted.
  pen::Account* of = nullptr;
  if (!value->account && value->value.tag() >= pen::Tag::list) of = __atomic_load_n(&value->value.heap()->account, __ATOMIC_ACQUIRE);
  if (of) pen::account_hold(of);
  value->value = pen::Value();
  if (value->account) pen::account_unbox(value->account);
  pen::account_let_go(of);
  free(value);
}
