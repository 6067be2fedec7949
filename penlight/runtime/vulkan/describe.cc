// A device of the list as callers in C are told of it. Their struct may be of an older version, which has fewer fields, or of a later one.
#include "penlight/runtime/vulkan/device.h"

namespace pen::vulkan {

namespace {

void tell(const DeviceInfo& d, pen_device_info* out) {
  const Limits& l = d.limits;
  memcpy(out->name, d.name, sizeof out->name);
  memcpy(out->driver, d.driver, sizeof out->driver);
  memcpy(out->driver_info, d.driver_info, sizeof out->driver_info);
  set_text(out->api, sizeof out->api, "%u.%u.%u", d.api >> 22 & 0x7f, d.api >> 12 & 0x3ff, d.api & 0xfff);
  out->type = type_name(d.type);
  out->unfit = d.unfit;
  out->memory_bytes = l.memory_bytes;
  out->buffer_bytes = l.storage_range < l.allocation_bytes ? l.storage_range : l.allocation_bytes;
  out->subgroup_size = l.subgroup_size;
  out->group_threads = l.group_invocations;
  out->shared_bytes = l.shared_bytes;
  out->f16_storage = l.f16_storage;
  out->f16_arithmetic = l.f16_arithmetic;
  out->i8_storage = l.i8_storage;
  out->i8_arithmetic = l.i8_arithmetic;
  out->integer_dot = l.integer_dot;
  out->cooperative_matrix = l.cooperative_khr || l.cooperative_nv;
}

}  // namespace

Status describe_device(int32_t index, pen_device_info* info, pen_error* error) {  // no info: whether any is fit
  size_t theirs = info ? info->size : sizeof(size_t);
  if (!is_struct_size(theirs))
    return report(error, PEN_ERROR_ARGUMENT, "device info", "its size in the first field", "another number", "Begin with PEN_DEVICE_INFO");
  constexpr int32_t kMost = 64;  // find_devices has no more
  auto* all = static_cast<DeviceInfo*>(calloc(kMost, sizeof(DeviceInfo)));
  if (!all) return report(error, PEN_ERROR_MEMORY, "Vulkan devices", "memory");
  int32_t count = 0;
  Status status = list_devices(all, kMost, &count, error);
  if (!status && !info) {
    int32_t fit = 0;
    while (fit < count && all[fit].unfit[0]) ++fit;
    if (fit == count) status = report(error, kDeviceFailed, all[0].name, "a device that can be used", all[0].unfit);
  } else if (!status && (index < 0 || index >= count)) {
    char expected[48], got[16];
    set_text(expected, sizeof expected, "a number from 0 to %d", count - 1);
    set_text(got, sizeof got, "%d", index);
    status = report(error, PEN_ERROR_ARGUMENT, "Vulkan device", expected, got);
  }
  if (!status && info) {
    pen_device_info own = PEN_DEVICE_INFO;
    tell(all[index], &own);
    own.size = theirs;
    memset(info, 0, theirs);
    memcpy(info, &own, theirs < sizeof own ? theirs : sizeof own);
  }
  free(all);
  return status;
}

}  // namespace pen::vulkan
