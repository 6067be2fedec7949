// What runs a method, planned or interpreted. The functions on values and VM code stand in interpreted.cc alone; a library
// without VM is linked with no_interpreter.cc in its place.
#pragma once
#include "penlight/programs/speed_benchmark_torch/tensors.h"

namespace benchmark {

struct Bundle;       // values that a model carries, as arguments
struct Interpreted;  // a module with the arguments of its method

// One method with its inputs, ready to run: by a session, or else by a module.
struct Runner {
  pen_session* session = nullptr;
  Interpreted* interpreted = nullptr;
  Bundle* bundle = nullptr;
  ~Runner();
};

bool runner_create(const Flags& flags, const pen_model* model, Inputs* inputs, Runner* runner);
// Every run of a model that keeps state in a session starts alike: else a key/value cache would be full at some time.
void runner_reset(const Runner& runner);
bool runner_run(const Runner& runner);  // false after having said what is wrong
void runner_add_outputs(const Runner& runner, const Flags& flags, const pen_model* model, Text* text);

// --- interpreted.cc, or no_interpreter.cc ---
bool has_function(const pen_model* model, const char* method);
void add_function_names(const pen_model* model, Text* text);  // ", name" for each; a remark in brackets where there can be none
// Bundled input number `index` of a method; false after having said that there is none.
bool bundle_open(const pen_model* model, const char* method, int64_t index, Bundle** bundle);
void bundle_release(Bundle* bundle);  // NULL is allowed
// Its tensors in the order of a planned method's inputs, which `spec` says; they lie in the bundle's memory.
bool bundle_tensors(const Bundle* bundle, const char* spec, Inputs* inputs);
// With the bundle's arguments, or else with these tensors.
bool interpreted_create(const Flags& flags, const pen_model* model, const Inputs& inputs, const Bundle* bundle, Interpreted** made);
bool interpreted_run(Interpreted* interpreted);
void interpreted_add_result(const Interpreted* interpreted, Text* text);
// How the parts that were planned beforehand fared: as JSON, an array, or in words.
void interpreted_add_parts(const Interpreted* interpreted, bool json, Text* text);
void interpreted_destroy(Interpreted* interpreted);  // NULL is allowed

}  // namespace benchmark
