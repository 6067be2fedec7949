// Results of VM code that no C++ value can be, arguments that no code takes, and an output that is not there: nested PLANNED MODEL...;
// each says what it ends in.
#include <cstdio>

#include "penlight.hpp"

int main(int argc, char** argv) {
  auto planned = penlight::Model::open(argv[1]);
  auto session = planned ? penlight::Session::create(*planned) : penlight::Result<penlight::Session>(planned.error());
  auto output = session ? session->output(7) : penlight::Result<penlight::Tensor>(session.error());
  printf("%d %s\n", int(output ? PEN_OK : output.error().status), output ? "" : output.error().message.c_str());
  penlight::Value deep;
  for (int i = 0; i < 20000; ++i) deep = penlight::Value::list({std::move(deep)});
  for (int i = 2; i < argc; ++i) {
    auto model = penlight::Model::open(argv[i]);
    penlight::Options options;
    options.memory_limit = 64 << 20;
    auto module = model ? penlight::Module::create(*model, options) : penlight::Result<penlight::Module>(model.error());
    if (i == 2 && module) puts(module->forward({deep}).error().message.c_str());
    auto result = module ? module->forward({}) : penlight::Result<penlight::Value>(module.error());
    puts(result ? result->describe().c_str() : result.error().message.c_str());
  }
}
