// Numbers and how they are told: see report.h.
#include "penlight/programs/speed_benchmark_torch/report.h"

#if defined(__APPLE__)
extern "C" int getrusage(int who, void* usage) noexcept;
#endif

namespace benchmark {
namespace {

int ascending(const void* a, const void* b) {
  double x = *static_cast<const double*>(a), y = *static_cast<const double*>(b);
  return (x > y) - (x < y);
}

// Of sorted numbers, between two of them by their distance, as numpy does.
double quantile(const double* sorted, size_t count, double q) {
  double place = q * static_cast<double>(count - 1);
  size_t below = static_cast<size_t>(place);
  if (below + 1 >= count) return sorted[count - 1];
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

struct Summary {
  double mean = 0, least = 0, p50 = 0, p90 = 0, p99 = 0;
};

bool summarize(const Times& times, Summary* s) {
  double* sorted = times.count ? static_cast<double*>(malloc(times.count * sizeof(double))) : nullptr;
  if (!sorted) return false;
  memcpy(sorted, times.seconds, times.count * sizeof(double));
  qsort(sorted, times.count, sizeof(double), ascending);
  *s = {times.whole / static_cast<double>(times.count), sorted[0], quantile(sorted, times.count, 0.5), quantile(sorted, times.count, 0.9),
        quantile(sorted, times.count, 0.99)};
  free(sorted);
  return true;
}

int threads_of(const Flags& flags) {
  long cores = sysconf(pen::platform::kCoresName);
  return flags.threads ? static_cast<int>(flags.threads) : cores > 0 ? static_cast<int>(cores) : 1;
}

const char* isa_of(const Flags& flags, const Runner& runner) {
  const char* wished = getenv("PENLIGHT_ISA");
  if (runner.session) return pen_session_isa(runner.session);
  return *flags.isa ? flags.isa : wished && *wished ? wished : pen_isa_name(0);
}

unsigned long long arena_of(const Runner& runner) { return runner.session ? pen_session_arena_bytes(runner.session) : 0; }

bool is_view(const pen_session* session, int32_t step) {
  pen_operand operand;
  for (int32_t i = 0; pen_session_step_operand(session, step, i, &operand) == PEN_OK; ++i)
    if (operand.bytes) return false;
  return true;
}

struct Operator {
  const char* key;
  double seconds;
  int calls;
};
int slowest_first(const void* a, const void* b) {
  double x = static_cast<const Operator*>(a)->seconds, y = static_cast<const Operator*>(b)->seconds;
  return (x < y) - (x > y);
}

// Inputs as [dims, bytes, copied] or null, then outputs likewise.
void add_operands(const pen_session* session, int32_t step, bool outputs, Text* text) {
  pen_operand operand;
  bool first = true;
  text->add("[");
  for (int32_t i = 0; pen_session_step_operand(session, step, i, &operand) == PEN_OK; ++i) {
    if ((operand.is_output != 0) != outputs) continue;
    text->add(first ? "" : ", ");
    first = false;
    if (!operand.name) {
      text->add("null");
      continue;
    }
    text->add("[");
    add_dims(text, operand.tensor.dims, operand.tensor.rank);
    text->add(", %llu, %d]", static_cast<unsigned long long>(operand.bytes), operand.copied);
  }
  text->add("]");
}

void add_steps(const Runner& runner, const Profile& profile, Text* text) {
  text->add("[");
  pen_step_profile step;
  for (int32_t i = 0; runner.session && i < pen_session_step_count(runner.session); ++i) {
    if (pen_session_step(runner.session, i, &step) != PEN_OK) break;
    text->add("%s\n  {\"key\": ", i ? "," : "");
    text->add_json(step.key);
    text->add(", \"output\": ");
    text->add_json(step.output);
    text->add(", \"source\": ");
    text->add_json(step.source);
    text->add(", \"seconds\": %.9g, \"inputs\": ", i < profile.steps ? profile.seconds[i] : 0.0);
    add_operands(runner.session, i, false, text);
    text->add(", \"outputs\": ");
    add_operands(runner.session, i, true, text);
    text->add("}");
  }
  text->add("]");
}

}  // namespace

bool Times::add(double taken) {
  if (count == room) {
    size_t more = room ? 2 * room : 64;
    double* grown = static_cast<double*>(realloc(seconds, more * sizeof(double)));
    if (!grown) return fail("no memory for the times of %zu runs", more);
    seconds = grown;
    room = more;
  }
  seconds[count++] = taken;
  return true;
}

double now() {
  pen_timespec t = {};
  clock_gettime(pen::platform::kMonotonic, &t);
  return static_cast<double>(t.seconds) + 1e-9 * static_cast<double>(t.nanoseconds);
}

long long peak_bytes() {
#if defined(__APPLE__)
  long usage[18] = {};  // struct rusage: two times of two longs, then the peak, in bytes
  return getrusage(0, usage) == 0 ? usage[4] : -1;
#else
  char status[4096];  // getrusage would count what the parent process was before this program began
  int file = open("/proc/self/status", pen::platform::kReadOnly);
  if (file < 0) return -1;
  ptrdiff_t size = pread(file, status, sizeof status - 1, 0);
  close(file);
  status[size > 0 ? size : 0] = 0;
  for (const char* line = status; *line; ++line)
    if (strncmp(line, "VmHWM:", 6) == 0) return static_cast<long long>(1024 * strtod(line + 6, nullptr));
  return -1;
#endif
}

bool make_profile(const Runner& runner, int64_t runs, Profile* profile) {
  if (!runner.session) return true;
  pen_session* session = runner.session;
  const int32_t steps = pen_session_step_count(session);
  const size_t rows = static_cast<size_t>(runs < 1 ? 1 : runs > 100 ? 100 : runs);
  double* times = static_cast<double*>(malloc(sizeof(double) * rows * static_cast<size_t>(steps) + 1));
  profile->seconds = static_cast<double*>(calloc(static_cast<size_t>(steps) + 1, sizeof(double)));
  bool fine = (times && profile->seconds) || fail("no memory for a profile of %d steps", steps);
  for (size_t run = 0; run < rows && fine; ++run) {
    runner_reset(runner);
    pen_session_set_profiling(session, 1);  // counts from zero
    fine = runner_run(runner);
    if (fine && pen_session_step_count(session) != steps) fine = fail("--profile: the number of steps differs from run to run");
    for (int32_t i = 0; i < steps && fine; ++i) {
      pen_step_profile step = {};
      pen_session_step(session, i, &step);
      times[static_cast<size_t>(i) * rows + run] = 1e-9 * static_cast<double>(step.nanoseconds);
    }
  }
  pen_session_set_profiling(session, 0);
  for (int32_t i = 0; i < steps && fine; ++i) {
    double* row = times + static_cast<size_t>(i) * rows;
    qsort(row, rows, sizeof(double), ascending);
    profile->seconds[i] = quantile(row, rows, 0.5);
  }
  profile->steps = fine ? steps : 0;
  profile->runs = static_cast<int32_t>(rows);
  free(times);
  return fine;
}

void add_lines(const Flags& flags, const Runner& runner, const Times& times, Text* text) {
  if (flags.report_pep)
    for (size_t i = 0; i < times.count; ++i)
      text->add("PyTorchObserver {\"type\": \"NET\", \"unit\": \"us\", \"metric\": \"latency\", \"value\": \"%g\"}\n",
                static_cast<double>(static_cast<long long>(1e6 * times.seconds[i])));
  const double runs = static_cast<double>(times.count);
  text->add("Main run finished. Microseconds per iter: %g. Iters per second: %g\n", 1e6 * times.whole / runs, runs / times.whole);
  text->add("Load time: %g us. First run: %g us.\n", 1e6 * times.load, 1e6 * times.first);
  Summary s;
  if (summarize(times, &s))
    text->add("Microseconds of %zu runs: min %g, p50 %g, p90 %g, p99 %g.\n", times.count, 1e6 * s.least, 1e6 * s.p50, 1e6 * s.p90,
              1e6 * s.p99);
  text->add("Threads: %d. Instruction set: %s. Arena: %g kB. ", threads_of(flags), isa_of(flags, runner),
            1e-3 * static_cast<double>(arena_of(runner)));
  long long peak = peak_bytes();
  if (peak < 0)
    text->add("Peak memory: not known.\n");
  else
    text->add("Peak memory: %g kB.\n", 1e-3 * static_cast<double>(peak));
}

void add_profile(const Runner& runner, const Profile& profile, Text* text) {
  if (!runner.session) {
    text->add("The method is interpreted: its operators have no times of their own.\n");
    return interpreted_add_parts(runner.interpreted, false, text);
  }
  Operator* found = static_cast<Operator*>(calloc(static_cast<size_t>(profile.steps) + 1, sizeof(Operator)));
  if (!found) return text->add("no memory for the table of operators\n");
  size_t count = 0;
  double whole = 0;
  for (int32_t i = 0; i < profile.steps; ++i) {
    pen_step_profile step = {};
    if (pen_session_step(runner.session, i, &step) != PEN_OK || is_view(runner.session, i)) continue;
    size_t k = 0;
    while (k < count && strcmp(found[k].key, step.key) != 0) ++k;
    if (k == count) found[count++].key = step.key;
    found[k].seconds += profile.seconds[i];
    ++found[k].calls;
    whole += profile.seconds[i];
  }
  qsort(found, count, sizeof(Operator), slowest_first);
  text->add("%-40s %6s %12s %7s\n", "Operator", "calls", "us per run", "share");
  for (size_t k = 0; k < count; ++k)
    text->add("%-40s %6d %12.1f %6.1f%%\n", found[k].key, found[k].calls, 1e6 * found[k].seconds,
              whole > 0 ? 100 * found[k].seconds / whole : 0);
  text->add("%-40s %6s %12.1f %6.1f%%\n", "all", "", 1e6 * whole, 100.0);
  free(found);
}

void add_json(const Flags& flags, const Runner& runner, const Inputs& inputs, const Times& times, const Profile& profile, Text* text) {
  text->add("{\"program\": \"speed_benchmark_torch\", \"version\": ");
  text->add_json(pen_version());
  text->add(", \"model\": ");
  text->add_json(flags.model);
  text->add(", \"method\": ");
  text->add_json(flags.method);
  text->add(", \"interpreted\": %s, \"inputs\": [", runner.session ? "false" : "true");
  for (int i = 0; i < inputs.count; ++i) {
    const pen_tensor& t = inputs.items[i].tensor;
    text->add("%s{\"dtype\": \"%s\", \"dims\": ", i ? ", " : "", dtype_name(t.dtype));
    add_dims(text, t.dims, t.rank);
    text->add("}");
  }
  text->add("],\n \"threads\": %d, \"isa\": ", threads_of(flags));
  text->add_json(isa_of(flags, runner));
  text->add(", \"warmup\": %lld, \"runs\": %zu, \"load_s\": %.9g, \"first_run_s\": %.9g", static_cast<long long>(flags.warmup), times.count,
            times.load, times.first);
  Summary s;
  if (summarize(times, &s))
    text->add(", \"mean_s\": %.9g, \"min_s\": %.9g, \"p50_s\": %.9g, \"p90_s\": %.9g, \"p99_s\": %.9g", s.mean, s.least, s.p50, s.p90,
              s.p99);
  long long peak = peak_bytes();
  text->add(", \"arena_bytes\": %llu, \"peak_bytes\": ", arena_of(runner));
  if (peak < 0)
    text->add("null");
  else
    text->add("%lld", peak);
  text->add(",\n \"planned_parts\": ");
  if (runner.session)
    text->add("[]");
  else
    interpreted_add_parts(runner.interpreted, true, text);
  text->add(", \"profiled_runs\": %d, \"steps\": ", profile.runs);
  add_steps(runner, profile, text);
  text->add("}\n");
}

}  // namespace benchmark
