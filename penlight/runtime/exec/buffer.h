// A caller's tensor in a device's memory. It keeps the device open.
#pragma once
#include "penlight/runtime/exec/backend.h"

struct pen_buffer {
  const pen::Backend* backend;
  void* device;
  void* memory;
  pen::Tensor tensor;  // without data
  uint64_t bytes;
};
