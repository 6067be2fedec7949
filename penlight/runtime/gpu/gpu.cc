// What rules for GPUs ask for, and the parts of a GPU's backend that do not depend on which it is.
#include "penlight/runtime/gpu/gpu.h"

#include "penlight/runtime/base/packed.h"
#include "penlight/runtime/exec/backend.h"
#include "penlight/runtime/exec/run.h"
#include "penlight/runtime/gpu/walk.h"

namespace pen {

const GpuLimits& Gpu::limits() const { return static_cast<const GpuTarget*>(state->runner->device)->limits; }

static Operand operand(const Tensor& t, const Place& at, int64_t bytes) {
  if (bytes < 0) {
    int64_t reach = 0, n = t.numel();
    for (int d = 0; d < t.rank; ++d) reach += t.dims[d] > 0 ? (t.dims[d] - 1) * t.strides[d] : 0;
    bytes = n == 0 ? 0 : (reach + 1) * dtype_size(t.dtype);
  }
  return {at.buffer, at.offset, bytes, t.dtype};
}
Operand Gpu::reads(int i) const {
  if (!has(i)) return none();
  bool packed = strcmp(in_layout(i), "plain") != 0;
  return operand(in(i), state->step->in_at[i], packed ? in_bytes(i) : -1);
}
Operand Gpu::writes(int i) const { return operand(out(i), state->step->out_at[i], -1); }

Status Gpu::need_packed(int i, const char* layout, int64_t groups) {
  if (strcmp(in_layout(i), layout) != 0) return fail(i, layout, "layout %s", in_layout(i));
  int64_t bytes = packed_bytes(layout, in(i), groups);
  if (bytes < 0 || in_bytes(i) < bytes)
    return fail(i, "as many bytes as its packed layout takes", "%lld of %lld", static_cast<long long>(in_bytes(i)),
                static_cast<long long>(bytes));
  packed |= uint64_t{1} << i;
  return PEN_OK;
}

Status Gpu::scratch(DType dtype, int64_t elements, Operand* result) {
  int64_t bytes;
  if (mul_overflows(elements, dtype_size(dtype), &bytes) || bytes > kMaxTensorBytes)
    return fail(-1, "memory below 64 TB for what is in between", "more");
  *result = {-1, 0, bytes, dtype};
  return state->new_buffer(bytes, &result->buffer);
}

static constexpr int64_t kMostElements = int64_t{1} << 31;  // places are 32-bit numbers in shaders

Status Gpu::add(const Form& form, const Operand* operands, const uint32_t* constants, const void* push, const Groups& groups) {
  const int64_t counts[] = {groups.x, groups.y, groups.z};
  for (int64_t count : counts) {
    if (count == 0) return PEN_OK;
    if (count < 0 || count > kMostGroups) return fail(-1, "at most 65535 groups of work", "%lld", static_cast<long long>(count));
  }
  Dispatch* d = state->plan->pool.take_array<Dispatch>(1);
  if (!d) return state->out_of_memory();
  d->shader = form.shader;
  d->operand_count = static_cast<uint16_t>(form.operands);
  d->constant_count = static_cast<uint16_t>(form.constants);
  d->push_words = static_cast<uint16_t>(form.push_words);
  d->written = form.written;
  d->at = form.at;
  for (int i = 0; i < form.operands; ++i) {
    d->operands[i] = operands[i];
    if (operands[i].bytes / dtype_size(operands[i].dtype) >= kMostElements)
      return fail(-1, "tensors of less than 2^31 elements", "%lld",
                  static_cast<long long>(operands[i].bytes / dtype_size(operands[i].dtype)));
  }
  for (int i = 0; i < form.constants; ++i) d->constants[i] = constants[i];
  memcpy(d->push, push, form.push_words * 4);
  for (int i = 0; i < 3; ++i) d->groups[i] = static_cast<uint32_t>(counts[i]);
  *last = d;
  last = &d->next;
  return PEN_OK;
}

const GpuEntry& gpu_entry(const KernelEntry& entry) { return kGpuEntries[&entry - kKernels]; }

Status gpu_bind(Given::State& s) {
  const GpuEntry& entry = gpu_entry(*s.entry);
  if (!entry.rule) return s.fail("", "an operator that this device has", s.entry->key);
  if (entry.rule == kViewRule) {  // where an output is a view, a rule says nothing of the device
    Bind b;
    b.state = &s;
    return bind_function(s.entry->rules)(b);
  }
  Dispatch* first = nullptr;
  Gpu b;
  b.state = &s;
  b.last = &first;
  PEN_TRY(gpu_function(entry.rule)(b));
  // No rule has to ask for plain inputs: what it did not know to be packed must not be.
  for (int i = 0; i < b.input_count(); ++i)
    if (i >= 64 || !(b.packed >> i & 1)) PEN_TRY(b.need_plain(i));
  s.step->params = first;
  return PEN_OK;
}

Status gpu_bind_copy(Given::State& s, Copy* c) {
  Dispatch* first = nullptr;
  Gpu b;
  b.state = &s;
  b.last = &first;
  PEN_TRY(dispatch_copy(b, c->from, operand(c->from, c->from_at, -1), c->to, operand(c->to, c->to_at, -1)));
  c->params = first;
  return PEN_OK;
}

int64_t gpu_pitch(const Tensor& t) { return t.dims[1]; }

bool gpu_has(const KernelEntry& kernel) { return gpu_entry(kernel).rule != 0; }

// ---- activations ----
struct GpuActivationRow {
  const char* name;
  int numbers;
};
extern const GpuActivationRow kGpuActivations[];  // generated, from number 1; no name at the end

Status Gpu::activation(const char* name_attribute, const char* args_attribute, GpuActivation* a) const {
  *a = {};
  a->name = text(name_attribute);
  FloatList args = floats(args_attribute);
  if (args.count > 4) return fail(-1, "at most 4 activation arguments", "%d", args.count);
  for (int i = 0; i < args.count; ++i) a->args[i] = static_cast<float>(args[i]);
  if (!a->name[0]) return PEN_OK;
  int wanted = -1;
  for (int i = 0; kGpuActivations[i].name; ++i)
    if (strcmp(a->name, kGpuActivations[i].name) == 0) {
      a->number = i + 1;
      wanted = kGpuActivations[i].numbers;
    }
  if (!a->number) {  // none that shaders do by themselves: an elementwise operator of one tensor and these numbers
    char key[96];
    set_text(key, sizeof key, "%s.f32", a->name);
    const KernelEntry* found = find_kernel(key);
    if (!found || !found->elementwise || found->result != DType::f32 || !gpu_entry(*found).rule)
      return fail(-1, "an activation that this device has", "\"%s\"", a->name);
    int tensors = 0;
    wanted = 0;
    for (const char* p = found->schema; *p; ++p)
      if (*p == ':') ++(p[1] == 'T' ? tensors : wanted);
    if (tensors != 1) return fail(-1, "an activation of one tensor", "\"%s\"", a->name);
    a->number = -1;
  }
  return args.count == wanted ? PEN_OK : fail(-1, "as many arguments as the activation has", "%d for \"%s\"", args.count, a->name);
}

}  // namespace pen
