// The class that PyTorch Mobile's iOS apps carried (HelloWorld, HelloWorld-Metal), over Penlight.
#import <Foundation/Foundation.h>

#import "PENTensor.h"

NS_ASSUME_NONNULL_BEGIN

@interface TorchModule : NSObject {
 @private
  void* _impl;
}
/// nil where the file cannot be loaded; the reason goes to the log.
- (nullable instancetype)initWithFileAtPath:(NSString*)filePath;
/// Scores of an image: floats, channel by channel (1 x 3 x 224 x 224, or the sizes that the model says). nil, and a line in the log, where
/// it fails.
- (nullable NSArray<NSNumber*>*)predictImage:(void*)imageBuffer;
@end

NS_ASSUME_NONNULL_END
