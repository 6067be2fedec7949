#include "penlight/runtime/vulkan/memory.h"

namespace pen::vulkan {

namespace {

constexpr VkFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, kVisible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
                  kCoherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, kCached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
constexpr VkFlags kKnown = kLocal | kVisible | kCoherent | kCached;  // other kinds (protected, lazy, a vendor's) need care

// What memory must have and what it had better not have, the best first.
struct Wish {
  VkFlags with, without;
};
constexpr int kWishes = 3;
const Wish kDevice[kWishes] = {{kLocal, kVisible}, {kLocal, 0}, {kLocal, 0}};  // never the host's: that would be slow, and nobody told
const Wish kUnified[kWishes] = {{kLocal | kVisible | kCoherent, kCached}, {kLocal | kVisible | kCoherent, 0}, {kLocal, 0}};
const Wish kUpload[kWishes] = {{kVisible | kCoherent, kCached | kLocal}, {kVisible | kCoherent, kLocal}, {kVisible | kCoherent, 0}};
const Wish kDownload[kWishes] = {{kVisible | kCached | kCoherent, 0}, {kVisible | kCached, 0}, {kVisible | kCoherent, 0}};

const Wish* wishes(const Device* device, Use use) {
  if (use == Use::upload) return kUpload;
  if (use == Use::download) return kDownload;
  return device->info.limits.unified ? kUnified : kDevice;
}

const char* name_of(Use use) {
  return use == Use::device ? "of the device's own" : use == Use::upload ? "to upload from" : "to download to";
}

Status no_memory(Device* device, Use use, uint64_t bytes, const char* got, pen_error* error) {
  char expected[96], advice[160];
  set_text(expected, sizeof expected, "%llu bytes of memory %s", static_cast<unsigned long long>(bytes), name_of(use));
  set_text(advice, sizeof advice,
           "The device has %llu bytes, and gives at most %llu at once: a smaller input or batch, or the CPU, may do.",
           static_cast<unsigned long long>(device->info.limits.memory_bytes),
           static_cast<unsigned long long>(device->info.limits.allocation_bytes));
  return report(error, PEN_ERROR_MEMORY, device->info.name, expected, got, advice);
}

// Tries every type that fits, the best first: another heap may have room where one has none.
VkResult allocate(Device* device, Use use, const VkMemoryRequirements& needs, VkDeviceMemory* memory, VkFlags* flags) {
  const Wish* wish = wishes(device, use);
  uint32_t tried = 0;
  VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  for (int w = 0; w < kWishes; ++w)
    for (uint32_t i = 0; i < device->memory.memoryTypeCount; ++i) {
      const VkMemoryType& type = device->memory.memoryTypes[i];
      VkFlags has = type.propertyFlags;
      bool fits = (needs.memoryTypeBits >> i & 1) && (has & wish[w].with) == wish[w].with && !(has & wish[w].without) && !(has & ~kKnown) &&
                  !(tried >> i & 1) && needs.size <= device->memory.memoryHeaps[type.heapIndex].size;
      if (!fits) continue;
      tried |= 1u << i;
      VkMemoryAllocateInfo info{};
      info.allocationSize = needs.size;
      info.memoryTypeIndex = i;
      result = device->f.AllocateMemory(device->handle, &info, nullptr, memory);
      *flags = has;
      if (result == VK_SUCCESS || result == VK_ERROR_DEVICE_LOST) return result;
    }
  return result;
}

}  // namespace

Status create_buffer(Device* device, Use use, uint64_t bytes, Buffer* buffer, pen_error* error) {
  *buffer = {};
  if (Status s = check_device(device, error)) return s;
  if (bytes > UINT64_MAX - 4) return no_memory(device, use, bytes, "more than there can be", error);
  uint64_t whole = bytes < 4 ? 4 : (bytes + 3) & ~uint64_t{3};  // shaders read words
  if (whole > device->info.limits.allocation_bytes || (use != Use::device && whole > SIZE_MAX / 2))
    return no_memory(device, use, bytes, "more than one allocation may have", error);

  Buffer b{};
  b.device = device;
  b.bytes = whole;
  VkBufferCreateInfo info{};
  info.size = whole;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  VkResult result = device->f.CreateBuffer(device->handle, &info, nullptr, &b.handle);
  VkFlags flags = 0;
  if (result == VK_SUCCESS) {
    VkMemoryRequirements needs{};
    device->f.GetBufferMemoryRequirements(device->handle, b.handle, &needs);
    result = allocate(device, use, needs, &b.memory, &flags);
    if (result == VK_SUCCESS) result = device->f.BindBufferMemory(device->handle, b.handle, b.memory, 0);
    bool map = (flags & kVisible) && (use != Use::device || device->info.limits.unified) && whole <= SIZE_MAX / 2;
    if (result == VK_SUCCESS && map) result = device->f.MapMemory(device->handle, b.memory, 0, ~uint64_t{0}, 0, &b.mapped);
  }
  b.coherent = flags & kCoherent;
  retain_device(device);
  *buffer = b;
  if (result == VK_SUCCESS) return PEN_OK;
  Status status = status_of(result) == PEN_ERROR_MEMORY || result == VK_ERROR_MEMORY_MAP_FAILED
                      ? no_memory(device, use, bytes, result_name(result), error)
                      : device_error(device, result, "memory", error);
  destroy_buffer(buffer);
  return status;
}

void destroy_buffer(Buffer* buffer) {
  Device* device = buffer->device;
  if (!device) return;
  if (is_own(device)) {
    device->f.DestroyBuffer(device->handle, buffer->handle, nullptr);
    device->f.FreeMemory(device->handle, buffer->memory, nullptr);
  }
  *buffer = {};
  release_device(device);
}

}  // namespace pen::vulkan
