// A Vulkan library between the runtime and the real one (PENLIGHT_VULKAN_LIBRARY names it): it behaves as hardware does that a test machine
// has not. BETWEEN lists what: a loader or device too old, other kinds of devices and of memory, a device that is lost, memory that runs
// out, a compiler that fails, a pipeline cache that holds something, cooperative matrices.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <vector>

#define PEN_PLATFORM_CHECK  // keeps platform.h's declarations apart from libc's
#include "penlight/runtime/vulkan/api.h"

using namespace pen::vulkan;

namespace {

struct Allocation {
  uint32_t type;
  uint64_t bytes;
  void* real;
  std::vector<char> seen;  // what the host sees of memory that is not coherent
};
constexpr uint64_t kRoom = 512 << 20;  // of the device with memory of its own
constexpr uint32_t kLocal = 0, kUpload = 1, kDownload = 2;

GetInstanceProcAddr real_instance;
InstanceFunctions instance_functions;
DeviceFunctions f;
std::map<uint64_t, Allocation> allocations;
uint64_t taken;
int lost, pipelines, stored;

bool is(const char* word) {
  const char* words = getenv("BETWEEN");
  return words && strstr(words, word);
}

VkResult PEN_VK_CALL no_version(uint32_t* version) {
  *version = 1u << 22;
  return VK_SUCCESS;
}

void PEN_VK_CALL properties(VkPhysicalDevice d, VkPhysicalDeviceProperties* p) {
  instance_functions.GetPhysicalDeviceProperties(d, p);
  bool swiftshader = strstr(p->deviceName, "SwiftShader");
  if (is("own-memory")) p->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  if (is("kinds")) p->deviceType = swiftshader ? VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU : VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
  if (is("old-device") && swiftshader) p->apiVersion = 1u << 22;
}

void PEN_VK_CALL queues(VkPhysicalDevice d, uint32_t* count, VkQueueFamilyProperties* families) {
  instance_functions.GetPhysicalDeviceQueueFamilyProperties(d, count, families);
  for (uint32_t i = 0; families && i < *count; ++i) families[i].queueFlags = 0;
}

// Three types for the one that software drivers have, which AllocateMemory then gets.
void PEN_VK_CALL memory(VkPhysicalDevice d, VkPhysicalDeviceMemoryProperties* m) {
  instance_functions.GetPhysicalDeviceMemoryProperties(d, m);
  m->memoryTypeCount = 3;
  m->memoryTypes[kLocal] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
  m->memoryTypes[kUpload] = {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, 0};
  m->memoryTypes[kDownload] = {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 0};
}
void PEN_VK_CALL requirements(VkDevice d, VkBuffer b, VkMemoryRequirements* r) {
  f.GetBufferMemoryRequirements(d, b, r);
  r->memoryTypeBits = 7;
}
VkResult PEN_VK_CALL allocate(VkDevice d, const VkMemoryAllocateInfo* info, const void* a, VkDeviceMemory* m) {
  if (taken + info->allocationSize > kRoom || (is("full") && info->memoryTypeIndex == kLocal)) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  VkMemoryAllocateInfo real = *info;
  real.memoryTypeIndex = 0;
  VkResult result = f.AllocateMemory(d, &real, a, m);
  if (result == VK_SUCCESS) {
    taken += info->allocationSize;
    allocations[static_cast<uint64_t>(*m)] = {info->memoryTypeIndex, info->allocationSize, nullptr, {}};
  }
  return result;
}
void PEN_VK_CALL release(VkDevice d, VkDeviceMemory m, const void* a) {
  auto found = allocations.find(static_cast<uint64_t>(m));
  if (found != allocations.end()) taken -= found->second.bytes, allocations.erase(found);
  f.FreeMemory(d, m, a);
}
VkResult PEN_VK_CALL map(VkDevice d, VkDeviceMemory m, VkDeviceSize at, VkDeviceSize size, VkFlags flags, void** data) {
  Allocation& a = allocations[static_cast<uint64_t>(m)];
  if (a.type == kLocal) return VK_ERROR_MEMORY_MAP_FAILED;
  VkResult result = f.MapMemory(d, m, at, size, flags, &a.real);
  if (a.type == kDownload) a.seen.assign(a.bytes, 0x55);
  *data = a.type == kDownload ? a.seen.data() : a.real;
  return result;
}
VkResult PEN_VK_CALL invalidate(VkDevice, uint32_t count, const VkMappedMemoryRange* ranges) {
  for (uint32_t i = 0; i < count; ++i) {
    Allocation& a = allocations[static_cast<uint64_t>(ranges[i].memory)];
    memcpy(a.seen.data(), a.real, a.bytes);
  }
  return VK_SUCCESS;
}

VkResult PEN_VK_CALL submit(VkQueue q, uint32_t count, const VkSubmitInfo* info, VkFence fence) {
  if (is("lost-at-submit") && !lost++) return VK_ERROR_DEVICE_LOST;
  return f.QueueSubmit(q, count, info, fence);
}
VkResult PEN_VK_CALL wait(VkDevice d, uint32_t count, const VkFence* fences, VkBool32 all, uint64_t) {
  VkResult result = f.WaitForFences(d, count, fences, all, ~uint64_t{0});
  static int late;
  if (is("late") && late++ < 2) return VK_TIMEOUT;
  return is("lost-at-wait") && !lost++ ? VK_ERROR_DEVICE_LOST : result;
}
VkResult PEN_VK_CALL status(VkDevice, VkFence) { return VK_NOT_READY; }  // so that the waiting, too, is used where one would spin

VkResult PEN_VK_CALL compile(VkDevice d, VkPipelineCache c, uint32_t count, const VkComputePipelineCreateInfo* infos, const void* a,
                             VkPipeline* made) {
  if (is("broken-compiler")) {
    for (uint32_t i = 0; i < count; ++i) made[i] = VkPipeline{};
    return VK_ERROR_INVALID_SHADER_NV;
  }
  __atomic_fetch_add(&pipelines, static_cast<int>(count), __ATOMIC_RELAXED);
  return f.CreateComputePipelines(d, c, count, infos, a, made);
}
// A cache with 16 bytes a pipeline behind the header.
VkResult PEN_VK_CALL open_cache(VkDevice d, const VkPipelineCacheCreateInfo* info, const void* a, VkPipelineCache* cache) {
  stored = info->initialDataSize > 32 ? static_cast<int>(info->initialDataSize - 32) / 16 : 0;
  VkPipelineCacheCreateInfo empty{};
  return f.CreatePipelineCache(d, &empty, a, cache);
}
VkResult PEN_VK_CALL cache_data(VkDevice d, VkPipelineCache cache, size_t* size, void* data) {
  int count = pipelines > stored ? pipelines : stored;
  size_t all = is("great-cache") ? (65 << 20) + static_cast<size_t>(pipelines) : 32 + static_cast<size_t>(count) * 16;
  if (data) {
    size_t header = 32;
    memset(data, 0, all);
    f.GetPipelineCacheData(d, cache, &header, data);
  }
  *size = all;
  return VK_SUCCESS;
}

// Cooperative matrices: the extensions are listed, their features and shapes told, and nothing of them reaches the real driver.
const char* const kMatrices[] = {"VK_KHR_cooperative_matrix", "VK_NV_cooperative_matrix"};
bool has(int which) { return is(which ? "nv-matrices" : "khr-matrices"); }
template <class T>
T* in_chain(void* next) {
  for (auto* s = static_cast<VkPhysicalDeviceFeatures2*>(next); s; s = static_cast<VkPhysicalDeviceFeatures2*>(s->pNext))
    if (s->sType == T{}.sType) return reinterpret_cast<T*>(s);
  return nullptr;
}
VkResult PEN_VK_CALL extensions(VkPhysicalDevice d, const char* layer, uint32_t* count, VkExtensionProperties* list) {
  uint32_t real = 0;
  instance_functions.EnumerateDeviceExtensionProperties(d, layer, &real, nullptr);
  if (list) instance_functions.EnumerateDeviceExtensionProperties(d, layer, &real, list);
  for (int i = 0; i < 2; ++i)
    if (has(i)) {
      if (list) strcpy(list[real].extensionName, kMatrices[i]);
      ++real;
    }
  *count = real;
  return VK_SUCCESS;
}
void PEN_VK_CALL features(VkPhysicalDevice d, VkPhysicalDeviceFeatures2* f2) {
  instance_functions.GetPhysicalDeviceFeatures2(d, f2);
  if (auto* s = in_chain<VkPhysicalDeviceCooperativeMatrixFeaturesKHR>(f2)) s->cooperativeMatrix = 1;
  if (auto* s = in_chain<VkPhysicalDeviceCooperativeMatrixFeaturesNV>(f2)) s->cooperativeMatrix = 1;
  if (auto* s = in_chain<VkPhysicalDeviceVulkanMemoryModelFeatures>(f2)) s->vulkanMemoryModel = 1;
}
void PEN_VK_CALL properties2(VkPhysicalDevice d, VkPhysicalDeviceProperties2* p) {
  instance_functions.GetPhysicalDeviceProperties2(d, p);
  if (auto* s = in_chain<VkPhysicalDeviceCooperativeMatrixPropertiesKHR>(p))
    s->cooperativeMatrixSupportedStages = VK_SHADER_STAGE_COMPUTE_BIT;
}
template <class T>
VkResult PEN_VK_CALL shapes(VkPhysicalDevice, uint32_t* count, T* list) {
  constexpr auto f16 = VK_COMPONENT_TYPE_FLOAT16_NV, f32 = VK_COMPONENT_TYPE_FLOAT32_NV;
  uint32_t first = sizeof(T) == sizeof(VkCooperativeMatrixPropertiesKHR) ? 16 : 8;
  VkComponentTypeNV inputs[] = {f16, f32, f16, f16}, sums[] = {f32, f32, f16, f32};
  for (uint32_t i = 0; i < 4; ++i) {
    if (list[i].sType != T{}.sType) return VK_ERROR_UNKNOWN;
    list[i].MSize = first, list[i].NSize = 8 + i, list[i].KSize = 32;
    list[i].AType = list[i].BType = inputs[i];
    list[i].CType = sums[i];
    list[i].scope = VK_SCOPE_SUBGROUP_NV;
  }
  *count = 4;
  return VK_SUCCESS;
}
VkResult PEN_VK_CALL create(VkPhysicalDevice d, const VkDeviceCreateInfo* info, const void* a, VkDevice* device) {
  VkDeviceCreateInfo real = *info;
  auto* wanted = static_cast<VkPhysicalDeviceFeatures2*>(const_cast<void*>(info->pNext));
  auto* khr = in_chain<VkPhysicalDeviceCooperativeMatrixFeaturesKHR>(wanted);
  auto* nv = in_chain<VkPhysicalDeviceCooperativeMatrixFeaturesNV>(wanted);
  auto* model = in_chain<VkPhysicalDeviceVulkanMemoryModelFeatures>(wanted);
  bool all =
      (!has(0) || (khr && khr->cooperativeMatrix)) && (!has(1) || (nv && nv->cooperativeMatrix)) && model && model->vulkanMemoryModel;
  uint32_t more = (has(0) ? 1u : 0u) + (has(1) ? 1u : 0u);
  if (!all || info->enabledExtensionCount < more) return VK_ERROR_FEATURE_NOT_PRESENT;
  // They stand first, in this order, as they were linked last.
  while (wanted->pNext == nv || wanted->pNext == khr) wanted->pNext = static_cast<VkPhysicalDeviceFeatures2*>(wanted->pNext)->pNext;
  model->vulkanMemoryModel = 0;
  real.enabledExtensionCount -= more;
  return instance_functions.CreateDevice(d, &real, a, device);
}

struct Row {
  const char *when, *name;
  void* function;
};
#define AT(when, name, function) {when, "vk" #name, reinterpret_cast<void*>(function)}
const Row kRows[] = {
    AT("old-loader", EnumerateInstanceVersion, no_version),
    AT("", GetPhysicalDeviceProperties, properties),
    AT("no-queue", GetPhysicalDeviceQueueFamilyProperties, queues),
    AT("own-memory", GetPhysicalDeviceMemoryProperties, memory),
    AT("own-memory", GetBufferMemoryRequirements, requirements),
    AT("own-memory", AllocateMemory, allocate),
    AT("own-memory", FreeMemory, release),
    AT("own-memory", MapMemory, map),
    AT("own-memory", InvalidateMappedMemoryRanges, invalidate),
    AT("", QueueSubmit, submit),
    AT("", WaitForFences, wait),
    AT("", GetFenceStatus, status),
    AT("", CreateComputePipelines, compile),
    AT("matrices", EnumerateDeviceExtensionProperties, extensions),
    AT("matrices", GetPhysicalDeviceFeatures2, features),
    AT("matrices", GetPhysicalDeviceProperties2, properties2),
    AT("khr-matrices", GetPhysicalDeviceCooperativeMatrixPropertiesKHR, shapes<VkCooperativeMatrixPropertiesKHR>),
    AT("nv-matrices", GetPhysicalDeviceCooperativeMatrixPropertiesNV, shapes<VkCooperativeMatrixPropertiesNV>),
    AT("matrices", CreateDevice, create),
    AT("cache", CreatePipelineCache, open_cache),
    AT("cache", GetPipelineCacheData, cache_data),
};

Anything ours(const char* name) {
  for (const Row& r : kRows)
    if (strcmp(r.name, name) == 0 && is(r.when)) return reinterpret_cast<Anything>(r.function);
  return nullptr;
}

Anything PEN_VK_CALL from_device(VkDevice d, const char* name) {
  Anything real = instance_functions.GetDeviceProcAddr(d, name);
#define KEEP(result, member, arguments) \
  if (strcmp(name, "vk" #member) == 0) f.member = reinterpret_cast<result(PEN_VK_CALL*) arguments>(real);
  PEN_VK_DEVICE_FUNCTIONS(KEEP)
#undef KEEP
  Anything mine = ours(name);
  return mine ? mine : real;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) Anything PEN_VK_CALL vkGetInstanceProcAddr(VkInstance i, const char* name) {
  if (!real_instance) {
    void* library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    real_instance = reinterpret_cast<GetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  }
  Anything real = real_instance(i, name);
#define KEEP(result, member, arguments) \
  if (i && strcmp(name, "vk" #member) == 0) instance_functions.member = reinterpret_cast<result(PEN_VK_CALL*) arguments>(real);
  PEN_VK_INSTANCE_FUNCTIONS(KEEP)
#undef KEEP
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) return reinterpret_cast<Anything>(from_device);
  Anything mine = ours(name);
  return mine ? mine : real;
}
