// What must hold in test programs that compile a part of the runtime themselves: its platform.h stands in for libc's headers.
#pragma once

extern "C" int printf(const char* format, ...);
extern "C" void abort(void) noexcept;

#define CHECK(x)                                                    \
  do {                                                              \
    if (!(x)) {                                                     \
      printf("%s:%d: does not hold: %s\n", __FILE__, __LINE__, #x); \
      abort();                                                      \
    }                                                               \
  } while (0)
