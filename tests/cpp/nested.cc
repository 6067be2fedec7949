// Results of VM code that no C++ value can be: nested MODEL...; each says what it ends in.
#include <cstdio>

#include "penlight.hpp"

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    auto model = penlight::Model::open(argv[i]);
    auto module = model ? penlight::Module::create(*model) : penlight::Result<penlight::Module>(model.error());
    auto result = module ? module->forward({}) : penlight::Result<penlight::Value>(module.error());
    puts(result ? result->describe().c_str() : result.error().message.c_str());
  }
}
