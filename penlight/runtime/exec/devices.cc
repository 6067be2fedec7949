// What callers ask of devices before there is a session. A library without a backend for them has these functions too, and says so.
#include "penlight/runtime/exec/backend.h"

using namespace pen;

extern "C" {

pen_status pen_vulkan_device(int32_t index, pen_device_info* info, pen_error* error) {
  const Backend* backend;
  const char* which;
  PEN_TRY(choose_backend("vulkan", &backend, &which, error));
  return backend->describe(index, info, error);
}

int32_t pen_vulkan_available(pen_error* why) { return pen_vulkan_device(-1, nullptr, why) == PEN_OK; }

}  // extern "C"
