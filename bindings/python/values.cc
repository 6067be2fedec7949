#include "values.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

namespace nb = nanobind;

namespace pen_python {

nb::object text(const char* s) {
  if (!s) return nb::none();
  PyObject* made = PyUnicode_DecodeUTF8(s, static_cast<Py_ssize_t>(strlen(s)), "replace");
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

nb::object as_dict(const pen_error& e) {
  nb::dict d;
  d["status"] = pen_status_name(e.status == PEN_OK ? PEN_ERROR_ARGUMENT : e.status);
  // A message may be cut in the middle of a UTF-8 sequence.
  d["message"] = text(e.message[0] ? e.message : "a runtime object: expected one that was created, got one that was not, or is in use");
  d["op"] = text(e.op);
  d["tensor"] = text(e.tensor);
  d["expected"] = text(e.expected);
  d["got"] = text(e.got);
  d["source"] = text(e.source);
  return d;
}
nb::object as_dict(const pen_error* e) { return as_dict(e ? *e : pen_error{}); }

static nb::object problem_of(pen_status status, const char* words) {
  pen_error e = {};
  e.status = status;
  snprintf(e.message, sizeof e.message, "%s", words);
  return as_dict(e);
}
nb::object in_use() {
  return problem_of(PEN_ERROR_ARGUMENT,
                    "a run: expected the one before it to be over, got a call from inside of it, by a finalizer or a signal's handler. "
                    "Use another Model there");
}
nb::object TooLarge::problem() const { return problem_of(PEN_ERROR_MEMORY, what()); }

// Known before the first run: to call Python there may raise what a signal's handler does, and exceptions do not pass through runs.
static unsigned long main_thread;

int32_t interrupted(void*) {
  // Only the main thread runs handlers. Where other threads compute in Python, to get the interpreter takes 5 ms: so five times a second.
  if (PyThread_get_thread_ident() != main_thread) return 0;
  static auto asked = std::chrono::steady_clock::now();
  auto now = std::chrono::steady_clock::now();
  if (now - asked < std::chrono::milliseconds(200)) return 0;
  asked = now;
  Locked locked;
  return PyErr_CheckSignals() != 0;
}

nb::object with_strides(nb::handle object) {
  const bool only_buffer = PyObject_CheckBuffer(object.ptr()) && !PyObject_HasAttrString(object.ptr(), "__dlpack__");
  if (!only_buffer) return nb::borrow(object);
  PyObject* view = PyMemoryView_FromObject(object.ptr());
  if (!view) throw nb::python_error();
  return nb::steal(view);
}

void let_raise() {
  if (PyErr_Occurred()) throw nb::python_error();
}

int dtype_code(nb::dlpack::dtype t) {
  if (t.lanes != 1) return -1;
  switch (static_cast<nb::dlpack::dtype_code>(t.code)) {
    case nb::dlpack::dtype_code::Float:
      return t.bits == 32 ? PEN_F32 : t.bits == 16 ? PEN_F16 : t.bits == 64 ? PEN_F64 : -1;
    case nb::dlpack::dtype_code::Int:
      return t.bits == 64 ? PEN_I64 : t.bits == 32 ? PEN_I32 : t.bits == 16 ? PEN_I16 : t.bits == 8 ? PEN_I8 : -1;
    case nb::dlpack::dtype_code::UInt:
      return t.bits == 8 ? PEN_U8 : -1;
    case nb::dlpack::dtype_code::Bool:
      return PEN_BOOL;
    case nb::dlpack::dtype_code::Bfloat:
      return t.bits == 16 ? PEN_BF16 : -1;
    default:
      return -1;
  }
}

namespace {

using Array = nb::ndarray<nb::ro, nb::device::cpu>;
using Writable = nb::ndarray<nb::device::cpu>;
constexpr int kMaxDepth = 200;  // of arguments and results

// A tensor on its way in or out. `array` shares the tensor's memory; bf16 travels as uint16, quantized integers as such.
struct TensorValue {
  nb::object array;
  int dtype = 0;
  int axis = -2;  // -2: not quantized; -1: one scale for all
  std::vector<double> scales;
  std::vector<int64_t> zero_points;
};
// A named tuple or an object on its way out.
struct Fields {
  std::string type;
  std::vector<std::string> names;
  nb::list items;
  bool is_tuple = false;
};

// A value that stays in the runtime: an object that operators take, a weight that never changes.
struct HeldValue {
  pen_value* value = nullptr;
  HeldValue() = default;
  HeldValue(const HeldValue&) = delete;
  HeldValue& operator=(const HeldValue&) = delete;
  ~HeldValue() { pen_value_release(value); }
};

pen_value* checked(pen_value* v, const char* where) {
  if (!v)
    throw nb::type_error(
        (std::string(where) + ": a tensor of more than 8 dims, with negative strides or at an odd address, or no memory").c_str());
  return v;
}

pen_value* tensor_value(nb::handle given, int code, const char* where) {
  const nb::object object = with_strides(given);
  // What cannot be had for writing (bytes, a read-only mapping, broadcast arrays) is not written by code that works in place.
  Writable writable;
  const bool read_only = !nb::try_cast(object, writable);
  auto array = read_only ? std::make_unique<Array>() : std::make_unique<Array>(writable);
  if (read_only && !nb::try_cast(object, *array))
    throw nb::type_error((std::string(where) + ": an array that shows no memory on the CPU").c_str());
  int64_t dims[64], strides[64];
  size_t rank = array->ndim() < 64 ? array->ndim() : 63;
  for (size_t d = 0; d < rank; ++d) {
    dims[d] = static_cast<int64_t>(array->shape(d));
    strides[d] = array->stride(d);
  }
  int dtype = code >= 0 ? code : dtype_code(array->dtype());
  static const int kBits[] = {32, 16, 64, 8, 8, 16, 32, 64, 8, 16};
  if (dtype < 0 || dtype > PEN_BF16 || array->dtype().bits * array->dtype().lanes != kBits[dtype])
    throw nb::type_error((std::string(where) + ": a tensor of a dtype that no operator here takes").c_str());
  if (!array->data() && array->size()) throw nb::type_error((std::string(where) + ": a tensor that has no memory").c_str());
  pen_tensor t = {const_cast<void*>(array->data()), dtype, static_cast<int32_t>(array->ndim()), dims, strides};
  auto release = [](void* owner) {
    Locked locked;
    delete static_cast<Array*>(owner);
  };
  pen_value* v = checked(pen_value_tensor(&t, release, array.get()), where);
  array.release();
  if (read_only) pen_value_make_read_only(v);
  return v;
}

// Part number `index` of a value on its way: millions take many seconds.
void let_interrupt(int64_t index) {
  if (index % 4096 == 0 && PyErr_CheckSignals() != 0) throw nb::python_error();
}

// A text in an error: its beginning, whatever is in it.
std::string shown(const nb::object& text) {
  const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!bytes.is_valid()) throw nb::python_error();
  std::string whole(PyBytes_AS_STRING(bytes.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr())));
  size_t end = std::min<size_t>(whole.size(), 60);
  while (end < whole.size() && (whole[end] & 0xC0) == 0x80) --end;  // in the middle of a character
  return whole.substr(0, end);
}

pen_value* sequence_value(nb::handle object, const char* where, int depth, pen_value* (*make)(pen_value* const*, size_t)) {
  std::vector<Owned> items;
  int64_t index = 0;
  for (nb::handle item : object) {
    let_interrupt(index);
    std::string inside = std::string(where) + "[" + std::to_string(index++) + "]";
    items.emplace_back(to_value(item, inside.c_str(), depth + 1));
  }
  std::vector<pen_value*> raw;
  for (const Owned& item : items) raw.push_back(item.get());
  return checked(make(raw.data(), raw.size()), where);
}

// What a result may take on its way to Python.
struct Budget {
  int64_t parts = int64_t{1} << 22;
  uint64_t bytes = UINT64_MAX;

  void count(int depth) {
    if (depth > kMaxDepth || --parts < 0)
      throw TooLarge("a result: expected at most 200 levels and 4194304 parts, got more, or one that contains itself");
    let_interrupt(parts);
  }
  void spend(uint64_t more) {
    if (more > bytes)
      throw TooLarge("a result: expected at most as many bytes as memory_limit says, got more, in Python objects or copies");
    bytes -= more;
  }
};
constexpr uint64_t kObjectBytes = 64, kArrayBytes = 512;  // about what Python takes for a number, and for an array

// A copy of a weight that lies in the file's memory, which may be gone before the array is, and cannot be written. What is expanded stays
// so.
nb::object copied(const pen_tensor& t, const nb::object& owner, const nb::dlpack::dtype& type, Budget* budget) {
  size_t shape[8], whole[8];
  int64_t strides[8];
  uint64_t bytes = type.bits / 8;
  for (int d = 0; d < t.rank; ++d) {
    whole[d] = static_cast<size_t>(t.dims[d]);
    strides[d] = t.strides[d];
    shape[d] = strides[d] == 0 && whole[d] > 1 ? 1 : whole[d];
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(shape[d]), &bytes)) bytes = UINT64_MAX;
  }
  budget->spend(bytes);
  const size_t rank = static_cast<size_t>(t.rank);
  nb::object made = nb::cast(nb::ndarray<nb::numpy>(t.data, rank, shape, owner, strides, type)).attr("copy")();
  nb::ndarray<nb::numpy> lies = nb::cast<nb::ndarray<nb::numpy>>(made);
  bool expanded = false;
  for (int d = 0; d < t.rank; ++d) {
    strides[d] = shape[d] == whole[d] ? lies.stride(static_cast<size_t>(d)) : 0;
    expanded |= shape[d] != whole[d];
  }
  return expanded ? nb::cast(nb::ndarray<nb::numpy>(lies.data(), rank, whole, made, strides, type)) : made;
}

nb::object tensor_object(const pen_value* value, Budget* budget) {
  budget->spend(kArrayBytes);
  static const nb::dlpack::dtype kTypes[] = {nb::dtype<float>(),   {static_cast<uint8_t>(nb::dlpack::dtype_code::Float), 16, 1},
                                             nb::dtype<double>(),  nb::dtype<int8_t>(),
                                             nb::dtype<uint8_t>(), nb::dtype<int16_t>(),
                                             nb::dtype<int32_t>(), nb::dtype<int64_t>(),
                                             nb::dtype<bool>(),    nb::dtype<uint16_t>()};
  // The array has a value of its own: its memory stays, also where code gives the tensor another.
  Owned held(pen_value_hold(value));
  pen_tensor t;
  if (pen_value_as_tensor(held.get(), &t) != PEN_OK) throw std::bad_alloc();
  size_t shape[8];
  int64_t strides[8];
  for (int d = 0; d < t.rank; ++d) {
    shape[d] = static_cast<size_t>(t.dims[d]);
    strides[d] = t.strides[d];
  }
  nb::capsule owner(held.get(), [](void* p) noexcept { pen_value_release(static_cast<pen_value*>(p)); });
  held.release();
  TensorValue out;
  if (pen_value_is_constant(value))
    out.array = copied(t, owner, kTypes[t.dtype], budget);
  else
    out.array = nb::cast(nb::ndarray<nb::numpy>(t.data, static_cast<size_t>(t.rank), shape, owner, strides, kTypes[t.dtype]));
  out.dtype = t.dtype;
  pen_quantization q;
  if (pen_value_quantization(value, &q)) {
    out.axis = q.axis;
    out.scales.assign(q.scales, q.scales + q.count);
    out.zero_points.assign(q.zero_points, q.zero_points + q.count);
  }
  return nb::cast(std::move(out));
}

}  // namespace

pen_value* to_value(nb::handle o, const char* where, int depth) {
  if (depth > kMaxDepth) throw nb::type_error("an argument is nested deeper than 200; expected values that come to an end");
  if (o.is_none()) return checked(pen_value_none(), where);
  if (PyBool_Check(o.ptr())) return checked(pen_value_bool(o.ptr() == Py_True), where);
  if (PyLong_Check(o.ptr())) {
    int overflow = 0;
    long long n = PyLong_AsLongLongAndOverflow(o.ptr(), &overflow);
    if (overflow) throw nb::type_error((std::string(where) + ": an int that does not fit in 64 bits").c_str());
    return checked(pen_value_int(n), where);
  }
  if (PyFloat_Check(o.ptr())) return checked(pen_value_float(PyFloat_AsDouble(o.ptr())), where);
  if (PyUnicode_Check(o.ptr())) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(o.ptr(), &size);
    if (!text) throw nb::python_error();
    return checked(pen_value_string(text, static_cast<size_t>(size)), where);
  }
  if (PyList_Check(o.ptr())) return sequence_value(o, where, depth, pen_value_list);
  if (PyTuple_Check(o.ptr())) return sequence_value(o, where, depth, pen_value_tuple);
  if (PyDict_Check(o.ptr())) {
    std::vector<Owned> keys, values;
    const nb::object items = nb::steal(PyDict_Items(o.ptr()));  // code of keys and of signals' handlers may change the dict meanwhile
    if (!items.is_valid()) throw nb::python_error();
    for (nb::handle item : items) {
      const nb::object key = item[0], value = item[1];
      std::string inside = std::string(where) + "[" + shown(nb::repr(key)) + "]";
      keys.emplace_back(to_value(key, inside.c_str(), depth + 1));
      values.emplace_back(to_value(value, inside.c_str(), depth + 1));
    }
    std::vector<pen_value*> k, v;
    for (size_t i = 0; i < keys.size(); ++i) {
      k.push_back(keys[i].get());
      v.push_back(values[i].get());
    }
    return checked(pen_value_dict(k.data(), v.data(), k.size()), where);
  }
  if (nb::isinstance<HeldValue>(o)) {
    Owned tuple(checked(pen_value_tuple(&nb::cast<HeldValue&>(o).value, 1), where));
    return checked(pen_value_item(tuple.get(), 0), where);
  }
  if (nb::isinstance<TensorValue>(o)) {
    const TensorValue& t = nb::cast<const TensorValue&>(o);
    Owned v(tensor_value(t.array, t.dtype, where));
    if (t.axis >= -1) {
      pen_quantization q = {t.axis, t.scales.size(), t.scales.data(), t.zero_points.data()};
      if (t.scales.size() != t.zero_points.size() || pen_value_quantize(v.get(), &q) != PEN_OK)
        throw nb::type_error((std::string(where) + ": a quantized tensor whose scales do not fit its shape").c_str());
    }
    return v.release();
  }
  Array array;
  if (shows(o, array)) return tensor_value(o, -1, where);
  std::string kind = shown(nb::str(o.type().attr("__name__")));
  throw nb::type_error((std::string(where) + ": expected a tensor, array, number, str, list, tuple, dict or None, got " + kind).c_str());
}

Values::Values(nb::sequence args, const char* where) {
  size_t index = 0;
  for (nb::handle a : args) {
    std::string place = std::string(where) + ": argument " + std::to_string(index++);
    owned_.emplace_back(to_value(a, place.c_str()));
    raw_.push_back(owned_.back().get());
  }
}

// A value may contain itself, and shared parts are written out here: both depth and number are bounded.
static nb::object to_python(const pen_value* value, int depth, Budget* left) {
  left->count(depth);
  left->spend(kObjectBytes);
  if (!value) throw std::bad_alloc();  // a weight that had to be unpacked, over the module's limit
  switch (pen_value_kind(value)) {
    case PEN_KIND_BOOL:
      return nb::bool_(pen_value_as_int(value) != 0);
    case PEN_KIND_INT:
      return nb::int_(pen_value_as_int(value));
    case PEN_KIND_FLOAT:
      return nb::float_(pen_value_as_float(value));
    case PEN_KIND_STRING: {
      size_t size;
      const char* text = pen_value_text(value, &size);
      left->spend(size);
      return nb::steal(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(size), "replace"));
    }
    case PEN_KIND_TENSOR:
      return tensor_object(value, left);
    case PEN_KIND_DICT: {
      nb::dict out;
      const size_t count = pen_value_count(value);
      for (size_t i = 0; i < count; ++i) {
        Owned key(pen_value_key(value, i)), item(pen_value_item(value, i));
        out[to_python(key.get(), depth + 1, left)] = to_python(item.get(), depth + 1, left);
      }
      return out;
    }
    case PEN_KIND_LIST:
    case PEN_KIND_TUPLE:
    case PEN_KIND_OBJECT: {
      nb::list out;
      Fields fields;
      const size_t count = pen_value_count(value);
      const bool named = pen_value_type(value)[0] != 0;
      for (size_t i = 0; i < count; ++i) {
        Owned item(pen_value_item(value, i));
        out.append(to_python(item.get(), depth + 1, left));
        if (named) fields.names.emplace_back(pen_value_field(value, i));
      }
      fields.type = pen_value_type(value);
      if (!fields.type.empty()) {
        fields.items = out;
        fields.is_tuple = pen_value_kind(value) == PEN_KIND_TUPLE;
        return nb::cast(std::move(fields));
      }
      return pen_value_kind(value) == PEN_KIND_TUPLE ? nb::object(nb::tuple(out)) : nb::object(out);
    }
    default:
      return nb::none();
  }
}
nb::object from_value(const pen_value* value, uint64_t memory_limit) {
  Budget left;
  if (memory_limit) left.bytes = memory_limit;
  return to_python(value, 0, &left);
}

namespace {

struct Operators {
  pen_operators* handle = nullptr;
  nb::object trace;
  uint64_t memory_limit = 0;
  bool busy = false;

  ~Operators() { pen_operators_destroy(handle); }
};

// (problem or None, results, the arguments after the call where `keep`: lists and dicts come in as copies). `hold`: results stay
// values of the VM.
nb::tuple run_operator(Operators& self, const std::string& name, nb::sequence args, bool hold, bool keep) {
  Values values(args, name.c_str());
  pen_value* results[8];
  size_t count = 0;
  if (self.busy) return nb::make_tuple(in_use(), nb::list(), nb::list());
  pen_status status;
  {
    Busy busy(self.busy);
    Unlocked unlocked;
    status = pen_operators_run(self.handle, name.c_str(), values.data(), values.size(), results, &count);
  }
  std::vector<Owned> owned;
  for (size_t i = 0; i < count; ++i) owned.emplace_back(results[i]);
  let_raise();
  if (status != PEN_OK) return nb::make_tuple(as_dict(pen_operators_error(self.handle)), nb::list(), nb::list());
  nb::list out, after;
  for (Owned& v : owned) {
    if (!hold) {
      out.append(from_value(v.get()));
      continue;
    }
    auto held = std::make_unique<HeldValue>();
    held->value = v.release();
    out.append(nb::cast(held.release(), nb::rv_policy::take_ownership));
  }
  for (size_t i = 0; keep && i < values.size(); ++i) after.append(from_value(values.data()[i]));
  return nb::make_tuple(nb::none(), out, after);
}

}  // namespace

void add_values(nb::module_& m) {
  main_thread = nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  const nb::object os = nb::module_::import_("os");
  if (nb::hasattr(os, "register_at_fork"))  // the thread that forked is the child's main one
    os.attr("register_at_fork")(nb::arg("after_in_child") = nb::cpp_function([] { main_thread = PyThread_get_thread_ident(); }));
  nb::class_<TensorValue>(m, "TensorValue")
      .def(
          "__init__",
          [](TensorValue* self, nb::object array, int dtype, int axis, const std::vector<double>& scales,
             const std::vector<int64_t>& zeros) { new (self) TensorValue{array, dtype, axis, scales, zeros}; },
          nb::arg("array"), nb::arg("dtype"), nb::arg("axis") = -2, nb::arg("scales") = std::vector<double>(),
          nb::arg("zero_points") = std::vector<int64_t>())
      .def_ro("array", &TensorValue::array)
      .def_ro("dtype", &TensorValue::dtype)
      .def_ro("axis", &TensorValue::axis)
      .def_ro("scales", &TensorValue::scales)
      .def_ro("zero_points", &TensorValue::zero_points);
  nb::class_<HeldValue>(m, "HeldValue")
      .def(
          "__init__",
          [](HeldValue* self, nb::object value, bool constant) {
            Owned made(to_value(value, "a value to hold"));
            if (constant && pen_value_make_constant(made.get()) != PEN_OK) throw nb::type_error("a constant: expected a tensor");
            (new (self) HeldValue)->value = made.release();
          },
          nb::arg("value"), nb::arg("constant") = false)
      .def("get", [](const HeldValue& self) { return from_value(self.value); });
  nb::class_<Fields>(m, "Fields")
      .def_ro("type", &Fields::type)
      .def_ro("names", &Fields::names)
      .def_ro("items", &Fields::items)
      .def_ro("is_tuple", &Fields::is_tuple);
  nb::class_<Trace>(m, "Trace")
      .def(nb::init<>())
      .def("interpret", [](Trace& self, bool on) { pen_trace_interpret(self.handle, on); })
      .def_prop_ro("kernels",
                   [](const Trace& self) {
                     nb::list out;
                     for (int i = 0; i < pen_kernel_count(); ++i)
                       if (pen_trace_used_kernel(self.handle, i)) out.append(pen_kernel_key(i));
                     return out;
                   })
      .def_prop_ro("operators", [](const Trace& self) {
        nb::list out;
        for (int i = 0; i < pen_operator_count(); ++i)
          if (pen_trace_used_operator(self.handle, i)) out.append(pen_operator_name(i));
        return out;
      });
  nb::class_<Operators>(m, "Operators")
      .def(nb::init<>())
      .def("set_trace",
           [](Operators& self, nb::object trace) -> nb::object {
             if (self.busy) return in_use();
             if (pen_operators_set_trace(self.handle, nb::cast<Trace&>(trace).handle) != PEN_OK) throw std::bad_alloc();
             self.trace = trace;
             return nb::none();
           })
      .def("create",
           [](Operators& self, int threads, uint64_t memory_limit) -> nb::object {
             pen_error e = {};
             pen_session_options options = PEN_SESSION_OPTIONS;
             options.threads = threads;
             options.memory_limit = self.memory_limit = memory_limit;
             options.interrupted = interrupted;
             if (pen_operators_create(&options, &self.handle, &e) != PEN_OK) return as_dict(e);
             return nb::none();
           })
      .def("run", &run_operator, nb::arg("name"), nb::arg("args"), nb::arg("hold") = false, nb::arg("keep") = false);
  m.def("operator_names", [] {
    nb::list out;
    for (int i = 0; i < pen_operator_count(); ++i) out.append(pen_operator_name(i));
    return out;
  });
}

}  // namespace pen_python
