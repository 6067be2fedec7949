// A method ready to run: which kind it is, where its inputs come from.
#include "penlight/programs/speed_benchmark_torch/runner.h"

namespace benchmark {
namespace {

bool is_part(const char* method) { return method[0] == '~'; }  // planned parts of interpreted methods are no methods of their own

bool fail_method(const pen_model* model, const char* method) {
  Text names;
  for (int32_t i = 0; i < pen_model_method_count(model); ++i)
    if (!is_part(pen_model_method_name(model, i))) names.add(", %s", pen_model_method_name(model, i));
  add_function_names(model, &names);
  bool any = names.size && names.data[0] == ',';
  fail("this model has no method '%s'; it has %s%s", method, any ? "" : "none", any ? names.data + 2 : names.size ? names.data : "");
  names.release();
  return false;
}

bool session_create(const Flags& flags, const pen_model* model, const Inputs& inputs, pen_session** session) {
  pen_session_options options = PEN_SESSION_OPTIONS;
  options.threads = static_cast<int32_t>(flags.threads);
  options.isa = *flags.isa ? flags.isa : nullptr;
  options.device = flags.runs_on();
  options.f16 = flags.f16;
  pen_error error;
  if (pen_session_create(model, flags.method, &options, session, &error) != PEN_OK) return fail("%s", error.message);
  int32_t count = pen_model_input_count(model, flags.method);
  if (inputs.count != count) return fail("method '%s' takes %d inputs, got %d", flags.method, count, inputs.count);
  for (int32_t i = 0; i < count; ++i)
    if (pen_session_set_input(*session, i, &inputs.items[i].tensor) != PEN_OK) return fail("%s", pen_session_error(*session)->message);
  return true;
}

}  // namespace

Runner::~Runner() {
  pen_session_destroy(session);
  interpreted_destroy(interpreted);
  bundle_release(bundle);
}

bool runner_create(const Flags& flags, const pen_model* model, Inputs* inputs, Runner* runner) {
  bool planned = !is_part(flags.method) && pen_model_input_count(model, flags.method) >= 0;
  if (!planned && !has_function(model, flags.method)) return fail_method(model, flags.method);
  if (flags.no_inputs) {
  } else if (flags.use_bundled_input >= 0) {
    if (!bundle_open(model, flags.method, flags.use_bundled_input, &runner->bundle)) return false;
    if (planned && !bundle_tensors(runner->bundle, pen_model_input_spec(model, flags.method), inputs)) return false;
  } else if (!make_inputs(flags, model, inputs)) {
    return false;
  }
  return planned ? session_create(flags, model, *inputs, &runner->session)
                 : interpreted_create(flags, model, *inputs, runner->bundle, &runner->interpreted);
}

void runner_reset([[maybe_unused]] const Runner& runner) {
#if !defined(PEN_STATELESS)  // else it is compiled for a model that keeps nothing, and the library has no such function
  if (runner.session) pen_session_reset(runner.session);
#endif
}

bool runner_run(const Runner& runner) {
  if (!runner.session) return interpreted_run(runner.interpreted);
  return pen_session_run(runner.session) == PEN_OK || fail("%s", pen_session_error(runner.session)->message);
}

void runner_add_outputs(const Runner& runner, const Flags& flags, const pen_model* model, Text* text) {
  if (!runner.session) return interpreted_add_result(runner.interpreted, text);
  for (int32_t i = 0; i < pen_model_output_count(model, flags.method); ++i) {
    pen_tensor_info info;
    pen_tensor tensor;
    if (pen_model_output_info(model, flags.method, i, &info) != PEN_OK || pen_session_output(runner.session, i, &tensor) != PEN_OK)
      continue;
    text->add("%s: ", info.name);
    add_tensor(text, tensor);
  }
}

}  // namespace benchmark
