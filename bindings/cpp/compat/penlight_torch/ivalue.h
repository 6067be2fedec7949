// c10::IValue over penlight::Value: what forward takes and gives, with PyTorch's names for asking what it is.
#ifndef PENLIGHT_TORCH_IVALUE_H_
#define PENLIGHT_TORCH_IVALUE_H_

#include <memory>
#include <tuple>
#include <type_traits>

#include "penlight_torch/tensor.h"

namespace c10 {

class IValue;
template <class T>
class List;
template <class K, class V>
class Dict;
namespace ivalue {
struct Tuple;
}

class IValue {
 public:
  IValue() = default;
  IValue(at::Tensor tensor) : value_(tensor.defined() ? penlight::Value(tensor.penlight_tensor()) : penlight::Value()) {}
  IValue(bool value) : value_(value) {}
  IValue(int32_t value) : value_(value) {}
  IValue(int64_t value) : value_(value) {}
  IValue(double value) : value_(value) {}
  IValue(const char* text) : value_(text) {}
  IValue(std::string text) : value_(std::move(text)) {}
  explicit IValue(penlight::Value value) : value_(std::move(value)) {}
  template <class T>
  IValue(const std::vector<T>& items) : value_(penlight::Value::list(unwrapped(items))) {}
  template <class T>
  IValue(const List<T>& items);
  template <class K, class V>
  IValue(const Dict<K, V>& entries);
  template <class... T>
  IValue(const std::tuple<T...>& items)
      : value_(std::apply([](const T&... item) { return penlight::Value::tuple({IValue(item).value_...}); }, items)) {}
  IValue(const std::shared_ptr<ivalue::Tuple>& tuple);
  const penlight::Value& penlight_value() const { return value_; }

  bool isNone() const { return value_.is_none(); }
  bool isTensor() const { return value_.kind() == PEN_KIND_TENSOR; }
  bool isBool() const { return value_.kind() == PEN_KIND_BOOL; }
  bool isInt() const { return value_.kind() == PEN_KIND_INT; }
  bool isDouble() const { return value_.kind() == PEN_KIND_FLOAT; }
  bool isString() const { return value_.kind() == PEN_KIND_STRING; }
  bool isList() const { return value_.kind() == PEN_KIND_LIST; }
  bool isTuple() const { return value_.kind() == PEN_KIND_TUPLE; }
  bool isGenericDict() const { return value_.kind() == PEN_KIND_DICT; }
  bool isObject() const { return value_.kind() == PEN_KIND_OBJECT; }
  bool isTensorList() const { return isListOf(PEN_KIND_TENSOR); }
  bool isIntList() const { return isListOf(PEN_KIND_INT); }
  bool isDoubleList() const { return isListOf(PEN_KIND_FLOAT); }
  bool isBoolList() const { return isListOf(PEN_KIND_BOOL); }
  std::string tagKind() const {
    constexpr const char* names[] = {"None", "Bool", "Int", "Double", "String", "Tensor", "GenericList", "Tuple", "GenericDict", "Object"};
    return names[value_.kind()];
  }

  at::Tensor toTensor() const { return at::Tensor(*need(isTensor(), "Tensor").tensor()); }
  bool toBool() const { return *need(isBool(), "Bool").boolean(); }
  int64_t toInt() const { return *need(isInt(), "Int").integer(); }
  double toDouble() const { return *need(isDouble(), "Double").number(); }
  const std::string& toStringRef() const { return *need(isString(), "String").string(); }
  List<IValue> toList() const;
  std::vector<IValue> toListRef() const { return wrapped(need(isList(), "GenericList").items()); }
  List<at::Tensor> toTensorList() const;
  std::vector<at::Tensor> toTensorVector() const;
  std::vector<int64_t> toIntVector() const { return vector_of<int64_t>(&IValue::toInt, isIntList(), "IntList"); }
  std::vector<double> toDoubleVector() const { return vector_of<double>(&IValue::toDouble, isDoubleList(), "DoubleList"); }
  std::shared_ptr<ivalue::Tuple> toTuple() const;
  Dict<IValue, IValue> toGenericDict() const;

  template <class T>
  T to() const;

 private:
  const penlight::Value& need(bool is, const char* name) const {
    if (!is) raise(std::string("Expected ") + name + " but got " + tagKind());
    return value_;
  }
  bool isListOf(pen_kind kind) const {
    if (!isList()) return false;
    for (const auto& item : value_.items())
      if (item.kind() != kind) return false;
    return true;
  }
  template <class T>
  std::vector<T> vector_of(T (IValue::*of)() const, bool is, const char* name) const {
    std::vector<T> made;
    for (const auto& item : need(is, name).items()) made.push_back((IValue(item).*of)());
    return made;
  }
  static std::vector<IValue> wrapped(const std::vector<penlight::Value>& items) {
    std::vector<IValue> made;
    for (const auto& item : items) made.emplace_back(item);
    return made;
  }
  template <class T>
  static std::vector<penlight::Value> unwrapped(const std::vector<T>& items) {
    std::vector<penlight::Value> made;
    for (const T& item : items) made.push_back(IValue(item).value_);
    return made;
  }

  penlight::Value value_;
};

template <class T>
class List {
 public:
  List() = default;
  List(std::initializer_list<T> items) : items_(items) {}
  explicit List(std::vector<T> items) : items_(std::move(items)) {}
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  T get(size_t index) const { return ArrayRef<T>(items_).at(index); }
  T operator[](size_t index) const { return get(index); }
  void push_back(T item) { items_.push_back(std::move(item)); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  const std::vector<T>& vec() const { return items_; }

 private:
  std::vector<T> items_;
};

template <class K, class V>
class Dict {
 public:
  struct Entry {
    const K& key() const { return key_; }
    const V& value() const { return value_; }
    K key_;
    V value_;
  };
  void insert(K key, V value) {
    if (!contains(key)) entries_.push_back({std::move(key), std::move(value)});
  }
  void insert_or_assign(K key, V value) {
    for (Entry& e : entries_)
      if (same(e.key_, key)) {
        e.value_ = std::move(value);
        return;
      }
    entries_.push_back({std::move(key), std::move(value)});
  }
  bool contains(const K& key) const { return find(key) != end(); }
  const V& at(const K& key) const {
    auto found = find(key);
    if (found == end()) raise("Argument passed to at() was not in the map.");
    return found->value_;
  }
  auto find(const K& key) const {
    auto at = entries_.begin();
    while (at != entries_.end() && !same(at->key_, key)) ++at;
    return at;
  }
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  template <class T>
  static bool same(const T& a, const T& b) {
    if constexpr (std::is_same_v<T, IValue>) {
      const penlight::Value &x = a.penlight_value(), &y = b.penlight_value();
      if (x.kind() != y.kind()) return false;
      return x.string() ? *x.string() == *y.string() : x.number() == y.number() && x.integer() == y.integer() && x.boolean() == y.boolean();
    } else {
      return a == b;
    }
  }
  std::vector<Entry> entries_;
};

namespace ivalue {
struct Tuple {
  static std::shared_ptr<Tuple> create(std::vector<IValue> items) { return std::make_shared<Tuple>(Tuple{std::move(items)}); }
  const std::vector<IValue>& elements() const { return items; }
  size_t size() const { return items.size(); }
  std::vector<IValue> items;
};
}  // namespace ivalue

namespace impl {
using GenericList = List<IValue>;
using GenericDict = Dict<IValue, IValue>;
}  // namespace impl

template <class T>
IValue::IValue(const List<T>& items) : IValue(items.vec()) {}
template <class K, class V>
IValue::IValue(const Dict<K, V>& entries) {
  std::vector<std::pair<penlight::Value, penlight::Value>> made;
  for (const auto& entry : entries) made.emplace_back(IValue(entry.key()).value_, IValue(entry.value()).value_);
  value_ = penlight::Value::dict(std::move(made));
}
inline IValue::IValue(const std::shared_ptr<ivalue::Tuple>& tuple) : value_(penlight::Value::tuple(unwrapped(tuple->items))) {}
inline List<IValue> IValue::toList() const { return List<IValue>(toListRef()); }
inline std::vector<at::Tensor> IValue::toTensorVector() const {
  return vector_of<at::Tensor>(&IValue::toTensor, isTensorList(), "TensorList");
}
inline List<at::Tensor> IValue::toTensorList() const { return List<at::Tensor>(toTensorVector()); }
inline std::shared_ptr<ivalue::Tuple> IValue::toTuple() const { return ivalue::Tuple::create(wrapped(need(isTuple(), "Tuple").items())); }
inline Dict<IValue, IValue> IValue::toGenericDict() const {
  Dict<IValue, IValue> made;
  const penlight::Value& value = need(isGenericDict(), "GenericDict");
  for (size_t i = 0; i < value.items().size(); ++i) made.insert(IValue(value.keys()[i]), IValue(value.items()[i]));
  return made;
}
template <>
inline at::Tensor IValue::to<at::Tensor>() const {
  return toTensor();
}
template <>
inline double IValue::to<double>() const {
  return toDouble();
}
template <>
inline int64_t IValue::to<int64_t>() const {
  return toInt();
}
template <>
inline bool IValue::to<bool>() const {
  return toBool();
}
template <>
inline std::string IValue::to<std::string>() const {
  return toStringRef();
}

}  // namespace c10

#endif  // PENLIGHT_TORCH_IVALUE_H_
