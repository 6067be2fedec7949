#import <Foundation/Foundation.h>

NS_ASSUME_NONNULL_BEGIN

// Times the model in the app's bundle, as config.json says: input_dims ("1,3,224,224"; inputs apart by ";"), input_type ("float",
// "uint8_t", "int64"; as many), warmup, iter, print_output. What it logs are the lines of PyTorch's TestApp.
@interface Benchmark : NSObject
// NO, with the reason in the log, if there is no model, or config says too little.
+ (BOOL)setup:(NSDictionary*)config;
+ (BOOL)setup:(NSDictionary*)config model:(nullable NSString*)path;
// The lines that were logged.
+ (NSString*)run;
@end

NS_ASSUME_NONNULL_END
