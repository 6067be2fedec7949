#include "penlight/runtime/vulkan/device.h"
#include "penlight/runtime/vulkan/pipeline.h"

namespace pen::vulkan {

namespace {

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
  uint32_t core;
};
constexpr uint32_t kNever = ~0u;
const ExtensionRow kExtensionRows[kExtensions] = {
    {"VK_KHR_8bit_storage", kVersion12},          {"VK_KHR_shader_float16_int8", kVersion12},
    {"VK_KHR_driver_properties", kVersion12},     {"VK_KHR_vulkan_memory_model", kVersion12},
    {"VK_EXT_subgroup_size_control", kVersion13}, {"VK_KHR_shader_integer_dot_product", kVersion13},
    {"VK_KHR_cooperative_matrix", kNever},        {"VK_NV_cooperative_matrix", kNever},
    {"VK_KHR_portability_subset", kNever},  // a device that lists it wants it enabled
};

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

Device* opened;  // under the process's lock
int opened_by;   // the process that these are of

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

// All devices, the likeliest first; the caller frees them.
Status find_devices(const Loader& loader, Found** devices, int32_t* count, pen_error* error) {
  VkPhysicalDevice handles[64];
  uint32_t n = 64;
  VkResult result = loader.f.EnumeratePhysicalDevices(loader.instance, &n, handles);
  if (result < 0 || n == 0)
    return report(
        error, {result < 0 ? status_of(result) : kDeviceFailed, "Vulkan", "", "", "a device", result < 0 ? result_name(result) : "none", "",
                "Install a driver for the GPU; `vulkaninfo` shows what the loader finds."});
  auto* found = static_cast<Found*>(calloc(n, sizeof(Found)));
  if (!found) return report(error, {PEN_ERROR_MEMORY, "Vulkan", "", "", "memory for the list of devices"});
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

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
bool contains(const char* text, const char* part) {
  for (; *text; ++text) {
    int i = 0;
    while (part[i] && lower(text[i]) == lower(part[i])) ++i;
    if (!part[i]) return true;
  }
  return false;
}

// The number of the device that `which` means; -1: none.
int32_t choose(const char* which, const Found* found, int32_t count) {
  if (!which[0]) {
    for (int32_t i = 0; i < count; ++i)
      if (!found[i].info.unfit[0]) return i;
    return 0;
  }
  int64_t number = 0;
  const char* p = which;
  for (; *p >= '0' && *p <= '9' && number < count; ++p) number = number * 10 + (*p - '0');
  if (!*p && number < count) return static_cast<int32_t>(number);
  for (int32_t i = 0; i < count && *p; ++i)
    if (contains(found[i].info.name, which)) return i;
  return -1;
}

Status no_such_device(const char* which, bool by_environment, const Found* found, int32_t count, pen_error* error) {
  char expected[96], got[96], advice[400] = "There are: ";
  set_text(expected, sizeof expected, "a number from 0 to %d or part of a device's name", count - 1);
  set_text(got, sizeof got, "\"%s\"", which);
  for (int32_t i = 0; i < count; ++i) {
    size_t used = strlen(advice);
    set_text(advice + used, sizeof advice - used, "%s%d %s", i ? ", " : "", i, found[i].info.name);
  }
  return report(
      error, {PEN_ERROR_ARGUMENT, by_environment ? "Vulkan: PENLIGHT_VULKAN_DEVICE" : "Vulkan device", "", "", expected, got, "", advice});
}

Status create(const Loader& loader, const Found& found, Device* d, pen_error* error) {
  const char* names[kExtensions];
  uint32_t count = 0;
  for (int i = 0; i < kExtensions; ++i)
    if (found.extensions.by_name[i]) names[count++] = kExtensionRows[i].name;
  const Limits& l = found.info.limits;
  // What is used and there, and no more: some features cost speed by being on.
  Features wanted;
  wanted.link_all(found.extensions);
  wanted.all.features.shaderInt16 = l.i16_arithmetic;
  wanted.all.features.shaderInt64 = l.i64_arithmetic;
  wanted.all.features.shaderFloat64 = l.f64_arithmetic;
  wanted.storage16.storageBuffer16BitAccess = l.f16_storage;
  wanted.storage8.storageBuffer8BitAccess = l.i8_storage;
  wanted.small.shaderFloat16 = l.f16_arithmetic;
  wanted.small.shaderInt8 = l.i8_arithmetic;
  wanted.model.vulkanMemoryModel = l.cooperative_khr || l.cooperative_nv;
  wanted.subgroup.subgroupSizeControl = l.subgroup_choice;
  wanted.dot.shaderIntegerDotProduct = l.integer_dot;
  wanted.khr.cooperativeMatrix = l.cooperative_khr;
  wanted.nv.cooperativeMatrix = l.cooperative_nv;

  float priority = 1;
  VkDeviceQueueCreateInfo queue{};
  queue.queueFamilyIndex = found.family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{};
  info.pNext = &wanted.all;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = count;
  info.ppEnabledExtensionNames = names;
  d->info = found.info;
  d->physical = found.physical;
  d->family = found.family;
  VkResult result = loader.f.CreateDevice(found.physical, &info, nullptr, &d->handle);
  if (result != VK_SUCCESS) return device_error(d, result, "a device that opens", error);
  const char* missing = nullptr;
  auto get = [&loader, d](const char* name) { return loader.f.GetDeviceProcAddr(d->handle, name); };
  if (!fill(&d->f, PEN_VK_DEVICE_FUNCTIONS(PEN_VK_NAME), get, &missing)) {
    if (d->f.DestroyDevice) d->f.DestroyDevice(d->handle, nullptr);
    return report(error, {kDeviceFailed, d->info.name, "", "", missing, "a driver without it", "", "A newer driver is needed."});
  }
  d->f.GetDeviceQueue(d->handle, found.family, 0, &d->queue);
  loader.f.GetPhysicalDeviceMemoryProperties(found.physical, &d->memory);
  return PEN_OK;
}

Status open_locked(const char* which, Device** device, pen_error* error) {
  bool by_environment = false;
  const char* asked = getenv("PENLIGHT_VULKAN_DEVICE");
  if (asked && asked[0]) which = asked, by_environment = true;
  if (!which) which = "";
  if (opened_by != getpid()) opened = nullptr, opened_by = getpid();

  const Loader* loader;
  if (Status s = loader_open(&loader, error)) return s;
  Found* found;
  int32_t count;
  if (Status s = find_devices(*loader, &found, &count, error)) return s;
  int32_t at = choose(which, found, count);
  Status status = PEN_OK;
  Device* d = nullptr;
  if (at < 0) {
    status = no_such_device(which, by_environment, found, count, error);
  } else if (found[at].info.unfit[0]) {
    status = report(error, {kDeviceFailed, found[at].info.name, "", "", "a device that can be used", found[at].info.unfit});
  } else {
    for (Device* o = opened; o && !d; o = o->next)
      if (o->physical == found[at].physical && !__atomic_load_n(&o->lost, __ATOMIC_RELAXED)) d = o;
    if (d) {
      retain_device(d);
    } else {
      void* memory = nullptr;
      if (posix_memalign(&memory, 64, sizeof(Device)) == 0) d = static_cast<Device*>(memset(memory, 0, sizeof(Device)));
      status =
          d ? create(*loader, found[at], d, error) : report(error, {PEN_ERROR_MEMORY, found[at].info.name, "", "", "memory to open it"});
      if (status) {
        free(d);
      } else {
        pthread_mutex_init(d->lock, nullptr);
        d->users = 1;
        d->process = opened_by;
        d->next = opened;
        opened = d;
      }
    }
  }
  free(found);
  if (!status) *device = d;
  return status;
}

}  // namespace

const char* type_name(VkPhysicalDeviceType type) {
  static const char* const names[] = {"discrete GPU", "integrated GPU", "virtual GPU", "other", "CPU"};
  return names[rank(type)];
}

Status list_devices(DeviceInfo* infos, int32_t room, int32_t* count, pen_error* error) {
  *count = 0;
  lock_process();
  const Loader* loader;
  Found* found = nullptr;
  Status status = loader_open(&loader, error);
  if (!status) status = find_devices(*loader, &found, count, error);
  unlock_process();
  for (int32_t i = 0; i < *count && i < room; ++i) infos[i] = found[i].info;
  free(found);
  return status;
}

Status open_device(const char* which, Device** device, pen_error* error) {
  *device = nullptr;
  lock_process();
  Status status = open_locked(which, device, error);
  unlock_process();
  return status;
}

void retain_device(Device* device) { __atomic_fetch_add(&device->users, 1, __ATOMIC_RELAXED); }

void release_device(Device* device) {
  if (!device) return;
  bool own = is_own(device);
  if (own) lock_process();  // so that nobody finds it in the table while it goes
  bool last = __atomic_sub_fetch(&device->users, 1, __ATOMIC_ACQ_REL) == 0;
  if (own) {
    if (last)
      for (Device** p = &opened; *p; p = &(*p)->next)
        if (*p == device) {
          *p = device->next;
          break;
        }
    unlock_process();
  }
  if (!last) return;
  destroy_pipelines(device);
  if (own) {
    device->f.DestroyDevice(device->handle, nullptr);
    pthread_mutex_destroy(device->lock);
  }
  free(device);
}

bool is_own(const Device* device) { return device->process == getpid(); }

Status check_device(const Device* device, pen_error* error) {
  if (!is_own(device))
    return report(error, {kDeviceFailed, device->info.name, "", "", "a device that this process has opened",
                          "one of the process that forked it", "", "Open it, and load models, after the fork."});
  if (__atomic_load_n(&device->lost, __ATOMIC_RELAXED))
    return report(error, {kDeviceFailed, device->info.name, "", "", "a device that works", "one that was lost (VK_ERROR_DEVICE_LOST)", "",
                          "Open it again, and load models again; the CPU works as before."});
  return PEN_OK;
}

Status device_error(Device* device, VkResult result, const char* expected, pen_error* error) {
  const char* advice = "";
  if (result == VK_ERROR_DEVICE_LOST) {
    __atomic_store_n(&device->lost, 1u, __ATOMIC_RELAXED);
    advice = "The device was reset, taken away or hung: open it again, and load models again; the CPU works as before.";
  }
  return report(error, {status_of(result), device->info.name, "", "", expected, result_name(result), "", advice});
}

}  // namespace pen::vulkan
