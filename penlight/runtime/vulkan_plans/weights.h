// A model's weights in a device's memory: uploaded once, from the mapped file, for all sessions that run it there; kept with the model.
#pragma once
#include "penlight/runtime/file/model.h"
#include "penlight/runtime/vulkan/memory.h"

namespace pen::vulkan {

struct Weight {
  const void* data;  // in the mapped file
  uint64_t bytes;
  bool f16;  // f32 there, f16 on the device
  // where it lies, once it is uploaded
  const Buffer* buffer;
  uint64_t offset;
};

// Fills in where each lies. Those that the device does not have yet are uploaded, together. They stay until the model is closed.
Status place_weights(Device* device, const Model& model, Weight* weights, int32_t count, pen_error* error);

// f32 to f16, to the nearest, ties to even.
void narrow(const float* from, uint16_t* to, uint64_t count);

}  // namespace pen::vulkan
