// The instruction sets that kernels are compiled for, each better than the one before it: ROW(name, processors, compiler flags, headers).
// The only list of them: build/generate.py reads it too, for the build and the table of kernels. A set with headers is for sources that
// include one of them, directly or not; all others have nothing to gain from it, and do without. NEON is in the base of arm64; later
// processors multiply bytes too, four by four (dotprod; avxvnni, of processors that have no AVX-512) or in matrices of 2x8 (i8mm).
// avx512x2 is avx512 with taller tiles (cpu/tile.h), for processors that have whole units for its vectors, and registers to match.
#pragma once

// clang-format off
#define PEN_ISAS(ROW)                                                                                            \
  ROW(base, "any", "", "")                                                                                       \
  ROW(sse4, "x86_64", "-msse4.1", "")                                                                            \
  ROW(avx2, "x86_64", "-mavx2 -mfma -mf16c", "")                                                                 \
  ROW(avxvnni, "x86_64", "-mavx2 -mfma -mf16c -mavxvnni", "runtime/cpu/gemm_q8.h")                               \
  ROW(avx512, "x86_64", "-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c", "")       \
  ROW(avx512x2, "x86_64", "-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c -DPEN_TALL_TILES", "runtime/cpu/tile.h runtime/cpu/depthwise.h") \
  ROW(dotprod, "aarch64", "-mcpu=generic+dotprod", "runtime/cpu/gemm_q8.h runtime/cpu/depthwise_q8.h")           \
  ROW(i8mm, "aarch64", "-mcpu=generic+dotprod+i8mm", "runtime/cpu/gemm_q8.h")
// clang-format on
