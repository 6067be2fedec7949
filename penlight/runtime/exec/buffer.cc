#include "penlight/runtime/exec/buffer.h"

using namespace pen;

namespace {

Status describe(int32_t dtype, int32_t rank, const int64_t* dims, Tensor* t, int64_t* bytes, pen_error* error) {
  if (dtype < 0 || dtype >= kDTypeCount || rank < 0 || rank > kMaxRank)
    return report(error, PEN_ERROR_ARGUMENT, "buffer", "a dtype of pen_dtype, and at most 8 dims", "others");
  t->dtype = static_cast<DType>(dtype);
  t->rank = rank;
  for (int d = 0; d < rank; ++d) {
    t->dims[d] = dims[d];
    if (dims[d] < 0) return report(error, PEN_ERROR_ARGUMENT, "buffer", "sizes of 0 or more", "a negative one");
  }
  return lay_plain(t, bytes) ? PEN_OK : report(error, PEN_ERROR_MEMORY, "buffer", "a tensor below 64 TB", "a larger one");
}

Status check_size(const pen_buffer& b, const void* data, size_t size, pen_error* error) {
  if (size == b.bytes && (data || !size)) return PEN_OK;
  char expected[64], got[64];
  set_text(expected, sizeof expected, "%llu bytes", static_cast<unsigned long long>(b.bytes));
  set_text(got, sizeof got, data ? "%zu" : "a null pointer", size);
  return report(error, PEN_ERROR_ARGUMENT, "buffer", expected, got);
}

}  // namespace

extern "C" {

pen_status pen_buffer_create(const char* device, int32_t dtype, int32_t rank, const int64_t* dims, pen_buffer** out, pen_error* error) {
  *out = nullptr;
  const Backend* backend;
  const char* which;
  PEN_TRY(choose_backend(device, &backend, &which, error));
  if (!backend->memory)
    return report(error, PEN_ERROR_ARGUMENT, "buffer", "a device with memory of its own", backend->name, "Its tensors are plain memory");
  pen_buffer* b = static_cast<pen_buffer*>(calloc(1, sizeof(pen_buffer)));
  if (!b) return report(error, PEN_ERROR_MEMORY, "buffer", "memory");
  b->backend = backend;
  int64_t bytes = 0;
  Status status = describe(dtype, rank, dims, &b->tensor, &bytes, error);
  b->bytes = static_cast<uint64_t>(bytes);
  if (!status) status = backend->open(which, false, &b->device, error);
  if (!status) status = backend->memory->create(b->device, b->bytes, &b->memory, error);
  if (status)
    pen_buffer_destroy(b);
  else
    *out = b;
  return status;
}

void pen_buffer_destroy(pen_buffer* b) {
  if (!b) return;
  if (b->memory) b->backend->memory->destroy(b->memory);
  if (b->device) b->backend->close(b->device);
  free(b);
}

pen_status pen_buffer_upload(pen_buffer* b, const void* data, size_t size, pen_error* error) {
  PEN_TRY(check_size(*b, data, size, error));
  return b->backend->memory->upload(b->memory, data, size, error);
}
pen_status pen_buffer_download(const pen_buffer* b, void* data, size_t size, pen_error* error) {
  PEN_TRY(check_size(*b, data, size, error));
  return b->backend->memory->download(b->memory, data, size, error);
}

void pen_buffer_tensor(const pen_buffer* b, pen_tensor* tensor) {
  *tensor = {nullptr, static_cast<int32_t>(b->tensor.dtype), b->tensor.rank, b->tensor.dims, b->tensor.strides};
}
const char* pen_buffer_device_name(const pen_buffer* b) { return b->backend->name_of(b->device); }

}  // extern "C"
