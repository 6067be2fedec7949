// What callers ask of devices before there is a session. A library without a backend for them has these functions too, and says so.
#include "penlight/runtime/exec/backend.h"

using namespace pen;

namespace {

const Backend* find(const char* name) {
  for (int i = 0; i < kBackendCount; ++i)
    if (strcmp(kBackends[i]->name, name) == 0) return kBackends[i];
  return nullptr;
}

}  // namespace

extern "C" {

pen_status pen_vulkan_device(int32_t index, pen_device_info* info, pen_error* error) {
  const Backend* backend = find("vulkan");
  if (backend) return backend->describe(index, info, error);
  return report(error, PEN_ERROR_KERNEL, "Vulkan", "a library built with it", "one without");
}

int32_t pen_vulkan_available(pen_error* why) {
  pen_device_info info = PEN_DEVICE_INFO;
  pen_status status = pen_vulkan_device(0, &info, why);
  for (int32_t i = 1; !status && info.unfit[0]; ++i) {
    report(why, PEN_ERROR_KERNEL, info.name, "a device that can be used", info.unfit);
    status = pen_vulkan_device(i, &info, nullptr);
  }
  return status == PEN_OK;
}

}  // extern "C"
