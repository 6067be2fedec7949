// Python objects and pen_values: numbers, strings, containers, arrays.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
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
pen_value* to_value(nanobind::handle object, const char* where);
nanobind::object from_value(const pen_value* value);
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
nanobind::object as_dict(const pen_error& e);
int dtype_code(nanobind::dlpack::dtype t);
void add_values(nanobind::module_& m);

}  // namespace pen_python
