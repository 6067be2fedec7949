/* What sessions keep from run to run, in C: state golden/v4.pen (tests/file/golden/state.py says what it computes) */
#include "case.h"
#if defined(COUNTED)
#include "counting_malloc.h"
#else
static long allocations, fail_at;
#endif

enum { kRows = 40, kWide = 32, kStart = 5 };
static pen_error error;

/* Writes ones into a row, and says how often the session has run. */
static pen_status run(pen_session* session, int64_t row, int64_t* calls) {
  static float ones[kWide];
  static int64_t at;
  int64_t dims[2] = {1, kWide};
  pen_tensor rows = {ones, PEN_F32, 2, dims, NULL}, places = {&at, PEN_I64, 1, dims, NULL}, y;
  for (int i = 0; i < kWide; ++i) ones[i] = 1;
  at = row;
  CHECK(pen_session_set_input(session, 0, &rows) == PEN_OK);
  CHECK(pen_session_set_input(session, 1, &places) == PEN_OK);
  pen_status status = pen_session_run(session);
  if (status != PEN_OK) return status;
  CHECK(pen_session_output(session, 1, &y) == PEN_OK);
  *calls = *(int64_t*)y.data;
  return PEN_OK;
}

static float* table(const pen_session* session) {
  pen_tensor t;
  const char* name = pen_session_state(session, 0, &t);
  CHECK(name && strcmp(name, "table") == 0 && t.dtype == PEN_F32 && t.rank == 2 && t.dims[0] == kRows && t.dims[1] == kWide);
  return t.data;
}

static int64_t counted(const pen_session* session) {
  pen_tensor t;
  CHECK(strcmp(pen_session_state(session, 1, &t), "calls") == 0 && t.dtype == PEN_I64 && t.rank == 0);
  return *(int64_t*)t.data;
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  pen_model* model;
  CHECK(pen_model_open(argv[1], PEN_LOAD_VERIFY, &model, &error) == PEN_OK);
  CHECK(pen_model_input_count(model, NULL) == 2 && pen_model_output_count(model, NULL) == 2);
  pen_session *a, *b;
  pen_tensor t;
  CHECK(pen_session_create(model, NULL, NULL, &a, &error) == PEN_OK);
  CHECK(pen_session_create(model, NULL, NULL, &b, &error) == PEN_OK);
  CHECK(!pen_session_state(a, 2, &t) && !pen_session_state(a, -1, &t));
  float* first = table(a);
  float before = first[7 * kWide];
  CHECK(before != 1 && counted(a) == kStart);
  int64_t calls = 0;
  for (int i = 1; i <= 3; ++i) {
    CHECK(run(a, 7, &calls) == PEN_OK);
    CHECK(calls == kStart + i && counted(a) == calls);
  }
  CHECK(table(a) == first && first[7 * kWide] == 1); /* where it was: in place */
  CHECK(counted(b) == kStart && table(b)[7 * kWide] == before);

  long start = allocations;
  for (int i = 0; i < 5; ++i) CHECK(run(a, i, &calls) == PEN_OK);
  CHECK(allocations == start);

  /* a run that fails before it writes leaves all as it was */
  CHECK(run(a, kRows, &calls) == PEN_ERROR_DATA);
  CHECK_TEXT(pen_session_error(a)->message, "got 40");
  CHECK(counted(a) == kStart + 8 && first[7 * kWide] == 1);
  CHECK(run(a, 8, &calls) == PEN_OK && calls == kStart + 9);

  pen_session_reset(a);
  CHECK(counted(a) == kStart && table(a)[7 * kWide] == before);
  table(a)[7 * kWide] = 3; /* callers may write: a conversation that goes on */
  CHECK(run(a, 0, &calls) == PEN_OK && calls == kStart + 1 && table(a)[7 * kWide] == 3);
  pen_session_destroy(a);
  pen_session_destroy(b);
#if defined(COUNTED)
  for (long n = 0, failed = 1; failed; ++n) { /* every allocation of a session and its first run fails once */
    fail_at = allocations + n;
    pen_status status = pen_session_create(model, NULL, NULL, &a, &error);
    if (status == PEN_OK) status = run(a, 1, &calls);
    failed = allocations > fail_at;
    fail_at = -1;
    CHECK(status == PEN_OK || status == PEN_ERROR_MEMORY);
    if (a && status != PEN_OK) CHECK(counted(a) == kStart);
    pen_session_destroy(a);
  }
#endif
  pen_model_close(model);
  (void)fail_at;
  puts("all well");
  return 0;
}
