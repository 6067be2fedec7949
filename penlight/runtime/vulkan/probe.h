// What a physical device is and can do, as its driver tells: from here come the list of devices, their limits, and what opening one
// enables.
#pragma once
#include "penlight/runtime/vulkan/device.h"

namespace pen::vulkan {

// What is asked for beyond Vulkan 1.1: an extension, or the version that took it in.
enum Extension {
  k8BitStorage,
  kFloat16Int8,
  kDriver,
  kMemoryModel,
  kSubgroupSize,
  kIntegerDot,
  kMatrixKhr,
  kMatrixNv,
  kPortability,
  kExtensions
};
struct ExtensionRow {
  const char* name;
  uint32_t core;  // the version that has it without the name
};
extern const ExtensionRow kExtensionRows[kExtensions];

struct Extensions {
  bool there[kExtensions], by_name[kExtensions];
};

// The structs of features, each in the chain only where the device knows it.
struct Features {
  VkPhysicalDeviceFeatures2 all{};
  VkPhysicalDevice16BitStorageFeatures storage16{};
  VkPhysicalDevice8BitStorageFeatures storage8{};
  VkPhysicalDeviceShaderFloat16Int8Features small{};
  VkPhysicalDeviceVulkanMemoryModelFeatures model{};
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroup{};
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot{};
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR khr{};
  VkPhysicalDeviceCooperativeMatrixFeaturesNV nv{};

  template <class T>
  void link(T* next) {
    next->pNext = all.pNext;
    all.pNext = next;
  }
  void link_all(const Extensions& e) {
    link(&storage16);
    if (e.there[k8BitStorage]) link(&storage8);
    if (e.there[kFloat16Int8]) link(&small);
    if (e.there[kMemoryModel]) link(&model);
    if (e.there[kSubgroupSize]) link(&subgroup);
    if (e.there[kIntegerDot]) link(&dot);
    if (e.there[kMatrixKhr]) link(&khr);
    if (e.there[kMatrixNv]) link(&nv);
  }
};

struct Found {
  VkPhysicalDevice physical;
  uint32_t family;
  Extensions extensions;
  DeviceInfo info;
};

// All devices, the likeliest first; the caller frees them.
Status find_devices(const Loader& loader, Found** devices, int32_t* count, pen_error* error);
int rank(VkPhysicalDeviceType type);  // 0 to 4: discrete, integrated, virtual, another, CPU

}  // namespace pen::vulkan
