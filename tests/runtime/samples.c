/* Replays the recorded samples of all operators (tests/ops/recording.py) on one instruction set: samples RECORDING ISA
 * Says of each that is wrong which it is and by how much; the exit status is 1 if there was one. */
#include "case.h"

static int wrong = 0;

static void complain(const char* name, const char* isa, const char* what) {
  ++wrong;
  printf("%s on %s: %s\n", name, isa, what);
}

static void replay(const char* name, const pen_model* model, const case_file* c, const char* isa) {
  pen_error error;
  pen_session_options options = {sizeof options, NULL, 1, 0, 0, isa, 0, NULL, NULL};
  pen_session* session;
  if (pen_session_create(model, "forward", &options, &session, &error) != PEN_OK) return complain(name, isa, error.message);
  CHECK(strcmp(pen_session_isa(session), isa) == 0);
  case_set_inputs(c, session);
  if (pen_session_run(session) != PEN_OK) {
    complain(name, isa, pen_session_error(session)->message);
    return pen_session_destroy(session);
  }
  for (int i = 0; i < c->output_count; ++i) {
    const case_tensor* want = &c->tensors[c->input_count + i];
    pen_tensor got;
    if (pen_session_output(session, i, &got) != PEN_OK) {
      complain(name, isa, "fewer outputs than torch's");
      continue;
    }
    if (got.dtype != want->dtype || got.rank != want->rank || memcmp(got.dims, want->dims, 8 * (size_t)got.rank)) {
      complain(name, isa, "another dtype or shape than torch's");
      continue;
    }
    double off = case_error(want, &got);
    if (off <= c->tolerance) continue;
    char what[128];
    snprintf(what, sizeof what, "output %d: error %.3g of max |y|, allowed %.3g", i, off, c->tolerance);
    complain(name, isa, what);
  }
  pen_session_destroy(session);
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  size_t size;
  char* bytes = case_read(argv[1], &size);
  const char *p = bytes, *end = bytes + size;
  int count = 0;
  for (; p < end; ++count) { /* i32 length, the name and a 0; i64 length, the model; the case */
    int32_t name_size;
    int64_t model_size;
    memcpy(&name_size, p, 4);
    const char* name = p + 4;
    memcpy(&model_size, name + name_size + 1, 8);
    const char* file = name + name_size + 9;
    case_file c;
    p = case_parse(file + model_size, &c);
    pen_error error;
    pen_model* model;
    if (pen_model_open_memory(file, (size_t)model_size, PEN_LOAD_COPY | PEN_LOAD_VERIFY, &model, &error) == PEN_OK) {
      replay(name, model, &c, argv[2]);
      pen_model_close(model);
    } else {
      complain(name, argv[2], error.message);
    }
    case_close(&c);
  }
  CHECK(p == end && count > 0);
  printf("%d samples on %s, %d wrong\n", count, argv[2], wrong);
  free(bytes);
  return wrong != 0;
}
