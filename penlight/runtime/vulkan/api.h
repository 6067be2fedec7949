// The part of Vulkan 1.1 that the runtime calls, and of its extensions, declared here by hand: no Vulkan header is needed to compile the
// runtime. Names, layouts and signatures are Vulkan's own: tests/runtime/test_vulkan_api.py compares each of them with the real header,
// in 64 and in 32 bit.
#pragma once
#include "penlight/runtime/vulkan/api_types.h"

#if defined(_WIN32)
#define PEN_VK_CALL __stdcall
#elif defined(__ANDROID__) && defined(__ARM_ARCH) && __ARM_ARCH >= 7 && defined(__ARM_32BIT_STATE)
#define PEN_VK_CALL __attribute__((pcs("aapcs-vfp")))  // floats in registers, even where the rest of Android's armv7 has them not
#else
#define PEN_VK_CALL
#endif

namespace pen::vulkan {

// Functions, by where they are asked for: F(result, name without its vk, arguments).
using Anything = void(PEN_VK_CALL*)();
using GetInstanceProcAddr = Anything(PEN_VK_CALL*)(VkInstance, const char*);
#define PEN_VK_GLOBAL_FUNCTIONS(F)                                                                    \
  F(VkResult, EnumerateInstanceVersion, (uint32_t*))                                                  \
  F(VkResult, EnumerateInstanceExtensionProperties, (const char*, uint32_t*, VkExtensionProperties*)) \
  F(VkResult, CreateInstance, (const VkInstanceCreateInfo*, const void*, VkInstance*))

#define PEN_VK_INSTANCE_FUNCTIONS(F)                                                                                  \
  F(void, DestroyInstance, (VkInstance, const void*))                                                                 \
  F(VkResult, EnumeratePhysicalDevices, (VkInstance, uint32_t*, VkPhysicalDevice*))                                   \
  F(void, GetPhysicalDeviceProperties2, (VkPhysicalDevice, VkPhysicalDeviceProperties2*))                             \
  F(void, GetPhysicalDeviceProperties, (VkPhysicalDevice, VkPhysicalDeviceProperties*))                               \
  F(void, GetPhysicalDeviceFeatures2, (VkPhysicalDevice, VkPhysicalDeviceFeatures2*))                                 \
  F(void, GetPhysicalDeviceMemoryProperties, (VkPhysicalDevice, VkPhysicalDeviceMemoryProperties*))                   \
  F(void, GetPhysicalDeviceQueueFamilyProperties, (VkPhysicalDevice, uint32_t*, VkQueueFamilyProperties*))            \
  F(VkResult, EnumerateDeviceExtensionProperties, (VkPhysicalDevice, const char*, uint32_t*, VkExtensionProperties*)) \
  F(VkResult, CreateDevice, (VkPhysicalDevice, const VkDeviceCreateInfo*, const void*, VkDevice*))                    \
  F(Anything, GetDeviceProcAddr, (VkDevice, const char*))

#define PEN_VK_EXTENSION_FUNCTIONS(F)                                                                                          \
  F(VkResult, GetPhysicalDeviceCooperativeMatrixPropertiesNV, (VkPhysicalDevice, uint32_t*, VkCooperativeMatrixPropertiesNV*)) \
  F(VkResult, GetPhysicalDeviceCooperativeMatrixPropertiesKHR, (VkPhysicalDevice, uint32_t*, VkCooperativeMatrixPropertiesKHR*))

#define PEN_VK_DEVICE_FUNCTIONS(F)                                                                                                         \
  F(void, DestroyDevice, (VkDevice, const void*))                                                                                          \
  F(void, GetDeviceQueue, (VkDevice, uint32_t, uint32_t, VkQueue*))                                                                        \
  F(VkResult, CreateBuffer, (VkDevice, const VkBufferCreateInfo*, const void*, VkBuffer*))                                                 \
  F(void, DestroyBuffer, (VkDevice, VkBuffer, const void*))                                                                                \
  F(void, GetBufferMemoryRequirements, (VkDevice, VkBuffer, VkMemoryRequirements*))                                                        \
  F(VkResult, AllocateMemory, (VkDevice, const VkMemoryAllocateInfo*, const void*, VkDeviceMemory*))                                       \
  F(void, FreeMemory, (VkDevice, VkDeviceMemory, const void*))                                                                             \
  F(VkResult, BindBufferMemory, (VkDevice, VkBuffer, VkDeviceMemory, VkDeviceSize))                                                        \
  F(VkResult, MapMemory, (VkDevice, VkDeviceMemory, VkDeviceSize, VkDeviceSize, VkFlags, void**))                                          \
  F(VkResult, InvalidateMappedMemoryRanges, (VkDevice, uint32_t, const VkMappedMemoryRange*))                                              \
  F(VkResult, CreateShaderModule, (VkDevice, const VkShaderModuleCreateInfo*, const void*, VkShaderModule*))                               \
  F(void, DestroyShaderModule, (VkDevice, VkShaderModule, const void*))                                                                    \
  F(VkResult, CreateDescriptorSetLayout, (VkDevice, const VkDescriptorSetLayoutCreateInfo*, const void*, VkDescriptorSetLayout*))          \
  F(void, DestroyDescriptorSetLayout, (VkDevice, VkDescriptorSetLayout, const void*))                                                      \
  F(VkResult, CreatePipelineLayout, (VkDevice, const VkPipelineLayoutCreateInfo*, const void*, VkPipelineLayout*))                         \
  F(void, DestroyPipelineLayout, (VkDevice, VkPipelineLayout, const void*))                                                                \
  F(VkResult, CreateComputePipelines, (VkDevice, VkPipelineCache, uint32_t, const VkComputePipelineCreateInfo*, const void*, VkPipeline*)) \
  F(void, DestroyPipeline, (VkDevice, VkPipeline, const void*))                                                                            \
  F(VkResult, CreatePipelineCache, (VkDevice, const VkPipelineCacheCreateInfo*, const void*, VkPipelineCache*))                            \
  F(void, DestroyPipelineCache, (VkDevice, VkPipelineCache, const void*))                                                                  \
  F(VkResult, GetPipelineCacheData, (VkDevice, VkPipelineCache, size_t*, void*))                                                           \
  F(VkResult, CreateDescriptorPool, (VkDevice, const VkDescriptorPoolCreateInfo*, const void*, VkDescriptorPool*))                         \
  F(void, DestroyDescriptorPool, (VkDevice, VkDescriptorPool, const void*))                                                                \
  F(VkResult, AllocateDescriptorSets, (VkDevice, const VkDescriptorSetAllocateInfo*, VkDescriptorSet*))                                    \
  F(void, UpdateDescriptorSets, (VkDevice, uint32_t, const VkWriteDescriptorSet*, uint32_t, const void*))                                  \
  F(VkResult, CreateCommandPool, (VkDevice, const VkCommandPoolCreateInfo*, const void*, VkCommandPool*))                                  \
  F(void, DestroyCommandPool, (VkDevice, VkCommandPool, const void*))                                                                      \
  F(VkResult, AllocateCommandBuffers, (VkDevice, const VkCommandBufferAllocateInfo*, VkCommandBuffer*))                                    \
  F(VkResult, BeginCommandBuffer, (VkCommandBuffer, const VkCommandBufferBeginInfo*))                                                      \
  F(VkResult, EndCommandBuffer, (VkCommandBuffer))                                                                                         \
  F(void, CmdBindPipeline, (VkCommandBuffer, VkPipelineBindPoint, VkPipeline))                                                             \
  F(void, CmdBindDescriptorSets,                                                                                                           \
    (VkCommandBuffer, VkPipelineBindPoint, VkPipelineLayout, uint32_t, uint32_t, const VkDescriptorSet*, uint32_t, const uint32_t*))       \
  F(void, CmdPushConstants, (VkCommandBuffer, VkPipelineLayout, VkFlags, uint32_t, uint32_t, const void*))                                 \
  F(void, CmdDispatch, (VkCommandBuffer, uint32_t, uint32_t, uint32_t))                                                                    \
  F(void, CmdCopyBuffer, (VkCommandBuffer, VkBuffer, VkBuffer, uint32_t, const VkBufferCopy*))                                             \
  F(void, CmdPipelineBarrier,                                                                                                              \
    (VkCommandBuffer, VkFlags, VkFlags, VkFlags, uint32_t, const VkMemoryBarrier*, uint32_t, const void*, uint32_t, const void*))          \
  F(void, CmdResetQueryPool, (VkCommandBuffer, VkQueryPool, uint32_t, uint32_t))                                                           \
  F(void, CmdWriteTimestamp, (VkCommandBuffer, VkPipelineStageFlagBits, VkQueryPool, uint32_t))                                            \
  F(VkResult, CreateFence, (VkDevice, const VkFenceCreateInfo*, const void*, VkFence*))                                                    \
  F(void, DestroyFence, (VkDevice, VkFence, const void*))                                                                                  \
  F(VkResult, ResetFences, (VkDevice, uint32_t, const VkFence*))                                                                           \
  F(VkResult, GetFenceStatus, (VkDevice, VkFence))                                                                                         \
  F(VkResult, WaitForFences, (VkDevice, uint32_t, const VkFence*, VkBool32, uint64_t))                                                     \
  F(VkResult, QueueSubmit, (VkQueue, uint32_t, const VkSubmitInfo*, VkFence))                                                              \
  F(VkResult, CreateQueryPool, (VkDevice, const VkQueryPoolCreateInfo*, const void*, VkQueryPool*))                                        \
  F(void, DestroyQueryPool, (VkDevice, VkQueryPool, const void*))                                                                          \
  F(VkResult, GetQueryPoolResults, (VkDevice, VkQueryPool, uint32_t, uint32_t, size_t, void*, VkDeviceSize, VkFlags))

#define PEN_VK_MEMBER(result, name, arguments) result(PEN_VK_CALL* name) arguments;
struct GlobalFunctions {
  PEN_VK_GLOBAL_FUNCTIONS(PEN_VK_MEMBER)
};
struct InstanceFunctions {
  PEN_VK_INSTANCE_FUNCTIONS(PEN_VK_MEMBER)
};
struct ExtensionFunctions {  // each null where the device has it not
  PEN_VK_EXTENSION_FUNCTIONS(PEN_VK_MEMBER)
};
struct DeviceFunctions {
  PEN_VK_DEVICE_FUNCTIONS(PEN_VK_MEMBER)
};
#undef PEN_VK_MEMBER

}  // namespace pen::vulkan
