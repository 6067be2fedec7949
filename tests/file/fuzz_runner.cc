// Mutates real .pen files (mutate.h) and exercises the results (exercise.h), the same ones for the same number:
//   fuzz_runner FIELDS SECONDS FIRST CRASH SEED-FILE...   mutations FIRST, FIRST + 1, ... until the time is up
//   fuzz_runner --file FILE...                             these files as they are
// FIELDS lists the format's fields, as format.py declares them. A mutation that crashes or hangs is written to CRASH.
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "mutate.h"

namespace {

Bytes current;  // what is being exercised
const char* crash_path = "";
long current_index;

void write_crash() {
  FILE* f = fopen(crash_path, "wb");
  if (f) {
    fwrite(current.data(), 1, current.size(), f);
    fclose(f);
  }
  fprintf(stderr, "mutation %ld, written to %s\n", current_index, crash_path);
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

}  // namespace

int main(int argc, char** argv) {
  signal(SIGALRM, on_signal);
  signal(SIGABRT, on_signal);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
  signal(SIGSEGV, on_signal);
#endif
  Statistics statistics;
  if (argc > 2 && strcmp(argv[1], "--file") == 0) {
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
  statistics = {};
  for (current_index = atol(argv[3]); seconds() < until; ++current_index) {
    Rng rng(static_cast<uint64_t>(current_index));
    current = mutate(seeds, rng);
    for (int attempt = 0; attempt < 6; ++attempt) {
      alarm(20);
      Report r = exercise(current.data(), current.size(), rng, &statistics);
      if (r.ran || !r.loaded || !mend(current, r.error)) break;
    }
  }
  alarm(0);
  printf("mutations %ld files %ld loaded %ld prepared %ld ran %ld keys %zu modules %ld runs %ld results %ld\n",
         current_index - atol(argv[3]), statistics.files, statistics.loaded, statistics.prepared, statistics.ran, statistics.keys.size(),
         statistics.modules, statistics.module_runs, statistics.module_results);
  if (getenv("FUZZ_KEYS"))
    for (const std::string& key : statistics.keys) printf("%s\n", key.c_str());
  return 0;
}
