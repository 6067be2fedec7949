// A tensor: shape, dtype, and memory that is its own, somebody else's, or a device's. Copies of it share that memory.
#ifndef PENLIGHT_TENSOR_HPP_
#define PENLIGHT_TENSOR_HPP_

#include <stdlib.h>
#include <string.h>

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "penlight/error.hpp"
#include "penlight/library.hpp"

namespace penlight {

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr pen_dtype value = PEN_F32;
};
template <>
struct DTypeOf<double> {
  static constexpr pen_dtype value = PEN_F64;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr pen_dtype value = PEN_I8;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr pen_dtype value = PEN_U8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr pen_dtype value = PEN_I16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr pen_dtype value = PEN_I32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr pen_dtype value = PEN_I64;
};
template <>
struct DTypeOf<bool> {
  static constexpr pen_dtype value = PEN_BOOL;
};

inline size_t dtype_bytes(pen_dtype dtype) {
  constexpr size_t bytes[] = {4, 2, 8, 1, 1, 2, 4, 8, 1, 2};
  return dtype >= 0 && dtype <= PEN_BF16 ? bytes[dtype] : 0;
}
inline const char* dtype_name(pen_dtype dtype) {
  constexpr const char* names[] = {"f32", "f16", "f64", "i8", "u8", "i16", "i32", "i64", "bool", "bf16"};
  return dtype >= 0 && dtype <= PEN_BF16 ? names[dtype] : "unknown";
}

// real = (stored - zero_point) * scale; axis -1: one of each.
struct Quantization {
  int32_t axis = -1;
  std::vector<double> scales;
  std::vector<int64_t> zero_points;
};

using Shape = std::vector<int64_t>;

class Tensor {
 public:
  Tensor() = default;
  // In the caller's memory, which must outlive the tensor and all copies of it. Strides count elements; empty: row-major.
  template <class T>
  static Tensor borrow(T* data, Shape shape, Shape strides = {}) {
    return borrow(const_cast<void*>(static_cast<const void*>(data)), DTypeOf<std::remove_const_t<T>>::value, std::move(shape),
                  std::move(strides));
  }
  static Tensor borrow(void* data, pen_dtype dtype, Shape shape, Shape strides = {}, std::shared_ptr<void> owner = nullptr) {
    Tensor made;
    made.data_ = data;
    made.dtype_ = dtype;
    made.shape_ = std::move(shape);
    made.strides_ = std::move(strides);
    made.owner_ = std::move(owner);
    return made;
  }
  // In memory of its own, zeros. No memory, or a shape that has none: an empty tensor (data() is nullptr).
  static Tensor zeros(Shape shape, pen_dtype dtype = PEN_F32) {
    uint64_t bytes = dtype_bytes(dtype);
    for (int64_t d : shape)
      if (d < 0 || __builtin_mul_overflow(bytes, uint64_t(d), &bytes)) return Tensor();
    void* memory = bytes <= SIZE_MAX - 64 ? calloc(1, size_t(bytes) + 64) : nullptr;
    return memory ? borrow(memory, dtype, std::move(shape), {}, std::shared_ptr<void>(memory, free)) : Tensor();
  }
  template <class T>
  static Tensor of(const std::vector<T>& values, Shape shape) {
    Tensor made = zeros(std::move(shape), DTypeOf<T>::value);
    if (made.numel() != values.size()) return Tensor();
    if (!values.empty()) memcpy(made.data_, values.data(), made.bytes());
    return made;
  }

  pen_dtype dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  Shape strides() const {
    if (!strides_.empty() || shape_.empty()) return strides_;
    Shape made(shape_.size(), 1);
    for (size_t i = shape_.size() - 1; i > 0; --i) made[i - 1] = made[i] * shape_[i];
    return made;
  }
  size_t numel() const {
    size_t n = data_ || buffer_ ? 1 : 0;
    for (int64_t d : shape_) n *= size_t(d);
    return n;
  }
  size_t bytes() const { return numel() * dtype_bytes(dtype_); }
  bool is_row_major() const {
    if (strides_.empty()) return true;
    int64_t expected = 1;
    for (size_t i = shape_.size(); i-- > 0; expected *= shape_[i])
      if (shape_[i] != 1 && strides_[i] != expected) return numel() == 0;
    return true;
  }
  // nullptr: it has elements of another type, or lies on a device (see cpu()).
  template <class T>
  T* data() const {
    return DTypeOf<std::remove_const_t<T>>::value == dtype_ ? static_cast<T*>(data_) : nullptr;
  }
  void* data() const { return data_; }
  // The elements in row-major order; empty where data<T>() would be nullptr.
  template <class T>
  std::vector<T> values() const {
    Tensor plain = contiguous();
    const T* first = plain.data<T>();
    return first ? std::vector<T>(first, first + plain.numel()) : std::vector<T>();
  }
  Tensor contiguous() const {
    if (!data_ || is_row_major()) return *this;
    Tensor made = zeros(shape_, dtype_);
    if (made.data_) copy_to(made);
    return made;
  }
  // Into a row-major tensor of the same shape and dtype.
  void copy_to(const Tensor& to) const {
    if (is_row_major()) {
      if (bytes()) memcpy(to.data_, data_, bytes());
      return;
    }
    size_t size = dtype_bytes(dtype_), rank = shape_.size();
    Shape at(rank, 0);
    char* out = static_cast<char*>(to.data_);
    for (size_t i = 0, n = to.numel(); i < n; ++i, out += size) {
      int64_t offset = 0;
      for (size_t d = 0; d < rank; ++d) offset += at[d] * strides_[d];
      memcpy(out, static_cast<const char*>(data_) + offset * int64_t(size), size);
      for (size_t d = rank; d-- > 0 && ++at[d] == shape_[d];) at[d] = 0;
    }
  }
  std::string describe() const {
    std::string words = std::string(dtype_name(dtype_)) + " (";
    for (size_t i = 0; i < shape_.size(); ++i) words += (i ? ", " : "") + std::to_string(shape_[i]);
    return words + ")";
  }

  const std::optional<Quantization>& quantization() const { return quantization_; }
  void set_quantization(std::optional<Quantization> q) { quantization_ = std::move(q); }

  // --- on a device: sessions that run there read it in place, others by way of the host
  bool on_device() const { return buffer_ != nullptr; }
  pen_buffer* buffer() const { return buffer_.get(); }
  Result<Tensor> to(const std::string& device) const;
  Result<Tensor> cpu() const;
  // Room for a tensor there, of no particular content.
  static Result<Tensor> empty_on(const std::string& device, pen_dtype dtype, const Shape& shape);

  pen_tensor view() const { return {data_, dtype_, int32_t(shape_.size()), shape_.data(), strides_.empty() ? nullptr : strides_.data()}; }
  const std::shared_ptr<void>& owner() const { return owner_; }

 private:
  void* data_ = nullptr;
  pen_dtype dtype_ = PEN_F32;
  Shape shape_, strides_;
  std::shared_ptr<void> owner_;
  std::shared_ptr<pen_buffer> buffer_;
  std::optional<Quantization> quantization_;
};

inline Error no_buffers() {
  return {PEN_ERROR_ARGUMENT,
          "this library was built for the CPU only, so no tensor can lie on a device: build it with --backends cpu,vulkan"};
}

inline Result<Tensor> Tensor::empty_on(const std::string& device, [[maybe_unused]] pen_dtype dtype, [[maybe_unused]] const Shape& shape) {
#if PENLIGHT_HAS_BUFFERS
  if (has_buffers()) {
    pen_error error;
    pen_buffer* made = nullptr;
    if (pen_buffer_create(device.c_str(), dtype, int32_t(shape.size()), shape.data(), &made, &error) != PEN_OK) return Error(error);
    Tensor tensor;
    tensor.dtype_ = dtype;
    tensor.shape_ = shape;
    tensor.buffer_ = std::shared_ptr<pen_buffer>(made, [](pen_buffer* b) { pen_buffer_destroy(b); });
    return tensor;
  }
#endif
  pen_error why = {};
  if (device.compare(0, 6, "vulkan") == 0 && !pen_vulkan_available(&why)) return Error(why);
  return no_buffers();
}

inline Result<Tensor> Tensor::to(const std::string& device) const {
  if (device == "cpu") return cpu();
  auto host = cpu();
  if (!host) return host.error();
  Tensor plain = host->contiguous();
  auto made = empty_on(device, dtype_, shape_);
  if (!made) return made;
#if PENLIGHT_HAS_BUFFERS
  pen_error error;
  if (pen_buffer_upload(made->buffer(), plain.data(), plain.bytes(), &error) != PEN_OK) return Error(error);
#endif
  return made;
}

inline Result<Tensor> Tensor::cpu() const {
  if (!buffer_) return *this;
#if PENLIGHT_HAS_BUFFERS
  Tensor made = zeros(shape_, dtype_);
  if (!made.data_) return Error(PEN_ERROR_MEMORY, "no memory for a copy of " + describe() + " on the host");
  pen_error error;
  if (pen_buffer_download(buffer_.get(), made.data_, made.bytes(), &error) != PEN_OK) return Error(error);
  return made;
#else
  return no_buffers();
#endif
}

}  // namespace penlight

#endif  // PENLIGHT_TENSOR_HPP_
