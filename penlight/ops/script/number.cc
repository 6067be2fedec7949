// Operators on ints, floats and bools, with Python's rules.
#include "penlight/runtime/vm/op.h"

namespace pen {

PEN_OP(add_int, "aten::add.int(int a, int b) -> int") {
  return c.give(static_cast<int64_t>(static_cast<uint64_t>(c.integer(0)) + static_cast<uint64_t>(c.integer(1))));
}

}  // namespace pen
