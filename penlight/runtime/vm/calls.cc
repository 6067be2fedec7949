#include "penlight/runtime/vm/calls.h"

#include "penlight/runtime/vm/machine.h"

namespace pen {

Value Calls::Argument::own() const {
  if (borrowed) return *value;
  switch (tag) {
    case Tag::tensor:
      return Value::share(const_cast<TensorObject*>(tensor));
    case Tag::integer:
      return Value(integer);
    case Tag::real:
      return Value(real);
    case Tag::boolean:
      return Value(integer != 0);
    default:
      return Value();
  }
}

Value Calls::first(const char* name, const Argument* args, int count) {
  Value made[8];
  run(name, args, count, made);
  return made[0];
}
void Calls::run(const char* name, const Argument* args, int count, Value* results) {
  if (status != PEN_OK) return;
  const OpEntry* op = find_operator(name);
  if (!op) {
    status = report(&call_.machine->error, {PEN_ERROR_KERNEL, "", call_.op->name, "", "an operator that this library has", name});
    return;
  }
  Value list[kMost];
  for (int i = 0; i < count; ++i) list[i] = args[i].own();
  status = call_operator(call_.machine, *op, list, count, results);
  for (int i = 0; status != PEN_OK && i < op->result_count; ++i) results[i] = Value();
}

Value Calls::ints_of(const int64_t* numbers, int count) {
  ListObject* list = list_create(count);
  Value made = Value::own(list);
  for (int i = 0; list && i < count; ++i)
    if (!list_append(list, Value(numbers[i]))) made = Value(), list = nullptr;
  if (!list && status == PEN_OK) status = call_.out_of_memory();
  return made;
}
Value Calls::tensors(const Value* items, int count) {
  ListObject* list = list_create(count);
  Value made = Value::own(list);
  for (int i = 0; list && i < count; ++i)
    if (!list_append(list, items[i])) made = Value(), list = nullptr;
  if (!list && status == PEN_OK) status = call_.out_of_memory();
  return made;
}

}  // namespace pen
