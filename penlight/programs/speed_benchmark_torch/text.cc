// Text: see text.h.
#include "penlight/programs/speed_benchmark_torch/text.h"

namespace benchmark {
namespace {

#if defined(__APPLE__)
constexpr int kCreate = 0x601;  // O_WRONLY | O_CREAT | O_TRUNC
#else
constexpr int kCreate = 0x241;
#endif

void add_arguments(Text* text, const char* format, __builtin_va_list args) {
  __builtin_va_list again;
  __builtin_va_copy(again, args);
  int more = vsnprintf(nullptr, 0, format, args);
  size_t needed = text->size + static_cast<size_t>(more < 0 ? 0 : more) + 1;
  if (needed > text->room) {
    char* grown = static_cast<char*>(realloc(text->data, 2 * needed));
    text->failed = text->failed || !grown;
    if (grown) {
      text->data = grown;
      text->room = 2 * needed;
    }
  }
  if (more >= 0 && needed <= text->room)
    text->size += static_cast<size_t>(vsnprintf(text->data + text->size, needed - text->size, format, again));
  __builtin_va_end(again);
}

}  // namespace

void Text::add(const char* format, ...) {
  __builtin_va_list args;
  __builtin_va_start(args, format);
  add_arguments(this, format, args);
  __builtin_va_end(args);
}

void Text::add_json(const char* text) {
  add("\"");
  for (; *text; ++text) {
    if (*text == '"' || *text == '\\')
      add("\\%c", *text);
    else if (static_cast<unsigned char>(*text) < 32)
      add("\\u%04x", *text);
    else
      add("%c", *text);
  }
  add("\"");
}

void Text::release() {
  free(data);
  *this = {};
}

bool write_all(int fd, const char* data, size_t size) {
  while (size) {
    ptrdiff_t n = write(fd, data, size);
    if (n <= 0) return false;
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

bool say(int fd, const char* format, ...) {
  Text text;
  __builtin_va_list args;
  __builtin_va_start(args, format);
  add_arguments(&text, format, args);
  __builtin_va_end(args);
  bool fine = !text.failed && write_all(fd, text.data, text.size);
  text.release();
  return fine;
}

bool fail(const char* format, ...) {
  Text text;
  text.add("error: ");
  __builtin_va_list args;
  __builtin_va_start(args, format);
  add_arguments(&text, format, args);
  __builtin_va_end(args);
  text.add("\n");
  write_all(kStderr, text.data, text.size);
  text.release();
  return false;
}

bool write_file(const char* path, const Text& text) {
  if (text.failed) return fail("%s: no memory for what is to be written", path);
  bool to_stdout = strcmp(path, "-") == 0;
  int fd = to_stdout ? kStdout : open(path, kCreate, 0644);
  if (fd < 0) return fail("--json %s: the file cannot be written: %s", path, strerror(pen::platform::last_error()));
  bool fine = write_all(fd, text.data, text.size);
  int error = fine ? 0 : pen::platform::last_error();
  if (!to_stdout && close(fd) != 0 && fine) {
    fine = false;
    error = pen::platform::last_error();
  }
  return fine || fail("--json %s: the file cannot be written: %s", path, strerror(error));
}

}  // namespace benchmark
