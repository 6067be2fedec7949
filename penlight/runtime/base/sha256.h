// SHA-256 (FIPS 180-4), for the content hash of a .pen file.
#pragma once
#include "penlight/runtime/base/platform.h"

namespace pen {

struct Sha256 {
  uint32_t state[8];
  uint64_t bytes;
  uint8_t block[64];

  void begin();
  void update(const void* data, size_t size);
  void finish(uint8_t digest[32]);
};

}  // namespace pen
