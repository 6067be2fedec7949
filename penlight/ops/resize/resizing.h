// Resizing of the VM: torch's arguments.
#pragma once
#include "penlight/runtime/vm/flat.h"

namespace pen {

struct Resize {
  int spatial;
  int64_t size[3];
  double scales[3];  // 0: none was given
  const char* mode;  // "linear", "cubic"; null: the nearest pixel
  bool exact, align_corners, antialias;
};

}  // namespace pen
