// Tensors of a caller in a device's memory, and sessions that are given them.
#include "penlight/runtime/exec/backend.h"
#include "penlight/runtime/exec/session.h"

using namespace pen;

struct pen_buffer : Handle<HandleKind::buffer> {
  const Backend* backend;
  void* device;  // kept open
  void* memory;
  Tensor tensor;  // without data
  uint64_t bytes;
};

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

Status check_device(pen_session* s, const pen_buffer* buffer, const char* what) {
  if (pen_session_takes_buffer(s, buffer)) return PEN_OK;
  return report(session_error(s), PEN_ERROR_ARGUMENT, what, "a buffer on the session's device", "one on another",
                "Download it there and upload it here, or set plain memory");
}

// Inputs in memory of the session's device, for a stage that runs elsewhere.
Status fetch(pen_session* s, const Runner& runner, const Plan& plan) {
  Runner& own = const_cast<Runner&>(session_runner(s));
  for (int32_t i = 0; !runner.backend->memory && i < plan.input_count; ++i) {
    void** bound;
    Tensor* t = session_input(s, plan.inputs[i].index, &bound);
    if (!*bound) continue;
    int64_t bytes = t->numel() * dtype_size(t->dtype);
    PEN_TRY(session_own_memory(s, plan.inputs[i].index, bytes, &t->data));
    PEN_TRY(own.backend->memory->download(*bound, t->data, static_cast<uint64_t>(bytes), session_error(s)));
    ++own.report.copies;
    own.report.bytes_down += static_cast<uint64_t>(bytes);
  }
  return PEN_OK;
}

}  // namespace

extern "C" {

pen_status pen_buffer_create(const char* device, int32_t dtype, int32_t rank, const int64_t* dims, pen_buffer** out, pen_error* error) {
  if (!out || (!dims && rank > 0)) return report(error, PEN_ERROR_ARGUMENT, "buffer", "dims, and room for a buffer", "NULL");
  *out = nullptr;
  const Backend* backend;
  const char* which;
  PEN_TRY(choose_backend(device, &backend, &which, error));
  if (!backend->memory)
    return report(error, PEN_ERROR_ARGUMENT, "buffer", "a device with memory of its own", backend->name, "Its tensors are plain memory");
  pen_buffer* b = static_cast<pen_buffer*>(calloc(1, sizeof(pen_buffer)));
  if (!b) return report(error, PEN_ERROR_MEMORY, "buffer", "memory");
  handle_begin(b);
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
  handle_end(b);
  if (b->memory) b->backend->memory->destroy(b->memory);
  if (b->device) b->backend->close(b->device);
  free(b);
}

pen_status pen_buffer_upload(pen_buffer* b, const void* data, size_t size, pen_error* error) {
  const Inside inside(b);
  if (!b) return report(error, PEN_ERROR_ARGUMENT, "buffer", "one that was created", "NULL");
  PEN_TRY(check_size(*b, data, size, error));
  return b->backend->memory->upload(b->memory, data, size, error);
}
pen_status pen_buffer_download(const pen_buffer* b, void* data, size_t size, pen_error* error) {
  const Inside inside(b);
  if (!b) return report(error, PEN_ERROR_ARGUMENT, "buffer", "one that was created", "NULL");
  PEN_TRY(check_size(*b, data, size, error));
  return b->backend->memory->download(b->memory, data, size, error);
}

void pen_buffer_tensor(const pen_buffer* b, pen_tensor* tensor) {
  const Inside inside(b);
  if (!tensor) return;
  *tensor = {};
  if (b) *tensor = {nullptr, static_cast<int32_t>(b->tensor.dtype), b->tensor.rank, b->tensor.dims, b->tensor.strides};
}
const char* pen_buffer_device_name(const pen_buffer* b) {
  const Inside inside(b);
  return b ? b->backend->name_of(b->device) : nullptr;
}

int32_t pen_session_takes_buffer(const pen_session* s, const pen_buffer* buffer) {
  const Inside inside(session_handle(s)), beside(buffer);
  if (!s || !buffer) return 0;
  const Runner& r = session_runner(s);
  return r.backend == buffer->backend && r.backend->memory->reaches(r.device, buffer->memory);
}

pen_status pen_session_set_input_buffer(pen_session* s, int32_t index, const pen_buffer* buffer) {
  const Inside inside(session_handle(s)), beside(buffer);
  if (!s || !buffer) return PEN_ERROR_ARGUMENT;
  PEN_TRY(check_device(s, buffer, "input"));
  pen_tensor told;
  pen_buffer_tensor(buffer, &told);
  told.data = buffer->memory;  // looked at there, and no further
  PEN_TRY(pen_session_set_input(s, index, &told));
  void** bound;
  session_input(s, static_cast<uint32_t>(index), &bound)->data = nullptr;
  *bound = buffer->memory;
  session_set_fetch(s, fetch);
  return PEN_OK;
}

pen_status pen_session_set_output_buffer(pen_session* s, int32_t index, pen_buffer* buffer) {
  const Inside inside(session_handle(s)), beside(buffer);
  if (!s || !buffer) return PEN_ERROR_ARGUMENT;
  PEN_TRY(check_device(s, buffer, "output"));
  if (session_is_staged(s))
    return report(session_error(s), PEN_ERROR_ARGUMENT, "output buffer", "a model of one stage",
                  "one whose sizes depend on the data, or that runs in part on the CPU", "Read it with pen_session_output after the run");
  PEN_TRY(pen_session_set_output(s, index, buffer->memory, static_cast<size_t>(buffer->bytes)));
  void** bound;
  const Tensor &t = *session_output(s, index, &bound), &given = buffer->tensor;
  if (t.dtype != given.dtype || t.rank != given.rank || memcmp(t.dims, given.dims, sizeof(int64_t) * static_cast<size_t>(t.rank)) != 0)
    return report(session_error(s), PEN_ERROR_ARGUMENT, "output buffer", "the dtype and shape of the output", "another");
  *bound = buffer->memory;
  return PEN_OK;
}

}  // extern "C"
