// Which instruction sets this library holds and this CPU has.
#pragma once
#include "penlight/runtime/exec/kernel.h"

namespace pen {

// Best first, `base` last. Returns how many.
int available_isas(Isa out[kIsaCount]);
const char* isa_name(Isa isa);
// The kernel to run for `isa`: its own, or the next best that this entry has.
RunFn run_function(const KernelEntry& entry, Isa isa);
RowFn row_function(const KernelEntry& entry, Isa isa);

}  // namespace pen
