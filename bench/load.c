/* What it costs to start: time from open to the end of the first run, a warm run, first touch of the file's pages, and
 * the peak memory of the process. Inputs are zeros of the smallest declared sizes; the file is in the page cache.
 *   load FILE [THREADS] [WARM_RUNS]  ->  one line of JSON */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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

/* A fresh mapping of the file, one byte of each page: what any program pays that uses mapped weights for the first time. */
static double touch_ms(const char* path) {
  struct stat about;
  int file = open(path, O_RDONLY);
  if (file < 0 || fstat(file, &about) != 0) return -1;
  double start = now_ms();
  const volatile char* bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  if (bytes == MAP_FAILED) return -1;
  for (long at = 0, page = sysconf(_SC_PAGESIZE); at < about.st_size; at += page) (void)bytes[at];
  double took = now_ms() - start;
  munmap((void*)bytes, (size_t)about.st_size);
  close(file);
  return took;
}

static int failed(const char* message) {
  fprintf(stderr, "%s\n", message);
  return 1;
}

int main(int argc, char** argv) {
  static const size_t kItem[] = {4, 2, 8, 1, 1, 2, 4, 8, 1, 2};
  pen_error error;
  pen_model* model;
  pen_session* session;
  pen_session_options options = {sizeof options, NULL, argc > 2 ? atoi(argv[2]) : 1, 0, 0, NULL, 0};
  int warm_runs = argc > 3 ? atoi(argv[3]) : 10;
  if (argc < 2) return failed("usage: load FILE [THREADS] [WARM_RUNS]");

  double start = now_ms();
  if (pen_model_open(argv[1], 0, &model, &error) != PEN_OK) return failed(error.message);
  if (pen_session_create(model, "forward", &options, &session, &error) != PEN_OK) return failed(error.message);
  double open_ms = now_ms() - start;

  for (int i = 0, inputs = pen_model_input_count(model, "forward"); i < inputs; ++i) { /* the caller's own work: not counted */
    pen_tensor_info info;
    pen_model_input_info(model, "forward", i, &info);
    size_t bytes = kItem[info.dtype];
    for (int d = 0; d < info.rank; ++d) bytes *= (size_t)info.min_dims[d];
    char* data = calloc(bytes + 1, 1);
    for (size_t at = 0; data && at < bytes; at += 4096) ((volatile char*)data)[at] = 0;
    pen_tensor tensor = {data, info.dtype, info.rank, info.min_dims, NULL};
    if (!data || pen_session_set_input(session, i, &tensor) != PEN_OK) return failed(pen_session_error(session)->message);
  }

  start = now_ms();
  if (pen_session_prepare(session) != PEN_OK) return failed(pen_session_error(session)->message);
  double plan_ms = now_ms() - start;
  start = now_ms();
  if (pen_session_run(session) != PEN_OK) return failed(pen_session_error(session)->message);
  double first_ms = now_ms() - start;

  double warm_ms = 1e30;
  for (int i = 0; i < warm_runs; ++i) {
    start = now_ms();
    pen_session_run(session);
    double took = now_ms() - start;
    if (took < warm_ms) warm_ms = took;
  }
  long peak = peak_kb();
  printf("{\"open_ms\": %.3f, \"plan_ms\": %.3f, \"first_ms\": %.3f, \"warm_ms\": %.3f, \"touch_ms\": %.3f, ", open_ms, plan_ms, first_ms,
         warm_ms, touch_ms(argv[1]));
  printf("\"peak_kb\": %ld, \"arena_bytes\": %llu, \"live_bytes\": %llu}\n", peak, (unsigned long long)pen_session_arena_bytes(session),
         (unsigned long long)pen_session_live_bytes(session));
  pen_session_destroy(session);
  pen_model_close(model);
  return 0;
}
