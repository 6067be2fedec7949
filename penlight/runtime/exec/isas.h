// The instruction sets that kernels are compiled for, each better than the one before it: ROW(name, processors, compiler flags). The
// only list of them: build/generate.py reads it too, for the build and the table of kernels. NEON is in the base of arm64.
#pragma once

// clang-format off
#define PEN_ISAS(ROW)                                                                                            \
  ROW(base, "any", "")                                                                                           \
  ROW(sse4, "x86_64", "-msse4.1")                                                                                \
  ROW(avx2, "x86_64", "-mavx2 -mfma -mf16c")                                                                     \
  ROW(avx512, "x86_64", "-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c")
// clang-format on
