// Runs methods of a model through penlight.hpp: lines "method arguments …" come in, a line with the result goes out, or "E words". Values
// are words between blanks, as tests/cpp/words.py writes and reads them.
#include "penlight.hpp"

#include <iostream>
#include <sstream>

using penlight::Tensor;
using penlight::Value;

static std::string from_hex(const std::string& text) {
  std::string made;
  for (size_t i = 0; i + 1 < text.size(); i += 2) made += char(strtol(text.substr(i, 2).c_str(), nullptr, 16));
  return made;
}

static std::string to_hex(const void* data, size_t size) {
  std::string made = size ? "" : "-";
  char two[3];
  for (size_t i = 0; i < size; ++i) {
    snprintf(two, sizeof two, "%02x", static_cast<const unsigned char*>(data)[i]);
    made += two;
  }
  return made;
}

template <class T>
static T word(std::istream& in) {
  T made{};
  in >> made;
  return made;
}

static Value read(std::istream& in);

static std::vector<Value> several(std::istream& in) {
  std::vector<Value> made(word<size_t>(in));
  for (Value& value : made) value = read(in);
  return made;
}

static Value read(std::istream& in) {
  switch (word<char>(in)) {
    case 'B':
      return word<int>(in) != 0;
    case 'I':
      return word<int64_t>(in);
    case 'F':
      return strtod(word<std::string>(in).c_str(), nullptr);
    case 'S':
      return from_hex(word<std::string>(in));
    case 'T': {
      auto dtype = pen_dtype(word<int>(in));
      penlight::Shape shape(word<size_t>(in));
      for (int64_t& d : shape) in >> d;
      Tensor made = Tensor::zeros(shape, dtype);
      std::string bytes = from_hex(word<std::string>(in));
      if (bytes.size() != made.bytes()) abort();
      memcpy(made.data(), bytes.data(), bytes.size());
      return made;
    }
    case 'L':
      return Value::list(several(in));
    case 'U':
      return Value::tuple(several(in));
    case 'P': {
      std::string type = word<std::string>(in);
      std::vector<Value> items = several(in);
      std::vector<std::string> fields(items.size());
      for (std::string& field : fields) in >> field;
      return Value::named_tuple(type, fields, items);
    }
    case 'D': {
      std::vector<std::pair<Value, Value>> entries(word<size_t>(in));
      for (auto& entry : entries) {
        entry.first = read(in);
        entry.second = read(in);
      }
      return Value::dict(entries);
    }
    default:
      return Value();
  }
}

static void write(const Value& value) {
  auto several = [&] {
    std::cout << value.items().size() << ' ';
    for (const Value& item : value.items()) write(item);
  };
  switch (value.kind()) {
    case PEN_KIND_NONE:
      std::cout << "N ";
      break;
    case PEN_KIND_BOOL:
      std::cout << "B " << *value.boolean() << ' ';
      break;
    case PEN_KIND_INT:
      std::cout << "I " << *value.integer() << ' ';
      break;
    case PEN_KIND_FLOAT:
      std::cout << "F " << std::hexfloat << *value.number() << ' ';
      break;
    case PEN_KIND_STRING:
      std::cout << "S " << to_hex(value.string()->data(), value.string()->size()) << ' ';
      break;
    case PEN_KIND_TENSOR: {
      auto host = value.tensor()->cpu();
      std::cout << "T " << int(host->dtype()) << ' ' << host->shape().size() << ' ';
      for (int64_t d : host->shape()) std::cout << d << ' ';
      std::cout << to_hex(host->contiguous().data(), host->bytes()) << ' ';
      break;
    }
    case PEN_KIND_DICT:
      std::cout << "D " << value.items().size() << ' ';
      for (size_t i = 0; i < value.items().size(); ++i) write(value.keys()[i]), write(value.items()[i]);
      break;
    default:
      if (value.kind() == PEN_KIND_LIST || value.type().empty()) {
        std::cout << (value.kind() == PEN_KIND_LIST ? "L " : "U ");
        several();
      } else {
        std::cout << "P " << value.type() << ' ';
        several();
        for (const std::string& field : value.fields()) std::cout << field << ' ';
      }
  }
}

int main(int argc, char** argv) {
  auto model = penlight::Model::open(argv[1]);
  if (!model) {
    std::cout << "E " << model.error().message << '\n';
    return 0;
  }
  penlight::Options options;
  if (argc > 2) options.device = argv[2];
  auto module = penlight::Module::create(*model, options);
  if (!module) {
    std::cout << "E " << module.error().message << '\n';
    return 0;
  }
  module->keep_results_on_device(argc > 3);
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string method = word<std::string>(words);
    std::vector<Value> arguments = several(words);
    if (argc > 3)
      for (Value& argument : arguments)
        if (argument.tensor()) argument = *argument.tensor()->to(options.device);
    auto result = module->run(method, arguments);
    if (result)
      write(*result);
    else
      std::cout << "E " << result.error().message;
    std::cout << '\n';
  }
}
