#include "penlight/runtime/vulkan/cache.h"
#include "penlight/runtime/base/sha256.h"

namespace pen::vulkan {

namespace {

struct Header {
  char magic[8];
  uint32_t bytes, vendor, device, driver_version;
  uint8_t uuid[16];
  uint64_t content_bytes;
  uint8_t digest[32];  // of the content
};
static_assert(sizeof(Header) == 80, "no gaps: it is compared and written as it stands");

constexpr size_t kPathBytes = 1024;
char chosen[kPathBytes];  // set_cache_folder; under the process's lock

Header header_of(const DeviceInfo& info, const void* data, size_t size) {
  Header h{};
  memcpy(h.magic, "PENVKPC1", 8);
  h.bytes = sizeof h;
  h.vendor = info.vendor;
  h.device = info.device;
  h.driver_version = info.driver_version;
  memcpy(h.uuid, info.cache_uuid, sizeof h.uuid);
  h.content_bytes = size;
  Sha256 hash;
  hash.begin();
  hash.update(data, size);
  hash.finish(h.digest);
  return h;
}

// Vulkan's own header must name this device too: not every driver looks.
bool is_for(const DeviceInfo& info, const void* data, size_t size) {
  VkPipelineCacheHeaderVersionOne own;
  if (size < sizeof own) return false;
  memcpy(&own, data, sizeof own);
  return own.headerSize >= sizeof own && own.headerSize <= size && own.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
         own.vendorID == info.vendor && own.deviceID == info.device &&
         memcmp(own.pipelineCacheUUID, info.cache_uuid, sizeof info.cache_uuid) == 0;
}

bool join(char* to, const char* folder, const char* rest) {
  int n = snprintf(to, kPathBytes, "%s%s", folder, rest);
  return n > 0 && static_cast<size_t>(n) < kPathBytes;
}

bool find_folder(char* to) {
  if (const char* asked = getenv("PENLIGHT_CACHE")) return asked[0] && join(to, asked, "");
  lock_process();
  bool set = chosen[0] && join(to, chosen, "");
  unlock_process();
  if (set) return true;
#if defined(__ANDROID__)
  return false;  // an app has no folder but what it is told
#elif defined(_WIN32)
  const char* local = getenv("LOCALAPPDATA");
  return local && local[0] && join(to, local, "/penlight");
#else
  const char* home = getenv("HOME");
#if defined(__APPLE__)
  return home && home[0] == '/' && join(to, home, "/Library/Caches/penlight");
#else
  const char* cache = getenv("XDG_CACHE_HOME");
  if (cache && cache[0] == '/') return join(to, cache, "/penlight");
  return home && home[0] == '/' && join(to, home, "/.cache/penlight");
#endif
#endif
}

bool find_file(const DeviceInfo& info, char* to, bool make_folder) {
  char folder[kPathBytes], name[160];
  if (!find_folder(folder)) return false;
  if (make_folder)
    for (char* p = folder + 1;; ++p) {
      if (*p != '/' && *p) continue;
      char kept = *p;
      *p = 0;
      mkdir(folder, 0700);  // most of them are there
      *p = kept;
      if (!kept) break;
    }
  int n = snprintf(name, sizeof name, "/vulkan-%08x-%08x-%08x-", info.vendor, info.device, info.driver_version);
  for (uint8_t byte : info.cache_uuid) n += snprintf(name + n, sizeof name - static_cast<size_t>(n), "%02x", byte);
  snprintf(name + n, sizeof name - static_cast<size_t>(n), "-%.32s.cache", pen_version());
  return join(to, folder, name);
}

bool read_at(int fd, void* to, size_t size, size_t offset) {
  for (size_t done = 0; done < size;) {
    ptrdiff_t n = pread(fd, static_cast<char*>(to) + done, size - done, static_cast<pen_offset>(offset + done));
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

bool write_all(int fd, const void* from, size_t size) {
  for (size_t done = 0; done < size;) {
    ptrdiff_t n = write(fd, static_cast<const char*>(from) + done, size - done);
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

// The content of an open file, if all of it is right.
void* read_checked(int fd, const DeviceInfo& info, size_t* size) {
  Header stored;
  if (!read_at(fd, &stored, sizeof stored, 0) || stored.content_bytes > kCacheBytes) return nullptr;
  *size = static_cast<size_t>(stored.content_bytes);
  if (lseek(fd, 0, platform::kSeekEnd) != static_cast<pen_offset>(sizeof stored + *size)) return nullptr;
  void* data = malloc(*size ? *size : 1);
  if (!data) return nullptr;
  if (read_at(fd, data, *size, sizeof stored) && is_for(info, data, *size)) {
    Header right = header_of(info, data, *size);
    if (memcmp(&stored, &right, sizeof stored) == 0) return data;
  }
  free(data);
  return nullptr;
}

}  // namespace

void set_cache_folder(const char* folder) {
  lock_process();
  if (!join(chosen, folder ? folder : "", "")) chosen[0] = 0;
  unlock_process();
}

void* read_cache(const DeviceInfo& info, size_t* size) {
  char path[kPathBytes];
  *size = 0;
  if (!find_file(info, path, false)) return nullptr;
  int fd = open(path, platform::kReadOnly);
  if (fd < 0) return nullptr;
  void* data = read_checked(fd, info, size);
  if (!data) *size = 0;
  close(fd);
  return data;
}

void write_cache(const DeviceInfo& info, const void* data, size_t size) {
  char path[kPathBytes], temporary[kPathBytes], ending[64];
  if (!find_file(info, path, true)) return;
  if (size > kCacheBytes) {
    unlink(path);
    return;
  }
  // A name that no other process or thread takes; whoever reads sees the old file or the new one, never a part.
  pen_timespec now{};
  clock_gettime(platform::kMonotonic, &now);
  static uint32_t count;
  snprintf(ending, sizeof ending, ".%d-%lx-%x.tmp", getpid(), static_cast<unsigned long>(now.nanoseconds),
           __atomic_fetch_add(&count, 1u, __ATOMIC_RELAXED));
  if (!join(temporary, path, ending)) return;
  int fd = open(temporary, platform::kCreateNew, 0600);
  if (fd < 0) return;
  Header header = header_of(info, data, size);
  bool whole = write_all(fd, &header, sizeof header) && write_all(fd, data, size);
  whole = close(fd) == 0 && whole;
  if (!whole || rename(temporary, path) != 0) unlink(temporary);
}

}  // namespace pen::vulkan
