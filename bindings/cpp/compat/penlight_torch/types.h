// PyTorch's small types, as mobile apps name them: errors, dtypes, devices, options, lists of sizes, and guards, which have nothing to
// guard here (Penlight has no autograd).
#ifndef PENLIGHT_TORCH_TYPES_H_
#define PENLIGHT_TORCH_TYPES_H_

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <exception>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penlight.hpp"

namespace c10 {

// What goes wrong is thrown as in PyTorch. A program without exceptions ends, with the words on stderr.
class Error : public std::exception {
 public:
  explicit Error(std::string words) : words_(std::move(words)) {}
  const char* what() const noexcept override { return words_.c_str(); }
  const char* what_without_backtrace() const noexcept { return words_.c_str(); }
  const std::string& msg() const { return words_; }

 private:
  std::string words_;
};

[[noreturn]] inline void raise(const std::string& words) {
#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
  throw Error(words);
#else
  fprintf(stderr, "%s\n", words.c_str());
  abort();
#endif
}
template <class T>
T take(penlight::Result<T> result) {
  if (!result) raise(result.error().message);
  return *std::move(result);
}

enum class ScalarType : int8_t {
  Byte = 0,
  Char = 1,
  Short = 2,
  Int = 3,
  Long = 4,
  Half = 5,
  Float = 6,
  Double = 7,
  Bool = 11,
  BFloat16 = 15
};
constexpr ScalarType kByte = ScalarType::Byte, kUInt8 = kByte, kChar = ScalarType::Char, kInt8 = kChar, kShort = ScalarType::Short,
                     kInt16 = kShort, kInt = ScalarType::Int, kInt32 = kInt, kLong = ScalarType::Long, kInt64 = kLong,
                     kHalf = ScalarType::Half, kFloat16 = kHalf, kFloat = ScalarType::Float, kFloat32 = kFloat,
                     kDouble = ScalarType::Double, kFloat64 = kDouble, kBool = ScalarType::Bool, kBFloat16 = ScalarType::BFloat16;

struct DTypeRow {
  ScalarType torch;
  pen_dtype penlight;
  const char* name;
};
constexpr DTypeRow kDTypes[] = {{kFloat, PEN_F32, "Float"},       {kHalf, PEN_F16, "Half"}, {kDouble, PEN_F64, "Double"},
                                {kChar, PEN_I8, "Char"},          {kByte, PEN_U8, "Byte"},  {kShort, PEN_I16, "Short"},
                                {kInt, PEN_I32, "Int"},           {kLong, PEN_I64, "Long"}, {kBool, PEN_BOOL, "Bool"},
                                {kBFloat16, PEN_BF16, "BFloat16"}};
inline const DTypeRow& row_of(pen_dtype dtype) { return kDTypes[dtype]; }  // in the order of pen_dtype
inline const DTypeRow& row_of(ScalarType type) {
  for (const DTypeRow& row : kDTypes)
    if (row.torch == type) return row;
  raise("a dtype that Penlight has not: number " + std::to_string(int(type)));
}
inline const char* toString(ScalarType type) { return row_of(type).name; }

enum class DeviceType : int8_t { CPU = 0, Vulkan = 10, Metal = 11 };
constexpr DeviceType kCPU = DeviceType::CPU, kVulkan = DeviceType::Vulkan, kMetal = DeviceType::Metal;

struct Device {
  Device(DeviceType type = kCPU) : type_(type) {}
  DeviceType type() const { return type_; }
  bool is_cpu() const { return type_ == kCPU; }
  bool is_vulkan() const { return type_ == kVulkan; }
  bool is_metal() const { return type_ == kMetal; }
  std::string str() const { return is_cpu() ? "cpu" : is_vulkan() ? "vulkan" : "metal"; }
  bool operator==(const Device& other) const { return type_ == other.type_; }
  bool operator!=(const Device& other) const { return type_ != other.type_; }

 private:
  DeviceType type_;
};

// Of `.metal()`: Penlight has no Metal backend yet. An app that is to run all the same, on the CPU, says so when it is compiled.
inline void answer_for_metal() {
#if !defined(PENLIGHT_METAL_RUNS_ON_CPU)
  raise(
      "Metal: this version of Penlight has no Metal backend. Leave .metal() out, or compile with -DPENLIGHT_METAL_RUNS_ON_CPU, and the "
      "same code runs on the CPU; the numbers are f32 then, where PyTorch's Metal had f16");
#endif
}

struct TensorOptions {
  TensorOptions() = default;
  TensorOptions(ScalarType dtype) : dtype_(dtype) {}
  TensorOptions(Device device) : device_(device) {}
  TensorOptions(DeviceType device) : device_(device) {}
  TensorOptions dtype(ScalarType type) const {
    TensorOptions made = *this;
    made.dtype_ = type;
    return made;
  }
  TensorOptions device(Device device) const {
    TensorOptions made = *this;
    made.device_ = device;
    return made;
  }
  TensorOptions requires_grad(bool wanted) const {
    if (wanted) raise("requires_grad: Penlight runs models and does not train them");
    return *this;
  }
  ScalarType dtype() const { return dtype_; }
  Device device() const { return device_; }

 private:
  ScalarType dtype_ = kFloat;
  Device device_;
};

enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

// Elements that somebody else owns.
template <class T>
class ArrayRef {
 public:
  ArrayRef() = default;
  ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  ArrayRef(const T& one) : data_(&one), size_(1) {}
  ArrayRef(const std::vector<T>& all) : data_(all.data()), size_(all.size()) {}
  template <size_t N>
  ArrayRef(const T (&all)[N]) : data_(all), size_(N) {}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"  // as in PyTorch: it lives as long as the call that it is written in
#endif
  ArrayRef(std::initializer_list<T> all) : data_(all.begin()), size_(all.size()) {}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T& operator[](size_t index) const { return data_[index]; }
  const T& at(size_t index) const {
    if (index >= size_) raise("index " + std::to_string(index) + " of " + std::to_string(size_) + " elements");
    return data_[index];
  }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};
using IntArrayRef = ArrayRef<int64_t>;

// Guards: what they switch off is never on.
struct NothingToGuard {
  explicit NothingToGuard(bool = true) {}
  ~NothingToGuard() {}  // so that a guard is no unused variable
};
using InferenceMode = NothingToGuard;

}  // namespace c10

#endif  // PENLIGHT_TORCH_TYPES_H_
