// What penlight_spec.hpp makes of specs: a line "in TENSORS JSON" or "out TENSORS JSON" comes in, one line goes out, the nodes written as
// a spec again (floats as their bits, dims as their values where inputs are 2x3x5 and 7), then " | " and the arguments by position; or
// "error: …". The test compares with what Python reads.
#include "penlight_spec.hpp"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

using penlight::Spec;
using penlight::SpecKind;
using penlight::SpecNode;

static void put_text(const char* text, size_t bytes) {
  putchar('"');
  for (size_t i = 0; i < bytes; ++i) {
    unsigned char c = (unsigned char)text[i];
    if (c < ' ' || c == '"' || c == '\\')
      printf("\\u%04x", c);
    else
      putchar(c);
  }
  putchar('"');
}

static void put_key(const SpecNode& n) {
  if (n.key_kind == SpecKind::kString) put_text(n.key, n.key_bytes);
  if (n.key_kind == SpecKind::kInt) printf("%lld", (long long)n.key_integer);
  if (n.key_kind == SpecKind::kBool) printf(n.key_integer ? "true" : "false");
}

static void put(const Spec& spec, uint32_t at) {
  const SpecNode& n = spec[at];
  const char* names[] = {"arguments", "",       "complex", "none",  "const", "const", "const",        "const",
                         "opaque",    "number", "item",    "tuple", "list",  "items", "ordered_dict", "namedtuple"};
  if (n.kind == SpecKind::kTensor) {
    printf("%d", n.tensor);
    return;
  }
  printf("{\"%s\": ", names[int(n.kind)]);
  int64_t dims[] = {2, 3, 5, 7}, value;
  pen_tensor inputs[] = {{nullptr, PEN_F32, 3, dims, nullptr}, {nullptr, PEN_F32, 1, dims + 3, nullptr}};
  uint64_t bits;
  switch (n.kind) {
    case SpecKind::kComplex:
      printf("[%d, %d]", n.tensor, n.imaginary);
      break;
    case SpecKind::kNone:
      printf("true");
      break;
    case SpecKind::kBool:
      printf(n.integer ? "true" : "false");
      break;
    case SpecKind::kInt:
      printf("%lld", (long long)n.integer);
      break;
    case SpecKind::kFloat:
      memcpy(&bits, &n.number, sizeof bits);
      printf("\"float %016llx\"", (unsigned long long)bits);
      break;
    case SpecKind::kString:
    case SpecKind::kOpaque:
      put_text(n.text, n.text_bytes);
      break;
    case SpecKind::kDim:
      if (const char* problem = spec.dim(n, inputs, 2, &value))
        put_text(problem, strlen(problem));
      else
        printf("%lld", (long long)value);
      break;
    case SpecKind::kItem:
      printf("%d", n.tensor);
      break;
    default: {
      printf("[");
      if (n.kind == SpecKind::kNamedTuple) put_text(n.text, n.text_bytes);
      uint32_t part = at + 1;
      for (uint32_t i = 0; i < n.count; ++i, part = spec[part].end) {
        if (i || n.kind == SpecKind::kNamedTuple) printf(", ");
        if (spec[part].key_kind != SpecKind::kNone) printf("["), put_key(spec[part]), printf(", ");
        put(spec, part);
        if (spec[part].key_kind != SpecKind::kNone) printf("]");
      }
      if (part != n.end) abort();
      printf("]");
    }
  }
  printf("}");
}

int main() {
  static char line[1 << 21];
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    bool inputs = line[0] == 'i';
    char* rest;
    int32_t tensors = int32_t(strtol(strchr(line, ' '), &rest, 10));
    char* json = strdup(rest + 1);  // of its own size, so that sanitizers see a step past its end
    Spec read;
    bool fine = inputs ? read.read_inputs(json, tensors) : read.read_outputs(json, tensors);
    free(json);
    if (fine) {
      Spec spec(static_cast<Spec&&>(read));
      char words[128];
      spec.describe(0, words, sizeof words);
      spec.describe(0, words, 1);
      put(spec, 0);
      if (inputs) {
        printf(" |");
        for (uint32_t i = 0; i < 5; ++i) {
          uint32_t part = spec.argument(i);
          printf(" %u%s", part, part && !spec.needed(part) ? "?" : "");
        }
      }
    } else {
      printf("error: %s", read.error());
      if (read.count() != 0) abort();
    }
    printf("\n");
  }
  return 0;
}
