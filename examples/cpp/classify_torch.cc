// The same as classify.cc, as a program for LibTorch says it: only its library is another.
#include <torch/script.h>

#include "top3.h"

int main(int argc, char** argv) {
  if (argc < 4) return std::puts("classify_torch model.pen photo.bin labels.txt"), 2;
  try {
    c10::InferenceMode mode;
    torch::jit::mobile::Module module = torch::jit::_load_for_mobile(argv[1]);
    std::vector<float> photo = read_floats(argv[2]);
    at::Tensor tensor = torch::from_blob(photo.data(), {1, 3, 224, 224}, at::kFloat);
    at::Tensor scores = module.forward({tensor}).toTensor().cpu();
    print_top3(scores.data_ptr<float>(), size_t(scores.numel()), argv[3]);
  } catch (const std::exception& e) {
    return std::puts(e.what()), 1;
  }
}
