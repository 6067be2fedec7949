/* How long a .pen file takes from open to the end of the first run, how long a warm run takes, and how much memory the
 * process used at its peak. Inputs are zeros of the smallest declared sizes; weights are read from the page cache.
 *   load FILE [THREADS]  ->  open_ms first_ms warm_ms peak_kb arena_bytes */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "penlight.h"

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* The peak of this program alone; getrusage would count what the parent process was before exec. */
static long peak_kb(void) {
  char line[256];
  long kb = -1;
  FILE* status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status))
    if (sscanf(line, "VmHWM: %ld", &kb) == 1) break;
  if (status) fclose(status);
  return kb;
}

int main(int argc, char** argv) {
  static const size_t kItem[] = {4, 2, 8, 1, 1, 2, 4, 8, 1, 2};
  pen_error error;
  pen_model* model;
  pen_session* session;
  pen_session_options options = {argc > 2 ? atoi(argv[2]) : 1, 0, 0, NULL};
  if (argc < 2) return 2;
  double start = now_ms();
  if (pen_model_open(argv[1], 0, &model, &error) != PEN_OK || pen_session_create(model, "forward", &options, &session, &error) != PEN_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  double opened = now_ms();
  int inputs = pen_model_input_count(model, "forward");
  double preparing = 0;
  for (int i = 0; i < inputs; ++i) {
    double before = now_ms();
    pen_tensor_info info;
    pen_model_input_info(model, "forward", i, &info);
    size_t bytes = kItem[info.dtype];
    for (int d = 0; d < info.rank; ++d) bytes *= (size_t)info.min_dims[d];
    pen_tensor tensor = {calloc(bytes ? bytes : 1, 1), info.dtype, info.rank, info.min_dims, NULL};
    preparing += now_ms() - before;
    if (pen_session_set_input(session, i, &tensor) != PEN_OK) {
      fprintf(stderr, "%s\n", pen_session_error(session)->message);
      return 1;
    }
  }
  if (pen_session_run(session) != PEN_OK) {
    fprintf(stderr, "%s\n", pen_session_error(session)->message);
    return 1;
  }
  double first = now_ms();
  double best = 1e30;
  for (int i = 0; i < 10; ++i) {
    double before = now_ms();
    pen_session_run(session);
    double took = now_ms() - before;
    if (took < best) best = took;
  }
  printf("%.3f %.3f %.3f %ld %llu\n", opened - start, first - start - preparing, best, peak_kb(),
         (unsigned long long)pen_session_arena_bytes(session));
  return 0;
}
