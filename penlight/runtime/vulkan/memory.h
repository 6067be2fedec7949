// Buffers: the device's own memory, memory to upload from, memory to download to. Each is one allocation of its own, so these are few and
// large (an arena, a model's weights), and what lies in them are ranges. All may be storage buffers of shaders, and source and target of
// copies.
#pragma once
#include "penlight/runtime/vulkan/device.h"

namespace pen::vulkan {

enum class Use {
  device,    // the device's own; mapped where memory is unified, and then good to write to, slow to read from
  upload,    // written by the host in order, read by the device
  download,  // written by the device, read by the host as fast as any memory
};

struct Buffer {
  Device* device;
  VkBuffer handle;
  VkDeviceMemory memory;
  uint64_t bytes;
  void* mapped;   // null: the host cannot reach it
  bool coherent;  // else what the device wrote must be fetched, as a recording's end does (commands.h)
};

// Out of memory: PEN_ERROR_MEMORY, with sizes.
Status create_buffer(Device* device, Use use, uint64_t bytes, Buffer* buffer, pen_error* error);
// Nothing that uses it may be running. A buffer that was never made, or made by a process that forked this one, is fine.
void destroy_buffer(Buffer* buffer);

}  // namespace pen::vulkan
