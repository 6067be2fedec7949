// The C interface of models: open, describe, close.
#include "penlight/runtime/exec/isa.h"
#include "penlight/runtime/file/model.h"

using namespace pen;

namespace pen {

void model_keep(Model* model) { __atomic_add_fetch(&model->refs, 1, __ATOMIC_RELAXED); }
void model_release(Model* model) {
  if (__atomic_fetch_sub(&model->refs, 1, __ATOMIC_ACQ_REL) != 0) return;
  unmap(model);
  model->pool.release();
  free(model);
}

}  // namespace pen

namespace {

Status open_model(pen_model** out, pen_error* error, uint32_t flags, const char* name, Status (*map)(Model*, const void*, pen_error*),
                  const void* context) {
  *out = nullptr;
  pen_model* model = static_cast<pen_model*>(calloc(1, sizeof(pen_model)));
  if (!model) return report(error, {PEN_ERROR_MEMORY, name, "", "", "memory for a model", "none"});
  Status status = map(model, context, error);
  if (status == PEN_OK) status = load_tables(model, name, error);
  if (status == PEN_OK && (flags & PEN_LOAD_VERIFY)) status = verify_hash(*model, name, error);
  if (status != PEN_OK) {
    pen_model_close(model);
    return status;
  }
  *out = model;
  return PEN_OK;
}

pen_status port_info(const pen_model* m, uint32_t port, bool input, pen_tensor_info* info) {
  const format::Port& p = m->ports[port];
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
  if (!path) path = "";
  struct Context {
    const char* path;
    bool copy;
  } context = {path, (flags & PEN_LOAD_COPY) != 0};
  auto map = [](Model* m, const void* c, pen_error* e) {
    const Context& x = *static_cast<const Context*>(c);
    return map_path(x.path, x.copy, m, e);
  };
  return open_model(model, error, flags, path, map, &context);
}

pen_status pen_model_open_memory(const void* bytes, size_t size, uint32_t flags, pen_model** model, pen_error* error) {
  struct Context {
    const void* bytes;
    size_t size;
    bool copy;
  } context = {bytes, size, (flags & PEN_LOAD_COPY) != 0};
  auto map = [](Model* m, const void* c, pen_error* e) {
    const Context& x = *static_cast<const Context*>(c);
    return map_memory(x.bytes, x.size, x.copy, m, e);
  };
  return open_model(model, error, flags, "model in memory", map, &context);
}

pen_status pen_model_open_fd(int fd, uint64_t offset, uint64_t size, uint32_t flags, pen_model** model, pen_error* error) {
  struct Context {
    int fd;
    uint64_t offset, size;
    bool copy;
  } context = {fd, offset, size, (flags & PEN_LOAD_COPY) != 0};
  auto map = [](Model* m, const void* c, pen_error* e) {
    const Context& x = *static_cast<const Context*>(c);
    return map_fd(x.fd, x.offset, x.size, x.copy, "file descriptor", m, e);
  };
  return open_model(model, error, flags, "file descriptor", map, &context);
}

void pen_model_close(pen_model* model) {
  if (model) model_release(model);
}

const char* pen_model_metadata(const pen_model* m) { return reinterpret_cast<const char*>(m->metadata.data); }
int32_t pen_model_method_count(const pen_model* m) { return static_cast<int32_t>(m->methods.count); }
const char* pen_model_method_name(const pen_model* m, int32_t i) {
  return i < 0 || static_cast<uint32_t>(i) >= m->methods.count ? nullptr : m->string(m->methods[static_cast<uint32_t>(i)].name);
}
int32_t pen_model_input_count(const pen_model* m, const char* method) {
  const format::Method* found = find_method(*m, method);
  return found ? static_cast<int32_t>(found->input_count) : -1;
}
int32_t pen_model_output_count(const pen_model* m, const char* method) {
  const format::Method* found = find_method(*m, method);
  return found ? static_cast<int32_t>(found->output_count) : -1;
}
pen_status pen_model_input_info(const pen_model* m, const char* method, int32_t i, pen_tensor_info* info) {
  const format::Method* found = find_method(*m, method);
  if (!found || i < 0 || static_cast<uint32_t>(i) >= found->input_count) return PEN_ERROR_ARGUMENT;
  return port_info(m, found->inputs + static_cast<uint32_t>(i), true, info);
}
pen_status pen_model_output_info(const pen_model* m, const char* method, int32_t i, pen_tensor_info* info) {
  const format::Method* found = find_method(*m, method);
  if (!found || i < 0 || static_cast<uint32_t>(i) >= found->output_count) return PEN_ERROR_ARGUMENT;
  return port_info(m, found->outputs + static_cast<uint32_t>(i), false, info);
}
const char* pen_model_input_spec(const pen_model* m, const char* method) {
  const format::Method* found = find_method(*m, method);
  return found ? m->string(found->input_spec) : nullptr;
}
const char* pen_model_output_spec(const pen_model* m, const char* method) {
  const format::Method* found = find_method(*m, method);
  return found ? m->string(found->output_spec) : nullptr;
}

int32_t pen_kernel_count(void) { return kKernelCount; }
const char* pen_kernel_key(int32_t i) { return i < 0 || i >= kKernelCount ? nullptr : kKernels[i].key.text(); }
const char* pen_isa_name(int32_t i) {
  Isa all[kIsaCount];
  int n = available_isas(all);
  return i < 0 || i >= n ? nullptr : isa_name(all[i]);
}

}  // extern "C"
