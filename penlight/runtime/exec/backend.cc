#include "penlight/runtime/exec/backend.h"

#include "penlight/runtime/include/penlight_trace.h"

namespace pen {

#if defined(__ELF__) && !defined(PEN_ONE_DEVICE)
// Named weakly by bindings: see vm/load_script.cc.
__attribute__((used)) static const decltype(&pen_buffer_create) kTakenAlong = pen_buffer_create;
#endif

Status choose_backend(const char* device, const Backend** backend, const char** which, pen_error* error) {
  *backend = kBackends[0];
  *which = "";
  if (!device || !device[0] || (kOneDevice && strcmp(device, kCpu.name) == 0)) return PEN_OK;
  if (kOneDevice) return report(error, PEN_ERROR_ARGUMENT, "device", "one that this library has: cpu", device);
  size_t length = 0;
  while (device[length] && device[length] != ':') ++length;
  char expected[96] = "one that this library has: ";
  for (int i = 0; i < kBackendCount; ++i) {
    const char* name = kBackends[i]->name;
    if (strlen(name) == length && memcmp(name, device, length) == 0 && (!device[length] || kBackends[i]->open)) {
      *backend = kBackends[i];
      *which = device[length] ? device + length + 1 : "";
      return PEN_OK;
    }
    size_t used = strlen(expected);
    set_text(expected + used, sizeof expected - used, "%s%s", i ? ", " : "", name);
  }
  return report(error, PEN_ERROR_ARGUMENT, "device", expected, device);
}

const format::Method* find_method(const Backend& backend, const Model& model, const char* name) {
  if (kOneDevice || !backend.variant) return find_method(&model, name);
  size_t length = strlen(backend.variant);
  for (uint32_t i = 0; i < model.methods.count; ++i) {
    const char* own = model.string(model.methods[i].name);
    if (strncmp(own, backend.variant, length) == 0 && strcmp(own + length, name ? name : "forward") == 0) return &model.methods[i];
  }
  return find_method(&model, name);
}

Status check_method(const Backend& backend, const Model& model, const format::Method& method, pen_error* error) {
  if (kOneDevice || !backend.has) return PEN_OK;
  char missing[400];
  missing[0] = 0;
  size_t used = 0;
  int count = 0;
  auto seen = [&](const char* key) {  // keys are listed once
    for (const char* at = missing; *at;) {
      size_t n = 0;
      while (at[n] && at[n] != ',') ++n;
      if (strlen(key) == n && memcmp(at, key, n) == 0) return true;
      at += at[n] ? n + 2 : n;
    }
    return false;
  };
  bool island = false;  // this stage runs on the CPU anyway
  for (uint32_t pc = 0; pc < method.code_count; ++pc) {
    const format::Instruction& in = model.code[method.code + pc];
    if (static_cast<format::InstructionOp>(in.op) == format::InstructionOp::stage)
      island = static_cast<format::StageDevice>(in.target) == format::StageDevice::cpu;
    if (static_cast<format::InstructionOp>(in.op) != format::InstructionOp::region || island) continue;
    const format::Region& r = model.regions[in.target];
    for (uint32_t i = 0; i < r.node_count; ++i) {
      const KernelEntry* entry = model.kernels[r.nodes + i];
      if (backend.has(*entry) || seen(entry->key)) continue;
      ++count;
      if (used + strlen(entry->key) + 3 < sizeof missing)
        used += static_cast<size_t>(
            snprintf(missing + used, sizeof missing - used, "%s%s", used ? ", " : "", static_cast<const char*>(entry->key)));
    }
  }
  if (!count) return PEN_OK;
  char expected[64];
  set_text(expected, sizeof expected, "operators that %s has", backend.name);
  return report(error, {PEN_ERROR_KERNEL, "device", "", "", expected, missing, "",
                        "Compile it for this device (backend=), with fallback=\"cpu\" for what it lacks, or run it on the CPU"});
}

Status take_options(const void* given, void* own, size_t size, pen_error* error) {
  memset(own, 0, size);
  if (!given) return PEN_OK;
  size_t theirs;
  memcpy(&theirs, given, sizeof theirs);
  char got[48];
  set_text(got, sizeof got, "%llu", static_cast<unsigned long long>(theirs));
  if (!is_struct_size(theirs))
    return report(error, PEN_ERROR_ARGUMENT, "options", "their size in the first field", got,
                  "Begin with PEN_SESSION_OPTIONS or PEN_MODULE_OPTIONS");
  memcpy(own, given, theirs < size ? theirs : size);
  for (size_t i = size; i < theirs; ++i)
    if (static_cast<const char*>(given)[i])
      return report(error, PEN_ERROR_ARGUMENT, "options", "those of this version", "one that a later version has",
                    "Leave it out, or use a newer library");
  return PEN_OK;
}

}  // namespace pen

using namespace pen;

extern "C" {

const char* pen_backend_name(int32_t index) { return index >= 0 && index < kBackendCount ? kBackends[index]->name : nullptr; }
#if defined(PEN_TRACE)  // tools ask this, apps do not
int32_t pen_backend_has_kernel(int32_t index, int32_t kernel) {
  if (kOneDevice) return index == 0;
  if (index < 0 || index >= kBackendCount || kernel < 0 || kernel >= kKernelCount) return 0;
  return !kBackends[index]->has || kBackends[index]->has(kKernels[kernel]);
}
#endif

}  // extern "C"
