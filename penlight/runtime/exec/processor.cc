#include "penlight/runtime/exec/processor.h"

#include "penlight/runtime/exec/pool.h"

#if !defined(PEN_ASSUMED_PROCESSOR)

namespace pen {

PEN_SMALL int64_t cache_bytes(const char** at) {
  const char* p = *at;
  int64_t n = 0;
  for (; *p >= '0' && *p <= '9'; ++p)
    if (n < int64_t{1} << 36) n = n * 10 + (*p - '0');  // more is no size of a cache either way
  if (p == *at) return -1;
  const char unit = *p | 0x20;
  if (unit == 'k' || unit == 'm') ++p, n <<= unit == 'k' ? 10 : 20;
  *at = p;
  return n;
}

PEN_SMALL bool caches_of_text(const char* text, Cache* caches) {
  for (;; ++text) {
    const int level = text[0] == 'l' ? text[1] - '1' : -1;
    if (level < 0 || level >= kCacheLevels || text[2] != '=') return false;
    text += 3;
    const int64_t bytes = cache_bytes(&text);
    int64_t sharers = 1;
    if (*text == '/') ++text, sharers = cache_bytes(&text);
    if (bytes < 0 || sharers < 1 || sharers > 1024 || (*text && *text != ',')) return false;
    caches[level] = {bytes, static_cast<int32_t>(sharers)};
    if (!*text) return true;
  }
}

#if defined(__linux__)
// One file that tells of a cache, as text; false where there is none.
static PEN_SMALL bool read_word(const char* root, int core, int index, const char* name, char* text, size_t size) {
  char path[256];
  set_text(path, sizeof path, "%s/cpu%d/cache/index%d/%s", root, core, index, name);
  const int fd = open(path, platform::kReadOnly);
  if (fd < 0) return false;
  const ptrdiff_t n = pread(fd, text, size - 1, 0);
  close(fd);
  text[n > 0 ? n : 0] = 0;
  return n > 0;
}

PEN_SMALL bool caches_of_files(const char* root, int cores, Cache* caches) {
  bool any = false;
  for (int core = 0;; core = cores - 1) {  // the first and the last: a phone's little and big ones
    char text[256];
    for (int index = 0; index < 16 && read_word(root, core, index, "level", text, sizeof text); ++index) {
      const int level = text[0] - '1';
      if (level < 0 || level >= kCacheLevels || !read_word(root, core, index, "type", text, sizeof text) || text[0] == 'I') continue;
      if (!read_word(root, core, index, "size", text, sizeof text)) continue;
      const char* at = text;
      Cache found = {cache_bytes(&at), 0}, &kept = caches[level];
      if (found.bytes <= 0 || (kept.bytes && kept.bytes <= found.bytes)) continue;
      if (read_word(root, core, index, "shared_cpu_map", text, sizeof text))  // a bit for each, in hexadecimal
        for (at = text; *at; ++at)
          if (*at != ',' && *at > ' ')
            for (int digit = *at <= '9' ? *at : *at + 9, bit = 0; bit < 4; ++bit) found.sharers += digit >> bit & 1;
      kept = found;
      any = true;
    }
    if (core >= cores - 1) return any;
  }
}
#endif

#if defined(__x86_64__) || defined(__i386__)
// Leaf 4 of Intel's and 0x8000001d of AMD's describe one cache after another in the same form; before there was that one, AMD's
// processors had two leaves with sizes alone.
bool caches_of_cpuid(CpuidFn ask, Cache* caches) {
  bool any = false;
  const uint32_t extended = ask(0x80000000, 0).a;
  const bool topology = extended >= 0x8000001d && extended < 0x80010000 && (ask(0x80000001, 0).c >> 22 & 1);
  const uint32_t leaf = ask(0, 0).a >= 4 && (ask(4, 0).a & 31) ? 4 : topology ? 0x8000001d : 0;
  for (uint32_t i = 0; leaf && i < 16; ++i) {
    const Cpuid r = ask(leaf, i);
    const uint32_t type = r.a & 31, level = (r.a >> 5 & 7) - 1;
    if (type == 0) break;
    if (level >= kCacheLevels || type == 2) continue;  // 1: data, 2: instructions, 3: both
    const int64_t ways = (r.b >> 22) + 1, parts = (r.b >> 12 & 1023) + 1, line = (r.b & 4095) + 1;
    caches[level] = {ways * parts * line * (int64_t{r.c} + 1), static_cast<int32_t>((r.a >> 14 & 4095) + 1)};
    any = true;
  }
  if (any || extended < 0x80000006 || extended >= 0x80010000) return any;
  const Cpuid near = ask(0x80000005, 0), far = ask(0x80000006, 0);
  caches[0] = {int64_t{near.c >> 24} << 10, 1};
  caches[1] = {int64_t{far.c >> 16} << 10, 1};
  caches[2] = {int64_t{far.d >> 18} << 19, 0};
  return caches[0].bytes || caches[1].bytes;
}
#endif

#if defined(__APPLE__)
// Of the fast cores where there are two kinds: they do the work.
static bool caches_of_system(Cache* caches) {
  static const struct {
    const char* name;
    uint8_t level;
    bool sharers;
  } kNames[] = {{"hw.l1dcachesize", 0, false},
                {"hw.l2cachesize", 1, false},
                {"hw.l3cachesize", 2, false},
                {"hw.perflevel0.l1dcachesize", 0, false},
                {"hw.perflevel0.l2cachesize", 1, false},
                {"hw.perflevel0.cpusperl2", 1, true}};
  bool any = false;
  for (const auto& n : kNames) {
    int64_t value = 0;  // of 4 or 8 bytes
    size_t size = sizeof value;
    if (sysctlbyname(n.name, &value, &size, nullptr, 0) != 0 || value <= 0) continue;
    if (n.sharers)
      caches[n.level].sharers = value < 1024 ? static_cast<int32_t>(value) : 0;
    else
      caches[n.level].bytes = value;
    any = true;
  }
  return any;
}
#endif

PEN_SMALL void complete(Processor* p) {
  for (int i = 0; i < kCacheLevels; ++i) {
    Cache& c = p->caches[i];
    // 4 kB to 1 MB, 32 kB to 256 MB, 256 kB to 64 GB: a file or a hypervisor may say anything
    constexpr int64_t kLeast[] = {4 << 10, 32 << 10, 256 << 10};
    constexpr int kRange[] = {8, 13, 18};
    if (c.bytes < kLeast[i] || c.bytes >> kRange[i] > kLeast[i]) c = {};
    if (c.sharers < 0 || c.sharers > 4096) c.sharers = 0;
  }
  if (!p->caches[0].bytes) p->caches[0].bytes = kAssumedL1;
  if (!p->caches[1].bytes) p->caches[1].bytes = kAssumedL2;
  // Threads of one core share its L1 too, and are not counted: they share the work as well.
  const int64_t threads = p->caches[0].sharers ? p->caches[0].sharers : 1, all = p->caches[1].sharers;
  const int64_t part = all > threads ? p->caches[1].bytes * threads / all : p->caches[1].bytes;
  constexpr int64_t kLeastNear = 64 << 10, kMostNear = 1 << 20;
  p->near_bytes = part < kLeastNear ? kLeastNear : part > kMostNear ? kMostNear : part;
}

static Processor the_processor;
static char wrong[64];  // PENLIGHT_PROCESSOR, where it has no meaning
static int found;       // 0: not yet, 1: somebody is about to, 2: it is there

static PEN_SMALL void find(Processor* p) {
  p->cores = core_count();
  p->source = "";
#if defined(__x86_64__) || defined(__i386__)
  if (caches_of_cpuid([](uint32_t leaf, uint32_t sub) { return cpuid(leaf, sub); }, p->caches)) p->source = "cpuid";
#endif
#if defined(__linux__)
  if (!p->source[0] && caches_of_files("/sys/devices/system/cpu", p->cores, p->caches)) p->source = "/sys";
#elif defined(__APPLE__)
  if (!p->source[0] && caches_of_system(p->caches)) p->source = "sysctl";
#endif
  const char* text = getenv("PENLIGHT_PROCESSOR");
  if (text && text[0]) {
    Cache told[kCacheLevels] = {};
    if (caches_of_text(text, told)) {
      memcpy(p->caches, told, sizeof told);
      p->source = "PENLIGHT_PROCESSOR";
    } else {
      set_text(wrong, sizeof wrong, "%s", text);
    }
  }
  complete(p);
}

const Processor& processor() {
  if (PEN_LIKELY(__atomic_load_n(&found, __ATOMIC_ACQUIRE) == 2)) return the_processor;
  int none = 0;
  if (__atomic_compare_exchange_n(&found, &none, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
    find(&the_processor);
    __atomic_store_n(&found, 2, __ATOMIC_RELEASE);
  }
  while (__atomic_load_n(&found, __ATOMIC_ACQUIRE) != 2) sched_yield();
  return the_processor;
}

Status check_processor(pen_error* error) {
  processor();
  if (wrong[0]) return report(error, PEN_ERROR_ARGUMENT, "PENLIGHT_PROCESSOR", "sizes of caches as in l1=32k,l2=1m/2,l3=0", wrong);
  return PEN_OK;
}

}  // namespace pen

#endif
