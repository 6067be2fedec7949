// PyTorch's name for what Penlight has in its place.
#include "penlight_torch/module.h"  // IWYU pragma: export
