// PyTorch's name for what Penlight has in its place.
#include "penlight_torch/types.h"  // IWYU pragma: export
