// Names of the attributes of a class of objects, or of the fields of a named tuple. They live as long as the model.
#pragma once
#include "penlight/runtime/base/platform.h"

namespace pen {

struct ClassInfo {
  const char* name;  // "__torch__.M"
  const char* const* fields;
  int32_t field_count;
};

}  // namespace pen
