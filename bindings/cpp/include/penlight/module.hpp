// A model with its methods, for values of any kind: planned methods run by sessions, those of VM code by the VM, whose state lives from run
// to run. One caller at a time.
#ifndef PENLIGHT_MODULE_HPP_
#define PENLIGHT_MODULE_HPP_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penlight/containers.hpp"
#include "penlight/session.hpp"
#include "penlight/vm_values.hpp"

namespace penlight {

class Module {
 public:
  // A device that cannot be had is an error here, not at the first run.
  static Result<Module> create(Model model, Options options = {}) {
    Module made(std::move(model), std::move(options));
    std::vector<std::string> methods = made.model_.methods();
    if (methods.empty()) return Error(PEN_ERROR_ARGUMENT, "the model has no methods to run");
    bool has_forward = false;
    for (const std::string& name : methods) has_forward |= name == "forward";
    Status first = made.make_ready(has_forward ? "forward" : methods[0]);
    if (!first) return first.error();
    return made;
  }

  Result<Value> forward(const std::vector<Value>& arguments) { return run("forward", arguments); }
  Result<Value> run(const std::string& method, const std::vector<Value>& arguments) {
    if (Status ready = make_ready(method); !ready) return ready.error();
    if (model_.is_interpreted(method)) return run_interpreted(method, arguments);
    return run_planned(planned_.at(method), arguments);
  }
  // Results of planned methods stay on the device, where their size is known before the run: for models that feed each other.
  void keep_results_on_device(bool keep) { keep_ = keep && options_.device != "cpu"; }
  void seed(uint64_t seed) {
    seed_ = seed;
    for (auto& [name, planned] : planned_) planned.session.seed(seed);
#if PENLIGHT_HAS_VM
    if (vm_) pen_module_seed(vm_.get(), seed);
#endif
  }
  // The state of VM code as the file has it.
  Status reset() {
#if PENLIGHT_HAS_VM
    if (vm_ && pen_module_reset(vm_.get()) != PEN_OK) return Error(*pen_module_error(vm_.get()));
#endif
    return Done{};
  }
  const Model& model() const { return model_; }
  const Options& options() const { return options_; }

 private:
  struct Planned {
    Session session;
    Containers containers;
  };
  Module(Model model, Options options) : model_(std::move(model)), options_(std::move(options)) {}

  Status make_ready(const std::string& method) {
    if (model_.is_interpreted(method)) return make_vm();
    if (planned_.count(method)) return Done{};
    auto session = Session::create(model_, method, options_);
    if (!session) return session.error();
    auto containers = Containers::read(model_, method);
    if (!containers) return containers.error();
    if (seed_) session->seed(*seed_);
    planned_.emplace(method, Planned{*std::move(session), *std::move(containers)});
    return Done{};
  }

  Result<Value> run_planned(Planned& planned, const std::vector<Value>& arguments) {
    auto inputs = planned.containers.flatten(arguments);
    if (!inputs) return inputs.error();
    Session& session = planned.session;
    for (size_t i = 0; i < inputs->size(); ++i)
      if (Status set = session.set_input(i, (*inputs)[i]); !set) return set.error();
    std::vector<Tensor> outputs(session.output_count());
    if (keep_) {
      if (Status prepared = session.prepare(); !prepared) return prepared.error();
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (!session.output_is_fixed(i)) continue;
        auto shape = session.peek(i);
        if (!shape) return shape.error();
        auto room = Tensor::empty_on(options_.device, shape->dtype(), shape->shape());
        if (!room) return room.error();
        if (Status set = session.set_output(i, *room); !set) return set.error();
        outputs[i] = *room;
      }
    }
    if (Status ran = session.run(); !ran) return ran.error();
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].on_device()) continue;
      auto output = session.output(i);
      if (!output) return output.error();
      outputs[i] = *output;
    }
    return planned.containers.unflatten(outputs, *inputs);
  }

#if PENLIGHT_HAS_VM
  Status make_vm() {
    if (vm_) return Done{};
    pen_module_options given = PEN_MODULE_OPTIONS;
    given.device = options_.device.c_str();
    given.threads = options_.threads;
    given.isa = options_.isa.empty() ? nullptr : options_.isa.c_str();
    given.f16 = options_.f16;
    given.memory_limit = options_.memory_limit;
    given.max_steps = options_.max_steps;
    pen_error error;
    pen_module* made = nullptr;
    if (pen_module_create(model_.get(), &given, &made, &error) != PEN_OK) return Error(error);
    if (seed_) pen_module_seed(made, *seed_);
    vm_.reset(made);
    return Done{};
  }
  Result<Value> run_interpreted(const std::string& method, const std::vector<Value>& arguments) {
    std::vector<VmValue> given;
    std::vector<pen_value*> raw;
    for (const Value& argument : arguments) {
      auto made = to_vm(argument);
      if (!made) return made.error();
      given.push_back(*std::move(made));
      raw.push_back(given.back().get());
    }
    pen_value* result = nullptr;
    if (pen_module_run(vm_.get(), method.c_str(), raw.data(), raw.size(), &result) != PEN_OK) return Error(*pen_module_error(vm_.get()));
    return from_vm(VmValue(result), options_.memory_limit);
  }
  struct DestroyVm {
    void operator()(pen_module* module) const { pen_module_destroy(module); }
  };
#else
  Status make_vm() { return Done{}; }  // nothing is interpreted
  Result<Value> run_interpreted(const std::string&, const std::vector<Value>&) { return Value(); }
#endif

  Model model_;  // goes last
  Options options_;
  bool keep_ = false;
  std::optional<uint64_t> seed_;
  std::map<std::string, Planned> planned_;
#if PENLIGHT_HAS_VM
  std::unique_ptr<pen_module, DestroyVm> vm_;
#endif
};

}  // namespace penlight

#endif  // PENLIGHT_MODULE_HPP_
