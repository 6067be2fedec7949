// The machine's Vulkan devices, what each can do, and those that are open: one compute queue each, shared by all of the process that asked
// for the same device, counted, closed with the last. What is asked of a device that is lost, or that a parent process opened, is an
// error in words; a lost one is opened afresh.
#pragma once
#include "penlight/runtime/vulkan/loader.h"

namespace pen::vulkan {

struct MatrixShape {
  uint32_t m, n, k;
};

// What shaders and their scheduling are chosen by. Features are true where the device has them; an open device has them enabled.
struct Limits {
  uint32_t subgroup_size, subgroup_min, subgroup_max;  // what the driver takes by itself; what a pipeline may ask for, if:
  bool subgroup_choice;
  uint32_t subgroup_operations;  // VkSubgroupFeatureFlagBits, in compute shaders
  uint32_t group_size[3], group_invocations, group_count[3], shared_bytes;
  uint32_t storage_alignment, storage_buffers, push_bytes;  // of a buffer's offset; in one shader; of push constants
  uint64_t storage_range;                                   // bytes of one buffer that a shader sees
  uint64_t allocation_bytes, memory_bytes;                  // of one buffer; of the largest heap that is the device's own
  uint32_t timestamp_bits;                                  // 0: no timestamps
  float timestamp_period;                                   // nanoseconds
  bool f16_storage, f16_arithmetic, i8_storage, i8_arithmetic, i16_arithmetic, i64_arithmetic, f64_arithmetic;
  bool integer_dot, integer_dot_fast;    // there; four signed bytes at a time in hardware
  bool cooperative_khr, cooperative_nv;  // cooperative matrices, by which extension's SPIR-V
  int32_t shape_count;                   // f16 in, f32 accumulated, a subgroup together
  MatrixShape shapes[16];                // KHR's where there, else NV's
  bool unified;                          // the device's memory is the host's: device buffers are mapped
};

struct DeviceInfo {
  char name[256], driver[256], driver_info[256];
  VkPhysicalDeviceType type;
  uint32_t vendor, device, api, driver_version, driver_id;
  uint8_t cache_uuid[16];
  const char* unfit;  // why it cannot be used; "" if it can
  Limits limits;
};
const char* type_name(VkPhysicalDeviceType type);

// Writes up to `room` devices, the likeliest first (discrete, integrated, virtual, CPU), and how many there are. None at all: an error
// that says what is missing.
Status list_devices(DeviceInfo* infos, int32_t room, int32_t* count, pen_error* error);

// One of that list, for callers in C.
Status describe_device(int32_t index, pen_device_info* info, pen_error* error);

struct Pipelines;  // pipeline.cc: those made so far, and the cache behind them

struct Device {
  DeviceInfo info;
  VkDevice handle;
  VkQueue queue;
  uint32_t family;
  DeviceFunctions f;
  VkPhysicalDeviceMemoryProperties memory;
  alignas(64) char lock[platform::kLockBytes];  // the queue, and `pipelines`
  Pipelines* pipelines;
  // The process's table of open devices, under the process's lock.
  Device* next;
  VkPhysicalDevice physical;
  int process;
  int32_t users;
  uint32_t lost;
};

// Which: "" the first of the list, "1" its number in the list, "nvidia" part of a name. PENLIGHT_VULKAN_DEVICE, where set, wins.
Status open_device(const char* which, Device** device, pen_error* error);
// One user more, one user less. Buffers and recordings are users, so that all may end in any order.
void retain_device(Device* device);
void release_device(Device* device);

// An error where the device is lost or another process's; buffers and recordings of such a device may only be destroyed.
Status check_device(const Device* device, pen_error* error);
bool is_own(const Device* device);  // opened by this process
// The error for what the driver said when it was asked for `expected`; a lost device is marked.
Status device_error(Device* device, VkResult result, const char* expected, pen_error* error);

}  // namespace pen::vulkan
