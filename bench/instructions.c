/* What bench/instructions.py counts: instructions MODEL RUNS, one thread, inputs of zeros. */
#include <stdio.h>
#include <stdlib.h>

#include "penlight.h"

static void require(pen_status status, const char* message) {
  if (status == PEN_OK) return;
  fprintf(stderr, "%s\n", message);
  exit(1);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  pen_error error;
  pen_model* model;
  pen_session* session;
  pen_session_options options = {sizeof options, NULL, 1, 0, 0, NULL, 0, NULL, NULL};
  require(pen_model_open(argv[1], 0, &model, &error), error.message);
  require(pen_session_create(model, "forward", &options, &session, &error), error.message);
  for (int i = 0; i < pen_model_input_count(model, "forward"); ++i) {
    pen_tensor_info info;
    require(pen_model_input_info(model, "forward", i, &info), "no such input");
    size_t count = 1;
    for (int d = 0; d < info.rank; ++d) count *= (size_t)info.dims[d];
    pen_tensor zeros = {calloc(count, 8), info.dtype, info.rank, info.dims, NULL};
    require(pen_session_set_input(session, i, &zeros), pen_session_error(session)->message);
  }
  for (int run = 0; run < atoi(argv[2]); ++run) require(pen_session_run(session), pen_session_error(session)->message);
  return 0;
}
