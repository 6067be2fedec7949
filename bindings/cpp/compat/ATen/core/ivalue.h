// PyTorch's name for what Penlight has in its place.
#include "penlight_torch/ivalue.h"  // IWYU pragma: export
