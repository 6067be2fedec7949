/* What it costs to start, by part: opening and mapping the file, its tables, the session, the plan, the first run, a warm run; page faults
 * of each; first touch of the file's pages, starting threads; and the peak memory of the process. Inputs are zeros of the smallest declared
 * sizes. Warm: the file is in the page cache, as it is found. Cold: its pages are dropped from there first, and counted: `resident` is how
 * many are still there, 0 where the measurement is one of a cold start. Ahead: cold too, but the system is asked to read the file as soon
 * as it is open, beside what else there is to do. load FILE [THREADS] [WARM_RUNS] [warm | cold | ahead]  ->  one line of JSON */
#define _DEFAULT_SOURCE
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
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

/* Drops the file's pages from the page cache and gives back how many are still in it: those that another process has mapped, or all of them
 * where the file system keeps files nowhere else. -1: unknown. */
static long drop(const char* path) {
  struct stat about;
  int file = open(path, O_RDONLY);
  if (file < 0 || fstat(file, &about) != 0) return -1;
  fsync(file); /* pages that are not on disk yet would stay */
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  long page = sysconf(_SC_PAGESIZE), pages = (about.st_size + page - 1) / page, resident = 0;
  void* bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  unsigned char* there = malloc((size_t)pages + 1);
  if (bytes == MAP_FAILED || !there || mincore(bytes, (size_t)about.st_size, there) != 0) return -1;
  for (long i = 0; i < pages; ++i) resident += there[i] & 1;
  free(there);
  munmap(bytes, (size_t)about.st_size);
  close(file);
  return resident;
}

/* What pen_model_open does before it reads anything. */
static double map_ms(const char* path) {
  struct stat about;
  double start = now_ms();
  int file = open(path, O_RDONLY);
  if (file < 0 || fstat(file, &about) != 0) return -1;
  void* bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  double took = now_ms() - start;
  if (bytes == MAP_FAILED) return -1;
  munmap(bytes, (size_t)about.st_size);
  return took;
}

static void* nothing(void* argument) { return argument; }

/* Of the threads that a session starts in its first run. */
static double threads_ms(int others) {
  pthread_t threads[64];
  double start = now_ms();
  int started = 0;
  while (started < others && started < 64 && pthread_create(&threads[started], NULL, nothing, NULL) == 0) ++started;
  double took = now_ms() - start;
  while (started > 0) pthread_join(threads[--started], NULL);
  return took;
}

/* Page faults since the last call: those that waited for the disk, and those that did not. */
static struct {
  long major, minor;
} faults[4], seen;
static void count_faults(int part) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  faults[part].major = usage.ru_majflt - seen.major;
  faults[part].minor = usage.ru_minflt - seen.minor;
  seen.major = usage.ru_majflt;
  seen.minor = usage.ru_minflt;
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
  pen_session_options options = {sizeof options, NULL, argc > 2 ? atoi(argv[2]) : 1, 0, 0, NULL, 0, NULL, NULL};
  int warm_runs = argc > 3 ? atoi(argv[3]) : 10;
  const char* way = argc > 4 ? argv[4] : "warm";
  int ahead = strcmp(way, "ahead") == 0, cold = ahead || strcmp(way, "cold") == 0;
  if (argc < 2 || (!cold && strcmp(way, "warm") != 0)) return failed("usage: load FILE [THREADS] [WARM_RUNS] [warm | cold | ahead]");
  double mapping_ms = map_ms(argv[1]), starting_ms = threads_ms(options.threads - 1);
  long resident = cold ? drop(argv[1]) : -1;
  count_faults(0);

  double start = now_ms();
  if (ahead) {
    int file = open(argv[1], O_RDONLY);
    posix_fadvise(file, 0, 0, POSIX_FADV_WILLNEED);
    close(file);
  }
  if (pen_model_open(argv[1], 0, &model, &error) != PEN_OK) return failed(error.message);
  double open_ms = now_ms() - start;
  count_faults(0);
  start = now_ms();
  if (pen_session_create(model, "forward", &options, &session, &error) != PEN_OK) return failed(error.message);
  double session_ms = now_ms() - start;

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

  count_faults(3); /* of the session, and of the inputs: not shown */
  start = now_ms();
  if (pen_session_prepare(session) != PEN_OK) return failed(pen_session_error(session)->message);
  double plan_ms = now_ms() - start;
  count_faults(1);
  start = now_ms();
  if (pen_session_run(session) != PEN_OK) return failed(pen_session_error(session)->message);
  double first_ms = now_ms() - start;
  count_faults(2);

  double warm_ms = 1e30;
  for (int i = 0; i < warm_runs; ++i) {
    start = now_ms();
    pen_session_run(session);
    double took = now_ms() - start;
    if (took < warm_ms) warm_ms = took;
  }
  long peak = peak_kb();
  unsigned long long arena = pen_session_arena_bytes(session), live = pen_session_live_bytes(session);
  pen_session_destroy(session);
  pen_model_close(model);
  if (cold) drop(argv[1]); /* nobody has it mapped any more */
  printf("{\"open_ms\": %.3f, \"session_ms\": %.3f, \"plan_ms\": %.3f, \"first_ms\": %.3f, \"warm_ms\": %.3f, \"touch_ms\": %.3f, ",
         open_ms, session_ms, plan_ms, first_ms, warm_ms, touch_ms(argv[1]));
  printf("\"map_ms\": %.3f, \"threads_ms\": %.3f, \"resident\": %ld, ", mapping_ms, starting_ms, resident);
  static const char* const kParts[] = {"open", "plan", "first"};
  for (int i = 0; i < 3; ++i) printf("\"%s_major\": %ld, \"%s_minor\": %ld, ", kParts[i], faults[i].major, kParts[i], faults[i].minor);
  printf("\"peak_kb\": %ld, \"arena_bytes\": %llu, \"live_bytes\": %llu}\n", peak, arena, live);
  return 0;
}
