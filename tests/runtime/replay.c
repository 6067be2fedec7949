/* Replays cases: replay MODEL CASE...
 * Every case is run twice, then all once more (plans come from the cache), with 1 to 3 threads and each instruction set
 * in the library, the model loaded from its path, from memory and from a descriptor at an odd offset. */
#define _POSIX_C_SOURCE 200809L
#include "case.h"

static void replay(const pen_model* model, int count, case_file* cases, const char* isa, int threads) {
  pen_error error;
  pen_session_options options = {sizeof options, NULL, threads, 0, 0, isa, 0, NULL, NULL};
  pen_session* session;
  CHECK(pen_session_create(model, "forward", &options, &session, &error) == PEN_OK);
  CHECK(strcmp(pen_session_isa(session), isa) == 0);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < count; ++i) {
      int at = round % 2 ? i : count - 1 - i;
      case_set_inputs(&cases[at], session);
      if (pen_session_run(session) != PEN_OK) {
        fprintf(stderr, "%s\n", pen_session_error(session)->message);
        exit(1);
      }
      case_compare(&cases[at], session);
    }
  }
  int stages = 0; /* where sizes depend on data, there are plans for what comes after, too */
  for (int i = 0; i < cases[0].output_count; ++i) stages |= !pen_session_output_is_fixed(session, i);
  CHECK(stages ? pen_session_plan_count(session) > count : pen_session_plan_count(session) == count);
  pen_session_destroy(session);
}

int main(int argc, char** argv) {
  CHECK(argc >= 3);
  int count = argc - 2;
  case_file* cases = malloc(sizeof(case_file) * (size_t)count);
  for (int i = 0; i < count; ++i) case_open(argv[i + 2], &cases[i]);

  size_t size;
  char* bytes = case_read(argv[1], &size);
  FILE* other = tmpfile(); /* the file inside another, 1000 bytes in */
  CHECK(other && fseek(other, 1000, SEEK_SET) == 0 && fwrite(bytes, 1, size, other) == size && fflush(other) == 0);

  pen_error error;
  pen_model* models[4];
  CHECK(pen_model_open(argv[1], PEN_LOAD_VERIFY, &models[0], &error) == PEN_OK);
  CHECK(pen_model_open_memory(bytes, size, PEN_LOAD_COPY | PEN_LOAD_VERIFY, &models[1], &error) == PEN_OK);
  CHECK(pen_model_open_fd(fileno(other), 1000, size, PEN_LOAD_VERIFY, &models[2], &error) == PEN_OK);
  CHECK(pen_model_open_memory(bytes, size, 0, &models[3], &error) == PEN_OK);
  fclose(other);
  for (int i = 0; i < 4; ++i)
    for (int isa = 0; pen_isa_name(isa); ++isa)
      for (int threads = 1; threads <= 3; ++threads)
        if (i == 0 || threads == 2) replay(models[i], count, cases, pen_isa_name(isa), threads);
  for (int i = 0; i < 4; ++i) pen_model_close(models[i]);
  for (int i = 0; i < count; ++i) case_close(&cases[i]);
  free(bytes);
  free(cases);
  printf("replayed\n");
  return 0;
}
