#import <Foundation/Foundation.h>

NS_ASSUME_NONNULL_BEGIN

@interface TorchModule : NSObject
// nil, with the reason in the log, if the file is no model that can run here.
- (nullable instancetype)initWithFileAtPath:(NSString*)filePath NS_SWIFT_NAME(init(fileAtPath:));
// Three planes of 224 x 224 floats to a score for each class.
- (nullable NSArray<NSNumber*>*)predictImage:(void*)imageBuffer NS_SWIFT_NAME(predict(image:));
// Where it runs, in words.
@property(nonatomic, readonly) NSString* device;
@end

NS_ASSUME_NONNULL_END
