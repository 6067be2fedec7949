// speed_benchmark_torch: times a .pen file as PyTorch Mobile's program of that name timed .ptl files. The same flags, the same
// lines on stdout; after them what the mean hides. Errors are said on stderr, in words, and the exit code is 1.
#include "penlight/programs/speed_benchmark_torch/report.h"

namespace benchmark {
namespace {

constexpr size_t kFewestRuns = 5;  // of --seconds, however long one takes

struct Benchmark {
  const Flags& flags;
  pen_model* model = nullptr;
  Inputs inputs = {};
  Runner runner = {};
  Times times = {};
  Profile profile = {};
  int out = kStdout;

  explicit Benchmark(const Flags& given) : flags(given) {}

  bool load() {
    pen_error error;
    double start = now();
    if (pen_model_open(flags.model, 0, &model, &error) != PEN_OK) return fail("%s", error.message);
    if (!runner_create(flags, model, &inputs, &runner)) return false;
    times.load = now() - start;
    return true;
  }

  bool run_once(double* taken) {
    runner_reset(runner);
    double start = now();
    bool fine = runner_run(runner);
    *taken = now() - start;
    if (times.first == 0) times.first = *taken;  // whichever run that is: it plans and first touches the weights
    return fine;
  }

  bool print_output() {
    double taken;
    if (!run_once(&taken)) return false;
    Text text;
    runner_add_outputs(runner, flags, model, &text);
    bool fine = !text.failed && write_all(out, text.data, text.size);
    text.release();
    return fine || fail("the output cannot be printed");
  }

  bool main_runs() {
    double taken, start = now();
    while (flags.seconds > 0 ? times.count < kFewestRuns || now() - start < flags.seconds : times.count < static_cast<size_t>(flags.iter))
      if (!run_once(&taken) || !times.add(taken)) return false;
    times.whole = now() - start;
    return true;
  }

  bool run() {
    double taken;
    if (flags.use_caching_allocator)
      say(kStderr, "--use_caching_allocator changes nothing: a planned run allocates nothing, VM code keeps its memory\n");
    if (!load() || (flags.print_output && !print_output())) return false;
    bool fine = say(out, "Starting benchmark.\nRunning warmup runs.\n");
    for (int64_t i = 0; i < flags.warmup; ++i)
      if (!run_once(&taken)) return false;
    fine = say(out, "Main runs.\n") && fine;
    if (!main_runs()) return false;
    Text text;
    add_lines(flags, runner, times, &text);
    bool profiled = !flags.profile || make_profile(runner, static_cast<int64_t>(times.count), &profile);
    if (flags.profile && profiled) add_profile(runner, profile, &text);
    fine = !text.failed && write_all(out, text.data, text.size) && fine;
    text.release();
    if (!fine) return fail("the results cannot be written: %s", strerror(pen::platform::last_error()));
    return profiled && (!*flags.json || write_json());
  }

  bool write_json() {
    Text text;
    add_json(flags, runner, inputs, times, profile, &text);
    bool fine = write_file(flags.json, text);
    text.release();
    return fine;
  }
};

int run(int count, char** words) {
  Flags flags;
  if (!parse_flags(count, words, &flags)) return 1;
  if (flags.help) {
    show_usage();
    return 0;
  }
  pen_model* model = nullptr;
  bool fine;
  {
    Benchmark benchmark(flags);
    if (strcmp(flags.json, "-") == 0) benchmark.out = kStderr;
    fine = benchmark.run();
    model = benchmark.model;
  }
  pen_model_close(model);  // after all that was made of it
  return fine ? 0 : 1;
}

}  // namespace
}  // namespace benchmark

#if __STDC_HOSTED__
int main(int count, char** words) { return benchmark::run(count, words); }
#else  // freestanding C++ would give it a name that no start code calls
extern "C" int main(int count, char** words) { return benchmark::run(count, words); }
#endif
