// Python objects and pen_values: numbers, strings, containers, arrays.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "penlight.h"
#include "penlight_trace.h"

namespace pen_python {

struct Release {
  void operator()(pen_value* v) const { pen_value_release(v); }
};
using Owned = std::unique_ptr<pen_value, Release>;

struct Trace {
  pen_trace* handle = pen_trace_create();

  Trace() {
    if (!handle) throw std::bad_alloc();
  }
  ~Trace() { pen_trace_destroy(handle); }
};

// A new reference. Throws TypeError, naming where in the arguments it is, for what has no counterpart.
pen_value* to_value(nanobind::handle object, const char* where, int depth = 0);
// Shared parts are written out, and weights copied: more than `memory_limit` bytes of that (0: any number) are TooLarge.
nanobind::object from_value(const pen_value* value, uint64_t memory_limit = 0);
struct TooLarge : nanobind::builtin_exception {
  explicit TooLarge(const char* words) : builtin_exception(nanobind::exception_type::value_error, words) {}
  nanobind::object problem() const;
};
// Asked by runs (pen_session_options::interrupted): whether the handler of a signal raised.
int32_t interrupted(void* context);
// After a run that asked: throws what that raised, whatever the run says that it ended with.
void let_raise();
// Takes the interpreter's lock. Where Python is at its end, it ends the threads that come for it (daemons): CPython before 3.14 by an
// unwinding that our callers' frames do not let through, and the process would be aborted. So they sleep, as they do in 3.14.
template <class Take>
auto take_lock(Take take) -> decltype(take()) {
  try {
    return take();
  } catch (...) {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}
// While a run computes, others have the interpreter.
struct Unlocked {
  PyThreadState* state = PyEval_SaveThread();
  ~Unlocked() {
    take_lock([this] { PyEval_RestoreThread(state); });
  }
};
// From inside of such a run.
struct Locked {
  PyGILState_STATE state = take_lock([] { return PyGILState_Ensure(); });
  ~Locked() { PyGILState_Release(state); }
};
// A session or module at work. Its own run may call Python, by a signal's handler or an array's finalizer, and that must not use it.
struct Busy {
  explicit Busy(bool& flag) : flag_(flag) { flag_ = true; }
  ~Busy() { flag_ = false; }
  bool& flag_;
};
nanobind::object in_use();  // the problem
// A call's arguments.
class Values {
 public:
  Values(nanobind::sequence args, const char* where);
  pen_value* const* data() const { return raw_.data(); }
  size_t size() const { return raw_.size(); }

 private:
  std::vector<Owned> owned_;
  std::vector<pen_value*> raw_;
};
// A file's text, which need not be UTF-8.
nanobind::object text(const char* s);
// What an object shows as memory, in `to`; false: none of that kind. Old exporters (ctypes) leave the strides of a buffer out, which
// nanobind reads all the same; a memoryview of it has them.
nanobind::object with_strides(nanobind::handle object);
template <class Array>
bool shows(nanobind::handle object, Array& to) {
  return nanobind::try_cast(with_strides(object), to);
}
nanobind::object as_dict(const pen_error& e);
nanobind::object as_dict(const pen_error* e);  // null: of an object that was never created
int dtype_code(nanobind::dlpack::dtype t);
void add_values(nanobind::module_& m);

}  // namespace pen_python
