/* Calls per second through the C interface: what a binding's loop is held against. Inputs are zeros of the smallest declared sizes.
 *   calls FILE SECONDS  ->  calls per second, with one thread */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "penlight.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char** argv) {
  pen_error error;
  pen_model* model;
  pen_session* session;
  pen_session_options options = PEN_SESSION_OPTIONS;
  options.threads = 1;
  if (argc != 3 || pen_model_open(argv[1], 0, &model, &error) != PEN_OK) return 1;
  if (pen_session_create(model, "forward", &options, &session, &error) != PEN_OK) return 1;
  pen_tensor_info info;
  pen_model_input_info(model, "forward", 0, &info);
  size_t size = 4;
  for (int i = 0; i < info.rank; ++i) size *= (size_t)info.min_dims[i];
  pen_tensor x = {calloc(size, 1), info.dtype, info.rank, info.min_dims, NULL}, y;
  void* out = NULL;
  size_t out_size = 4;
  double best = 0, end = now() + strtod(argv[2], NULL);
  while (now() < end) {
    double start = now();
    int calls = 0;
    for (; now() < start + 0.25; ++calls) {
      pen_session_set_input(session, 0, &x);
      if (pen_session_prepare(session) != PEN_OK) return 1;
      if (!out) {
        pen_session_output(session, 0, &y);
        for (int i = 0; i < y.rank; ++i) out_size *= (size_t)y.dims[i];
        out = malloc(out_size);
      }
      pen_session_set_output(session, 0, out, out_size);
      if (pen_session_run(session) != PEN_OK) return 1;
    }
    double speed = calls / (now() - start);
    if (speed > best) best = speed;
  }
  printf("%.1f\n", best);
  return 0;
}
