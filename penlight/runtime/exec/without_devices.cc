// In place of buffer.cc in a library for the CPU only: no device has memory of its own, so there are no buffers, and the first function
// here says so. The others are never called with one.
#include "penlight/runtime/exec/buffer.h"

using namespace pen;

extern "C" {

pen_status pen_buffer_create(const char*, int32_t, int32_t, const int64_t*, pen_buffer** out, pen_error* error) {
  *out = nullptr;
  return report(error, PEN_ERROR_KERNEL, "buffer", "a library built with a device that has memory of its own", "one for the CPU");
}
void pen_buffer_destroy(pen_buffer*) {}
pen_status pen_buffer_upload(pen_buffer*, const void*, size_t, pen_error*) { return PEN_ERROR_ARGUMENT; }
pen_status pen_buffer_download(const pen_buffer*, void*, size_t, pen_error*) { return PEN_ERROR_ARGUMENT; }
void pen_buffer_tensor(const pen_buffer*, pen_tensor* tensor) { *tensor = {}; }
const char* pen_buffer_device_name(const pen_buffer*) { return ""; }

}  // extern "C"
