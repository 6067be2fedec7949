// Between UIKit's images and bytes of red, green, blue and alpha, pixel by pixel.
#import <UIKit/UIKit.h>

NS_ASSUME_NONNULL_BEGIN

@interface UIImage (Pixels)
// The middle of the image, of this size, after its shorter side was scaled to `shorter` pixels.
- (nullable NSData*)pixelsOfMiddle:(NSUInteger)side shorterSide:(NSUInteger)shorter NS_SWIFT_NAME(pixels(ofMiddle:shorterSide:));
// All of it, whatever its proportions, scaled to this size.
- (nullable NSData*)pixelsScaledToWidth:(NSUInteger)width height:(NSUInteger)height;
+ (nullable UIImage*)imageWithPixels:(NSData*)rgba width:(NSUInteger)width height:(NSUInteger)height;
@end

NS_ASSUME_NONNULL_END
