#include "penlight/runtime/exec/isa.h"

#include "penlight/runtime/exec/processor.h"

namespace pen {

namespace {

#define PEN_ISA_TEXT(name, ...) #name,
constexpr char kNames[kIsaCount][9] = {PEN_ISAS(PEN_ISA_TEXT)};
#undef PEN_ISA_TEXT

#if defined(__x86_64__) || defined(__i386__)
// The register state that the operating system saves: without it AVX instructions fault.
uint64_t saved_state() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}
// Whether vectors of 512 bits go through units of 256, as in Zen 4 and in laptops' Zen 5; FP256 says so, but not under every hypervisor.
bool halves_vectors() {
  Cpuid vendor = cpuid(0, 0);
  if (vendor.b != 0x68747541 || vendor.d != 0x69746e65 || vendor.c != 0x444d4163) return false;  // AuthenticAMD
  constexpr uint32_t kZen4 = 0x19;
  uint32_t one = cpuid(1, 0).a, family = (one >> 8 & 0xf) + (one >> 20 & 0xff);
  bool fp256 = cpuid(0x80000000, 0).a >= 0x8000001a && (cpuid(0x8000001a, 0).a >> 2 & 1);
  return family <= kZen4 || fp256;
}
bool find(Isa isa) {
  if (isa == Isa::base) return true;
  Cpuid one = cpuid(1, 0);
  bool sse41 = one.c >> 19 & 1, fma = one.c >> 12 & 1, f16c = one.c >> 29 & 1, osxsave = one.c >> 27 & 1;
  if (isa == Isa::sse4) return sse41;
  if (!osxsave || cpuid(0, 0).a < 7) return false;
  Cpuid seven = cpuid(7, 0);
  uint64_t saved = saved_state();
  bool avx2 = (seven.b >> 5 & 1) && fma && f16c && (saved & 6) == 6;
  if (isa == Isa::avx2) return avx2;
  if (isa == Isa::avxvnni) return avx2 && seven.a >= 1 && (cpuid(7, 1).a >> 4 & 1);
  constexpr uint32_t kWanted = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL
  bool vnni = seven.c >> 11 & 1;
  bool avx512 = avx2 && (seven.b & kWanted) == kWanted && vnni && (saved & 0xe6) == 0xe6;
  if (isa == Isa::avx512) return avx512;
  return isa == Isa::avx512x2 && avx512 && !halves_vectors();
}
// The processor is asked once: under a hypervisor each question takes as long as a small run, and every session asks.
bool has(Isa isa) {
  static uint32_t known;  // a bit for each; not 0 once it is known, as base is among them
  static_assert(kIsaCount < 32);
  uint32_t found = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (!found) {
    for (int i = 0; i < kIsaCount; ++i) found |= find(static_cast<Isa>(i)) ? 1u << i : 0;
    __atomic_store_n(&known, found, __ATOMIC_RELAXED);
  }
  return found >> static_cast<int>(isa) & 1;
}
#elif defined(__aarch64__) && defined(__APPLE__)
bool is_set(const char* name) {
  int value = 0;
  size_t size = sizeof value;
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
}
bool has(Isa isa) {
  if (!kHasBytes || isa == Isa::base) return isa == Isa::base;  // the others multiply bytes
  bool dotprod = is_set("hw.optional.arm.FEAT_DotProd");
  if (isa == Isa::dotprod) return dotprod;
  return isa == Isa::i8mm && dotprod && is_set("hw.optional.arm.FEAT_I8MM");
}
#elif defined(__aarch64__) && defined(__linux__)
bool has(Isa isa) {
  if (!kHasBytes || isa == Isa::base) return isa == Isa::base;  // the others multiply bytes
  bool dotprod = getauxval(platform::kHwcap) & platform::kHwcapDotprod;
  if (isa == Isa::dotprod) return dotprod;
  return isa == Isa::i8mm && dotprod && (getauxval(platform::kHwcap2) & platform::kHwcap2I8mm);
}
#else
bool has(Isa isa) { return isa == Isa::base; }
#endif

AnyFn best(const KernelEntry& entry, Isa isa) {
  int i = entry.per_isa ? kIsasHeld - 1 : 0;
  while (i > 0 && kIsas[i] > isa) --i;
  return kernel_function(entry.function + i);
}

}  // namespace

#if defined(__x86_64__) || defined(__i386__)
bool has_whole_vectors() { return !has(Isa::avx512) || !halves_vectors(); }
#else
bool has_whole_vectors() { return true; }
#endif

int available_isas(Isa out[kIsaCount]) {
  int n = 0;
  for (int i = kIsasHeld - 1; i >= 0; --i)
    if (has(kIsas[i])) out[n++] = kIsas[i];
  return n;
}

const char* isa_name(Isa isa) { return kNames[static_cast<int>(isa)]; }

RunFn run_function(const KernelEntry& entry, Isa isa) {
  return entry.elementwise ? kElementwiseRun : reinterpret_cast<RunFn>(best(entry, isa));
}
RowFn row_function(const KernelEntry& entry, Isa isa) { return entry.elementwise ? reinterpret_cast<RowFn>(best(entry, isa)) : nullptr; }

}  // namespace pen
