// What the processor says of itself, and what schedules are cut by: its caches. Read once in a process, from cpuid (x86), the files
// under /sys (Linux, Android) or sysctl (Apple); what it does not say is assumed. PENLIGHT_PROCESSOR="l1=32k,l2=512k/4,l3=0" describes
// another one in its place (docs/PROCESSOR.md). Only the blocking follows from it (cpu/blocking.h), never a result.
#pragma once
#include "penlight/runtime/base/error.h"
#include "penlight/runtime/exec/cpuid.h"

namespace pen {

struct Cache {
  int64_t bytes;    // of data, or of data and instructions; 0: not known
  int32_t sharers;  // logical cores that share it; 0: not known
};
constexpr int kCacheLevels = 3;
// Where nothing is known: what nearly every processor has since 2010.
constexpr int64_t kAssumedL1 = 32 << 10, kAssumedL2 = 256 << 10;

struct Processor {
  Cache caches[kCacheLevels];  // L1, L2, L3 as one core sees them; where cores differ, the smaller ones
  int64_t near_bytes;          // one core's part of L2: what a task may keep near while it works
  int32_t cores;               // logical ones that are online
  const char* source;          // "cpuid", "/sys", "sysctl", "PENLIGHT_PROCESSOR"; "": nothing is known
};

// The smallest libraries, for phones and models of f32 alone, have no room to ask, and assume.
#if defined(__ANDROID__) && defined(PEN_FLOATS_ONLY)
#define PEN_ASSUMED_PROCESSOR
constexpr Processor kAssumedProcessor = {{{kAssumedL1, 0}, {kAssumedL2, 0}, {0, 0}}, kAssumedL2, 0, ""};
static PEN_INLINE const Processor& processor() { return kAssumedProcessor; }
static PEN_INLINE Status check_processor(pen_error*) { return PEN_OK; }
#else
const Processor& processor();
// An error where PENLIGHT_PROCESSOR has no meaning; sessions begin with it.
Status check_processor(pen_error* error);
#endif
// Whether vector units are as wide as the widest vectors (isa.cc).
bool has_whole_vectors();

// How it is found out, for tests to call on other machines' numbers. Each fills what it learns, and says whether that was anything.
// "32k", "1M", "7"; -1: no number. Moves `at` past it.
int64_t cache_bytes(const char** at);
bool caches_of_text(const char* text, Cache* caches);              // PENLIGHT_PROCESSOR
bool caches_of_files(const char* root, int cores, Cache* caches);  // "/sys/devices/system/cpu"
bool caches_of_cpuid(CpuidFn cpuid, Cache* caches);
// Numbers that no processor has become 0; what is missing is assumed; near_bytes follows.
void complete(Processor* p);

}  // namespace pen
