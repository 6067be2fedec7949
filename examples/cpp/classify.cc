// What is in a photograph: classify model.pen photo.bin labels.txt [device]
#include <penlight.hpp>

#include "top3.h"

int main(int argc, char** argv) {
  if (argc < 4) return std::puts("classify model.pen photo.bin labels.txt [cpu|vulkan]"), 2;
  auto model = penlight::Model::open(argv[1]);
  if (!model) return std::puts(model.error().message.c_str()), 1;
  penlight::Options options;
  if (argc > 4) options.device = argv[4];
  auto module = penlight::Module::create(*model, options);
  if (!module) return std::puts(module.error().message.c_str()), 1;

  std::vector<float> photo = read_floats(argv[2]);
  auto scores = module->forward({penlight::Tensor::of(photo, {1, 3, 224, 224})});
  if (!scores) return std::puts(scores.error().message.c_str()), 1;
  const penlight::Tensor* tensor = scores->tensor();
  if (!tensor || !tensor->data<float>()) return std::puts("expected a model that gives scores"), 1;
  print_top3(tensor->data<float>(), tensor->numel(), argv[3]);
}
