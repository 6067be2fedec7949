#import <Foundation/Foundation.h>

NS_ASSUME_NONNULL_BEGIN

@interface TorchModule : NSObject
// nil, with the reason in the log, if the file is no model that can run here.
- (nullable instancetype)initWithFileAtPath:(NSString*)filePath;
// Three planes of width x height floats to a byte a pixel: the number of its class.
- (nullable NSData*)predictImage:(void*)imageBuffer width:(NSUInteger)width height:(NSUInteger)height;
@end

NS_ASSUME_NONNULL_END
