// Native.java's functions over sessions: inputs and outputs in Java's direct buffers, a run, its profile.
#include "bindings/java/jni/jvm.h"

using namespace pen::java;

namespace {

// False, and an exception, where a session's call failed.
bool fine(env e, int64_t session, pen_status status) {
  if (status == PEN_OK) return true;
  raise(e, *pen_session_error(pointer<pen_session>(session)));
  return false;
}

}  // namespace

PEN_JAVA(int64_t, createSession, int64_t model, array method, array device, int32_t threads, int64_t memory_limit, uint8_t f16) {
  Text name(e, method);
  if (!name) return 0;
  Text where(e, device);
  if (!where) return 0;
  pen_session_options options = PEN_SESSION_OPTIONS;
  options.device = where;
  options.threads = threads;
  options.memory_limit = static_cast<uint64_t>(memory_limit);
  options.f16 = f16;
  pen_session* session = nullptr;
  pen_error error = {};
  if (pen_session_create(pointer<pen_model>(model), name, &options, &session, &error) != PEN_OK) return raise(e, error), 0;
  return handle(session);
}

PEN_JAVA(void, destroySession, int64_t session) {
  if (session) pen_session_destroy(pointer<pen_session>(session));
}

PEN_JAVA(void, setInput, int64_t session, int32_t index, object data, int32_t dtype, array dims, int32_t rank, int32_t format) {
  BufferTensor input;
  if (input.read(e, data, dtype, dims, rank, format))
    fine(e, session, pen_session_set_input(pointer<pen_session>(session), index, &input.tensor));
}

PEN_JAVA(void, prepare, int64_t session) { fine(e, session, pen_session_prepare(pointer<pen_session>(session))); }

PEN_JAVA(int32_t, output, int64_t session, int32_t index, array dims) {
  pen_tensor tensor = {};
  if (!fine(e, session, pen_session_output(pointer<pen_session>(session), index, &tensor))) return 0;
  e->SetLongArrayRegion(dims, 0, tensor.rank, tensor.dims);
  return tensor.dtype | tensor.rank << 8 | pen_session_output_is_fixed(pointer<pen_session>(session), index) << 16;
}

PEN_JAVA(void, setOutput, int64_t session, int32_t index, object data, int64_t bytes) {
  void* to = room(e, data, 0, 1);
  if (to) fine(e, session, pen_session_set_output(pointer<pen_session>(session), index, to, static_cast<size_t>(bytes)));
}

PEN_JAVA(uint8_t, overlap, object a, int64_t a_bytes, object b, int64_t b_bytes) {
  const char *one = static_cast<const char*>(e->GetDirectBufferAddress(a)), *other = static_cast<const char*>(e->GetDirectBufferAddress(b));
  return a_bytes > 0 && b_bytes > 0 && one < other + b_bytes && other < one + a_bytes;
}

PEN_JAVA(void, readOutput, int64_t session, int32_t index, object to) {
  pen_tensor tensor = {};
  if (!fine(e, session, pen_session_output(pointer<pen_session>(session), index, &tensor))) return;
  size_t bytes = element_bytes(tensor.dtype);
  for (int32_t i = 0; i < tensor.rank; ++i) bytes *= static_cast<size_t>(tensor.dims[i]);
  void* data = room(e, to, bytes, 1);
  if (data && bytes) memcpy(data, tensor.data, bytes);
}

PEN_JAVA(void, run, int64_t session) { fine(e, session, pen_session_run(pointer<pen_session>(session))); }

PEN_JAVA(void, seed, int64_t session, int64_t seed) { pen_session_seed(pointer<pen_session>(session), static_cast<uint64_t>(seed)); }

PEN_JAVA(void, setProfiling, int64_t session, uint8_t on) { pen_session_set_profiling(pointer<pen_session>(session), on); }

PEN_JAVA(int32_t, stepCount, int64_t session) { return pen_session_step_count(pointer<pen_session>(session)); }

PEN_JAVA(array, step, int64_t session, int32_t index, array times) {
  pen_step_profile step = {};
  if (!fine(e, session, pen_session_step(pointer<pen_session>(session), index, &step))) return nullptr;
  int64_t numbers[2] = {static_cast<int64_t>(step.nanoseconds), static_cast<int64_t>(step.calls)};
  e->SetLongArrayRegion(times, 0, 2, numbers);
  array made = texts(e, 3);
  bool whole = made && put(e, made, 0, text(e, step.key)) && put(e, made, 1, text(e, step.output)) && put(e, made, 2, text(e, step.source));
  return whole ? made : nullptr;
}

PEN_JAVA(array, deviceReport, int64_t session, uint8_t is_module, array numbers) {
  pen_device_report report = {};
  if (is_module)
    pen_module_device_report(pointer<pen_module>(session), &report);
  else
    pen_session_device_report(pointer<pen_session>(session), &report);
  int64_t found[4] = {static_cast<int64_t>(report.dispatches), static_cast<int64_t>(report.copies), static_cast<int64_t>(report.bytes_up),
                      static_cast<int64_t>(report.bytes_down)};
  e->SetLongArrayRegion(numbers, 0, 4, found);
  return text(e, report.device);
}

PEN_JAVA(int64_t, arenaBytes, int64_t session) { return static_cast<int64_t>(pen_session_arena_bytes(pointer<pen_session>(session))); }
