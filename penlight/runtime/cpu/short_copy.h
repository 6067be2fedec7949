// Copies of a few bytes, inline: for the short rows of strided copies, where a call to memcpy costs more than the bytes.
#pragma once
#include "penlight/runtime/base/platform.h"

namespace pen {

constexpr int64_t kShortCopy = 192;  // bytes: from here on memcpy is faster

// Whole words, then one more that ends at the last byte and may overlap them.
static PEN_INLINE void copy_short(char* to, const char* from, int64_t bytes) {
  if (bytes >= 64) {
    for (int64_t i = 0; i + 64 <= bytes; i += 64) __builtin_memcpy(to + i, from + i, 64);
    if (bytes % 64 != 0) __builtin_memcpy(to + bytes - 64, from + bytes - 64, 64);
  } else if (bytes >= 16) {
    for (int64_t i = 0; i + 16 <= bytes; i += 16) __builtin_memcpy(to + i, from + i, 16);
    __builtin_memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (bytes >= 8) {
    __builtin_memcpy(to, from, 8);
    __builtin_memcpy(to + bytes - 8, from + bytes - 8, 8);
  } else if (bytes >= 4) {
    __builtin_memcpy(to, from, 4);
    __builtin_memcpy(to + bytes - 4, from + bytes - 4, 4);
  } else {
    for (int64_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

}  // namespace pen
