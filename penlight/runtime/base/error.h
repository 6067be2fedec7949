// Errors in words: a pen_error filled with what, where, expected and got.
#pragma once
#include "penlight/runtime/base/platform.h"
#include "penlight/runtime/include/penlight.h"

namespace pen {

using Status = pen_status;

// printf into a bounded field; always terminated.
void set_text(char* field, size_t size, const char* format, ...) __attribute__((format(printf, 3, 4)));

struct Problem {
  Status status;
  const char* what = "";  // the first words: "mobilenet.pen: the section table is damaged"
  const char* op = "";
  const char* tensor = "";
  const char* expected = "";
  const char* got = "";
  const char* source = "";
  const char* advice = "";  // what to do
};
// Writes the parts and the whole message into `error` (may be null) and returns the status.
Status report(pen_error* error, const Problem& problem);
// The same of most problems: five words in registers, where the parts of a Problem would be written to memory by every caller.
Status report(pen_error* error, Status status, const char* what, const char* expected, const char* got = "", const char* advice = "");
// Adds the operator and the source line to an error that was told without them, by code that does not know what it works for.
Status locate(pen_error* error, const char* op, const char* source);

// Whether a caller's struct may be this large, as its first field says. More, or part of a field, is a `size` that was never set.
static PEN_INLINE bool is_struct_size(size_t size) {
  constexpr size_t kMost = 4096, kSizes = kMost - alignof(pen_session_options);
  return size != 0 && !(size & ~kSizes);
}

}  // namespace pen
