#import "Benchmark.h"

#include <chrono>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/jit/mobile/import.h>
#include <torch/csrc/jit/mobile/module.h>
#include <torch/script.h>

static std::string model, input_dims, input_type;
static int warmup, iter;
static BOOL print_output;

static std::vector<std::string> split(char separator, const std::string& text) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

// An input whose elements are all one, in memory that goes with it.
template <class T>
static at::Tensor onesOf(const std::vector<int64_t>& sizes, at::ScalarType type) {
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  auto* memory = new std::vector<T>(size_t(count), T(1));
  return torch::from_blob(memory->data(), sizes, [memory](void*) { delete memory; }, type);
}

static std::vector<c10::IValue> makeInputs() {
  std::vector<std::string> dims = split(';', input_dims), types = split(';', input_type);
  if (dims.size() != types.size()) throw std::runtime_error("Input dims and type should have the same number of items.");
  std::vector<c10::IValue> inputs;
  for (size_t i = 0; i < dims.size(); ++i) {
    std::vector<int64_t> sizes;
    for (const std::string& size : split(',', dims[i])) sizes.push_back(std::stoll(size));
    if (types[i] == "float") {
      inputs.push_back(onesOf<float>(sizes, at::kFloat));
    } else if (types[i] == "uint8_t") {
      inputs.push_back(onesOf<uint8_t>(sizes, at::kByte));
    } else if (types[i] == "int64") {
      inputs.push_back(onesOf<int64_t>(sizes, at::kLong));
    } else {
      throw std::runtime_error("Unsupported input type: " + types[i]);
    }
  }
  return inputs;
}

static NSString* described(const c10::IValue& value) {
  if (!value.isTensor()) return [NSString stringWithUTF8String:value.tagKind().c_str()];
  at::Tensor tensor = value.toTensor().contiguous();
  NSMutableArray<NSString*>* words = [NSMutableArray array];
  for (int64_t i = 0; i < tensor.numel() && tensor.scalar_type() == at::kFloat; ++i)
    [words addObject:[NSString stringWithFormat:@"%g", tensor.data_ptr<float>()[i]]];
  return [NSString stringWithFormat:@"[%@] %s of %lld elements", [words componentsJoinedByString:@", "],
                                    c10::toString(tensor.scalar_type()), (long long)tensor.numel()];
}

@implementation Benchmark

+ (BOOL)setup:(NSDictionary*)config {
  return [self setup:config model:[[NSBundle mainBundle] pathForResource:@"model" ofType:@"pt"]];
}

+ (BOOL)setup:(NSDictionary*)config model:(nullable NSString*)path {
  if (!path || ![[NSFileManager defaultManager] fileExistsAtPath:path]) {
    NSLog(@"model.pt doesn't exist!");
    return NO;
  }
  for (NSString* key in @[ @"input_dims", @"input_type", @"warmup", @"iter", @"print_output" ]) {
    if ([config objectForKey:key]) continue;
    NSLog(@"config.json has no %@", key);
    return NO;
  }
  model = path.UTF8String;
  input_dims = [[config objectForKey:@"input_dims"] UTF8String];
  input_type = [[config objectForKey:@"input_type"] UTF8String];
  warmup = [[config objectForKey:@"warmup"] intValue];
  iter = [[config objectForKey:@"iter"] intValue];
  print_output = [[config objectForKey:@"print_output"] boolValue];
  return YES;
}

+ (NSString*)run {
  NSMutableArray<NSString*>* logs = [NSMutableArray array];
  auto log = [&](NSString* line) {
    NSLog(@"%@", line);
    [logs addObject:line];
  };
  try {
    if (warmup < 0 || iter < 1) throw std::runtime_error("expected warmup of at least 0 and iter of at least 1");
    std::vector<c10::IValue> inputs = makeInputs();
    c10::InferenceMode mode;
    auto module = torch::jit::_load_for_mobile(model);
    if (print_output) log(described(module.forward(inputs)));
    log(@"Running warmup runs");
    for (int i = 0; i < warmup; ++i) module.forward(inputs);
    log(@"Main runs");
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < iter; ++i) module.forward(inputs);
    double millis = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    log([NSString stringWithFormat:@"Main run finished. Milliseconds per iter: %.3f", millis / iter]);
    log([NSString stringWithFormat:@"Iters per second: : %.3f", 1000.0 * iter / millis]);
    log(@"Done.");
  } catch (const std::exception& exception) {
    log([NSString stringWithUTF8String:exception.what()]);
  }
  return [[logs componentsJoinedByString:@"\n"] stringByAppendingString:@"\n"];
}

@end
