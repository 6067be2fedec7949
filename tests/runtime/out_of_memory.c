/* Each allocation fails once: out_of_memory MODEL CASE LARGER_CASE
 * Loading, making a session, planning and running must then end in words or in the right numbers, give back what they
 * took, and work the next time. */
#include "case.h"
#include "counting_malloc.h"

static pen_error error;
static long failed;

/* Runs it all with allocation `n` (counted from the start) failing; 0 where there are fewer. */
static int attempt(const char* path, const case_file* c, const void* bytes, size_t size, long n) {
  long start = allocations, held = allocations - frees;
  pen_model* model;
  pen_session* session = NULL;
  fail_at = start + n;
  pen_status status = path ? pen_model_open(path, n % 2 ? PEN_LOAD_COPY : 0, &model, &error)
                           : pen_model_open_memory(bytes, size, PEN_LOAD_COPY, &model, &error);
  if (status == PEN_OK) {
    pen_session_options options = {sizeof options, NULL, 1, 0, 0, NULL, 0, NULL, NULL};
    status = pen_session_create(model, NULL, &options, &session, &error);
    if (status == PEN_OK) {
      case_set_inputs(c, session);
      status = pen_session_run(session);
      if (status != PEN_OK) {
        error = *pen_session_error(session);
        status = pen_session_run(session); /* only one fails */
        CHECK(status == PEN_OK);
        status = PEN_ERROR_MEMORY;
      }
      case_compare(c, session);
    }
  }
  int reached = allocations > fail_at;
  fail_at = -1;
  CHECK(reached || status == PEN_OK);
  if (status != PEN_OK) { /* OK: the plan did without, as for a list of possible in-place results */
    CHECK(status == PEN_ERROR_MEMORY);
    CHECK(error.status == PEN_ERROR_MEMORY);
    CHECK_TEXT(error.message, "memory");
    ++failed;
  }
  pen_session_destroy(session);
  pen_model_close(model);
  CHECK(allocations - frees == held + reached); /* the one that failed was counted too */
  return reached;
}

/* Outputs that are bound for one size, then a prepare for a larger one in which allocation `n` fails: what was bound is not written. */
static int attempt_larger(const pen_model* model, const case_file* c, const case_file* larger, long n) {
  static char mine[1 << 16];
  pen_session_options options = {sizeof options, NULL, 1, 0, 0, NULL, 0, NULL, NULL};
  pen_session* session;
  CHECK(pen_session_create(model, NULL, &options, &session, &error) == PEN_OK);
  case_set_inputs(c, session);
  CHECK(pen_session_prepare(session) == PEN_OK);
  memset(mine, 0x55, sizeof mine);
  for (int32_t i = 0; i < c->output_count; ++i)
    if (pen_session_output_is_fixed(session, i) && c->tensors[c->input_count + i].size * c->tensors[c->input_count + i].count <= 8192)
      CHECK(pen_session_set_output(session, i, mine + 8192 * i, 8192) == PEN_OK);
  case_set_inputs(larger, session);
  fail_at = allocations + n;
  const pen_status status = pen_session_prepare(session);
  int reached = allocations > fail_at;
  fail_at = -1;
  CHECK(pen_session_run(session) == PEN_OK);
  case_compare(larger, session);
  for (size_t i = 0; i < sizeof mine; ++i) CHECK(mine[i] == 0x55);
  CHECK(reached || status == PEN_OK);
  failed += status != PEN_OK;
  pen_session_destroy(session);
  return reached;
}

int main(int argc, char** argv) {
  CHECK(argc == 4);
  case_file c, larger;
  case_open(argv[2], &c);
  case_open(argv[3], &larger);
  size_t size;
  void* bytes = case_read(argv[1], &size);
  for (long n = 0; attempt(argv[1], &c, NULL, 0, n); ++n) CHECK(n < 100000);
  for (long n = 0; attempt(NULL, &c, bytes, size, n); ++n) CHECK(n < 100000);
  CHECK(failed > 20);
  pen_model* model;
  CHECK(pen_model_open(argv[1], 0, &model, &error) == PEN_OK);
  for (long n = 0; attempt_larger(model, &c, &larger, n); ++n) CHECK(n < 100000);
  pen_model_close(model);
  free(bytes);
  case_close(&c);
  case_close(&larger);
  printf("%ld failures survived\n", failed);
  return 0;
}
