/* A run allocates nothing: no_allocation MODEL CASE */
#include "case.h"
#include "counting_malloc.h"

int main(int argc, char** argv) {
  CHECK(argc == 3);
  case_file c;
  case_open(argv[2], &c);
  pen_error error;
  pen_model* model;
  long start = allocations;
  CHECK(pen_model_open(argv[1], 0, &model, &error) == PEN_OK);
  printf("load: %ld allocations\n", allocations - start);
  for (int threads = 1; threads <= 3; ++threads) {
    pen_session_options options = {sizeof options, NULL, threads, 0, 0, NULL, 0, NULL, NULL};
    pen_session* session;
    long at_create = allocations - frees;
    CHECK(pen_session_create(model, "forward", &options, &session, &error) == PEN_OK);
    case_set_inputs(&c, session);
    long before = allocations;
    CHECK(before > 0); /* ours are the ones that are called */
    CHECK(pen_session_run(session) == PEN_OK);
    CHECK(allocations > before);
    printf("first run, %d threads: %ld allocations\n", threads, allocations - before);
    before = allocations;
    long freed = frees;
    for (int i = 0; i < 5; ++i) {
      case_set_inputs(&c, session);
      CHECK(pen_session_run(session) == PEN_OK);
    }
    CHECK(allocations == before && frees == freed);
    case_compare(&c, session);
    /* with the caller's outputs, after prepare */
    CHECK(pen_session_prepare(session) == PEN_OK);
    for (int i = 0; i < c.output_count; ++i) {
      case_tensor* t = &c.tensors[c.input_count + i];
      if (!pen_session_output_is_fixed(session, i)) continue; /* its size depends on the data */
      CHECK(pen_session_set_output(session, i, t->data, t->count * t->size) == PEN_OK);
    }
    CHECK(pen_session_run(session) == PEN_OK);
    CHECK(allocations == before && frees == freed);
    pen_session_destroy(session);
    if (threads == 1) CHECK(allocations - frees == at_create); /* all given back (libc keeps memory of threads) */
  }
  pen_model_close(model);
  case_close(&c);
  printf("a run allocates nothing\n");
  return 0;
}
