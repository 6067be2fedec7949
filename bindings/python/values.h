// Python objects and pen_values: numbers, strings, containers, arrays.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "penlight.h"

namespace pen_python {

// A new reference. Throws TypeError, naming where in the arguments it is, for what has no counterpart.
pen_value* to_value(nanobind::handle object, const char* where);
nanobind::object from_value(const pen_value* value);
nanobind::object as_dict(const pen_error& e);
int dtype_code(nanobind::dlpack::dtype t);
void add_values(nanobind::module_& m);

}  // namespace pen_python
