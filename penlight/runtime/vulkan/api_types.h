// Types of the part of Vulkan 1.1 that the runtime uses, and of its extensions, declared here by hand (see api.h). sType and pNext come
// filled in; pointers to what is never used are void*, sets of flags are VkFlags.
#pragma once
#include "penlight/runtime/base/platform.h"

namespace pen::vulkan {

using VkBool32 = uint32_t;
using VkFlags = uint32_t;
using VkDeviceSize = uint64_t;
// Objects with a table of functions in front are pointers, all others are 64 bits everywhere.
using VkInstance = struct VkInstance_T*;
using VkPhysicalDevice = struct VkPhysicalDevice_T*;
using VkDevice = struct VkDevice_T*;
using VkQueue = struct VkQueue_T*;
using VkCommandBuffer = struct VkCommandBuffer_T*;
enum class VkBuffer : uint64_t {};
enum class VkDeviceMemory : uint64_t {};
enum class VkShaderModule : uint64_t {};
enum class VkPipelineCache : uint64_t {};
enum class VkPipelineLayout : uint64_t {};
enum class VkPipeline : uint64_t {};
enum class VkDescriptorSetLayout : uint64_t {};
enum class VkDescriptorPool : uint64_t {};
enum class VkDescriptorSet : uint64_t {};
enum class VkCommandPool : uint64_t {};
enum class VkFence : uint64_t {};
enum class VkQueryPool : uint64_t {};

enum VkStructureType : uint32_t {
  VK_STRUCTURE_TYPE_APPLICATION_INFO = 0,
  VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO = 1,
  VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO = 2,
  VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO = 3,
  VK_STRUCTURE_TYPE_SUBMIT_INFO = 4,
  VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO = 5,
  VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE = 6,
  VK_STRUCTURE_TYPE_FENCE_CREATE_INFO = 8,
  VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO = 11,
  VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO = 12,
  VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO = 16,
  VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO = 17,
  VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO = 18,
  VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO = 29,
  VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO = 30,
  VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO = 32,
  VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO = 33,
  VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO = 34,
  VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET = 35,
  VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO = 39,
  VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO = 40,
  VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO = 42,
  VK_STRUCTURE_TYPE_MEMORY_BARRIER = 46,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2 = 1000059000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2 = 1000059001,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES = 1000094000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES = 1000168000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES = 1000196000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES = 1000225000,
  VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO = 1000225001,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES = 1000225002,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES = 1000280000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES = 1000280001,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES = 1000083000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES = 1000177000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES = 1000082000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES = 1000211000,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV = 1000249000,
  VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV = 1000249001,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR = 1000506000,
  VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR = 1000506001,
  VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_PROPERTIES_KHR = 1000506002,
};
enum VkResult : int32_t {
  VK_SUCCESS = 0,
  VK_NOT_READY = 1,
  VK_TIMEOUT = 2,
  VK_INCOMPLETE = 5,
  VK_ERROR_OUT_OF_HOST_MEMORY = -1,
  VK_ERROR_OUT_OF_DEVICE_MEMORY = -2,
  VK_ERROR_INITIALIZATION_FAILED = -3,
  VK_ERROR_DEVICE_LOST = -4,
  VK_ERROR_MEMORY_MAP_FAILED = -5,
  VK_ERROR_LAYER_NOT_PRESENT = -6,
  VK_ERROR_EXTENSION_NOT_PRESENT = -7,
  VK_ERROR_FEATURE_NOT_PRESENT = -8,
  VK_ERROR_INCOMPATIBLE_DRIVER = -9,
  VK_ERROR_TOO_MANY_OBJECTS = -10,
  VK_ERROR_FRAGMENTED_POOL = -12,
  VK_ERROR_UNKNOWN = -13,
  VK_ERROR_OUT_OF_POOL_MEMORY = -1000069000,
  VK_ERROR_INVALID_EXTERNAL_HANDLE = -1000072003,
  VK_ERROR_FRAGMENTATION = -1000161000,
  VK_ERROR_VALIDATION_FAILED_EXT = -1000011001,
  VK_ERROR_INVALID_SHADER_NV = -1000012000,
};
enum VkPhysicalDeviceType : uint32_t {
  VK_PHYSICAL_DEVICE_TYPE_OTHER = 0,
  VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU = 1,
  VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU = 2,
  VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU = 3,
  VK_PHYSICAL_DEVICE_TYPE_CPU = 4,
};
enum VkSharingMode : uint32_t { VK_SHARING_MODE_EXCLUSIVE = 0 };
enum VkDescriptorType : uint32_t { VK_DESCRIPTOR_TYPE_STORAGE_BUFFER = 7 };
enum VkQueryType : uint32_t { VK_QUERY_TYPE_TIMESTAMP = 2 };
enum VkPipelineBindPoint : uint32_t { VK_PIPELINE_BIND_POINT_COMPUTE = 1 };
enum VkCommandBufferLevel : uint32_t { VK_COMMAND_BUFFER_LEVEL_PRIMARY = 0 };
enum VkPipelineCacheHeaderVersion : uint32_t { VK_PIPELINE_CACHE_HEADER_VERSION_ONE = 1 };
enum VkComponentTypeNV : uint32_t {
  VK_COMPONENT_TYPE_FLOAT16_NV = 0,
  VK_COMPONENT_TYPE_FLOAT32_NV = 1,
};
enum VkScopeNV : uint32_t { VK_SCOPE_SUBGROUP_NV = 3 };
enum VkShaderStageFlagBits : uint32_t { VK_SHADER_STAGE_COMPUTE_BIT = 0x20 };
enum VkPipelineStageFlagBits : uint32_t {
  VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT = 0x01,
  VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT = 0x0800,
  VK_PIPELINE_STAGE_TRANSFER_BIT = 0x1000,
  VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT = 0x2000,
  VK_PIPELINE_STAGE_HOST_BIT = 0x4000,
};
enum VkAccessFlagBits : uint32_t {
  VK_ACCESS_SHADER_READ_BIT = 0x20,
  VK_ACCESS_SHADER_WRITE_BIT = 0x40,
  VK_ACCESS_TRANSFER_READ_BIT = 0x0800,
  VK_ACCESS_TRANSFER_WRITE_BIT = 0x1000,
  VK_ACCESS_HOST_READ_BIT = 0x2000,
  VK_ACCESS_HOST_WRITE_BIT = 0x4000,
};
enum VkQueueFlagBits : uint32_t {
  VK_QUEUE_GRAPHICS_BIT = 0x01,
  VK_QUEUE_COMPUTE_BIT = 0x02,
};
enum VkMemoryPropertyFlagBits : uint32_t {
  VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT = 0x01,
  VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT = 0x02,
  VK_MEMORY_PROPERTY_HOST_COHERENT_BIT = 0x04,
  VK_MEMORY_PROPERTY_HOST_CACHED_BIT = 0x08,
};
enum VkMemoryHeapFlagBits : uint32_t { VK_MEMORY_HEAP_DEVICE_LOCAL_BIT = 0x01 };
enum VkBufferUsageFlagBits : uint32_t {
  VK_BUFFER_USAGE_TRANSFER_SRC_BIT = 0x01,
  VK_BUFFER_USAGE_TRANSFER_DST_BIT = 0x02,
  VK_BUFFER_USAGE_STORAGE_BUFFER_BIT = 0x20,
};
enum VkQueryResultFlagBits : uint32_t { VK_QUERY_RESULT_64_BIT = 0x01 };
enum VkInstanceCreateFlagBits : uint32_t { VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR = 0x01 };
enum VkPipelineShaderStageCreateFlagBits : uint32_t { VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT = 0x02 };
enum VkSubgroupFeatureFlagBits : uint32_t {
  VK_SUBGROUP_FEATURE_BASIC_BIT = 0x01,
  VK_SUBGROUP_FEATURE_ARITHMETIC_BIT = 0x04,
  VK_SUBGROUP_FEATURE_SHUFFLE_BIT = 0x10,
};
using VkComponentTypeKHR = VkComponentTypeNV;  // the same numbers
using VkScopeKHR = VkScopeNV;

struct VkExtent3D {
  uint32_t width, height, depth;
};
struct VkApplicationInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  const void* pNext = nullptr;
  const char* pApplicationName;
  uint32_t applicationVersion;
  const char* pEngineName;
  uint32_t engineVersion, apiVersion;
};
struct VkInstanceCreateInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  const void* pNext = nullptr;
  VkFlags flags;
  const VkApplicationInfo* pApplicationInfo;
  uint32_t enabledLayerCount;
  const char* const* ppEnabledLayerNames;
  uint32_t enabledExtensionCount;
  const char* const* ppEnabledExtensionNames;
};
struct VkExtensionProperties {
  char extensionName[256];
  uint32_t specVersion;
};
struct VkPhysicalDeviceLimits {
  uint32_t maxImageDimension1D, maxImageDimension2D, maxImageDimension3D, maxImageDimensionCube, maxImageArrayLayers,
      maxTexelBufferElements, maxUniformBufferRange, maxStorageBufferRange, maxPushConstantsSize, maxMemoryAllocationCount,
      maxSamplerAllocationCount;
  VkDeviceSize bufferImageGranularity, sparseAddressSpaceSize;
  uint32_t maxBoundDescriptorSets, maxPerStageDescriptorSamplers, maxPerStageDescriptorUniformBuffers, maxPerStageDescriptorStorageBuffers,
      maxPerStageDescriptorSampledImages, maxPerStageDescriptorStorageImages, maxPerStageDescriptorInputAttachments, maxPerStageResources,
      maxDescriptorSetSamplers, maxDescriptorSetUniformBuffers, maxDescriptorSetUniformBuffersDynamic, maxDescriptorSetStorageBuffers,
      maxDescriptorSetStorageBuffersDynamic, maxDescriptorSetSampledImages, maxDescriptorSetStorageImages, maxDescriptorSetInputAttachments,
      maxVertexInputAttributes, maxVertexInputBindings, maxVertexInputAttributeOffset, maxVertexInputBindingStride,
      maxVertexOutputComponents, maxTessellationGenerationLevel, maxTessellationPatchSize, maxTessellationControlPerVertexInputComponents,
      maxTessellationControlPerVertexOutputComponents, maxTessellationControlPerPatchOutputComponents,
      maxTessellationControlTotalOutputComponents, maxTessellationEvaluationInputComponents, maxTessellationEvaluationOutputComponents,
      maxGeometryShaderInvocations, maxGeometryInputComponents, maxGeometryOutputComponents, maxGeometryOutputVertices,
      maxGeometryTotalOutputComponents, maxFragmentInputComponents, maxFragmentOutputAttachments, maxFragmentDualSrcAttachments,
      maxFragmentCombinedOutputResources, maxComputeSharedMemorySize, maxComputeWorkGroupCount[3], maxComputeWorkGroupInvocations,
      maxComputeWorkGroupSize[3], subPixelPrecisionBits, subTexelPrecisionBits, mipmapPrecisionBits, maxDrawIndexedIndexValue,
      maxDrawIndirectCount;
  float maxSamplerLodBias, maxSamplerAnisotropy;
  uint32_t maxViewports, maxViewportDimensions[2];
  float viewportBoundsRange[2];
  uint32_t viewportSubPixelBits;
  size_t minMemoryMapAlignment;
  VkDeviceSize minTexelBufferOffsetAlignment, minUniformBufferOffsetAlignment, minStorageBufferOffsetAlignment;
  int32_t minTexelOffset;
  uint32_t maxTexelOffset;
  int32_t minTexelGatherOffset;
  uint32_t maxTexelGatherOffset;
  float minInterpolationOffset, maxInterpolationOffset;
  uint32_t subPixelInterpolationOffsetBits, maxFramebufferWidth, maxFramebufferHeight, maxFramebufferLayers;
  VkFlags framebufferColorSampleCounts, framebufferDepthSampleCounts, framebufferStencilSampleCounts, framebufferNoAttachmentsSampleCounts;
  uint32_t maxColorAttachments;
  VkFlags sampledImageColorSampleCounts, sampledImageIntegerSampleCounts, sampledImageDepthSampleCounts, sampledImageStencilSampleCounts,
      storageImageSampleCounts;
  uint32_t maxSampleMaskWords;
  VkBool32 timestampComputeAndGraphics;
  float timestampPeriod;
  uint32_t maxClipDistances, maxCullDistances, maxCombinedClipAndCullDistances, discreteQueuePriorities;
  float pointSizeRange[2], lineWidthRange[2], pointSizeGranularity, lineWidthGranularity;
  VkBool32 strictLines, standardSampleLocations;
  VkDeviceSize optimalBufferCopyOffsetAlignment, optimalBufferCopyRowPitchAlignment, nonCoherentAtomSize;
};
struct VkPhysicalDeviceSparseProperties {
  VkBool32 residencyStandard2DBlockShape, residencyStandard2DMultisampleBlockShape, residencyStandard3DBlockShape, residencyAlignedMipSize,
      residencyNonResidentStrict;
};
struct VkPhysicalDeviceProperties {
  uint32_t apiVersion, driverVersion, vendorID, deviceID;
  VkPhysicalDeviceType deviceType;
  char deviceName[256];
  uint8_t pipelineCacheUUID[16];
  VkPhysicalDeviceLimits limits;
  VkPhysicalDeviceSparseProperties sparseProperties;
};
struct VkPhysicalDeviceProperties2 {
  VkStructureType sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  void* pNext = nullptr;
  VkPhysicalDeviceProperties properties;
};
struct VkPhysicalDeviceSubgroupProperties {
  VkStructureType sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
  void* pNext = nullptr;
  uint32_t subgroupSize;
  VkFlags supportedStages, supportedOperations;
  VkBool32 quadOperationsInAllStages;
};
struct VkPhysicalDeviceMaintenance3Properties {
  VkStructureType sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES;
  void* pNext = nullptr;
  uint32_t maxPerSetDescriptors;
  VkDeviceSize maxMemoryAllocationSize;
};
struct VkConformanceVersion {
  uint8_t major, minor, subminor, patch;
};
struct VkPhysicalDeviceDriverProperties {
  VkStructureType sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
  void* pNext = nullptr;
  uint32_t driverID;
  char driverName[256], driverInfo[256];
  VkConformanceVersion conformanceVersion;
};
struct VkPhysicalDeviceSubgroupSizeControlProperties {
  VkStructureType sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES;
  void* pNext = nullptr;
  uint32_t minSubgroupSize, maxSubgroupSize, maxComputeWorkgroupSubgroups;
  VkFlags requiredSubgroupSizeStages;
};
struct VkPhysicalDeviceShaderIntegerDotProductProperties {
  VkStructureType sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES;
  void* pNext = nullptr;
  VkBool32 integerDotProduct8BitUnsignedAccelerated, integerDotProduct8BitSignedAccelerated,
      integerDotProduct8BitMixedSignednessAccelerated, integerDotProduct4x8BitPackedUnsignedAccelerated,
      integerDotProduct4x8BitPackedSignedAccelerated, integerDotProduct4x8BitPackedMixedSignednessAccelerated,
      integerDotProduct16BitUnsignedAccelerated, integerDotProduct16BitSignedAccelerated, integerDotProduct16BitMixedSignednessAccelerated,
      integerDotProduct32BitUnsignedAccelerated, integerDotProduct32BitSignedAccelerated, integerDotProduct32BitMixedSignednessAccelerated,
      integerDotProduct64BitUnsignedAccelerated, integerDotProduct64BitSignedAccelerated, integerDotProduct64BitMixedSignednessAccelerated,
      integerDotProductAccumulatingSaturating8BitUnsignedAccelerated, integerDotProductAccumulatingSaturating8BitSignedAccelerated,
      integerDotProductAccumulatingSaturating8BitMixedSignednessAccelerated,
      integerDotProductAccumulatingSaturating4x8BitPackedUnsignedAccelerated,
      integerDotProductAccumulatingSaturating4x8BitPackedSignedAccelerated,
      integerDotProductAccumulatingSaturating4x8BitPackedMixedSignednessAccelerated,
      integerDotProductAccumulatingSaturating16BitUnsignedAccelerated, integerDotProductAccumulatingSaturating16BitSignedAccelerated,
      integerDotProductAccumulatingSaturating16BitMixedSignednessAccelerated,
      integerDotProductAccumulatingSaturating32BitUnsignedAccelerated, integerDotProductAccumulatingSaturating32BitSignedAccelerated,
      integerDotProductAccumulatingSaturating32BitMixedSignednessAccelerated,
      integerDotProductAccumulatingSaturating64BitUnsignedAccelerated, integerDotProductAccumulatingSaturating64BitSignedAccelerated,
      integerDotProductAccumulatingSaturating64BitMixedSignednessAccelerated;
};
struct VkPhysicalDeviceFeatures {
  VkBool32 robustBufferAccess, fullDrawIndexUint32, imageCubeArray, independentBlend, geometryShader, tessellationShader, sampleRateShading,
      dualSrcBlend, logicOp, multiDrawIndirect, drawIndirectFirstInstance, depthClamp, depthBiasClamp, fillModeNonSolid, depthBounds,
      wideLines, largePoints, alphaToOne, multiViewport, samplerAnisotropy, textureCompressionETC2, textureCompressionASTC_LDR,
      textureCompressionBC, occlusionQueryPrecise, pipelineStatisticsQuery, vertexPipelineStoresAndAtomics, fragmentStoresAndAtomics,
      shaderTessellationAndGeometryPointSize, shaderImageGatherExtended, shaderStorageImageExtendedFormats, shaderStorageImageMultisample,
      shaderStorageImageReadWithoutFormat, shaderStorageImageWriteWithoutFormat, shaderUniformBufferArrayDynamicIndexing,
      shaderSampledImageArrayDynamicIndexing, shaderStorageBufferArrayDynamicIndexing, shaderStorageImageArrayDynamicIndexing,
      shaderClipDistance, shaderCullDistance, shaderFloat64, shaderInt64, shaderInt16, shaderResourceResidency, shaderResourceMinLod,
      sparseBinding, sparseResidencyBuffer, sparseResidencyImage2D, sparseResidencyImage3D, sparseResidency2Samples,
      sparseResidency4Samples, sparseResidency8Samples, sparseResidency16Samples, sparseResidencyAliased, variableMultisampleRate,
      inheritedQueries;
};
struct VkPhysicalDeviceFeatures2 {
  VkStructureType sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  void* pNext = nullptr;
  VkPhysicalDeviceFeatures features;
};
struct VkPhysicalDevice16BitStorageFeatures {
  VkStructureType sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
  void* pNext = nullptr;
  VkBool32 storageBuffer16BitAccess, uniformAndStorageBuffer16BitAccess, storagePushConstant16, storageInputOutput16;
};
struct VkPhysicalDevice8BitStorageFeatures {
  VkStructureType sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES;
  void* pNext = nullptr;
  VkBool32 storageBuffer8BitAccess, uniformAndStorageBuffer8BitAccess, storagePushConstant8;
};
struct VkPhysicalDeviceShaderFloat16Int8Features {
  VkStructureType sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
  void* pNext = nullptr;
  VkBool32 shaderFloat16, shaderInt8;
};
struct VkPhysicalDeviceSubgroupSizeControlFeatures {
  VkStructureType sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
  void* pNext = nullptr;
  VkBool32 subgroupSizeControl, computeFullSubgroups;
};
struct VkPhysicalDeviceShaderIntegerDotProductFeatures {
  VkStructureType sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES;
  void* pNext = nullptr;
  VkBool32 shaderIntegerDotProduct;
};
struct VkPhysicalDeviceVulkanMemoryModelFeatures {
  VkStructureType sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES;
  void* pNext = nullptr;
  VkBool32 vulkanMemoryModel, vulkanMemoryModelDeviceScope, vulkanMemoryModelAvailabilityVisibilityChains;
};
struct VkPhysicalDeviceCooperativeMatrixFeaturesNV {
  VkStructureType sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV;
  void* pNext = nullptr;
  VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
};
struct VkCooperativeMatrixPropertiesNV {
  VkStructureType sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV;
  void* pNext = nullptr;
  uint32_t MSize, NSize, KSize;
  VkComponentTypeNV AType, BType, CType, DType;
  VkScopeNV scope;
};
struct VkQueueFamilyProperties {
  VkFlags queueFlags;
  uint32_t queueCount, timestampValidBits;
  VkExtent3D minImageTransferGranularity;
};
struct VkMemoryType {
  VkFlags propertyFlags;
  uint32_t heapIndex;
};
struct VkMemoryHeap {
  VkDeviceSize size;
  VkFlags flags;
};
struct VkPhysicalDeviceMemoryProperties {
  uint32_t memoryTypeCount;
  VkMemoryType memoryTypes[32];
  uint32_t memoryHeapCount;
  VkMemoryHeap memoryHeaps[16];
};
struct VkDeviceQueueCreateInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  const void* pNext = nullptr;
  VkFlags flags;
  uint32_t queueFamilyIndex, queueCount;
  const float* pQueuePriorities;
};
struct VkDeviceCreateInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  const void* pNext = nullptr;
  VkFlags flags;
  uint32_t queueCreateInfoCount;
  const VkDeviceQueueCreateInfo* pQueueCreateInfos;
  uint32_t enabledLayerCount;
  const char* const* ppEnabledLayerNames;
  uint32_t enabledExtensionCount;
  const char* const* ppEnabledExtensionNames;
  const VkPhysicalDeviceFeatures* pEnabledFeatures;
};
struct VkBufferCreateInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  const void* pNext = nullptr;
  VkFlags flags;
  VkDeviceSize size;
  VkFlags usage;
  VkSharingMode sharingMode;
  uint32_t queueFamilyIndexCount;
  const uint32_t* pQueueFamilyIndices;
};
struct VkMemoryRequirements {
  VkDeviceSize size, alignment;
  uint32_t memoryTypeBits;
};
struct VkMemoryAllocateInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  const void* pNext = nullptr;
  VkDeviceSize allocationSize;
  uint32_t memoryTypeIndex;
};
struct VkMappedMemoryRange {
  VkStructureType sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE;
  const void* pNext = nullptr;
  VkDeviceMemory memory;
  VkDeviceSize offset, size;
};
struct VkShaderModuleCreateInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  const void* pNext = nullptr;
  VkFlags flags;
  size_t codeSize;
  const uint32_t* pCode;
};
struct VkSpecializationMapEntry {
  uint32_t constantID, offset;
  size_t size;
};
struct VkSpecializationInfo {
  uint32_t mapEntryCount;
  const VkSpecializationMapEntry* pMapEntries;
  size_t dataSize;
  const void* pData;
};
struct VkPipelineShaderStageCreateInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  const void* pNext = nullptr;
  VkFlags flags;
  VkShaderStageFlagBits stage;
  VkShaderModule module;
  const char* pName;
  const VkSpecializationInfo* pSpecializationInfo;
};
struct VkPipelineShaderStageRequiredSubgroupSizeCreateInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
  void* pNext = nullptr;
  uint32_t requiredSubgroupSize;
};
struct VkComputePipelineCreateInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  const void* pNext = nullptr;
  VkFlags flags;
  VkPipelineShaderStageCreateInfo stage;
  VkPipelineLayout layout;
  VkPipeline basePipelineHandle;
  int32_t basePipelineIndex;
};
struct VkPipelineCacheCreateInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  const void* pNext = nullptr;
  VkFlags flags;
  size_t initialDataSize;
  const void* pInitialData;
};
struct VkPipelineCacheHeaderVersionOne {
  uint32_t headerSize;
  VkPipelineCacheHeaderVersion headerVersion;
  uint32_t vendorID, deviceID;
  uint8_t pipelineCacheUUID[16];
};
struct VkDescriptorSetLayoutBinding {
  uint32_t binding;
  VkDescriptorType descriptorType;
  uint32_t descriptorCount;
  VkFlags stageFlags;
  const void* pImmutableSamplers;
};
struct VkDescriptorSetLayoutCreateInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
  const void* pNext = nullptr;
  VkFlags flags;
  uint32_t bindingCount;
  const VkDescriptorSetLayoutBinding* pBindings;
};
struct VkPushConstantRange {
  VkFlags stageFlags;
  uint32_t offset, size;
};
struct VkPipelineLayoutCreateInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  const void* pNext = nullptr;
  VkFlags flags;
  uint32_t setLayoutCount;
  const VkDescriptorSetLayout* pSetLayouts;
  uint32_t pushConstantRangeCount;
  const VkPushConstantRange* pPushConstantRanges;
};
struct VkDescriptorPoolSize {
  VkDescriptorType type;
  uint32_t descriptorCount;
};
struct VkDescriptorPoolCreateInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
  const void* pNext = nullptr;
  VkFlags flags;
  uint32_t maxSets, poolSizeCount;
  const VkDescriptorPoolSize* pPoolSizes;
};
struct VkDescriptorSetAllocateInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
  const void* pNext = nullptr;
  VkDescriptorPool descriptorPool;
  uint32_t descriptorSetCount;
  const VkDescriptorSetLayout* pSetLayouts;
};
struct VkDescriptorBufferInfo {
  VkBuffer buffer;
  VkDeviceSize offset, range;
};
struct VkWriteDescriptorSet {
  VkStructureType sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
  const void* pNext = nullptr;
  VkDescriptorSet dstSet;
  uint32_t dstBinding, dstArrayElement, descriptorCount;
  VkDescriptorType descriptorType;
  const void* pImageInfo;
  const VkDescriptorBufferInfo* pBufferInfo;
  const void* pTexelBufferView;
};
struct VkCommandPoolCreateInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  const void* pNext = nullptr;
  VkFlags flags;
  uint32_t queueFamilyIndex;
};
struct VkCommandBufferAllocateInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  const void* pNext = nullptr;
  VkCommandPool commandPool;
  VkCommandBufferLevel level;
  uint32_t commandBufferCount;
};
struct VkCommandBufferBeginInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  const void* pNext = nullptr;
  VkFlags flags;
  const void* pInheritanceInfo;
};
struct VkBufferCopy {
  VkDeviceSize srcOffset, dstOffset, size;
};
struct VkMemoryBarrier {
  VkStructureType sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  const void* pNext = nullptr;
  VkFlags srcAccessMask, dstAccessMask;
};
struct VkFenceCreateInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
  const void* pNext = nullptr;
  VkFlags flags;
};
struct VkSubmitInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  const void* pNext = nullptr;
  uint32_t waitSemaphoreCount;
  const void* pWaitSemaphores;
  const VkFlags* pWaitDstStageMask;
  uint32_t commandBufferCount;
  const VkCommandBuffer* pCommandBuffers;
  uint32_t signalSemaphoreCount;
  const void* pSignalSemaphores;
};
struct VkQueryPoolCreateInfo {
  VkStructureType sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  const void* pNext = nullptr;
  VkFlags flags;
  VkQueryType queryType;
  uint32_t queryCount;
  VkFlags pipelineStatistics;
};
struct VkPhysicalDeviceCooperativeMatrixFeaturesKHR {
  VkStructureType sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
  void* pNext = nullptr;
  VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
};
struct VkPhysicalDeviceCooperativeMatrixPropertiesKHR {
  VkStructureType sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
  void* pNext = nullptr;
  VkFlags cooperativeMatrixSupportedStages;
};
struct VkCooperativeMatrixPropertiesKHR {
  VkStructureType sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
  void* pNext = nullptr;
  uint32_t MSize, NSize, KSize;
  VkComponentTypeKHR AType, BType, CType, ResultType;
  VkBool32 saturatingAccumulation;
  VkScopeKHR scope;
};

}  // namespace pen::vulkan
