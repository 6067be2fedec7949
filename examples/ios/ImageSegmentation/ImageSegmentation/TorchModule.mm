#import "TorchModule.h"

#import <LibTorch-Lite/LibTorch-Lite.h>

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

- (nullable NSData*)predictImage:(void*)imageBuffer width:(NSUInteger)width height:(NSUInteger)height {
  try {
    c10::InferenceMode mode;
    at::Tensor tensor = torch::from_blob(imageBuffer, {1, 3, int64_t(height), int64_t(width)}, at::kFloat);
    auto outputDict = _impl.forward({tensor}).toGenericDict();
    at::Tensor outputTensor = outputDict.at("out").toTensor();
    const float* scores = outputTensor.data_ptr<float>();
    const int64_t classes = outputTensor.size(1), pixels = outputTensor.size(2) * outputTensor.size(3);
    NSMutableData* numbers = [NSMutableData dataWithLength:NSUInteger(pixels)];
    uint8_t* number = static_cast<uint8_t*>(numbers.mutableBytes);
    std::vector<float> best(scores, scores + pixels);
    for (int64_t c = 1; c < classes; ++c) {  // plane by plane, as they lie in memory
      for (int64_t i = 0; i < pixels; ++i) {
        if (scores[c * pixels + i] > best[size_t(i)]) {
          best[size_t(i)] = scores[c * pixels + i];
          number[i] = uint8_t(c);
        }
      }
    }
    return numbers;
  } catch (const std::exception& exception) {
    NSLog(@"%s", exception.what());
  }
  return nil;
}

@end
