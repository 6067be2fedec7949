// Names of classes, and which of them a model's scores speak for.
#import <Foundation/Foundation.h>

NS_ASSUME_NONNULL_BEGIN

@interface Labels : NSObject
// Reads labels.txt: a name a line.
- (nullable instancetype)initWithContentsOfFile:(NSString*)path;
// The likeliest classes, first one first, of scores before softmax: "63.5 %  tabby".
- (NSArray<NSString*>*)top:(NSUInteger)count ofScores:(NSArray<NSNumber*>*)scores NS_SWIFT_NAME(top(_:ofScores:));
@end

NS_ASSUME_NONNULL_END
