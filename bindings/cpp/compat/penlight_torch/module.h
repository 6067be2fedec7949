// torch::jit's loaders and modules over penlight::Module. A module runs on the device that it was loaded for, or that its arguments lie on;
// what runs on a GPU gives its results there, as in PyTorch: .cpu() brings them back.
#ifndef PENLIGHT_TORCH_MODULE_H_
#define PENLIGHT_TORCH_MODULE_H_

#include <istream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "penlight_torch/ivalue.h"

namespace at {
// Of the modules that are loaded after it; 0: one per core.
inline int& thread_count() {
  static int count = 0;
  return count;
}
inline void set_num_threads(int count) {
  if (count < 1) raise("Expected positive number of threads");
  thread_count() = count;
}
inline int get_num_threads() { return thread_count(); }
}  // namespace at

namespace torch {

using namespace at;
using c10::IValue;
using ExtraFilesMap = std::unordered_map<std::string, std::string>;

struct NoGradGuard : c10::NothingToGuard {
  using c10::NothingToGuard::NothingToGuard;
};
namespace autograd {
struct AutoGradMode : c10::NothingToGuard {
  using c10::NothingToGuard::NothingToGuard;
};
}  // namespace autograd

namespace jit {

using c10::IValue;

struct GraphOptimizerEnabledGuard : c10::NothingToGuard {
  using c10::NothingToGuard::NothingToGuard;
};

class Method;

class Module {
 public:
  Module() = default;
  Module(penlight::Model model, Device device) : state_(std::make_shared<State>(std::move(model), device)) {
    state_->on(device);  // a device that is not there is told at once
  }

  IValue forward(std::vector<IValue> inputs) const { return run("forward", inputs); }
  template <class... T>
  IValue operator()(T&&... inputs) const {
    return run("forward", {IValue(std::forward<T>(inputs))...});
  }
  template <class... T>
  IValue run_method(const std::string& name, T&&... inputs) const {
    return run(name, {IValue(std::forward<T>(inputs))...});
  }
  Method get_method(const std::string& name) const;
  std::optional<Method> find_method(const std::string& name) const;
  std::vector<Method> get_methods() const;
  // Penlight's files hold models that are ready to run.
  void eval() {}
  void train(bool on = true) {
    if (on) raise("train: Penlight runs models and does not train them");
  }
  bool is_training() const { return false; }
  void to(Device device) {
    std::lock_guard<std::mutex> alone(need().lock);
    need().on(device);  // first: one that is not there leaves the module where it is
    need().device = device;
  }
  const std::map<std::string, std::string> getMetadata() const { return {{"penlight", need().model.metadata()}}; }

  IValue run(const std::string& name, const std::vector<IValue>& inputs) const {
    std::vector<penlight::Value> given;
    std::lock_guard<std::mutex> alone(need().lock);
    Device device = need().device;
    for (const IValue& input : inputs) {
      given.push_back(input.penlight_value());
      if (lies_on_device(given.back())) device = kVulkan;
    }
    return IValue(take(need().on(device).run(name, given)));
  }

 private:
  struct State {
    State(penlight::Model model, Device device) : model(std::move(model)), device(device) {}
    std::mutex lock;  // threads may share a module, as in PyTorch: here they wait for each other
    penlight::Model model;
    Device device;
    std::map<DeviceType, penlight::Module> modules;

    penlight::Module& on(Device wanted) {
      if (wanted.is_metal()) {
        c10::answer_for_metal();
        wanted = kCPU;
      }
      auto found = modules.find(wanted.type());
      if (found != modules.end()) return found->second;
      penlight::Options options;
      options.device = wanted.str();
      options.threads = thread_count();
      penlight::Module made = take(penlight::Module::create(model, options));
      made.keep_results_on_device(wanted.is_vulkan());
      return modules.emplace(wanted.type(), std::move(made)).first->second;
    }
  };
  static bool lies_on_device(const penlight::Value& value) {
    if (value.tensor()) return value.tensor()->on_device();
    for (const auto& item : value.items())
      if (lies_on_device(item)) return true;
    return false;
  }
  State& need() const {
    if (!state_) raise("the module was never loaded");
    return *state_;
  }
  friend class Method;
  std::shared_ptr<State> state_;  // a copy is the same module, as in PyTorch
};

class Method {
 public:
  Method(Module owner, std::string name) : owner_(std::move(owner)), name_(std::move(name)) {}
  IValue operator()(const std::vector<IValue>& inputs) const { return owner_.run(name_, inputs); }
  const std::string& name() const { return name_; }

 private:
  Module owner_;
  std::string name_;
};

inline std::vector<Method> Module::get_methods() const {
  std::vector<Method> found;
  for (const std::string& name : need().model.methods()) found.emplace_back(*this, name);
  return found;
}
inline std::optional<Method> Module::find_method(const std::string& name) const {
  for (const Method& method : get_methods())
    if (method.name() == name) return method;
  return std::nullopt;
}
inline Method Module::get_method(const std::string& name) const {
  if (auto found = find_method(name)) return *found;
  raise("Method '" + name + "' is not defined.");
}

namespace mobile {
using Module = jit::Module;
using Method = jit::Method;
}  // namespace mobile
namespace script {
using Module = jit::Module;
}  // namespace script

// A .pen file under any name. A TorchScript file is an error that says how to convert it.
inline Module load(const std::string& path, std::optional<Device> device = std::nullopt) {
  return Module(take(penlight::Model::open(path)), device.value_or(kCPU));
}
inline Module load(std::istream& in, std::optional<Device> device = std::nullopt) {
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return Module(take(penlight::Model::open(bytes.data(), bytes.size(), PEN_LOAD_COPY)), device.value_or(kCPU));
}
inline Module _load_for_mobile(const std::string& path, std::optional<Device> device = std::nullopt) { return load(path, device); }
inline Module _load_for_mobile(std::istream& in, std::optional<Device> device = std::nullopt) { return load(in, device); }

}  // namespace jit
}  // namespace torch

#endif  // PENLIGHT_TORCH_MODULE_H_
