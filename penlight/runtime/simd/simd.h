// The vector types that kernels are written in: one name for the registers of every instruction set. Included by files
// that are compiled once per instruction set; everything lies in that set's namespace (pen::PEN_ISA), so that no
// function exists twice under one name. Intrinsics stay behind this header.
//
//   V  f32 vector of kLanes floats (16, 8, 4 or 1)      I  i32 vector of as many      M  one truth value per lane
//
//   load(p) store(p, v)                     any alignment
//   load_partial(p, n) store_partial(p, v, n)   the first n <= kLanes lanes; touches no memory beyond, the rest is 0
//   set1(f) zero()  + - * / unary -  fma(a, b, c) = a * b + c (one rounding where the hardware has it)
//   min(a, b) max(a, b)                     if either is NaN the result is b: the x86 rule, on every set
//   clamp(x, lo, hi)                        NaN in x stays NaN
//   abs sqrt floor ceil trunc round         round: ties to even
//   lt le gt ge eq ne isnan -> M            NaN compares false, except in ne
//   select(m, a, b) = m ? a : b   m & m   m | m   !m
//   reduce_add reduce_max reduce_min -> float
//   to_int(V) (truncates; out of range: any value) to_float(I) bits(V) from_bits(I)
//   I: + - & | ^ << >> (arithmetic) and set1i(n), load_ints(p), store_ints(p, a)
//   gather(p, index)                        lane i is p[index[i]], or 0 where the index is below zero
//   permute(a, index) permute(a, b, index)  lane i is lane index[i] of a, or of a and then b; where kHasPermute
//   load_half store_half fma_half           lanes [0, kLanes / 2), the others undefined; where kHasHalves
//   load_halves(p, q) store_halves(p, q, a) the lower half from or to p, the upper from or to q
//   halves(a, b) twice(a)                   the lower half of a, then the upper half of b; the lower half of a, twice
//   load_f16(p) store_f16(p, v)             f16 in memory, nearest; where kHasF16
//   keep(v)                                 v is loaded once and stays in its register
//   after(p, v)                             loads through the pointer p come after v is known
#pragma once
#include "penlight/runtime/base/platform.h"

#ifndef PEN_ISA
#define PEN_ISA base
#define PEN_ISA_BASE 1
#endif

// The compilers' intrinsics headers pull in <stdlib.h> for _mm_malloc only: their guards, set here, keep it out.
#if defined(__AVX512F__) || defined(__AVX2__) || defined(__SSE4_1__)
#define _MM_MALLOC_H_INCLUDED  // GCC
#define __MM_MALLOC_H          // Clang
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

// Before a loop over registers: unrolls it completely. GCC keeps an array of vectors in memory as soon as one loop over
// it is left standing.
#define PEN_UNROLL _Pragma("GCC unroll 64")
// Before a loop that is short, or rare: the compiler neither unrolls it nor makes vectors of it, which would be hundreds of bytes.
#if defined(__clang__)
#define PEN_ROLLED _Pragma("clang loop vectorize(disable) unroll(disable)")
#else
#define PEN_ROLLED _Pragma("GCC unroll 1")
#endif

namespace pen {
namespace PEN_ISA {

#if defined(__AVX512F__)
#include "penlight/runtime/simd/avx512.h"
#elif defined(__AVX2__)
#include "penlight/runtime/simd/avx2.h"
#elif defined(__SSE4_1__)
#include "penlight/runtime/simd/sse4.h"
#elif defined(__ARM_NEON)
#include "penlight/runtime/simd/neon.h"
#elif defined(__wasm_simd128__)
#include "penlight/runtime/simd/wasm.h"
#else
#include "penlight/runtime/simd/scalar.h"
#endif

#if !defined(__ARM_NEON)  // has a shorter one
// max returns its second argument when one is NaN, so x goes second: NaN passes through both.
static PEN_INLINE V clamp(V x, V lo, V hi) { return min(hi, max(lo, x)); }
#endif

#if !defined(__AVX2__)
constexpr bool kHasPermute = false;  // never called then, but named in templates
static PEN_INLINE V permute(V a, I) { return a; }
static PEN_INLINE V permute(V a, V, I) { return a; }
static PEN_INLINE I load_ints(const int32_t* p) {
  I a;
  __builtin_memcpy(&a, p, sizeof a);
  return a;
}
#if defined(__SSE4_1__)  // a copy by its address would keep sums in memory, all the while they are added up
static PEN_INLINE void store_ints(int32_t* p, I a) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), a.v); }
#else
static PEN_INLINE void store_ints(int32_t* p, I a) { __builtin_memcpy(p, &a, sizeof a); }
#endif
static PEN_INLINE V gather(const float* p, I index) {
  int32_t at[kLanes];
  float lanes[kLanes];
  __builtin_memcpy(at, &index, sizeof at);
  for (int i = 0; i < kLanes; ++i) lanes[i] = at[i] < 0 ? 0.0f : p[at[i]];
  return load(lanes);
}
#endif

#if !defined(__AVX2__) && !defined(__aarch64__)
constexpr bool kHasF16 = false;  // never called then, but named
static PEN_INLINE V load_f16(const uint16_t*) { return zero(); }
static PEN_INLINE void store_f16(uint16_t*, V) {}
#endif

#if !defined(__AVX512F__)
constexpr bool kHasHalves = false;  // never called then, but named in templates
static PEN_INLINE V load_half(const float* p) { return load(p); }
static PEN_INLINE void store_half(float* p, V a) { store(p, a); }
static PEN_INLINE V fma_half(V a, V b, V c) { return fma(a, b, c); }
static PEN_INLINE V load_halves(const float* p, const float*) { return load(p); }
static PEN_INLINE void store_halves(float* p, float*, V a) { store(p, a); }
static PEN_INLINE V halves(V a, V) { return a; }
static PEN_INLINE V twice(V a) { return a; }
#endif

// GCC folds a load into every instruction that uses its value; where the load port is what limits, that is the limit
// reached three times as early.
static PEN_INLINE void keep([[maybe_unused]] V& v) {
#if defined(__AVX512F__)
  __asm__("" : "+v"(v.v));
#elif defined(__AVX2__) || defined(__SSE4_1__)
  __asm__("" : "+x"(v.v));
#endif
}

// Where nearly all registers hold sums, Clang loads what comes next first, and spills. A pointer that waits for a sum
// keeps its loads in their place.
static PEN_INLINE void after([[maybe_unused]] const float*& p, [[maybe_unused]] V& v) {
#if defined(__ARM_NEON)
  __asm__("" : "+r"(p), "+w"(v.v));
#endif
}

}  // namespace PEN_ISA
}  // namespace pen
