#import "TorchModule.h"

#include <torch/csrc/jit/mobile/import.h>
#include <torch/csrc/jit/mobile/module.h>
#include <torch/script.h>

@implementation TorchModule {
 @protected
  torch::jit::mobile::Module _impl;
}

- (nullable instancetype)initWithFileAtPath:(NSString*)filePath {
  self = [super init];
  if (self) {
    try {
      _impl = torch::jit::_load_for_mobile(filePath.UTF8String);
    } catch (const std::exception& exception) {
      NSLog(@"%s", exception.what());
      return nil;
    }
  }
  return self;
}

- (nullable NSArray<NSNumber*>*)predictImage:(void*)imageBuffer {
  try {
    c10::InferenceMode mode;
    at::Tensor tensor = torch::from_blob(imageBuffer, {1, 3, 224, 224}, at::kFloat).metal();
    auto outputTensor = _impl.forward({tensor}).toTensor().cpu();
    const float* scores = outputTensor.data_ptr<float>();
    NSMutableArray<NSNumber*>* results = [NSMutableArray array];
    for (int64_t i = 0; i < outputTensor.numel(); ++i) [results addObject:@(scores[i])];
    return results;
  } catch (const std::exception& exception) {
    NSLog(@"%s", exception.what());
  }
  return nil;
}

- (NSString*)device {
  if (at::is_metal_available()) return @"on the GPU, by Metal";
  return @"on the CPU: this version of Penlight has no Metal yet";
}

@end
