// Values on their way to the VM and back. Tensors go in as they lie, so that in-place operators write the caller's memory, as in torch;
// results are copied once, since the VM's own values belong to one thread and a Tensor goes where it likes.
#ifndef PENLIGHT_VM_VALUES_HPP_
#define PENLIGHT_VM_VALUES_HPP_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penlight/library.hpp"
#include "penlight/value.hpp"

#if PENLIGHT_HAS_VM
namespace penlight {

struct ReleaseVm {
  void operator()(pen_value* value) const { pen_value_release(value); }
};
using VmValue = std::unique_ptr<pen_value, ReleaseVm>;

inline Result<VmValue> to_vm(const Tensor& tensor) {
  auto host = tensor.cpu();  // VM code is the CPU's
  if (!host) return host.error();
  pen_tensor view = host->view();
  auto* owner = new std::shared_ptr<void>(host->owner());
  VmValue made(pen_value_tensor(&view, [](void* o) { delete static_cast<std::shared_ptr<void>*>(o); }, owner));
  if (!made) {
    delete owner;
    return Error(PEN_ERROR_INPUT, "the VM cannot take tensor " + tensor.describe());
  }
  if (const auto& q = tensor.quantization()) {
    pen_quantization given = {q->axis, q->scales.size(), q->scales.data(), q->zero_points.data()};
    if (q->scales.size() != q->zero_points.size() || pen_value_quantize(made.get(), &given) != PEN_OK)
      return Error(PEN_ERROR_INPUT, "scales and zero points that do not fit tensor " + tensor.describe());
  }
  return made;
}

inline Result<VmValue> to_vm(const Value& value, int depth = 0) {
  if (const Tensor* tensor = value.tensor()) return to_vm(*tensor);
  if (depth > 200) return Error(PEN_ERROR_INPUT, "an argument: expected at most 200 levels, got more");
  std::vector<VmValue> parts;
  std::vector<pen_value*> items, keys;
  for (bool is_key : {false, true})
    for (const Value& part : is_key ? value.keys() : value.items()) {
      auto made = to_vm(part, depth + 1);
      if (!made) return made;
      parts.push_back(*std::move(made));
      (is_key ? keys : items).push_back(parts.back().get());
    }
  VmValue made;
  switch (value.kind()) {
    case PEN_KIND_NONE:
      made.reset(pen_value_none());
      break;
    case PEN_KIND_BOOL:
      made.reset(pen_value_bool(*value.boolean()));
      break;
    case PEN_KIND_INT:
      made.reset(pen_value_int(*value.integer()));
      break;
    case PEN_KIND_FLOAT:
      made.reset(pen_value_float(*value.number()));
      break;
    case PEN_KIND_STRING:
      made.reset(pen_value_string(value.string()->data(), value.string()->size()));
      break;
    case PEN_KIND_LIST:
      made.reset(pen_value_list(items.data(), items.size()));
      break;
    case PEN_KIND_TUPLE:
      made.reset(pen_value_tuple(items.data(), items.size()));
      break;
    case PEN_KIND_DICT:
      made.reset(pen_value_dict(keys.data(), items.data(), items.size()));
      break;
    default:
      return Error(PEN_ERROR_INPUT, "an argument cannot be " + value.describe() + ": pass its parts");
  }
  if (!made) return Error(PEN_ERROR_INPUT, "the VM cannot take " + value.describe());
  return made;
}

// What a result may take: its parts, and bytes of tensors.
struct Allowed {
  int64_t parts;
  uint64_t bytes;
};

// A value may contain itself, and shared parts are written out here: depth and number are bounded, as they are for Python, and copies of
// one tensor count as many.
inline Result<Value> from_vm(VmValue value, int depth, Allowed* left) {
  const pen_value* v = value.get();
  if (!v) return Error(PEN_ERROR_MEMORY, "no memory for a part of a result");
  if (depth > 200 || --left->parts < 0)
    return Error(PEN_ERROR_LIMIT, "a result: expected at most 200 levels and 4194304 parts, got more, or one that contains itself");
  pen_kind kind = pen_kind(pen_value_kind(v));
  size_t size = 0;
  switch (kind) {
    case PEN_KIND_NONE:
      return Value();
    case PEN_KIND_BOOL:
      return Value(pen_value_as_int(v) != 0);
    case PEN_KIND_INT:
      return Value(pen_value_as_int(v));
    case PEN_KIND_FLOAT:
      return Value(pen_value_as_float(v));
    case PEN_KIND_STRING: {
      const char* text = pen_value_text(v, &size);
      return Value(std::string(text, size));
    }
    case PEN_KIND_TENSOR: {
      pen_tensor view;
      if (pen_value_as_tensor(v, &view) != PEN_OK) return Error(PEN_ERROR_MEMORY, "a result's memory cannot be read");
      Shape shape(view.dims, view.dims + view.rank), strides;
      if (view.strides) strides.assign(view.strides, view.strides + view.rank);
      uint64_t bytes = dtype_bytes(pen_dtype(view.dtype));
      for (int64_t d : shape)
        if (__builtin_mul_overflow(bytes, uint64_t(d), &bytes)) bytes = UINT64_MAX;
      if (bytes > left->bytes) return Error(PEN_ERROR_MEMORY, "a result: expected at most as many bytes as memory_limit says, got more");
      left->bytes -= bytes;
      Tensor made = Tensor::zeros(shape, pen_dtype(view.dtype));
      if (!made.data()) return Error(PEN_ERROR_MEMORY, "no memory for a result");
      Tensor::borrow(view.data, pen_dtype(view.dtype), shape, strides).copy_to(made);
      pen_quantization q;
      if (pen_value_quantization(v, &q))
        made.set_quantization(Quantization{q.axis, {q.scales, q.scales + q.count}, {q.zero_points, q.zero_points + q.count}});
      return Value(std::move(made));
    }
    default:
      break;
  }
  std::vector<Value> items, keys;
  std::vector<std::string> fields;
  std::string type = pen_value_type(v);
  for (size_t i = 0, n = pen_value_count(v); i < n; ++i) {
    auto item = from_vm(VmValue(pen_value_item(v, i)), depth + 1, left);
    if (!item) return item;
    items.push_back(*std::move(item));
    if (!type.empty()) fields.push_back(pen_value_field(v, i));
    if (kind != PEN_KIND_DICT) continue;
    auto key = from_vm(VmValue(pen_value_key(v, i)), depth + 1, left);
    if (!key) return key;
    keys.push_back(*std::move(key));
  }
  if (kind == PEN_KIND_LIST) return Value::list(std::move(items));
  if (kind == PEN_KIND_OBJECT) return Value::object(std::move(type), std::move(fields), std::move(items));
  if (kind == PEN_KIND_TUPLE && type.empty()) return Value::tuple(std::move(items));
  if (kind == PEN_KIND_TUPLE) return Value::named_tuple(std::move(type), std::move(fields), std::move(items));
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i < items.size(); ++i) entries.emplace_back(std::move(keys[i]), std::move(items[i]));
  return Value::dict(std::move(entries));
}
inline Result<Value> from_vm(VmValue value, uint64_t memory_limit = 0) {
  Allowed left = {int64_t{1} << 22, memory_limit ? memory_limit : UINT64_MAX};
  return from_vm(std::move(value), 0, &left);
}

}  // namespace penlight
#endif

#endif  // PENLIGHT_VM_VALUES_HPP_
