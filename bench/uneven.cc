// Cores of two kinds, imitated: one of a session's threads is made slower, by waiting after each of its tasks a multiple of what the task
// took. Nothing of that is in the runtime: the linker puts a function of this program before pen::pool_run (-Wl,--wrap).
//   uneven FILE FACTOR SECONDS  ->  one line of JSON: ms of a run on one thread, on two equal ones, with the second thread slowed so many
//   times, with the caller slowed; best and median of runs that take turns, and the same by step.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <vector>

#include "penlight.h"

namespace pen {
struct ThreadPool;
using TaskFn = void (*)(void* context, int64_t begin, int64_t end, int worker);
}  // namespace pen

namespace {

int slowed = -1;  // worker
int factor = 4;   // how many times slower

double now_s() {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Work {
  pen::TaskFn run;
  void* context;
};

void run_slowly(void* context, int64_t begin, int64_t end, int worker) {
  const Work& work = *static_cast<const Work*>(context);
  if (worker != slowed) return work.run(work.context, begin, end, worker);
  const double start = now_s();
  work.run(work.context, begin, end, worker);
  const double took = now_s() - start, until = start + factor * took;
  while (now_s() < until) {
  }
}

}  // namespace

void real_pool_run(pen::ThreadPool* pool, int64_t count, pen::TaskFn run,
                   void* context) asm("__real__ZN3pen8pool_runEPNS_10ThreadPoolElPFvPvlliES2_");
void wrapped_pool_run(pen::ThreadPool* pool, int64_t count, pen::TaskFn run,
                      void* context) asm("__wrap__ZN3pen8pool_runEPNS_10ThreadPoolElPFvPvlliES2_");
void wrapped_pool_run(pen::ThreadPool* pool, int64_t count, pen::TaskFn run, void* context) {
  Work work = {run, context};
  real_pool_run(pool, count, run_slowly, &work);
}

namespace {

struct Way {
  const char* name;
  int threads, slowed;
  pen_session* session;
  std::vector<double> times;
};

int failed(const char* message) {
  fprintf(stderr, "%s\n", message);
  return 1;
}

// Zeros of the smallest declared sizes, kept until the program ends.
bool give_inputs(const pen_model* model, pen_session* session) {
  static const size_t kItem[] = {4, 2, 8, 1, 1, 2, 4, 8, 1, 2};
  for (int i = 0, inputs = pen_model_input_count(model, "forward"); i < inputs; ++i) {
    pen_tensor_info info;
    pen_model_input_info(model, "forward", i, &info);
    size_t bytes = kItem[info.dtype];
    for (int d = 0; d < info.rank; ++d) bytes *= static_cast<size_t>(info.min_dims[d]);
    pen_tensor tensor = {calloc(bytes + 1, 1), info.dtype, info.rank, info.min_dims, nullptr};
    if (!tensor.data || pen_session_set_input(session, i, &tensor) != PEN_OK) return false;
  }
  return true;
}

double best(const Way& way) { return 1e3 * *std::min_element(way.times.begin(), way.times.end()); }
double median(Way way) {
  std::nth_element(way.times.begin(), way.times.begin() + static_cast<long>(way.times.size() / 2), way.times.end());
  return 1e3 * way.times[way.times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return failed("usage: uneven FILE FACTOR SECONDS");
  factor = atoi(argv[2]);
  const double seconds = atof(argv[3]);
  pen_error error;
  pen_model* model;
  if (pen_model_open(argv[1], 0, &model, &error) != PEN_OK) return failed(error.message);
  Way ways[] = {
      {"one", 1, -1, nullptr, {}}, {"equal", 2, -1, nullptr, {}}, {"slow_other", 2, 1, nullptr, {}}, {"slow_caller", 2, 0, nullptr, {}}};
  for (Way& way : ways) {
    pen_session_options options = {sizeof options, nullptr, way.threads, 0, 0, nullptr, 0, nullptr, nullptr};
    if (pen_session_create(model, "forward", &options, &way.session, &error) != PEN_OK) return failed(error.message);
    if (!give_inputs(model, way.session)) return failed(pen_session_error(way.session)->message);
  }
  // Turns of 50 ms; what a pool has learnt of its threads holds for its session alone.
  for (double start = now_s(); now_s() < start + seconds;) {
    for (Way& way : ways) {
      slowed = way.slowed;
      const bool first = way.times.empty();
      int settle = 2;  // threads wake up
      for (double turn = now_s(); now_s() < turn + 0.05 || settle >= -1; --settle) {
        const double begin = now_s();
        if (pen_session_run(way.session) != PEN_OK) return failed(pen_session_error(way.session)->message);
        if (settle < 0) way.times.push_back(now_s() - begin);
      }
      if (first) pen_session_set_profiling(way.session, 1);  // a clock read by step, in all ways alike
    }
  }
  printf("{");
  for (const Way& way : ways) printf("\"%s_ms\": %.4f, \"%s_median_ms\": %.4f, ", way.name, best(way), way.name, median(way));
  printf("\"steps\": [");
  for (int32_t i = 0; i < pen_session_step_count(ways[0].session); ++i) {
    pen_step_profile step;
    for (const Way& way : ways) {
      pen_session_step(way.session, i, &step);
      if (&way == ways) printf("%s{\"key\": \"%s\", \"output\": \"%s\"", i ? ", " : "", step.key, step.output);
      printf(", \"%s_us\": %.2f", way.name,
             step.calls ? 1e-3 * static_cast<double>(step.nanoseconds) / static_cast<double>(step.calls) : 0);
    }
    printf("}");
  }
  printf("]}\n");
  for (const Way& way : ways) pen_session_destroy(way.session);
  pen_model_close(model);
  return 0;
}
