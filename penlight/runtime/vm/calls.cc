#include "penlight/runtime/vm/calls.h"

#include "penlight/runtime/vm/machine.h"

namespace pen {

void Calls::run(const char* name, Value* args, int count, Value* results) {
  if (status != PEN_OK) return;
  const OpEntry* op = find_operator(name);
  if (!op) {
    status = report(&call_.machine->error, {PEN_ERROR_KERNEL, "", call_.op->name, "", "an operator that this library has", name});
    return;
  }
  status = call_operator(call_.machine, *op, args, count, results);
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
