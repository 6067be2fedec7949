// The C interface of models: open, describe, close.
#include "penlight/runtime/exec/isa.h"
#include "penlight/runtime/file/verify.h"
#include "penlight/runtime/include/penlight_trace.h"

using namespace pen;

namespace pen {

void model_keep(Model* model) { __atomic_add_fetch(&model->refs, 1, __ATOMIC_RELAXED); }
void model_release(Model* model) {
  if (__atomic_fetch_sub(&model->refs, 1, __ATOMIC_ACQ_REL) != 0) return;
  while (Model::Held* held = model->held) {
    model->held = held->next;
    held->release(held);
  }
  unmap(model);
  free(model->halves);
  model->pool.release();
  free(model);
}

}  // namespace pen

namespace {

// Where a file is: at a path, in memory, or behind a descriptor.
enum class Where : uint8_t { path, memory, descriptor };
struct Source {
  Where where;
  const char* path;
  const void* bytes;
  int fd;
  uint64_t offset, size;
};
Source at_path(const char* path) { return {Where::path, path ? path : "", nullptr, 0, 0, 0}; }
Source in_memory(const void* bytes, size_t size) { return {Where::memory, "model in memory", bytes, 0, 0, size}; }
Source behind(int fd, uint64_t offset, uint64_t size) { return {Where::descriptor, "file descriptor", nullptr, fd, offset, size}; }

Status map_source(const Source& s, bool copy, Model* model, pen_error* error) {
  if (s.where == Where::path) return map_path(s.path, copy, model, error);
  if (s.where == Where::memory) return map_memory(s.bytes, s.size, copy, model, error);
  return map_fd(s.fd, s.offset, s.size, copy, s.path, model, error);
}

Status open_model(const Source& source, uint32_t flags, pen_model** out, pen_needs* needs, pen_error* error) {
  const char* name = source.path;
  memset(needs, 0, sizeof *needs);
  needs->newest_version = kNewestVersion;
  if (!out) return report(error, PEN_ERROR_ARGUMENT, name, "memory for a model");
  *out = nullptr;
  pen_model* model = static_cast<pen_model*>(calloc(1, sizeof(pen_model)));
  if (!model) return report(error, PEN_ERROR_MEMORY, name, "memory for a model");
  handle_begin(model);
  Status status = map_source(source, flags & PEN_LOAD_COPY, model, error);
  if (status == PEN_OK) status = load_tables(model, name, needs, error);
  if (status == PEN_OK && (flags & PEN_LOAD_VERIFY)) status = verify_hash(*model, name, error);
  if (status == PEN_OK)
    *out = model;
  else
    pen_model_close(model);
  return status;
}

Status check_model(const Source& source, uint32_t flags, pen_needs* needs, pen_error* error) {
  if (absent(needs)) return report(error, PEN_ERROR_ARGUMENT, source.path, "room for what it needs");
  pen_model* model;
  Status status = open_model(source, flags, &model, needs, error);
  pen_model_close(model);
  if (status != PEN_OK || needs->missing_count == 0) return status;  // operators of VM code: a model without them opens
  return report_missing(*needs, source.path, error);
}

int32_t port_count(const pen_model* m, const char* method, bool input) {
  alive(m);
  const format::Method* found = find_method(m, method);
  return found ? static_cast<int32_t>(input ? found->input_count : found->output_count) : -1;
}

const char* spec(const pen_model* m, const char* method, bool input) {
  alive(m);
  const format::Method* found = find_method(m, method);
  return found ? m->string(input ? found->input_spec : found->output_spec) : nullptr;
}

pen_status port_info(const pen_model* m, const char* method, int32_t i, bool input, pen_tensor_info* info) {
  if (!info || i < 0 || i >= port_count(m, method, input)) return PEN_ERROR_ARGUMENT;
  const format::Method* found = find_method(m, method);
  const format::Port& p = m->ports[(input ? found->inputs : found->outputs) + static_cast<uint32_t>(i)];
  info->name = m->string(p.name);
  info->dtype = p.dtype;
  info->rank = p.rank;
  for (uint32_t d = 0; d < static_cast<uint32_t>(kMaxRank); ++d) {
    bool there = d < p.rank;
    int64_t stored = there ? m->ints[p.dims + d] : 0;
    bool free_dim = stored < format::kExprBase + format::kExprLimit;
    info->dims[d] = free_dim ? -1 : stored;
    info->min_dims[d] = there && input ? m->ints[p.ranges + 2 * d] : (free_dim ? 0 : stored);
    int64_t most = there && input ? m->ints[p.ranges + 2 * d + 1] : (free_dim ? INT64_MAX : stored);
    info->max_dims[d] = most >= format::kMaxDim ? INT64_MAX : most;
  }
  return PEN_OK;
}

}  // namespace

extern "C" {

const char* pen_version(void) { return PEN_VERSION_STRING; }

pen_status pen_model_open(const char* path, uint32_t flags, pen_model** model, pen_error* error) {
  pen_needs needs;
  return open_model(at_path(path), flags, model, &needs, error);
}
pen_status pen_model_open_memory(const void* bytes, size_t size, uint32_t flags, pen_model** model, pen_error* error) {
  pen_needs needs;
  return open_model(in_memory(bytes, size), flags, model, &needs, error);
}
pen_status pen_model_open_fd(int fd, uint64_t offset, uint64_t size, uint32_t flags, pen_model** model, pen_error* error) {
  pen_needs needs;
  return open_model(behind(fd, offset, size), flags, model, &needs, error);
}

pen_status pen_model_check(const char* path, uint32_t flags, pen_needs* needs, pen_error* error) {
  return check_model(at_path(path), flags, needs, error);
}
pen_status pen_model_check_memory(const void* bytes, size_t size, uint32_t flags, pen_needs* needs, pen_error* error) {
  return check_model(in_memory(bytes, size), flags, needs, error);
}
pen_status pen_model_check_fd(int fd, uint64_t offset, uint64_t size, uint32_t flags, pen_needs* needs, pen_error* error) {
  return check_model(behind(fd, offset, size), flags, needs, error);
}

void pen_model_close(pen_model* model) {
  handle_end(model);
  if (model) model_release(model);
}

const char* pen_model_metadata(const pen_model* m) {
  alive(m);
  return absent(m) ? nullptr : reinterpret_cast<const char*>(m->metadata.data);
}
int32_t pen_model_method_count(const pen_model* m) {
  alive(m);
  return absent(m) ? 0 : static_cast<int32_t>(m->methods.count);
}
const char* pen_model_method_name(const pen_model* m, int32_t i) {
  alive(m);
  return absent(m) || i < 0 || static_cast<uint32_t>(i) >= m->methods.count ? nullptr
                                                                            : m->string(m->methods[static_cast<uint32_t>(i)].name);
}
int32_t pen_model_input_count(const pen_model* m, const char* method) { return port_count(m, method, true); }
int32_t pen_model_output_count(const pen_model* m, const char* method) { return port_count(m, method, false); }
pen_status pen_model_input_info(const pen_model* m, const char* method, int32_t i, pen_tensor_info* info) {
  return port_info(m, method, i, true, info);
}
pen_status pen_model_output_info(const pen_model* m, const char* method, int32_t i, pen_tensor_info* info) {
  return port_info(m, method, i, false, info);
}
const char* pen_model_input_spec(const pen_model* m, const char* method) { return spec(m, method, true); }
const char* pen_model_output_spec(const pen_model* m, const char* method) { return spec(m, method, false); }

#if defined(PEN_TRACE)  // for Python's Model.save
const void* pen_model_image(const pen_model* m, size_t* size) {
  alive(m);
  if (size) *size = m ? m->size : 0;
  return m ? m->bytes : nullptr;
}
#endif

int32_t pen_kernel_count(void) { return kKernelCount; }
const char* pen_kernel_key(int32_t i) { return i < 0 || i >= kKernelCount ? nullptr : kKernels[i].key.text(); }
const char* pen_isa_name(int32_t i) {
  Isa all[kIsaCount];
  int n = available_isas(all);
  return i < 0 || i >= n ? nullptr : isa_name(all[i]);
}

}  // extern "C"
