// What a pen_value is inside: a box around one Value.
#pragma once
#include "penlight/runtime/base/promise.h"
#include "penlight/runtime/include/penlight.h"
#include "penlight/runtime/vm/tensor.h"

struct pen_value : pen::Handle<pen::HandleKind::value> {
  pen::Value value;
  pen::Account* account;  // whose container it is; null: none, or no container
};

namespace pen {

// Null when out of memory.
pen_value* box(const Value& value);

}  // namespace pen
