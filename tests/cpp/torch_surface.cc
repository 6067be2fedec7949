// What apps use of PyTorch's C++ names besides the documents' lines: kinds of IValue, dicts, tuples, methods by name, mistakes. The model's
// forward takes a tensor, a dict of lists, a bool, an int, a float and a string (tests/cpp/test_values.py, Script). Says "all well".
#include <LibTorch-Lite/LibTorch-Lite.h>
#include <LibTorch/LibTorch.h>
#include <ATen/ATen.h>
#include <torch/torch.h>
#include <c10/core/InferenceMode.h>

#include <fstream>
#include <thread>

#define CHECK(x)                           \
  if (!(x)) {                              \
    printf("line %d: %s\n", __LINE__, #x); \
    return 1;                              \
  }
template <class F>
static std::string words(F f) {
  try {
    f();
  } catch (const c10::Error& e) {
    return e.what();
  }
  return "";
}

int main(int, char** argv) {
  torch::autograd::AutoGradMode guard(false);
  torch::NoGradGuard no_grad;
  at::AutoNonVariableTypeMode non_var_type_mode(true);
  at::set_num_threads(2);
  std::ifstream file(argv[1], std::ios::binary);
  torch::jit::mobile::Module module = torch::jit::_load_for_mobile(file), loaded;
  CHECK(words([&] { loaded.forward({}); }) == "the module was never loaded");
  loaded = module;
  loaded.eval();
  CHECK(loaded.find_method("forward") && !loaded.find_method("backward") && loaded.get_methods().size() == 1);
  CHECK(words([&] { loaded.get_method("backward"); }) == "Method 'backward' is not defined.");

  float data[] = {1, 2, 3, 4};
  bool freed = false;
  {
    at::Tensor x = torch::from_blob(data, {2, 2}, [&](void*) { freed = true; }, at::kFloat);
    CHECK(x.size(-1) == 2 && x.dim() == 2 && x.scalar_type() == at::kFloat && x.is_contiguous() && x.data_ptr<float>() == data);
    CHECK(words([&] { x.size(2); }) == "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
    CHECK(words([&] { x.data_ptr<int64_t>(); }) == "expected scalar type Long but found Float");
    CHECK(words([&] { x.item<float>(); }) == "a Tensor with 4 elements cannot be converted to Scalar");
    c10::Dict<std::string, std::vector<at::Tensor>> named;
    named.insert("a", {torch::ones({2, 2}), torch::zeros({2, 2})});
    for (int call = 1; call <= 2; ++call) {
      auto result = loaded.get_method("forward")({x, named, true, 1, 2.0, "word"}).toTuple();
      CHECK(result->elements().size() == 7);
      auto tensors = result->elements()[0].toGenericDict();
      at::Tensor y = tensors.at(1).toTensor().contiguous();
      CHECK(y.data_ptr<float>()[0] == 3 && y.data_ptr<float>()[1] == 7 && y.data_ptr<float>()[2] == 5);  // transposed
      CHECK(tensors.contains(-1) && tensors.at(-1).toTensor().scalar_type() == at::kLong && tensors.size() == 2);
      CHECK(words([&] { tensors.at(5); }) == "Argument passed to at() was not in the map.");
      for (const auto& entry : result->elements()[1].toGenericDict()) {
        CHECK(entry.key().toStringRef() == "word" && entry.value().toTuple()->elements()[1].toBool());
        CHECK(entry.value().toTuple()->elements()[0].toDouble() == 2.0 / 3);
      }
      CHECK(result->elements()[2].toListRef()[0].toIntVector() == std::vector<int64_t>({1, 2}));
      CHECK(result->elements()[3].to<std::string>() == "word!");
      CHECK(result->elements()[4].isTensorList() && result->elements()[4].toTensorList().get(1).scalar_type() == at::kBool);
      CHECK(result->elements()[5].toInt() == call);  // a copy of a module is the same module
    }
    CHECK(words([&] { c10::IValue(1).toTensor(); }) == "Expected Tensor but got Int");
    CHECK(words([&] { loaded.forward({x}); }).find("arguments of") == 0);
    CHECK(words([&] { loaded.run_method("none", x); }).find("none") != std::string::npos);
    CHECK(words([&] { loaded.train(); }) != "" && c10::IValue().isNone() && !at::Tensor().defined());
    CHECK(words([&] { loaded.to(at::kMetal); }).find("Metal: ") == 0);
    CHECK(torch::from_blob(data, {2, 2}, {1, 2}).contiguous().data_ptr<float>()[1] == 3);
    CHECK(x.clone().data_ptr<float>() != data && x.clone().data_ptr<float>()[3] == 4 && x.to(at::kCPU).data_ptr<float>() == data);
    torch::manual_seed(3);
    float first = at::rand({1}).item<float>();
    torch::manual_seed(3);
    CHECK(first == at::rand({1}).item<float>() && first != at::rand({1}).item<float>());
  }
  CHECK(freed);
  std::vector<std::thread> threads;
  std::vector<int> good(8, 0);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&module, &good, t] {  // which share it, and wait for each other
      for (int i = 0; i < 20; ++i) {
        std::vector<float> own(4, float(t));
        c10::Dict<std::string, std::vector<at::Tensor>> named;
        named.insert("a", {torch::zeros({2, 2})});
        auto y = module.forward({torch::from_blob(own.data(), {2, 2}), named, true, 1, 2.0, "w"}).toTuple()->elements()[4].toTensorVector();
        good[size_t(t)] += y[0].data_ptr<float>()[3] == 2.0f * float(t);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (int each : good) CHECK(each == 20);
  puts("all well");
}
