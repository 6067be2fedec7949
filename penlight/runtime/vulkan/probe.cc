#include "penlight/runtime/vulkan/probe.h"

namespace pen::vulkan {

constexpr uint32_t kNever = ~0u;
const ExtensionRow kExtensionRows[kExtensions] = {
    {"VK_KHR_8bit_storage", kVersion12},          {"VK_KHR_shader_float16_int8", kVersion12},
    {"VK_KHR_driver_properties", kVersion12},     {"VK_KHR_vulkan_memory_model", kVersion12},
    {"VK_EXT_subgroup_size_control", kVersion13}, {"VK_KHR_shader_integer_dot_product", kVersion13},
    {"VK_KHR_cooperative_matrix", kNever},        {"VK_NV_cooperative_matrix", kNever},
    {"VK_KHR_portability_subset", kNever},  // a device that lists it wants it enabled
};

namespace {

void find_extensions(const Loader& loader, VkPhysicalDevice physical, uint32_t api, Extensions* e) {
  uint32_t count = 0;
  loader.f.EnumerateDeviceExtensionProperties(physical, nullptr, &count, nullptr);
  auto* all = static_cast<VkExtensionProperties*>(calloc(count ? count : 1, sizeof(VkExtensionProperties)));
  if (!all || loader.f.EnumerateDeviceExtensionProperties(physical, nullptr, &count, all) < 0) count = 0;
  for (int i = 0; i < kExtensions; ++i) {
    bool listed = false;
    for (uint32_t k = 0; k < count; ++k) listed = listed || strcmp(all[k].extensionName, kExtensionRows[i].name) == 0;
    e->there[i] = listed || api >= kExtensionRows[i].core;
    e->by_name[i] = listed && api < kExtensionRows[i].core;
  }
  free(all);
}

// The first queue family that computes, those first that also tell the time.
bool find_queue(const Loader& loader, Found* found) {
  VkQueueFamilyProperties families[32];
  uint32_t count = 32;
  loader.f.GetPhysicalDeviceQueueFamilyProperties(found->physical, &count, families);
  bool any = false;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t bits = families[i].timestampValidBits;
    if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) || (any && (found->info.limits.timestamp_bits || !bits))) continue;
    found->family = i;
    found->info.limits.timestamp_bits = bits;
    any = true;
  }
  return any;
}

template <class T>
void find_shapes(VkPhysicalDevice physical, VkResult(PEN_VK_CALL* list)(VkPhysicalDevice, uint32_t*, T*), Limits* limits) {
  constexpr uint32_t kRoom = 128;
  T* all = static_cast<T*>(calloc(kRoom, sizeof(T)));
  if (!all) return;
  for (uint32_t i = 0; i < kRoom; ++i) all[i].sType = T{}.sType;
  uint32_t count = kRoom;
  if (list(physical, &count, all) < 0) count = 0;
  for (uint32_t i = 0; i < count && limits->shape_count < 16; ++i) {
    const T& p = all[i];
    bool fits = p.AType == VK_COMPONENT_TYPE_FLOAT16_NV && p.BType == p.AType && p.CType == VK_COMPONENT_TYPE_FLOAT32_NV &&
                p.scope == VK_SCOPE_SUBGROUP_NV;
    if (fits) limits->shapes[limits->shape_count++] = {p.MSize, p.NSize, p.KSize};
  }
  free(all);
}

void find_features(const Loader& loader, Found* found) {
  Features features;
  features.link_all(found->extensions);
  loader.f.GetPhysicalDeviceFeatures2(found->physical, &features.all);
  Limits& l = found->info.limits;
  const VkPhysicalDeviceFeatures& core = features.all.features;
  l.i16_arithmetic = core.shaderInt16;
  l.i64_arithmetic = core.shaderInt64;
  l.f64_arithmetic = core.shaderFloat64;
  l.f16_storage = features.storage16.storageBuffer16BitAccess;
  l.i8_storage = features.storage8.storageBuffer8BitAccess;
  l.f16_arithmetic = features.small.shaderFloat16;
  l.i8_arithmetic = features.small.shaderInt8;
  l.integer_dot = features.dot.shaderIntegerDotProduct;
  l.subgroup_choice = features.subgroup.subgroupSizeControl;
  // Shaders with cooperative matrices are written for Vulkan's memory model.
  bool model = features.model.vulkanMemoryModel;
  l.cooperative_khr = model && features.khr.cooperativeMatrix && loader.extra.GetPhysicalDeviceCooperativeMatrixPropertiesKHR;
  l.cooperative_nv = model && features.nv.cooperativeMatrix && loader.extra.GetPhysicalDeviceCooperativeMatrixPropertiesNV;
}

void find_properties(const Loader& loader, Found* found) {
  const Extensions& e = found->extensions;
  Limits& l = found->info.limits;
  VkPhysicalDeviceProperties2 all{};
  VkPhysicalDeviceSubgroupProperties subgroup{};
  VkPhysicalDeviceMaintenance3Properties allocation{};
  VkPhysicalDeviceDriverProperties driver{};
  VkPhysicalDeviceSubgroupSizeControlProperties sizes{};
  VkPhysicalDeviceShaderIntegerDotProductProperties dot{};
  VkPhysicalDeviceCooperativeMatrixPropertiesKHR matrix{};
  auto link = [&all](auto* next) {
    next->pNext = all.pNext;
    all.pNext = next;
  };
  link(&subgroup);
  link(&allocation);
  if (e.there[kDriver]) link(&driver);
  if (e.there[kSubgroupSize]) link(&sizes);
  if (e.there[kIntegerDot]) link(&dot);
  if (e.there[kMatrixKhr]) link(&matrix);
  loader.f.GetPhysicalDeviceProperties2(found->physical, &all);

  const VkPhysicalDeviceLimits& core = all.properties.limits;
  for (int i = 0; i < 3; ++i) l.group_size[i] = core.maxComputeWorkGroupSize[i], l.group_count[i] = core.maxComputeWorkGroupCount[i];
  l.group_invocations = core.maxComputeWorkGroupInvocations;
  l.shared_bytes = core.maxComputeSharedMemorySize;
  l.storage_alignment = static_cast<uint32_t>(core.minStorageBufferOffsetAlignment);
  l.storage_range = core.maxStorageBufferRange;
  l.storage_buffers = core.maxPerStageDescriptorStorageBuffers;
  l.push_bytes = core.maxPushConstantsSize;
  l.timestamp_period = core.timestampPeriod;
  l.allocation_bytes = allocation.maxMemoryAllocationSize;
  l.subgroup_size = l.subgroup_min = l.subgroup_max = subgroup.subgroupSize;
  if (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) l.subgroup_operations = subgroup.supportedOperations;
  l.subgroup_choice = l.subgroup_choice && (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT);
  if (l.subgroup_choice) l.subgroup_min = sizes.minSubgroupSize, l.subgroup_max = sizes.maxSubgroupSize;
  l.integer_dot_fast = l.integer_dot && dot.integerDotProduct4x8BitPackedSignedAccelerated;
  l.cooperative_khr = l.cooperative_khr && (matrix.cooperativeMatrixSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT);
  if (l.cooperative_khr)
    find_shapes(found->physical, loader.extra.GetPhysicalDeviceCooperativeMatrixPropertiesKHR, &l);
  else if (l.cooperative_nv)
    find_shapes(found->physical, loader.extra.GetPhysicalDeviceCooperativeMatrixPropertiesNV, &l);
  found->info.driver_id = driver.driverID;
  memcpy(found->info.driver, driver.driverName, sizeof driver.driverName);
  memcpy(found->info.driver_info, driver.driverInfo, sizeof driver.driverInfo);
}

void find_memory(const Loader& loader, Found* found) {
  VkPhysicalDeviceMemoryProperties memory{};
  loader.f.GetPhysicalDeviceMemoryProperties(found->physical, &memory);
  Limits& l = found->info.limits;
  for (uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
    const VkMemoryHeap& heap = memory.memoryHeaps[i];
    if ((heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && heap.size > l.memory_bytes) l.memory_bytes = heap.size;
  }
  constexpr VkFlags kMapped =
      VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  bool mapped = false;
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) mapped = mapped || (memory.memoryTypes[i].propertyFlags & kMapped) == kMapped;
  l.unified = mapped && (found->info.type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU || found->info.type == VK_PHYSICAL_DEVICE_TYPE_CPU);
}

void describe(const Loader& loader, VkPhysicalDevice physical, Found* found) {
  VkPhysicalDeviceProperties p{};
  loader.f.GetPhysicalDeviceProperties(physical, &p);
  found->physical = physical;
  DeviceInfo& info = found->info;
  memcpy(info.name, p.deviceName, sizeof info.name);
  memcpy(info.cache_uuid, p.pipelineCacheUUID, sizeof info.cache_uuid);
  info.type = p.deviceType;
  info.vendor = p.vendorID;
  info.device = p.deviceID;
  info.api = p.apiVersion;
  info.driver_version = p.driverVersion;
  info.unfit = p.apiVersion < kVersion11 ? "its driver has Vulkan 1.0, and 1.1 is needed" : "";
  if (info.unfit[0]) return;
  if (!find_queue(loader, found)) info.unfit = "it has no queue that computes";
  find_extensions(loader, physical, p.apiVersion, &found->extensions);
  find_features(loader, found);
  find_properties(loader, found);
  find_memory(loader, found);
}

}  // namespace

int rank(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return 4;
    default:
      return 3;
  }
}

Status find_devices(const Loader& loader, Found** devices, int32_t* count, pen_error* error) {
  VkPhysicalDevice handles[64];
  uint32_t n = 64;
  VkResult result = loader.f.EnumeratePhysicalDevices(loader.instance, &n, handles);
  if (result < 0 || n == 0)
    return report(
        error, {result < 0 ? status_of(result) : kDeviceFailed, "Vulkan", "", "", "a device", result < 0 ? result_name(result) : "none", "",
                "Install a driver for the GPU; `vulkaninfo` shows what the loader finds."});
  auto* found = static_cast<Found*>(calloc(n, sizeof(Found)));
  if (!found) return report(error, PEN_ERROR_MEMORY, "Vulkan", "memory for the list of devices");
  int32_t filled = 0;
  for (int r = 0; r <= 4; ++r)
    for (uint32_t i = 0; i < n; ++i) {
      VkPhysicalDeviceProperties p{};
      loader.f.GetPhysicalDeviceProperties(handles[i], &p);
      if (rank(p.deviceType) == r) describe(loader, handles[i], &found[filled++]);
    }
  *devices = found;
  *count = filled;
  return PEN_OK;
}

}  // namespace pen::vulkan
