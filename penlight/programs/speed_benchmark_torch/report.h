// What was measured, and how it is told: PyTorch Mobile's lines, Penlight's lines, a profile, JSON.
#pragma once
#include "penlight/programs/speed_benchmark_torch/runner.h"

namespace benchmark {

struct Times {
  double* seconds = nullptr;  // of each timed run, in order
  size_t count = 0, room = 0;
  double whole = 0;  // of all of them, with what lies between
  double load = 0, first = 0;

  bool add(double taken);  // false: no memory
  ~Times() { free(seconds); }
};

// Kernel by kernel, in order of execution; of a planned method only.
struct Profile {
  double* seconds = nullptr;  // median of each step
  int32_t steps = 0, runs = 0;
  ~Profile() { free(seconds); }
};

double now();            // seconds of a clock that never goes back
long long peak_bytes();  // most memory that this process had; -1: not known
bool make_profile(const Runner& runner, int64_t runs, Profile* profile);
void add_lines(const Flags& flags, const Runner& runner, const Times& times, Text* text);
void add_profile(const Runner& runner, const Profile& profile, Text* text);
void add_json(const Flags& flags, const Runner& runner, const Inputs& inputs, const Times& times, const Profile& profile, Text* text);

}  // namespace benchmark
