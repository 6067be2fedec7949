#include "penlight/runtime/vulkan/loader.h"

namespace pen::vulkan {

namespace {

// All zero before the first call. What a forked child finds here is its parent's, and is forgotten but for the library.
struct State {
  void* library;
  int process;
  Loader loader;
};
State state;
ForkLock process;

struct NamedResult {
  VkResult result;
  const char* name;
};
#define PEN_VK_RESULT(name) {name, #name}
const NamedResult kResults[] = {
    PEN_VK_RESULT(VK_NOT_READY),
    PEN_VK_RESULT(VK_TIMEOUT),
    PEN_VK_RESULT(VK_INCOMPLETE),
    PEN_VK_RESULT(VK_ERROR_OUT_OF_HOST_MEMORY),
    PEN_VK_RESULT(VK_ERROR_OUT_OF_DEVICE_MEMORY),
    PEN_VK_RESULT(VK_ERROR_INITIALIZATION_FAILED),
    PEN_VK_RESULT(VK_ERROR_DEVICE_LOST),
    PEN_VK_RESULT(VK_ERROR_MEMORY_MAP_FAILED),
    PEN_VK_RESULT(VK_ERROR_LAYER_NOT_PRESENT),
    PEN_VK_RESULT(VK_ERROR_EXTENSION_NOT_PRESENT),
    PEN_VK_RESULT(VK_ERROR_FEATURE_NOT_PRESENT),
    PEN_VK_RESULT(VK_ERROR_INCOMPATIBLE_DRIVER),
    PEN_VK_RESULT(VK_ERROR_TOO_MANY_OBJECTS),
    PEN_VK_RESULT(VK_ERROR_FRAGMENTED_POOL),
    PEN_VK_RESULT(VK_ERROR_UNKNOWN),
    PEN_VK_RESULT(VK_ERROR_OUT_OF_POOL_MEMORY),
    PEN_VK_RESULT(VK_ERROR_INVALID_EXTERNAL_HANDLE),
    PEN_VK_RESULT(VK_ERROR_FRAGMENTATION),
    PEN_VK_RESULT(VK_ERROR_VALIDATION_FAILED_EXT),
    PEN_VK_RESULT(VK_ERROR_INVALID_SHADER_NV),
};

#if defined(_WIN32)
const char* const kLibraries[] = {"vulkan-1.dll"};
#elif defined(__APPLE__)
const char* const kLibraries[] = {"libvulkan.1.dylib",
                                  "libvulkan.dylib",
                                  "libMoltenVK.dylib",
                                  "/usr/local/lib/libvulkan.1.dylib",
                                  "/opt/homebrew/lib/libvulkan.1.dylib",
                                  "@executable_path/Frameworks/MoltenVK.framework/MoltenVK"};
#elif defined(__ANDROID__)
const char* const kLibraries[] = {"libvulkan.so"};
#else
const char* const kLibraries[] = {"libvulkan.so.1", "libvulkan.so"};
#endif

Status open_library(pen_error* error) {
  if (state.library) return PEN_OK;
  const char* chosen = getenv("PENLIGHT_VULKAN_LIBRARY");
  char why[512] = "";
  if (chosen && chosen[0]) {
    state.library = dlopen(chosen, platform::kLoadNow);
  } else {
    chosen = nullptr;
    for (const char* name : kLibraries)
      if (!state.library) {
        state.library = dlopen(name, platform::kLoadNow);
        const char* said = state.library || why[0] ? nullptr : dlerror();  // of the first, which is the one that should be there
        if (said) set_text(why, sizeof why, "%s", said);
      }
  }
  if (state.library) return PEN_OK;
  if (chosen) {
    const char* said = dlerror();
    set_text(why, sizeof why, "%s", said ? said : "none that can be opened");
  }
  return report(error, {kDeviceFailed, "Vulkan", "", "", chosen ? "the library that PENLIGHT_VULKAN_LIBRARY names" : kLibraries[0], why, "",
                        "Install Vulkan's loader (Debian: libvulkan1) and a driver for the GPU, or name the library in "
                        "PENLIGHT_VULKAN_LIBRARY."});
}

Status old(pen_error* error) {
  return report(error, {kDeviceFailed, "Vulkan", "", "", "a loader of Vulkan 1.1 or later", "one of Vulkan 1.0", "",
                        "A newer driver or loader is needed."});
}

bool offers(const GlobalFunctions& global, const char* extension) {
  uint32_t count = 0;
  if (global.EnumerateInstanceExtensionProperties(nullptr, &count, nullptr) != VK_SUCCESS || !count) return false;
  auto* all = static_cast<VkExtensionProperties*>(calloc(count, sizeof(VkExtensionProperties)));
  bool found = false;
  if (all && global.EnumerateInstanceExtensionProperties(nullptr, &count, all) >= 0)
    for (uint32_t i = 0; i < count; ++i) found = found || strcmp(all[i].extensionName, extension) == 0;
  free(all);
  return found;
}

Status make_instance(GetInstanceProcAddr get, pen_error* error) {
  GlobalFunctions global;
  const char* missing = nullptr;
  auto before = [get](const char* name) { return get(nullptr, name); };
  if (!fill(&global, PEN_VK_GLOBAL_FUNCTIONS(PEN_VK_NAME), before, &missing)) return old(error);
  uint32_t version = 0;
  if (global.EnumerateInstanceVersion(&version) != VK_SUCCESS || version < kVersion11) return old(error);

  VkApplicationInfo application{};
  application.pApplicationName = application.pEngineName = "Penlight";
  application.apiVersion = kVersion13;  // the latest of which anything is used; devices may have less
  VkInstanceCreateInfo info{};
  info.pApplicationInfo = &application;
  const char* portability = "VK_KHR_portability_enumeration";  // MoltenVK's devices are listed only to those who ask
  if (offers(global, portability)) {
    info.flags = VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
    info.enabledExtensionCount = 1;
    info.ppEnabledExtensionNames = &portability;
  }
  VkInstance instance = nullptr;
  VkResult result = global.CreateInstance(&info, nullptr, &instance);
  if (result != VK_SUCCESS)
    return report(error, {status_of(result), "Vulkan", "", "", "a driver", result_name(result), "",
                          "Install a driver for the GPU; `vulkaninfo` shows what the loader finds."});
  auto after = [get, instance](const char* name) { return get(instance, name); };
  if (!fill(&state.loader.f, PEN_VK_INSTANCE_FUNCTIONS(PEN_VK_NAME), after, &missing))
    return report(error, {kDeviceFailed, "Vulkan", "", "", missing, "a loader without it", "", "A newer loader is needed."});
  fill(&state.loader.extra, PEN_VK_EXTENSION_FUNCTIONS(PEN_VK_NAME), after, nullptr);
  state.loader.instance = instance;
  return PEN_OK;
}

}  // namespace

void ForkLock::lock() {
  uint32_t self = static_cast<uint32_t>(getpid());
  for (;;) {
    uint32_t seen = 0;
    if (__atomic_compare_exchange_n(&holder, &seen, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
    // A thread of the parent had it when this process was forked: that thread does not exist here.
    if (seen != self && __atomic_compare_exchange_n(&holder, &seen, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
    sched_yield();
  }
}
void ForkLock::unlock() { __atomic_store_n(&holder, 0u, __ATOMIC_RELEASE); }
void lock_process() { process.lock(); }
void unlock_process() { process.unlock(); }

const char* result_name(VkResult result) {
  for (const NamedResult& r : kResults)
    if (r.result == result) return r.name;
  return "an error that Vulkan 1.1 does not know";
}

Status status_of(VkResult result) {
  bool memory = result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_POOL_MEMORY ||
                result == VK_ERROR_FRAGMENTATION || result == VK_ERROR_FRAGMENTED_POOL || result == VK_ERROR_TOO_MANY_OBJECTS;
  return memory ? PEN_ERROR_MEMORY : kDeviceFailed;
}

Status loader_open(const Loader** loader, pen_error* error) {
  if (state.process != getpid()) state.loader = {}, state.process = getpid();
  if (!state.loader.instance) {
    if (Status s = open_library(error)) return s;
    auto get = reinterpret_cast<GetInstanceProcAddr>(dlsym(state.library, "vkGetInstanceProcAddr"));
    if (!get) get = reinterpret_cast<GetInstanceProcAddr>(dlsym(state.library, "vk_icdGetInstanceProcAddr"));  // a driver by itself
    if (!get) {
      state.library = nullptr;  // another one may be named the next time
      return report(error, {kDeviceFailed, "Vulkan", "", "", "vkGetInstanceProcAddr in the library", "none", "",
                            "PENLIGHT_VULKAN_LIBRARY must name Vulkan's loader or a driver."});
    }
    if (Status s = make_instance(get, error)) return s;
  }
  *loader = &state.loader;
  return PEN_OK;
}

}  // namespace pen::vulkan
