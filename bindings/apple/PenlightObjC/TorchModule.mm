// TorchModule as PyTorch Mobile's HelloWorld app has it, over PENModule: no exceptions to catch.
#import "TorchModule.h"

#import "PENValues.h"

@implementation TorchModule

- (nullable instancetype)initWithFileAtPath:(NSString*)filePath {
  self = [super init];
  if (!self) return nil;
  auto model = penlight::Model::open(PENText(filePath));
  auto module = model ? penlight::Module::create(*model) : penlight::Result<penlight::Module>(model.error());
  if (!module) {
    NSLog(@"%s", module.error().message.c_str());
    PEN_LET_GO(self);
    return nil;
  }
  _impl = new penlight::Module(*std::move(module));
  return self;
}

- (nullable NSArray<NSNumber*>*)predictImage:(void*)imageBuffer {
  if (!_impl || !imageBuffer) return nil;
  penlight::Module& module = *static_cast<penlight::Module*>(_impl);
  penlight::Shape shape = {1, 3, 224, 224};
  std::vector<pen_tensor_info> inputs = module.model().inputs();
  for (size_t i = 0; i < shape.size() && inputs.size() == 1 && inputs[0].rank == 4; ++i)
    if (inputs[0].dims[i] > 0) shape[i] = inputs[0].dims[i];
  auto result = module.forward({penlight::Tensor::borrow(static_cast<float*>(imageBuffer), shape)});
  if (result && result->tensor()) return [[PENTensor tensorWithPenlight:*result->tensor()] numbers];
  NSLog(@"%s", result ? ("expected a model that gives a tensor, got " + result->describe()).c_str() : result.error().message.c_str());
  return nil;
}

- (void)dealloc {
  delete static_cast<penlight::Module*>(_impl);
  PEN_DEALLOC_SUPER();
}

@end
