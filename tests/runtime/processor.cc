// What the runtime makes of other machines' descriptions, for test_processor.py:
//   processor files ROOT CORES | text WORDS | cpuid LEAF.SUB=A,B,C,D... | nothing
// prints sizes and sharers of L1, L2, L3, then one core's part of L2; "no" where the description says nothing.
#include "case.h"

#define PEN_PLATFORM_CHECK  // keeps platform.h's declarations apart from libc's
#include "penlight/runtime/exec/processor.h"

using namespace pen;

static char** leaves;

#if defined(__x86_64__) || defined(__i386__)
static Cpuid ask(uint32_t leaf, uint32_t sub) {
  for (char** at = leaves; *at; ++at) {
    unsigned l, s;
    Cpuid r;
    CHECK(sscanf(*at, "%x.%u=%x,%x,%x,%x", &l, &s, &r.a, &r.b, &r.c, &r.d) == 6);
    if (l == leaf && s == sub) return r;
  }
  return {};
}
#endif

int main(int argc, char** argv) {
  CHECK(argc >= 2);
  Processor p = {};
  bool told = false;
  leaves = argv + 2;
  if (strcmp(argv[1], "text") == 0) told = caches_of_text(argv[2], p.caches);
#if defined(__linux__)
  if (strcmp(argv[1], "files") == 0) told = caches_of_files(argv[2], atoi(argv[3]), p.caches);
#endif
#if defined(__x86_64__) || defined(__i386__)
  if (strcmp(argv[1], "cpuid") == 0) told = caches_of_cpuid(ask, p.caches);
#endif
  complete(&p);
  for (const Cache& c : p.caches) printf("%lld/%d ", static_cast<long long>(c.bytes), c.sharers);
  printf("%lld %s\n", static_cast<long long>(p.near_bytes), told ? "yes" : "no");
  return 0;
}
