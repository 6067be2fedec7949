// What methods take and give: None, a bool, an int, a float, a string, a tensor, or a list, tuple, dict or object of values. A complex
// tensor is a tuple named "complex" with the fields real and imag.
#ifndef PENLIGHT_VALUE_HPP_
#define PENLIGHT_VALUE_HPP_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penlight/tensor.hpp"

namespace penlight {

class Value {
 public:
  Value() = default;
  Value(bool value) : kind_(PEN_KIND_BOOL), integer_(value) {}
  Value(int value) : Value(int64_t(value)) {}
  Value(int64_t value) : kind_(PEN_KIND_INT), integer_(value) {}
  Value(double value) : kind_(PEN_KIND_FLOAT), number_(value) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(std::string text) : kind_(PEN_KIND_STRING), text_(std::move(text)) {}
  Value(Tensor tensor) : kind_(PEN_KIND_TENSOR), tensor_(std::move(tensor)) {}
  static Value list(std::vector<Value> items) { return Value(PEN_KIND_LIST, std::move(items)); }
  static Value tuple(std::vector<Value> items) { return Value(PEN_KIND_TUPLE, std::move(items)); }
  static Value named_tuple(std::string type, std::vector<std::string> fields, std::vector<Value> items) {
    Value made(PEN_KIND_TUPLE, std::move(items));
    made.text_ = std::move(type);
    made.fields_ = std::move(fields);
    return made;
  }
  static Value object(std::string type, std::vector<std::string> fields, std::vector<Value> items) {
    Value made = named_tuple(std::move(type), std::move(fields), std::move(items));
    made.kind_ = PEN_KIND_OBJECT;
    return made;
  }
  // Keys are strings, ints, floats and bools, in this order.
  static Value dict(std::vector<std::pair<Value, Value>> entries) {
    Value made(PEN_KIND_DICT, {});
    for (auto& [key, value] : entries) {
      made.keys_.push_back(std::move(key));
      made.items_.push_back(std::move(value));
    }
    return made;
  }

  pen_kind kind() const { return kind_; }
  bool is_none() const { return kind_ == PEN_KIND_NONE; }
  // Each is empty where the value is of another kind.
  std::optional<bool> boolean() const { return kind_ == PEN_KIND_BOOL ? std::optional<bool>(integer_ != 0) : std::nullopt; }
  std::optional<int64_t> integer() const { return kind_ == PEN_KIND_INT ? std::optional<int64_t>(integer_) : std::nullopt; }
  std::optional<double> number() const { return kind_ == PEN_KIND_FLOAT ? std::optional<double>(number_) : std::nullopt; }
  const std::string* string() const { return kind_ == PEN_KIND_STRING ? &text_ : nullptr; }
  const Tensor* tensor() const { return kind_ == PEN_KIND_TENSOR ? &tensor_ : nullptr; }
  const std::vector<Value>& items() const { return items_; }          // of a list, tuple or object; a dict's values
  const std::vector<Value>& keys() const { return keys_; }            // of a dict
  const std::vector<std::string>& fields() const { return fields_; }  // of an object or named tuple
  const std::string& type() const { return kind_ == PEN_KIND_STRING ? empty() : text_; }
  // A dict's value, or the part of an object or named tuple, by its name; nullptr where there is none.
  const Value* find(std::string_view name) const {
    for (size_t i = 0; i < fields_.size() && i < items_.size(); ++i)
      if (fields_[i] == name) return &items_[i];
    for (size_t i = 0; i < keys_.size(); ++i)
      if (keys_[i].kind_ == PEN_KIND_STRING && keys_[i].text_ == name) return &items_[i];
    return nullptr;
  }
  const Value* find(int64_t key) const {
    for (size_t i = 0; i < keys_.size(); ++i)
      if (keys_[i].kind_ == PEN_KIND_INT && keys_[i].integer_ == key) return &items_[i];
    return nullptr;
  }
  // In words, for messages: "a list of 3", "tensor f32 (1, 3)".
  std::string describe() const {
    auto parts = [this](const char* what) { return std::string(what) + " of " + std::to_string(items_.size()); };
    switch (kind_) {
      case PEN_KIND_NONE:
        return "None";
      case PEN_KIND_BOOL:
        return integer_ ? "bool True" : "bool False";
      case PEN_KIND_INT:
        return "int " + std::to_string(integer_);
      case PEN_KIND_FLOAT:
        return "float " + std::to_string(number_);
      case PEN_KIND_STRING:
        return "str '" + text_ + "'";
      case PEN_KIND_TENSOR:
        return "tensor " + tensor_.describe();
      case PEN_KIND_LIST:
        return parts("a list");
      case PEN_KIND_TUPLE:
        return parts("a tuple");
      case PEN_KIND_DICT:
        return parts("a dict");
      default:
        return "an object of class " + text_;
    }
  }

 private:
  Value(pen_kind kind, std::vector<Value> items) : kind_(kind), items_(std::move(items)) {}
  static const std::string& empty() {
    static const std::string none;
    return none;
  }

  pen_kind kind_ = PEN_KIND_NONE;
  int64_t integer_ = 0;
  double number_ = 0;
  std::string text_;  // of a string; the class of an object or named tuple
  Tensor tensor_;
  std::vector<Value> items_, keys_;
  std::vector<std::string> fields_;
};

}  // namespace penlight

#endif  // PENLIGHT_VALUE_HPP_
