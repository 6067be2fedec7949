// PENModule over penlight::Module.
#import "PENValues.h"

#include <mutex>

namespace {
struct State {
  std::mutex lock;  // a module has one caller at a time
  penlight::Module module;
};
}  // namespace

@implementation PENModule

- (nullable instancetype)initWithFileAtPath:(NSString*)path error:(NSError**)error {
  return [self initWithFileAtPath:path device:@"cpu" threads:0 error:error];
}

- (nullable instancetype)initWithFileAtPath:(NSString*)path device:(NSString*)device threads:(NSInteger)threads error:(NSError**)error {
  self = [super init];
  if (!self) return nil;
  penlight::Options options;
  options.device = PENText(device);
  options.threads = int32_t(threads);
  penlight::Error problem(PEN_ERROR_ARGUMENT, "Metal: this version of Penlight has no Metal backend: take cpu");
  if (options.device != "metal") {
    auto model = penlight::Model::open(PENText(path));
    if (model) {
      auto module = penlight::Module::create(*model, options);
      if (module) {
        _state = new State{{}, *std::move(module)};
        return self;
      }
      problem = module.error();
    } else {
      problem = model.error();
    }
  }
  PENSetError(error, problem);
  PEN_LET_GO(self);
  return nil;
}

- (nullable id)forward:(NSArray*)arguments error:(NSError**)error {
  return [self runMethod:@"forward" arguments:arguments error:error];
}

- (nullable id)runMethod:(NSString*)method arguments:(NSArray*)arguments error:(NSError**)error {
  std::vector<penlight::Value> given;
  for (id argument in arguments) {
    std::string problem;
    given.emplace_back();
    if (PENValueFromObject(argument, &given.back(), &problem)) continue;
    PENSetError(error, {PEN_ERROR_INPUT, problem});
    return nil;
  }
  State* state = static_cast<State*>(_state);
  if (!state) {
    PENSetError(error, {PEN_ERROR_ARGUMENT, "a PENModule that was made without initWithFileAtPath: has no methods"});
    return nil;
  }
  std::unique_lock<std::mutex> alone(state->lock);
  auto result = state->module.run(PENText(method), given);
  alone.unlock();
  if (result) return PENObjectFromValue(*result);
  PENSetError(error, result.error());
  return nil;
}

- (NSArray<NSString*>*)methodNames {
  NSMutableArray* names = [NSMutableArray array];
  if (!_state) return names;
  for (const std::string& name : static_cast<State*>(_state)->module.model().methods()) [names addObject:PENString(name)];
  return names;
}

- (NSString*)metadata {
  return !_state ? @"{}" : PENString(static_cast<State*>(_state)->module.model().metadata());
}

- (nullable NSArray<NSNumber*>*)shapeOfInput:(NSUInteger)index method:(NSString*)method {
  if (!_state) return nil;
  std::vector<pen_tensor_info> inputs = static_cast<State*>(_state)->module.model().inputs(PENText(method));
  if (index >= inputs.size()) return nil;
  NSMutableArray* shape = [NSMutableArray array];
  for (int32_t i = 0; i < inputs[index].rank; ++i) [shape addObject:[NSNumber numberWithLongLong:inputs[index].dims[i]]];
  return shape;
}

- (void)dealloc {
  delete static_cast<State*>(_state);
  PEN_DEALLOC_SUPER();
}

@end
