// The driver's pipeline cache as a file, so that a second start compiles nothing. One file a device, driver and version of ours, in the
// folder that PENLIGHT_CACHE names ("" keeps none), else the one that the app set, else the user's cache folder. A file that is damaged,
// cut short, another's or too large counts as none; one that cannot be written is not written. Neither is an error.
#pragma once
#include "penlight/runtime/vulkan/device.h"

namespace pen::vulkan {

constexpr size_t kCacheBytes = 64 << 20;  // at most

// For systems where a library cannot know (Android): the app's own cache folder. Null or "": as if never called.
void set_cache_folder(const char* folder);
// The content, to be freed by the caller; null where there is none that is whole and this device's.
void* read_cache(const DeviceInfo& info, size_t* size);
// Replaces the file, at once for all who read it. Content over the limit removes it, so that it begins anew.
void write_cache(const DeviceInfo& info, const void* data, size_t size);

}  // namespace pen::vulkan
