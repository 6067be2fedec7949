#include "penlight/runtime/exec/backend.h"

namespace pen {

Status choose_backend(const char* device, const Backend** backend, const char** which, pen_error* error) {
  *backend = kBackends[0];
  *which = "";
  if (!device || !device[0]) return PEN_OK;
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

Status take_options(const void* given, void* own, size_t size, pen_error* error) {
  memset(own, 0, size);
  if (!given) return PEN_OK;
  constexpr size_t kMost = 4096;  // more is a `size` that was never set
  size_t theirs;
  memcpy(&theirs, given, sizeof theirs);
  char got[48];
  set_text(got, sizeof got, "%llu", static_cast<unsigned long long>(theirs));
  if (theirs < sizeof(size_t) || theirs > kMost)
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
