// The caller's containers and a planned method's flat tensors: arguments are flattened, and results put together, by the method's specs
// (penlight_spec.hpp). What differs from what was captured is said in words, as the Python package says it.
#ifndef PENLIGHT_CONTAINERS_HPP_
#define PENLIGHT_CONTAINERS_HPP_

#include <string>
#include <vector>

#include "penlight/value.hpp"
#include "penlight_spec.hpp"

namespace penlight {

class Containers {
 public:
  static Result<Containers> read(const Model& model, const std::string& method) {
    Containers made;
    const char* name = method.c_str();
    for (bool inputs : {true, false}) {
      Spec& spec = inputs ? made.inputs_ : made.outputs_;
      const char* json = inputs ? pen_model_input_spec(model.get(), name) : pen_model_output_spec(model.get(), name);
      int32_t count = inputs ? pen_model_input_count(model.get(), name) : pen_model_output_count(model.get(), name);
      if (!(inputs ? spec.read_inputs(json, count) : spec.read_outputs(json, count)))
        return Error(PEN_ERROR_FORMAT, "method " + method + ": " + spec.error());
      if (inputs) made.input_count_ = size_t(count);
    }
    return made;
  }

  // The flat tensors of positional arguments.
  Result<std::vector<Tensor>> flatten(const std::vector<Value>& arguments) const {
    Leaves leaves{std::vector<Tensor>(input_count_), {}};
    std::vector<bool> given(inputs_.count());
    for (uint32_t i = 0; i < arguments.size(); ++i) {
      uint32_t part = inputs_.argument(i);
      if (part == 0) return input("takes " + words(0) + "; got " + std::to_string(arguments.size()) + " arguments");
      given[part] = true;
      if (!flatten(part, arguments[i], name(part, i), leaves)) return input(leaves.problem);
    }
    uint32_t part = 1;
    for (uint32_t i = 0; i < inputs_[0].count; ++i, part = inputs_[part].end)
      if (!given[part] && (i < inputs_.positional() || inputs_.needed(part)))
        return input("argument '" + name(part, i) + "' is missing; takes " + words(0));
    return std::move(leaves.tensors);
  }

  // What the method gives, of its flat outputs; the shapes of inputs are needed for results that are sizes.
  Result<Value> unflatten(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs) const {
    std::string problem;
    Value made = unflatten(0, outputs, inputs, problem);
    if (!problem.empty()) return Error(PEN_ERROR_SHAPE, problem);
    return made;
  }

 private:
  struct Leaves {
    std::vector<Tensor> tensors;
    std::string problem;
  };
  static Error input(const std::string& words) { return Error(PEN_ERROR_INPUT, words); }
  std::string words(uint32_t part) const {
    char text[256];
    inputs_.describe(part, text, sizeof text);
    return text;
  }
  std::string name(uint32_t part, uint32_t position) const {
    const SpecNode& node = inputs_[part];
    return node.key_kind == SpecKind::kString ? std::string(node.key, node.key_bytes) : "args[" + std::to_string(position) + "]";
  }
  static std::string key_words(const SpecNode& node) {
    return node.key_kind == SpecKind::kString ? std::string(node.key, node.key_bytes) : std::to_string(node.key_integer);
  }

  bool flatten(uint32_t part, const Value& value, const std::string& where, Leaves& leaves) const {
    const SpecNode& node = inputs_[part];
    auto must_be = [&](const std::string& what) {
      leaves.problem = "argument '" + where + "' must be " + what + ", got " + value.describe();
      return false;
    };
    switch (node.kind) {
      case SpecKind::kTensor:
        if (!value.tensor()) return must_be("a tensor");
        leaves.tensors[size_t(node.tensor)] = *value.tensor();
        return true;
      case SpecKind::kComplex: {
        const Value *real = value.find("real"), *imag = value.find("imag");
        if (!real || !imag || !real->tensor() || !imag->tensor()) return must_be("a tuple named complex of the tensors real and imag");
        leaves.tensors[size_t(node.tensor)] = *real->tensor();
        leaves.tensors[size_t(node.imaginary)] = *imag->tensor();
        return true;
      }
      case SpecKind::kTuple:
      case SpecKind::kList:
        if ((value.kind() != PEN_KIND_LIST && value.kind() != PEN_KIND_TUPLE) || value.items().size() != node.count)
          return must_be(std::string(node.kind == SpecKind::kList ? "a list" : "a tuple") + " of " + std::to_string(node.count));
        break;
      case SpecKind::kDict:
      case SpecKind::kOrderedDict:
        if (value.kind() != PEN_KIND_DICT || value.items().size() != node.count) return must_be("a " + words(part));
        break;
      case SpecKind::kNamedTuple:
        if (value.items().size() != node.count) return must_be("a " + words(part));
        break;
      default:
        if (is_constant(node, value)) return true;
        leaves.problem =
            "argument '" + where + "' was " + words(part) + " when the model was captured and is fixed to that, got " + value.describe();
        return false;
    }
    uint32_t child = part + 1;
    bool by_order = value.kind() == PEN_KIND_LIST || (value.kind() == PEN_KIND_TUPLE && value.fields().empty());
    for (uint32_t i = 0; i < node.count; ++i, child = inputs_[child].end) {
      const SpecNode& field = inputs_[child];
      const Value* item = by_order ? &value.items()[i] : find(value, field);
      if (!item) return must_be("a " + words(part));
      if (!flatten(child, *item, by_order ? where + "[" + std::to_string(i) + "]" : where + "." + key_words(field), leaves)) return false;
    }
    return true;
  }
  static const Value* find(const Value& value, const SpecNode& field) {
    if (field.key_kind == SpecKind::kString) return value.find(std::string_view(field.key, field.key_bytes));
    if (field.key_kind == SpecKind::kInt) return value.find(field.key_integer);
    for (size_t i = 0; i < value.keys().size(); ++i)
      if (value.keys()[i].boolean() == (field.key_integer != 0)) return &value.items()[i];
    return nullptr;
  }
  static bool is_constant(const SpecNode& node, const Value& value) {
    switch (node.kind) {
      case SpecKind::kNone:
        return value.is_none();
      case SpecKind::kBool:
        return value.boolean() == (node.integer != 0);
      case SpecKind::kInt:
        return value.integer() == node.integer;
      case SpecKind::kFloat:
        return value.number() == node.number || (value.number() && *value.number() != *value.number() && node.number != node.number);
      default:  // a string, or a constant that is known by its text
        return value.string() && *value.string() == std::string_view(node.text, node.text_bytes);
    }
  }

  Value unflatten(uint32_t part, const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs, std::string& problem) const {
    const SpecNode& node = outputs_[part];
    switch (node.kind) {
      case SpecKind::kTensor:
        return outputs[size_t(node.tensor)];
      case SpecKind::kComplex:
        return Value::named_tuple("complex", {"real", "imag"}, {outputs[size_t(node.tensor)], outputs[size_t(node.imaginary)]});
      case SpecKind::kNone:
        return Value();
      case SpecKind::kBool:
        return node.integer != 0;
      case SpecKind::kInt:
        return node.integer;
      case SpecKind::kFloat:
        return node.number;
      case SpecKind::kString:
      case SpecKind::kOpaque:
        return std::string(node.text, node.text_bytes);
      case SpecKind::kDim: {
        std::vector<pen_tensor> views;
        for (const Tensor& t : inputs) views.push_back(t.view());
        int64_t value;
        if (const char* wrong = outputs_.dim(node, views.data(), int32_t(views.size()), &value)) problem = wrong;
        return value;
      }
      case SpecKind::kItem:
        return item(outputs[size_t(node.tensor)], problem);
      default:
        break;
    }
    std::vector<Value> items;
    std::vector<std::string> fields;
    std::vector<std::pair<Value, Value>> entries;
    uint32_t child = part + 1;
    for (uint32_t i = 0; i < node.count; ++i, child = outputs_[child].end) {
      const SpecNode& field = outputs_[child];
      Value made = unflatten(child, outputs, inputs, problem);
      if (node.kind == SpecKind::kDict || node.kind == SpecKind::kOrderedDict) {
        entries.emplace_back(field.key_kind == SpecKind::kString ? Value(std::string(field.key, field.key_bytes))
                             : field.key_kind == SpecKind::kBool ? Value(field.key_integer != 0)
                                                                 : Value(field.key_integer),
                             std::move(made));
        continue;
      }
      items.push_back(std::move(made));
      if (node.kind == SpecKind::kNamedTuple) fields.emplace_back(field.key, field.key_bytes);
    }
    if (node.kind == SpecKind::kList) return Value::list(std::move(items));
    if (node.kind == SpecKind::kTuple) return Value::tuple(std::move(items));
    if (node.kind == SpecKind::kNamedTuple)
      return Value::named_tuple(std::string(node.text, node.text_bytes), std::move(fields), std::move(items));
    return Value::dict(std::move(entries));
  }
  static Value item(const Tensor& given, std::string& problem) {
    auto host = given.cpu();
    if (!host || host->numel() != 1) {
      problem = host ? "a result that is a number: expected one element, got " + given.describe() : host.error().message;
      return Value();
    }
    const Tensor& tensor = *host;
    switch (tensor.dtype()) {
      case PEN_F32:
        return double(*tensor.data<float>());
      case PEN_F64:
        return *tensor.data<double>();
      case PEN_I8:
        return int64_t(*tensor.data<int8_t>());
      case PEN_U8:
        return int64_t(*tensor.data<uint8_t>());
      case PEN_I16:
        return int64_t(*tensor.data<int16_t>());
      case PEN_I32:
        return int64_t(*tensor.data<int32_t>());
      case PEN_I64:
        return *tensor.data<int64_t>();
      case PEN_BOOL:
        return *tensor.data<bool>();
      default:
        problem = std::string("a result that is a number: it is of dtype ") + dtype_name(tensor.dtype()) +
                  ", which C++ has not; give the tensor back";
        return Value();
    }
  }

  Spec inputs_, outputs_;
  size_t input_count_ = 0;
};

}  // namespace penlight

#endif  // PENLIGHT_CONTAINERS_HPP_
