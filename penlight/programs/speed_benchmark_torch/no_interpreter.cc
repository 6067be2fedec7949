// In place of interpreted.cc, for a library without VM: planned methods only, and no bundled inputs, which are values of the VM.
#include "penlight/programs/speed_benchmark_torch/runner.h"

namespace benchmark {

bool has_function(const pen_model*, const char*) { return false; }
void add_function_names(const pen_model*, Text* text) { text->add(" (planned methods, that is: this build has no interpreter)"); }
bool bundle_open(const pen_model*, const char*, int64_t, Bundle**) {
  return fail("--use_bundled_input: this build has no interpreter, which bundled inputs need: give --input_dims, or use a build with it");
}
void bundle_release(Bundle*) {}
bool bundle_tensors(const Bundle*, const char*, Inputs*) { return false; }
bool interpreted_create(const Flags&, const pen_model*, const Inputs&, const Bundle*, Interpreted**) { return false; }
bool interpreted_run(Interpreted*) { return false; }
void interpreted_add_result(const Interpreted*, Text*) {}
void interpreted_add_parts(const Interpreted*, bool, Text*) {}
void interpreted_destroy(Interpreted*) {}

}  // namespace benchmark
