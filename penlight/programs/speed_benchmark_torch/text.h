// Text on its way out, and all that the program takes from its platform beyond runtime/base/platform.h: it has no libc
// header either, so that one compiler builds it for every target.
#pragma once
#include "penlight/runtime/base/platform.h"

extern "C" {
void* realloc(void* p, size_t size) noexcept;
ptrdiff_t write(int fd, const void* from, size_t size);
void qsort(void* first, size_t count, size_t size, int (*compare)(const void*, const void*));
}

namespace benchmark {

constexpr int kStdout = 1, kStderr = 2;

// Grows as it is written to. Out of memory, it stays as it was and `failed` says so.
struct Text {
  char* data = nullptr;
  size_t size = 0, room = 0;
  bool failed = false;

  __attribute__((format(printf, 2, 3))) void add(const char* format, ...);
  void add_json(const char* text);  // with quotes around it and escapes in it
  void release();
};

bool write_all(int fd, const char* data, size_t size);
// Formats and writes at once: what was said before a crash is seen. False where it could not be written.
__attribute__((format(printf, 2, 3))) bool say(int fd, const char* format, ...);
// "error: …" on stderr; always false, so that callers return it.
__attribute__((format(printf, 1, 2))) bool fail(const char* format, ...);
// Writes a file, or stdout where the path is "-"; false after having said why not.
bool write_file(const char* path, const Text& text);

}  // namespace benchmark
