// Python over the C interface: thin, no logic. Failures come back as a dict of pen_error's fields (None: all is well);
// penlight/model.py turns them into exceptions.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "penlight.h"
#include "values.h"

namespace nb = nanobind;
using Array = nb::ndarray<nb::ro, nb::device::cpu>;
using Writable = nb::ndarray<nb::c_contig, nb::device::cpu>;

using pen_python::as_dict;
using pen_python::dtype_code;
using pen_python::shows;
using pen_python::text;
using pen_python::Trace;
using pen_python::Unlocked;

namespace {

struct Model {
  pen_model* handle = nullptr;
  nb::object keep;  // bytes that the model reads in place

  ~Model() { pen_model_close(handle); }
};

struct Session {
  pen_session* handle = nullptr;
  nb::object model, trace;
  std::vector<Array> inputs;  // until the run is over: what an object shows by DLPack may be gone as soon as nobody holds it
  bool busy = false;

  ~Session() { pen_session_destroy(handle); }
};

struct Buffer {
  pen_buffer* handle = nullptr;

  ~Buffer() { pen_buffer_destroy(handle); }
};

struct Module {
  pen_module* handle = nullptr;
  nb::object model, trace;
  uint64_t memory_limit = 0;
  bool busy = false;

  ~Module() { pen_module_destroy(handle); }
};

Writable writable(nb::handle object) {
  Writable found;
  if (!shows(object, found)) throw nb::type_error("a result: expected row-major memory on the CPU that can be written, got another");
  return found;
}

// (problem or None, result)
nb::tuple run_module(Module& self, const std::string& method, nb::sequence args) {
  pen_python::Values values(args, method.c_str());
  if (self.busy) return nb::make_tuple(pen_python::in_use(), nb::none());
  pen_value* result = nullptr;
  pen_status status;
  {
    pen_python::Busy busy(self.busy);
    Unlocked unlocked;
    status = pen_module_run(self.handle, method.c_str(), values.data(), values.size(), &result);
  }
  pen_python::Owned owned(result);
  pen_python::let_raise();
  if (status != PEN_OK) return nb::make_tuple(as_dict(pen_module_error(self.handle)), nb::none());
  try {
    return nb::make_tuple(nb::none(), pen_python::from_value(result, self.memory_limit));
  } catch (const pen_python::TooLarge& e) {
    return nb::make_tuple(e.problem(), nb::none());
  }
}

// The fields of each pen_planned_part.
nb::list planned_parts(const Module& self) {
  nb::list out;
  pen_planned_part p;
  for (int i = 0; pen_module_planned_part(self.handle, i, &p) == PEN_OK; ++i)
    out.append(nb::make_tuple(text(p.name), text(p.source), p.taken, p.unfit, p.failed, text(p.unfit_reason), text(p.failed_reason)));
  return out;
}

// (method, info, args, outputs or None, whether there are outputs, absolute, relative) of each bundled input.
nb::list bundles(const Model& m) {
  nb::list out;
  const int count = pen_model_bundle_count(m.handle);
  for (int i = 0; i < count; ++i) {
    pen_bundle b;
    if (pen_model_bundle(m.handle, i, &b, nullptr) != PEN_OK) throw std::bad_alloc();
    pen_python::Owned args(b.args), outputs(b.outputs);
    nb::object given = b.outputs ? pen_python::from_value(b.outputs) : nb::none();
    out.append(
        nb::make_tuple(text(b.method), text(b.info), pen_python::from_value(b.args), given, b.outputs != nullptr, b.absolute, b.relative));
  }
  return out;
}

nb::list ports(const Model& m, const char* method, bool inputs) {
  nb::list out;
  int n = inputs ? pen_model_input_count(m.handle, method) : pen_model_output_count(m.handle, method);
  for (int i = 0; i < n; ++i) {
    pen_tensor_info info;
    (inputs ? pen_model_input_info : pen_model_output_info)(m.handle, method, i, &info);
    nb::list dims, least, most;
    for (int d = 0; d < info.rank; ++d) {
      dims.append(info.dims[d]);
      least.append(info.min_dims[d]);
      if (info.max_dims[d] == INT64_MAX)
        most.append(nb::none());
      else
        most.append(info.max_dims[d]);
    }
    out.append(nb::make_tuple(info.name, info.dtype, dims, least, most));
  }
  return out;
}

// Arrays, or Buffers on the session's device.
nb::object set_inputs(Session& s, const std::vector<nb::object>& inputs) {
  if (s.busy) return pen_python::in_use();
  std::vector<Array> held;
  for (size_t i = 0; i < inputs.size(); ++i) {
    int32_t index = static_cast<int32_t>(i);
    pen_status status;
    Array a;
    if (nb::isinstance<Buffer>(inputs[i])) {
      status = pen_session_set_input_buffer(s.handle, index, nb::cast<const Buffer&>(inputs[i]).handle);
    } else if (shows(inputs[i], a)) {
      int64_t dims[64], strides[64];
      size_t rank = a.ndim() < 64 ? a.ndim() : 63;
      for (size_t d = 0; d < rank; ++d) {
        dims[d] = static_cast<int64_t>(a.shape(d));
        strides[d] = a.stride(d);
      }
      pen_tensor t = {const_cast<void*>(a.data()), dtype_code(a.dtype()), static_cast<int32_t>(a.ndim()), dims, strides};
      status = pen_session_set_input(s.handle, index, &t);
      held.push_back(std::move(a));
    } else {
      throw nb::type_error("an input that is no array");
    }
    if (status != PEN_OK) return as_dict(pen_session_error(s.handle));
  }
  s.inputs.swap(held);
  return nb::none();
}

nb::object prepare(Session& s) {
  if (s.busy) return pen_python::in_use();
  pen_status status;
  {
    pen_python::Busy busy(s.busy);
    Unlocked unlocked;
    status = pen_session_prepare(s.handle);
  }
  pen_python::let_raise();
  return status == PEN_OK ? nb::none() : as_dict(pen_session_error(s.handle));
}

// `outputs`: where to write each result, an array or a Buffer; None: into the session's own memory, from where read_output copies it.
nb::object run(Session& s, const std::vector<nb::object>& outputs) {
  if (s.busy) return pen_python::in_use();
  std::vector<Array> inputs = std::move(s.inputs);
  std::vector<Writable> held;  // as inputs are
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].is_none()) continue;
    int32_t index = static_cast<int32_t>(i);
    pen_status bound;
    if (nb::isinstance<Buffer>(outputs[i])) {
      bound = pen_session_set_output_buffer(s.handle, index, nb::cast<Buffer&>(outputs[i]).handle);
    } else {
      Writable a = writable(outputs[i]);
      bound = pen_session_set_output(s.handle, index, a.data(), a.nbytes());
      held.push_back(std::move(a));
    }
    if (bound != PEN_OK) return as_dict(pen_session_error(s.handle));
  }
  pen_status status;
  {
    pen_python::Busy busy(s.busy);
    Unlocked unlocked;
    status = pen_session_run(s.handle);
  }
  pen_python::let_raise();
  return status == PEN_OK ? nb::none() : as_dict(pen_session_error(s.handle));
}

nb::object create_buffer(Buffer& self, const std::string& device, int dtype, const std::vector<int64_t>& dims) {
  pen_error e = {};
  pen_status status = pen_buffer_create(device.c_str(), dtype, static_cast<int32_t>(dims.size()), dims.data(), &self.handle, &e);
  return status == PEN_OK ? nb::none() : as_dict(e);
}
nb::object upload(Buffer& self, nb::handle given) {
  nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu> from;
  if (!shows(given, from)) throw nb::type_error("what is uploaded: expected row-major memory on the CPU, got another");
  pen_error e = {};
  pen_status status;
  {
    Unlocked unlocked;
    status = pen_buffer_upload(self.handle, from.data(), from.nbytes(), &e);
  }
  return status == PEN_OK ? nb::none() : as_dict(e);
}
nb::object download(const Buffer& self, nb::handle given) {
  const Writable to = writable(given);
  pen_error e = {};
  pen_status status;
  {
    Unlocked unlocked;
    status = pen_buffer_download(self.handle, to.data(), to.nbytes(), &e);
  }
  return status == PEN_OK ? nb::none() : as_dict(e);
}

nb::dict device_report(const pen_device_report& r) {
  nb::dict d;
  d["device"] = r.device;
  d["dispatches"] = r.dispatches;
  d["copies"] = r.copies;
  d["bytes_up"] = r.bytes_up;
  d["bytes_down"] = r.bytes_down;
  return d;
}

// (problem or None, the fields of each pen_device_info).
nb::tuple vulkan_devices() {
  nb::list out;
  pen_device_info d = PEN_DEVICE_INFO;
  pen_error e = {};
  pen_status status;
  for (int i = 0; (status = pen_vulkan_device(i, &d, &e)) == PEN_OK; ++i) {
    nb::dict told;
    told["name"] = d.name, told["driver"] = d.driver, told["driver_info"] = d.driver_info, told["api"] = d.api;
    told["type"] = d.type, told["unfit"] = d.unfit;
    told["memory_bytes"] = d.memory_bytes, told["buffer_bytes"] = d.buffer_bytes;
    told["subgroup_size"] = d.subgroup_size, told["group_threads"] = d.group_threads, told["shared_bytes"] = d.shared_bytes;
    told["f16_storage"] = d.f16_storage != 0, told["f16_arithmetic"] = d.f16_arithmetic != 0;
    told["i8_storage"] = d.i8_storage != 0, told["i8_arithmetic"] = d.i8_arithmetic != 0;
    told["integer_dot"] = d.integer_dot != 0, told["cooperative_matrix"] = d.cooperative_matrix != 0;
    out.append(told);
  }
  return nb::make_tuple(nb::len(out) ? nb::none() : as_dict(e), out);
}

// (problem or None, the fields of pen_processor).
nb::tuple processor() {
  pen_processor p = PEN_PROCESSOR;
  pen_error e = {};
  nb::dict told;
  if (pen_processor_describe(&p, &e) != PEN_OK) return nb::make_tuple(as_dict(e), told);
  told["l1_bytes"] = p.l1_bytes, told["l2_bytes"] = p.l2_bytes, told["l3_bytes"] = p.l3_bytes;
  told["l1_sharers"] = p.l1_sharers, told["l2_sharers"] = p.l2_sharers, told["l3_sharers"] = p.l3_sharers;
  told["cores"] = p.cores, told["whole_vectors"] = p.whole_vectors != 0, told["source"] = p.source;
  nb::dict blocking;
  blocking["near_bytes"] = p.near_bytes, blocking["part_of_k"] = p.part_of_k, blocking["near_weights"] = p.near_weights;
  blocking["strip_bytes"] = p.strip_bytes, blocking["expanded_bytes"] = p.expanded_bytes;
  blocking["expand_input_bytes"] = p.expand_input_bytes;
  blocking["turn_bytes"] = p.turn_bytes;
  told["blocking"] = blocking;
  return nb::make_tuple(nb::none(), told);
}

// (dtype, shape, whether that is known before a run) of each output.
nb::list output_shapes(const Session& s) {
  nb::list out;
  pen_tensor t;
  for (int i = 0; pen_session_output(s.handle, i, &t) == PEN_OK; ++i) {
    nb::list dims;
    for (int d = 0; d < t.rank; ++d) dims.append(t.dims[d]);
    out.append(nb::make_tuple(t.dtype, nb::tuple(dims), pen_session_output_is_fixed(s.handle, i) != 0));
  }
  return out;
}

// A result of the last run as an array that owns its memory, taken from the session; None where it must be copied.
nb::object take_output(Session& s, int index) {
  static const nb::dlpack::dtype kTypes[] = {nb::dtype<float>(),   {},
                                             nb::dtype<double>(),  nb::dtype<int8_t>(),
                                             nb::dtype<uint8_t>(), nb::dtype<int16_t>(),
                                             nb::dtype<int32_t>(), nb::dtype<int64_t>(),
                                             nb::dtype<bool>(),    {}};
  pen_tensor t;
  if (pen_session_output(s.handle, index, &t) != PEN_OK || t.dtype == PEN_F16 || t.dtype == PEN_BF16) return nb::none();
  size_t shape[8];
  for (int d = 0; d < t.rank; ++d) shape[d] = static_cast<size_t>(t.dims[d]);
  void* memory = pen_session_take_output(s.handle, index);
  if (!memory) return nb::none();
  nb::capsule owner(memory, [](void* p) noexcept { pen_free(p); });
  return nb::cast(nb::ndarray<nb::numpy>(memory, static_cast<size_t>(t.rank), shape, owner, nullptr, kTypes[t.dtype]));
}

// Copies a result of the last run; `to` has its shape and dtype.
void read_output(const Session& s, int index, nb::handle given) {
  const Writable to = writable(given);
  pen_tensor t;
  if (pen_session_output(s.handle, index, &t) == PEN_OK && t.data && to.nbytes()) memcpy(to.data(), t.data, to.nbytes());
}

// (name, dtype, shape) of each tensor that the model keeps from run to run.
nb::list states(const Session& s) {
  nb::list out;
  pen_tensor t;
  for (int i = 0; const char* name = pen_session_state(s.handle, i, &t); ++i) {
    nb::list dims;
    for (int d = 0; d < t.rank; ++d) dims.append(t.dims[d]);
    out.append(nb::make_tuple(text(name), t.dtype, nb::tuple(dims)));
  }
  return out;
}
// Copies one; `to` has its shape and dtype.
void read_state(const Session& s, int index, nb::handle given) {
  const Writable to = writable(given);
  pen_tensor t;
  if (pen_session_state(s.handle, index, &t) && to.nbytes()) memcpy(to.data(), t.data, to.nbytes());
}

// Of every step, since profiling was switched on.
nb::list step_nanoseconds(const Session& s) {
  nb::list out;
  pen_step_profile p;
  for (int i = 0; pen_session_step(s.handle, i, &p) == PEN_OK; ++i) out.append(p.nanoseconds);
  return out;
}

// (key, output's name, source line, inputs, outputs); an operand is (shape, bytes, copied), or None where it was left out.
nb::list steps(const Session& s) {
  nb::list out;
  pen_step_profile p;
  for (int i = 0; pen_session_step(s.handle, i, &p) == PEN_OK; ++i) {
    nb::list inputs, outputs;
    pen_operand o;
    for (int j = 0; pen_session_step_operand(s.handle, i, j, &o) == PEN_OK; ++j) {
      nb::list dims;
      for (int d = 0; d < o.tensor.rank; ++d) dims.append(o.tensor.dims[d]);
      nb::object told = o.name ? nb::object(nb::make_tuple(nb::tuple(dims), o.bytes, o.copied != 0)) : nb::none();
      (o.is_output ? outputs : inputs).append(told);
    }
    out.append(nb::make_tuple(text(p.key), text(p.output), text(p.source), inputs, outputs));
  }
  return out;
}

}  // namespace

NB_MODULE(_runtime, m) {
  // torch.jit.script keeps the globals of the script whose class it compiled alive past the end of Python, and a model with
  // them: not a leak of ours. PENLIGHT_LEAKS=1 shows all, for a test that our own code has none.
  nb::set_leak_warnings(getenv("PENLIGHT_LEAKS") != nullptr);
  m.doc() = "Penlight's C runtime. Use the penlight package instead of this module.";
  m.attr("LOAD_VERIFY") = static_cast<int>(PEN_LOAD_VERIFY);
  m.attr("LOAD_COPY") = static_cast<int>(PEN_LOAD_COPY);
  m.def("version", &pen_version);
  m.def("isas", [] {
    nb::list out;
    for (int i = 0; const char* name = pen_isa_name(i); ++i) out.append(name);
    return out;
  });
  m.def("processor", &processor);
  // None where there is a Vulkan device that can be used, else what is missing.
  m.def("without_vulkan", [] {
    pen_error e = {};
    return pen_vulkan_available(&e) ? nb::none() : as_dict(e);
  });
  m.def("vulkan_devices", &vulkan_devices);
  m.def("backends", [] {
    nb::list out;
    for (int i = 0; const char* name = pen_backend_name(i); ++i) out.append(name);
    return out;
  });
  m.def("backend_keys", [](const std::string& backend) {
    nb::list out;
    for (int b = 0; const char* name = pen_backend_name(b); ++b)
      for (int i = 0; backend == name && i < pen_kernel_count(); ++i)
        if (pen_backend_has_kernel(b, i)) out.append(pen_kernel_key(i));
    return out;
  });
  m.def("kernel_keys", [] {
    nb::list out;
    for (int i = 0; i < pen_kernel_count(); ++i) out.append(pen_kernel_key(i));
    return out;
  });

  pen_python::add_values(m);

  nb::class_<Model>(m, "Model")
      .def(nb::init<>())
      .def("open_path",
           [](Model& self, const nb::bytes& path, uint32_t flags) {  // as the system has it: names need not be UTF-8
             pen_error e = {};
             pen_status status;
             {
               Unlocked unlocked;
               status = pen_model_open(path.c_str(), flags, &self.handle, &e);
             }
             return status == PEN_OK ? nb::none() : as_dict(e);
           })
      .def("open_memory",
           [](Model& self, nb::handle given, uint32_t flags) -> nb::object {
             nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> bytes;
             if (!shows(given, bytes)) throw nb::type_error("a model: expected bytes in one piece, got another");
             pen_error e = {};
             pen_status status = pen_model_open_memory(bytes.data(), bytes.size(), flags, &self.handle, &e);
             if (status != PEN_OK) return as_dict(e);
             self.keep = nb::cast(bytes);
             return nb::none();
           })
      .def("open_fd",
           [](Model& self, int fd, uint64_t offset, uint64_t size, uint32_t flags) {
             pen_error e = {};
             pen_status status = pen_model_open_fd(fd, offset, size, flags, &self.handle, &e);
             return status == PEN_OK ? nb::none() : as_dict(e);
           })
      .def_prop_ro("metadata", [](const Model& self) { return pen_model_metadata(self.handle); })
      // The file's bytes as they were opened: an array that is read-only and keeps the model.
      .def("image",
           [](nb::object self) {
             size_t size;
             const void* bytes = pen_model_image(nb::cast<const Model&>(self).handle, &size);
             return nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>>(bytes, {size}, self);
           })
      .def_prop_ro("methods",
                   [](const Model& self) {
                     nb::list out;
                     for (int i = 0; i < pen_model_method_count(self.handle); ++i) out.append(pen_model_method_name(self.handle, i));
                     return out;
                   })
      .def("inputs", [](const Model& self, const char* method) { return ports(self, method, true); })
      .def("outputs", [](const Model& self, const char* method) { return ports(self, method, false); })
      .def("input_spec", [](const Model& self, const char* method) { return pen_model_input_spec(self.handle, method); })
      .def_prop_ro("functions",
                   [](const Model& self) {
                     nb::list out;
                     const int count = pen_model_function_count(self.handle);
                     for (int i = 0; i < count; ++i)
                       out.append(nb::make_tuple(pen_model_function_name(self.handle, i), pen_model_function_schema(self.handle, i),
                                                 pen_model_function_default_count(self.handle, i)));
                     return out;
                   })
      .def_prop_ro("missing_operators",
                   [](const Model& self) {
                     nb::list out;
                     for (int i = 0; const char* name = pen_model_missing_operator(self.handle, i); ++i) out.append(name);
                     return out;
                   })
      .def("bundles", &bundles)
      .def("output_spec", [](const Model& self, const char* method) { return pen_model_output_spec(self.handle, method); });

  nb::class_<Buffer>(m, "Buffer")
      .def(nb::init<>())
      .def("create", &create_buffer)
      .def("upload", &upload)
      .def("download", &download)
      .def_prop_ro("device_name", [](const Buffer& self) { return pen_buffer_device_name(self.handle); });

  nb::class_<Module>(m, "Module")
      .def(nb::init<>())
      .def(
          "create",
          [](Module& self, nb::object model, int threads, uint64_t memory_limit, int64_t max_steps, const std::optional<std::string>& isa,
             const std::string& device, bool f16) -> nb::object {
            pen_error e = {};
            pen_module_options options = {
                sizeof options,          device.c_str(), threads, memory_limit, max_steps, isa ? isa->c_str() : nullptr, f16,
                pen_python::interrupted, nullptr};
            self.memory_limit = memory_limit;
            if (pen_module_create(nb::cast<const Model&>(model).handle, &options, &self.handle, &e) != PEN_OK) return as_dict(e);
            self.model = model;
            return nb::none();
          },
          nb::arg("model"), nb::arg("threads"), nb::arg("memory_limit"), nb::arg("max_steps"), nb::arg("isa").none(),
          nb::arg("device") = "", nb::arg("f16") = false)
      .def("run", &run_module)
      .def("reset",
           [](Module& self) -> nb::object {
             if (self.busy) return pen_python::in_use();
             return pen_module_reset(self.handle) == PEN_OK ? nb::none() : as_dict(pen_module_error(self.handle));
           })
      .def("seed", [](Module& self, uint64_t seed) { pen_module_seed(self.handle, seed); })
      .def("set_trace",
           [](Module& self, nb::object trace) -> nb::object {
             if (self.busy) return pen_python::in_use();  // by a run that notes in the one before
             if (pen_module_set_trace(self.handle, nb::cast<Trace&>(trace).handle) != PEN_OK) throw std::bad_alloc();
             self.trace = trace;
             return nb::none();
           })
      .def_prop_ro("planned_parts", &planned_parts)
      .def("device_report",
           [](const Module& self) {
             pen_device_report r;
             pen_module_device_report(self.handle, &r);
             return device_report(r);
           })
      .def("state", [](const Module& self) {
        pen_python::Owned state(pen_module_state(self.handle));
        return pen_python::from_value(state.get(), self.memory_limit);
      });

  nb::class_<Session>(m, "Session")
      .def(nb::init<>())
      .def(
          "create",
          [](Session& self, nb::object model, const std::string& method, int threads, int plan_cache, uint64_t memory_limit,
             const std::optional<std::string>& isa, const std::string& device, bool f16) -> nb::object {
            pen_error e = {};
            pen_session_options options = {
                sizeof options,          device.c_str(), threads, plan_cache, memory_limit, isa ? isa->c_str() : nullptr, f16,
                pen_python::interrupted, nullptr};
            const Model& owner = nb::cast<const Model&>(model);
            if (pen_session_create(owner.handle, method.c_str(), &options, &self.handle, &e) != PEN_OK) return as_dict(e);
            self.model = model;
            return nb::none();
          },
          nb::arg("model"), nb::arg("method"), nb::arg("threads"), nb::arg("plan_cache"), nb::arg("memory_limit"), nb::arg("isa").none(),
          nb::arg("device") = "", nb::arg("f16") = false)
      .def("set_inputs", &set_inputs)
      .def("takes", [](const Session& self, const Buffer& buffer) { return pen_session_takes_buffer(self.handle, buffer.handle) != 0; })
      .def("device_report",
           [](const Session& self) {
             pen_device_report r;
             pen_session_device_report(self.handle, &r);
             return device_report(r);
           })
      .def("prepare", &prepare)
      .def("run", &run)
      .def("take_output", &take_output)
      .def("read_output", &read_output)
      .def("seed", [](Session& self, uint64_t seed) { pen_session_seed(self.handle, seed); })
      .def("reset",
           [](Session& self) {
             if (!self.busy) pen_session_reset(self.handle);
           })
      .def("states", &states)
      .def("read_state", &read_state)
      .def("output_shapes", &output_shapes)
      .def("set_trace",
           [](Session& self, nb::object trace) -> nb::object {
             if (self.busy) return pen_python::in_use();
             pen_session_set_trace(self.handle, nb::cast<Trace&>(trace).handle);
             self.trace = trace;
             return nb::none();
           })
      .def("set_profiling", [](Session& self, bool on) { pen_session_set_profiling(self.handle, on); })
      .def("step_nanoseconds", &step_nanoseconds)
      .def("steps", &steps)
      .def_prop_ro("isa", [](const Session& self) { return pen_session_isa(self.handle); })
      .def_prop_ro("arena_bytes", [](const Session& self) { return pen_session_arena_bytes(self.handle); })
      .def_prop_ro("live_bytes", [](const Session& self) { return pen_session_live_bytes(self.handle); })
      .def_prop_ro("plan_count", [](const Session& self) { return pen_session_plan_count(self.handle); });
}
