// Mutates real .pen files (mutate.h) and exercises the results (exercise.h), the same ones for the same number:
//   fuzz_runner FIELDS SECONDS FIRST CRASH SEED-FILE...   mutations FIRST, FIRST + 1, ... until the time is up
//   fuzz_runner --file FILE...                             these files as they are
// With FUZZ_CORPUS=FOLDER files that end in a way not met before (kernels that ran, words of the error) are kept there, and those of
// earlier runs are mutated too. With FUZZ_PROGRESS=1 a line each second says how far it is. With FUZZ_DEVICE=vulkan:llvmpipe plans run
// there too (on_device.h), and operators are mostly of those that it has. FIELDS lists the format's fields, as format.py declares them. A
// mutation that crashes or hangs is written to CRASH.
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <unordered_set>

#include "mutate.h"
#include "on_device.h"

namespace {

Bytes current;  // what is being exercised
const char* crash_path = "";
long current_index;

Statistics statistics;
bool progress;
void tell_progress() {
  if (progress)
    printf("executions %ld ran %ld runs %ld next %ld\n", statistics.files, statistics.ran, statistics.module_runs, current_index);
  fflush(stdout);
}
void write_file(const std::string& path, const Bytes& b) {
  FILE* f = fopen(path.c_str(), "wb");
  if (!f) return;
  fwrite(b.data(), 1, b.size(), f);
  fclose(f);
}
void write_crash() {
  write_file(crash_path, current);
  fprintf(stderr, "mutation %ld, written to %s\n", current_index, crash_path);
  tell_progress();
}
void on_signal(int signal) {  // SIGABRT: of a sanitizer, with abort_on_error=1
  if (signal == SIGALRM) fprintf(stderr, "a hang: more than 20 seconds for one file\n");
  write_crash();
  _exit(3);
}

Bytes read_file(const char* path) {
  FILE* f = fopen(path, "rb");
  if (!f) {
    perror(path);
    exit(2);
  }
  Bytes b;
  uint8_t buffer[65536];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, f)) > 0;) b.insert(b.end(), buffer, buffer + n);
  fclose(f);
  return b;
}

double seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// How a file ended, numbers left out: what is kept in the corpus is one of each.
std::unordered_set<uint64_t> outcomes;
bool is_new(const Report& r, const std::set<std::string>& keys, size_t keys_before) {
  uint64_t h = r.loaded * 2u + r.ran + 0xcbf29ce484222325u;
  for (const char* p = r.error.message; *p; ++p)
    if (*p < '0' || *p > '9') h = (h ^ static_cast<unsigned char>(*p)) * 0x100000001b3u;
  return outcomes.insert(h).second || keys.size() > keys_before;
}

// The corpus' files, a thousand at most; all of them loaded once, so they can be taken apart.
void read_corpus(const std::string& folder, std::vector<Bytes>* seeds) {
  DIR* d = opendir(folder.c_str());
  if (!d) return;
  std::vector<std::string> names;
  while (dirent* entry = readdir(d))
    if (entry->d_name[0] != '.') names.push_back(entry->d_name);
  closedir(d);
  std::sort(names.begin(), names.end());
  Rng rng(static_cast<uint64_t>(current_index) + 1);
  while (names.size() > 1000) names.erase(names.begin() + static_cast<long>(rng.below(names.size())));
  for (const std::string& name : names) {
    Bytes b = read_file((folder + "/" + name).c_str());
    pen_model* model;
    pen_error error;
    if (b.size() < sizeof(Header) || pen_model_open_memory(b.data(), b.size(), 0, &model, &error) != PEN_OK) continue;
    pen_model_close(model);
    seeds->push_back(b);
  }
}

void use_second_device() {
  if (const char* device = getenv("FUZZ_DEVICE")) on_device::name = device, on_second_device = on_device::run, kernels_of = 1;
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGALRM, on_signal);
  signal(SIGABRT, on_signal);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
  signal(SIGSEGV, on_signal);
#endif
  progress = getenv("FUZZ_PROGRESS") != nullptr;
  if (argc > 2 && strcmp(argv[1], "--file") == 0) {
    use_second_device();
    for (int i = 2; i < argc; ++i) {
      current = read_file(argv[i]);
      crash_path = "/dev/null";
      for (uint64_t k = 0; k < 8; ++k) {
        Rng rng(k);
        alarm(20);
        Report r = exercise(current.data(), current.size(), rng, &statistics);
        printf("%s: %s%s\n", argv[i], r.ran ? "ran " : r.loaded ? "loaded " : "", r.error.message);
      }
    }
    return 0;
  }
  if (argc < 6) return fprintf(stderr, "fuzz_runner FIELDS SECONDS FIRST CRASH SEED-FILE...\n"), 2;
  read_fields(argv[1]);
  double until = seconds() + atof(argv[2]);
  crash_path = argv[4];
  std::vector<Bytes> seeds;
  for (int i = 5; i < argc; ++i) {
    seeds.push_back(read_file(argv[i]));
    current = File(seeds.back()).assemble();  // taking apart and putting together loses nothing
    Report r;
    for (uint64_t k = 0; k < 20 && !r.ran; ++k) {  // some sizes of free dims do not fit each other
      Rng rng(k);
      r = exercise(current.data(), current.size(), rng, &statistics);
    }
    if (!r.ran) return fprintf(stderr, "%s does not run: %s\n", argv[i], r.error.message), 1;
  }
  use_second_device();
  statistics = {};
  const long first = current_index = atol(argv[3]);
  const char* corpus = getenv("FUZZ_CORPUS");
  const size_t whole = seeds.size();
  if (corpus) read_corpus(corpus, &seeds);
  for (double next_word = seconds() + 1; seconds() < until; ++current_index) {
    Rng rng(static_cast<uint64_t>(current_index));
    current = mutate(seeds, rng, whole);
    for (int attempt = 0; attempt < 6; ++attempt) {
      alarm(20);
      const size_t keys = statistics.keys.size();
      Report r = exercise(current.data(), current.size(), rng, &statistics);
      alarm(0);  // neither the mutator's time nor the disk's
      if (corpus && is_new(r, statistics.keys, keys) && r.loaded && current.size() < 40000)
        write_file(std::string(corpus) + "/" + std::to_string(current_index), current);
      if (r.ran || !r.loaded || !mend(current, r.error)) break;
    }
    if (progress && seconds() > next_word) tell_progress(), next_word = seconds() + 1;
  }
  alarm(0);
  tell_progress();
  printf("mutations %ld files %ld loaded %ld prepared %ld ran %ld keys %zu modules %ld runs %ld results %ld\n", current_index - first,
         statistics.files, statistics.loaded, statistics.prepared, statistics.ran, statistics.keys.size(), statistics.modules,
         statistics.module_runs, statistics.module_results);
  if (on_second_device)
    printf("second device: asked %ld made %ld ran %ld outputs compared %ld\n", on_device::counts.asked, on_device::counts.made,
           on_device::counts.ran, on_device::counts.compared);
  if (getenv("FUZZ_KEYS"))
    for (const std::string& key : statistics.keys) printf("%s\n", key.c_str());
  return 0;
}
