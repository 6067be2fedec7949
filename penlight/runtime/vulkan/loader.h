// Vulkan as this machine has it: the loader's library, opened at run time and never linked, and one instance of it for the process. Where
// there is none, a reason in words. Callable any number of times, from any thread; a forked child gets an instance of its own.
#pragma once
#include "penlight/runtime/base/error.h"
#include "penlight/runtime/vulkan/api.h"

namespace pen::vulkan {

constexpr uint32_t kVersion11 = 1u << 22 | 1u << 12, kVersion12 = 1u << 22 | 2u << 12, kVersion13 = 1u << 22 | 3u << 12;
constexpr Status kDeviceFailed = PEN_ERROR_IO;  // what no other status says: no loader, no driver, a device that fails

struct Loader {
  VkInstance instance;
  InstanceFunctions f;
  ExtensionFunctions extra;
};

// The process's instance, made on the first call and kept. The caller holds the process's lock.
Status loader_open(const Loader** loader, pen_error* error);

// A lock that may be held for long. In a forked child it is free, whichever thread of the parent had it.
struct ForkLock {
  uint32_t holder;
  void lock();
  void unlock();
};
// For what the process shares. It may be held while a driver starts, so it is no place for work that repeats.
void lock_process();
void unlock_process();

const char* result_name(VkResult result);
// Memory has run out, or something else: by what the driver said.
Status status_of(VkResult result);
// Fills a table of functions from a list of names; false where one is missing, which `missing` then names.
template <class Table, class Get>
static inline bool fill(Table* table, const char* names, Get get, const char** missing) {
  static_assert(sizeof(Anything) == sizeof(void*), "a function's address");
  char* to = reinterpret_cast<char*>(table);
  for (; *names; names += strlen(names) + 1, to += sizeof(Anything)) {
    Anything function = get(names);
    if (!function && missing) {
      *missing = names;
      return false;
    }
    memcpy(to, &function, sizeof function);
  }
  return true;
}
#define PEN_VK_NAME(result, name, arguments) "vk" #name "\0"

}  // namespace pen::vulkan
