// Types of TorchScript by their text ("List[Optional[Tensor]]"), as `isinstance` asks for them.
#pragma once
#include "penlight/runtime/vm/value.h"

namespace pen {

// Whether a value is of one of the types, separated by '|'. A text that is no type fits nothing. *looks: at how
// many values.
bool is_instance(const Value& value, const char* types, int64_t* looks);

}  // namespace pen
