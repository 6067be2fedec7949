#include "penlight/runtime/base/error.h"

namespace pen {

void set_text(char* field, size_t size, const char* format, ...) {
  __builtin_va_list args;
  __builtin_va_start(args, format);
  vsnprintf(field, size, format, args);
  __builtin_va_end(args);
}

Status report(pen_error* error, const Problem& p) {
  if (!error) return p.status;
  error->status = p.status;
  set_text(error->op, sizeof error->op, "%s", p.op);
  set_text(error->tensor, sizeof error->tensor, "%s", p.tensor);
  set_text(error->expected, sizeof error->expected, "%s", p.expected);
  set_text(error->got, sizeof error->got, "%s", p.got);
  set_text(error->source, sizeof error->source, "%s", p.source);
  char* m = error->message;
  size_t room = sizeof error->message;
  auto add = [&](const char* before, const char* text, const char* after) {
    if (!text[0]) return;
    int n = snprintf(m, room, "%s%s%s", before, text, after);
    if (n < 0) return;
    size_t used = static_cast<size_t>(n) < room ? static_cast<size_t>(n) : room - 1;
    m += used;
    room -= used;
  };
  m[0] = 0;
  const char* separator = "";
  if (p.what[0]) add("", p.what, ""), separator = ": ";
  if (p.op[0]) add(separator, p.op, ""), separator = ": ";
  if (p.tensor[0]) add(separator, p.tensor, ""), separator = ": ";
  if (p.expected[0]) add(p.what[0] || p.op[0] || p.tensor[0] ? ": expected " : "expected ", p.expected, "");
  if (p.got[0]) add(p.expected[0] ? ", got " : ": got ", p.got, "");
  add(" (at ", p.source, ")");
  add(". ", p.advice, "");
  return p.status;
}

Status report(pen_error* error, Status status, const char* what, const char* expected, const char* got, const char* advice) {
  return report(error, {status, what, "", "", expected, got, "", advice});
}

Status locate(pen_error* error, const char* op, const char* source) {
  char told[sizeof error->message];
  set_text(told, sizeof told, "%s", error->message);
  bool add_op = !error->op[0] && op[0], add_source = !error->source[0] && source[0];
  set_text(error->message, sizeof error->message, "%s%s%s%s%s%s", add_op ? op : "", add_op ? ": " : "", told, add_source ? " (at " : "",
           add_source ? source : "", add_source ? ")" : "");
  if (add_op) set_text(error->op, sizeof error->op, "%s", op);
  if (add_source) set_text(error->source, sizeof error->source, "%s", source);
  return static_cast<Status>(error->status);
}

}  // namespace pen

extern "C" const char* pen_status_name(int32_t status) {
  switch (status) {
    case PEN_OK:
      return "ok";
    case PEN_ERROR_IO:
      return "io";
    case PEN_ERROR_FORMAT:
      return "format";
    case PEN_ERROR_VERSION:
      return "version";
    case PEN_ERROR_KERNEL:
      return "kernel";
    case PEN_ERROR_ARGUMENT:
      return "argument";
    case PEN_ERROR_INPUT:
      return "input";
    case PEN_ERROR_SHAPE:
      return "shape";
    case PEN_ERROR_MEMORY:
      return "memory";
    case PEN_ERROR_DATA:
      return "data";
    case PEN_ERROR_CHECKSUM:
      return "checksum";
    case PEN_ERROR_RAISED:
      return "raised";
    case PEN_ERROR_LIMIT:
      return "limit";
#if !defined(PEN_FLOATS_ONLY)  // such a library does not ask whether to stop (exec/run.h)
    case PEN_ERROR_CANCELLED:
      return "cancelled";
#endif
    default:
      return "unknown";
  }
}
