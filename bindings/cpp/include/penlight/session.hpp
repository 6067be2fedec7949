// One planned method, ready to run on tensors: the memory of its steps, and the plans for the shapes it has met. One caller at a time.
#ifndef PENLIGHT_SESSION_HPP_
#define PENLIGHT_SESSION_HPP_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penlight/model.hpp"
#include "penlight/tensor.hpp"

namespace penlight {

struct Options {
  std::string device = "cpu";  // "cpu", "vulkan", "vulkan:1"
  int32_t threads = 0;         // 0: one per core
  std::string isa;             // empty: the best that this CPU has
  bool f16 = false;            // a GPU that can stores f32 values as f16
  uint64_t memory_limit = 0;   // bytes; 0: no limit but the machine's
  int64_t max_steps = 0;       // of VM code in one run: instructions, and elements that operators go through; 0: no limit
};

class Session {
 public:
  static Result<Session> create(Model model, const std::string& method = "forward", const Options& options = {}) {
    pen_session_options given = PEN_SESSION_OPTIONS;
    given.device = options.device.c_str();
    given.threads = options.threads;
    given.isa = options.isa.empty() ? nullptr : options.isa.c_str();
    given.f16 = options.f16;
    given.memory_limit = options.memory_limit;
    pen_error error;
    pen_session* made = nullptr;
    if (pen_session_create(model.get(), method.c_str(), &given, &made, &error) != PEN_OK) return Error(error);
    Session session;
    session.inputs_.resize(model.inputs(method).size());
    session.output_count_ = model.outputs(method).size();
    session.model_ = std::make_unique<Model>(std::move(model));
    session.session_.reset(made);
    return session;
  }

  // Read in place by the runs that follow, and kept alive for them. What lies on a device is used there if the session runs there, else it
  // comes by way of the host.
  Status set_input(size_t index, const Tensor& tensor) {
    Tensor given = tensor;
#if PENLIGHT_HAS_BUFFERS
    if (tensor.on_device() && index < inputs_.size() && pen_session_takes_buffer(get(), tensor.buffer())) {
      return kept(index, tensor, pen_session_set_input_buffer(get(), int32_t(index), tensor.buffer()));
    }
#endif
    if (tensor.on_device()) {
      auto host = tensor.cpu();
      if (!host) return host.error();
      given = *host;
    }
    pen_tensor view = given.view();
    return kept(index, given, pen_session_set_input(get(), int32_t(index), &view));
  }
  // Shapes and memory for these inputs: output shapes are known then, but for those that depend on the data.
  Status prepare() { return checked(pen_session_prepare(get())); }
  // Where the next run, and no other, writes an output; after prepare. Row-major, of its very size, in memory that no input and no other
  // output has, or on the session's device. The caller keeps it until then.
  Status set_output(size_t index, const Tensor& tensor) {
#if PENLIGHT_HAS_BUFFERS
    if (tensor.on_device()) return checked(pen_session_set_output_buffer(get(), int32_t(index), tensor.buffer()));
#endif
    if (!tensor.is_row_major()) return Error(PEN_ERROR_ARGUMENT, "output " + std::to_string(index) + ": expected row-major memory");
    return checked(pen_session_set_output(get(), int32_t(index), tensor.data(), tensor.bytes()));
  }
  Status run() { return checked(pen_session_run(get())); }
  // An output of the last run, in the session's memory: until its next run or prepare.
  Result<Tensor> peek(size_t index) const {
    pen_tensor view;
    if (pen_session_output(get(), int32_t(index), &view) != PEN_OK)
      return Error(PEN_ERROR_ARGUMENT,
                   "output " + std::to_string(index) + ": expected one of a method that was prepared or run, got another");
    return Tensor::borrow(view.data, pen_dtype(view.dtype), Shape(view.dims, view.dims + view.rank));
  }
  // Likewise, but the caller's to keep. (The session gives its memory away where it can, and copies where it cannot.)
  Result<Tensor> output(size_t index) {
    auto seen = peek(index);
    if (!seen || !seen->data()) return seen;
    if (void* memory = pen_session_take_output(get(), int32_t(index)))
      return Tensor::borrow(memory, seen->dtype(), seen->shape(), {}, std::shared_ptr<void>(memory, pen_free));
    Tensor copy = Tensor::zeros(seen->shape(), seen->dtype());
    if (!copy.data()) return Error(PEN_ERROR_MEMORY, "no memory for a copy of output " + std::to_string(index));
    memcpy(copy.data(), seen->data(), copy.bytes());
    return copy;
  }
  bool output_is_fixed(size_t index) const { return pen_session_output_is_fixed(get(), int32_t(index)) != 0; }
  size_t output_count() const { return output_count_; }
  size_t input_count() const { return inputs_.size(); }
  void seed(uint64_t seed) { pen_session_seed(get(), seed); }
  // What the model keeps from run to run, back to where it started from. (Not in a library that was built for models without state.)
  void reset() { pen_session_reset(get()); }
  Error error() const { return Error(*pen_session_error(get())); }
  pen_session* get() const { return session_.get(); }

 private:
  struct Destroy {
    void operator()(pen_session* session) const { pen_session_destroy(session); }
  };
  Status checked(pen_status status) const {
    if (status == PEN_OK) return Done{};
    return error();
  }

  // An input that was refused leaves the one before it in place, which must live on.
  Status kept(size_t index, const Tensor& tensor, pen_status status) {
    if (status == PEN_OK) inputs_[index] = tensor;
    return checked(status);
  }

  std::unique_ptr<Model> model_;  // goes after the session
  std::vector<Tensor> inputs_;
  size_t output_count_ = 0;
  std::unique_ptr<pen_session, Destroy> session_;
};

}  // namespace penlight

#endif  // PENLIGHT_SESSION_HPP_
