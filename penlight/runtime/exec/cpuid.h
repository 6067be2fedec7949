// What an x86 processor says of itself.
#pragma once
#include "penlight/runtime/base/platform.h"

namespace pen {

struct Cpuid {
  uint32_t a, b, c, d;
};
using CpuidFn = Cpuid (*)(uint32_t leaf, uint32_t sub);

#if defined(__x86_64__) || defined(__i386__)
static PEN_INLINE Cpuid cpuid(uint32_t leaf, uint32_t sub) {
  Cpuid r;
  __asm__ volatile("cpuid" : "=a"(r.a), "=b"(r.b), "=c"(r.c), "=d"(r.d) : "a"(leaf), "c"(sub));
  return r;
}
#endif

}  // namespace pen
