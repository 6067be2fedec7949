// A .pen file that was opened: what is in it, for any number of threads. It lives as long as a copy of this, or a session of it, does.
#ifndef PENLIGHT_MODEL_HPP_
#define PENLIGHT_MODEL_HPP_

#include <memory>
#include <string>
#include <vector>

#include "penlight/error.hpp"
#include "penlight/library.hpp"

namespace penlight {

class Model {
 public:
  static Result<Model> open(const std::string& path, uint32_t flags = 0) {
    return made([&](pen_model** m, pen_error* e) { return pen_model_open(path.c_str(), flags, m, e); });
  }
  // The bytes must stay as they are while the model lives, unless flags has PEN_LOAD_COPY.
  static Result<Model> open(const void* bytes, size_t size, uint32_t flags = 0) {
    return made([&](pen_model** m, pen_error* e) { return pen_model_open_memory(bytes, size, flags, m, e); });
  }
  // Part of an open file; size 0: up to its end. The descriptor may be closed afterwards.
  static Result<Model> open_descriptor(int descriptor, uint64_t offset = 0, uint64_t size = 0, uint32_t flags = 0) {
    return made([&](pen_model** m, pen_error* e) { return pen_model_open_fd(descriptor, offset, size, flags, m, e); });
  }

  std::string metadata() const { return pen_model_metadata(get()); }  // JSON
  // Those that were planned as a whole, then those of VM code.
  std::vector<std::string> methods() const {
    std::vector<std::string> names;
    for (int32_t i = 0; i < pen_model_method_count(get()); ++i) names.push_back(pen_model_method_name(get(), i));
#if PENLIGHT_HAS_VM
    for (int32_t i = 0; has_vm() && i < pen_model_function_count(get()); ++i) names.push_back(pen_model_function_name(get(), i));
#endif
    return names;
  }
  bool is_interpreted([[maybe_unused]] const std::string& method) const {
#if PENLIGHT_HAS_VM
    for (int32_t i = 0; has_vm() && i < pen_model_function_count(get()); ++i)
      if (method == pen_model_function_name(get(), i)) return true;
#endif
    return false;
  }
  // Of the flat tensors of a planned method; empty for others.
  std::vector<pen_tensor_info> inputs(const std::string& method = "forward") const {
    std::vector<pen_tensor_info> found(size_t(most(pen_model_input_count(get(), method.c_str()))));
    for (size_t i = 0; i < found.size(); ++i) pen_model_input_info(get(), method.c_str(), int32_t(i), &found[i]);
    return found;
  }
  std::vector<pen_tensor_info> outputs(const std::string& method = "forward") const {
    std::vector<pen_tensor_info> found(size_t(most(pen_model_output_count(get(), method.c_str()))));
    for (size_t i = 0; i < found.size(); ++i) pen_model_output_info(get(), method.c_str(), int32_t(i), &found[i]);
    return found;
  }
  const pen_model* get() const { return model_.get(); }

 private:
  template <class Open>
  static Result<Model> made(Open open) {
    pen_error error;
    pen_model* opened = nullptr;
    if (open(&opened, &error) != PEN_OK) return Error(error);
    Model model;
    model.model_ = std::shared_ptr<pen_model>(opened, pen_model_close);
    return model;
  }
  static int32_t most(int32_t count) { return count < 0 ? 0 : count; }

  std::shared_ptr<pen_model> model_;
};

}  // namespace penlight

#endif  // PENLIGHT_MODEL_HPP_
