// The flags of speed_benchmark_torch: PyTorch Mobile's, with their defaults, and Penlight's own.
#pragma once
#include "penlight/programs/speed_benchmark_torch/text.h"

namespace benchmark {

struct Flags {
  // of the original
  const char* model = "";
  const char* input_dims = "";
  const char* input_type = "";
  const char* input_memory_format = "";  // "": contiguous_format for every input
  bool no_inputs = false;
  int64_t use_bundled_input = -1;
  bool use_caching_allocator = false;
  bool print_output = false;
  int64_t warmup = 0;
  int64_t iter = 10;
  bool report_pep = false;
  int64_t pytext_len = 0;
  bool vulkan = false;
  // ours
  const char* method = "forward";
  int64_t threads = 0;  // 0: one per core
  const char* isa = "";
  const char* device = "";  // "": the CPU, or what `vulkan` says
  bool f16 = false;
  double seconds = 0;  // above 0: as long as this instead of `iter` times
  const char* json = "";
  bool profile = false;
  bool help = false;

  const char* runs_on() const { return *device ? device : vulkan ? "vulkan" : nullptr; }
};

// `--name=value`, `--name value`; bools also `--name` alone. False after having said what is wrong.
bool parse_flags(int count, char** words, Flags* flags);
void show_usage();
// An int that fills the whole text up to `end`.
bool parse_int(const char* text, const char* end, int64_t* value);

}  // namespace benchmark
