// at::Tensor over penlight::Tensor, for apps: memory in, memory out, and copies to and from a GPU. It has no operators: these are in the
// model.
#ifndef PENLIGHT_TORCH_TENSOR_H_
#define PENLIGHT_TORCH_TENSOR_H_

#include <functional>
#include <random>

#include "penlight_torch/types.h"

namespace at {

using c10::Device;
using c10::DeviceType;
using c10::IntArrayRef;
using c10::MemoryFormat;
using c10::ScalarType;
using c10::TensorOptions;
using namespace c10;  // kFloat, kCPU …

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(penlight::Tensor tensor) : tensor_(std::move(tensor)), defined_(true) {}
  bool defined() const { return defined_; }
  const penlight::Tensor& penlight_tensor() const { return tensor_; }

  int64_t numel() const { return int64_t(tensor_.numel()); }
  int64_t dim() const { return int64_t(tensor_.shape().size()); }
  int64_t ndimension() const { return dim(); }
  IntArrayRef sizes() const { return tensor_.shape(); }
  int64_t size(int64_t axis) const {
    if (axis < -dim() || axis >= dim())
      raise("Dimension out of range (expected to be in range of [" + std::to_string(-dim()) + ", " + std::to_string(dim() - 1) +
            "], but got " + std::to_string(axis) + ")");
    return tensor_.shape()[size_t(axis < 0 ? axis + dim() : axis)];
  }
  ScalarType scalar_type() const { return c10::row_of(tensor_.dtype()).torch; }
  ScalarType dtype() const { return scalar_type(); }
  Device device() const { return tensor_.on_device() ? kVulkan : kCPU; }
  bool is_vulkan() const { return device().is_vulkan(); }
  bool is_metal() const { return false; }
  bool is_cpu() const { return !is_vulkan(); }
  bool is_contiguous() const { return tensor_.is_row_major(); }

  // The first element. A tensor that lies otherwise than row by row is read with its strides, or made contiguous() before.
  template <class T>
  T* data_ptr() const {
    constexpr pen_dtype wanted = penlight::DTypeOf<std::remove_const_t<T>>::value;
    if (wanted != tensor_.dtype())
      raise(std::string("expected scalar type ") + c10::row_of(wanted).name + " but found " + toString(scalar_type()));
    return static_cast<T*>(data_ptr());
  }
  void* data_ptr() const {
    if (tensor_.on_device()) raise("data_ptr: the tensor is in a Vulkan device's memory; take .cpu() of it first");
    return tensor_.data();
  }
  template <class T>
  const T* const_data_ptr() const {
    return data_ptr<const T>();
  }
  template <class T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T>
  T item() const {
    if (numel() != 1) raise("a Tensor with " + std::to_string(numel()) + " elements cannot be converted to Scalar");
    Tensor host = cpu();
    switch (host.tensor_.dtype()) {
      case PEN_F32:
        return T(*host.data_ptr<float>());
      case PEN_F64:
        return T(*host.data_ptr<double>());
      case PEN_I64:
        return T(*host.data_ptr<int64_t>());
      case PEN_I32:
        return T(*host.data_ptr<int32_t>());
      case PEN_I16:
        return T(*host.data_ptr<int16_t>());
      case PEN_I8:
        return T(*host.data_ptr<int8_t>());
      case PEN_U8:
        return T(*host.data_ptr<uint8_t>());
      case PEN_BOOL:
        return T(*host.data_ptr<bool>());
      default:
        raise(std::string("item: C++ has no type for ") + toString(scalar_type()));
    }
  }

  Tensor cpu() const { return Tensor(take(tensor_.cpu())); }
  Tensor vulkan() const { return Tensor(take(tensor_.to("vulkan"))); }
  Tensor metal() const {
    c10::answer_for_metal();
    return *this;
  }
  Tensor to(Device device) const { return device.is_cpu() ? cpu() : device.is_vulkan() ? vulkan() : metal(); }
  Tensor contiguous(MemoryFormat = MemoryFormat::Contiguous) const { return Tensor(tensor_.contiguous()); }
  Tensor clone() const {
    penlight::Tensor from = take(tensor_.cpu()), made = penlight::Tensor::zeros(from.shape(), from.dtype());
    if (!made.data()) raise("no memory for a copy of a tensor " + from.describe());
    from.copy_to(made);
    return Tensor(made).to(device());
  }
  Tensor detach() const { return *this; }

 private:
  penlight::Tensor tensor_;
  bool defined_ = false;
};

inline bool is_vulkan_available() { return pen_vulkan_available(nullptr) != 0; }
inline bool is_metal_available() { return false; }

// Elements in the caller's memory, which must outlive the tensor; `deleter` is called when the last tensor on it is gone.
inline Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options = {}) {
  return Tensor(penlight::Tensor::borrow(data, c10::row_of(options.dtype()).penlight, sizes.vec(), strides.vec())).to(options.device());
}
inline Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {}) {
  return from_blob(data, sizes, IntArrayRef(), options);
}
inline Tensor from_blob(void* data, IntArrayRef sizes, const std::function<void(void*)>& deleter, const TensorOptions& options = {}) {
  return Tensor(
      penlight::Tensor::borrow(data, c10::row_of(options.dtype()).penlight, sizes.vec(), {}, std::shared_ptr<void>(data, deleter)));
}

inline TensorOptions device(Device device) { return TensorOptions(device); }
inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }

inline Tensor zeros(IntArrayRef sizes, const TensorOptions& options = {}) {
  penlight::Tensor made = penlight::Tensor::zeros(sizes.vec(), c10::row_of(options.dtype()).penlight);
  if (!made.data()) raise("no memory for a tensor of these sizes");
  return Tensor(made).to(options.device());
}
inline Tensor empty(IntArrayRef sizes, const TensorOptions& options = {}) { return zeros(sizes, options); }

// Of f32, which inputs are made of; other dtypes come from an app's own memory.
template <class Fill>
Tensor filled(const char* name, IntArrayRef sizes, const TensorOptions& options, Fill fill) {
  if (options.dtype() != kFloat) raise(std::string(name) + ": expected at::kFloat, got " + toString(options.dtype()) + "; use from_blob");
  Tensor made = zeros(sizes, options.dtype());
  float* out = made.data_ptr<float>();
  for (int64_t i = 0; i < made.numel(); ++i) out[i] = fill();
  return made.to(options.device());
}
inline Tensor ones(IntArrayRef sizes, const TensorOptions& options = {}) {
  return filled("ones", sizes, options, [] { return 1.0f; });
}
// Uniform in [0, 1), another sequence than PyTorch's.
inline std::mt19937& generator() {
  static thread_local std::mt19937 made;
  return made;
}
inline void manual_seed(uint64_t seed) { generator().seed(uint32_t(seed)); }
inline Tensor rand(IntArrayRef sizes, const TensorOptions& options = {}) {
  return filled("rand", sizes, options, [] { return float(generator()() >> 8) * (1.0f / 16777216.0f); });
}

struct AutoNonVariableTypeMode : c10::NothingToGuard {
  using c10::NothingToGuard::NothingToGuard;
};

}  // namespace at

#endif  // PENLIGHT_TORCH_TENSOR_H_
