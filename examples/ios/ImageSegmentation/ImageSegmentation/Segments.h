// What is on a photograph, by the class of each of its pixels. Knows nothing of screens.
#import <Foundation/Foundation.h>

NS_ASSUME_NONNULL_BEGIN

// Those of PASCAL VOC, in the order of the model's outputs.
FOUNDATION_EXPORT NSArray<NSString*>* SegmentNames(void);
// The photograph (red, green, blue, alpha), each pixel that is not background half in the colour of its class.
FOUNDATION_EXPORT NSData* SegmentOverlay(NSData* rgba, NSData* numbers);
// Names of the classes that at least a hundredth of the pixels have, without the background.
FOUNDATION_EXPORT NSArray<NSString*>* SegmentsFound(NSData* numbers);

NS_ASSUME_NONNULL_END
