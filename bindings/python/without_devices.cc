// In place of runtime/exec/buffer.cc where the runtime is built for the CPU only: no device has memory of its own, so there are no buffers,
// and the first function here says so. The others are never called.
#include <string.h>

#include "penlight.h"

extern "C" {

pen_status pen_buffer_create(const char*, int32_t, int32_t, const int64_t*, pen_buffer** out, pen_error* error) {
  *out = nullptr;
  error->status = PEN_ERROR_KERNEL;
  strcpy(error->message, "buffer: expected a runtime built with a device that has memory of its own, got one for the CPU");
  return PEN_ERROR_KERNEL;
}
void pen_buffer_destroy(pen_buffer*) {}
pen_status pen_buffer_upload(pen_buffer*, const void*, size_t, pen_error*) { return PEN_ERROR_ARGUMENT; }
pen_status pen_buffer_download(const pen_buffer*, void*, size_t, pen_error*) { return PEN_ERROR_ARGUMENT; }
void pen_buffer_tensor(const pen_buffer*, pen_tensor* tensor) { *tensor = {}; }
const char* pen_buffer_device_name(const pen_buffer*) { return ""; }
int32_t pen_session_takes_buffer(const pen_session*, const pen_buffer*) { return 0; }
pen_status pen_session_set_input_buffer(pen_session*, int32_t, const pen_buffer*) { return PEN_ERROR_ARGUMENT; }
pen_status pen_session_set_output_buffer(pen_session*, int32_t, pen_buffer*) { return PEN_ERROR_ARGUMENT; }

}  // extern "C"
