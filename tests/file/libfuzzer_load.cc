// The libFuzzer target: any bytes at all, guided by coverage. Needs clang; not part of CI.
//   PENLIGHT_FUZZ_SECONDS=600 ./dev test tests/file/test_fuzz.py -k libfuzzer
// builds the runtime with clang-14 under build/fuzz, runs this on a corpus in build/fuzz/corpus (kept between runs) that
// starts from the zoo, and leaves inputs that crash in build/fuzz.
#include "exercise.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Statistics statistics;
  Rng rng(size ? data[size / 2] : 0);
  exercise(data, size, rng, &statistics);
  return 0;
}
