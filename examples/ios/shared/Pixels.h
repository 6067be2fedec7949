// From pixels to what vision models take. Knows nothing of screens.
#import <Foundation/Foundation.h>

NS_ASSUME_NONNULL_BEGIN

// Bytes of red, green, blue and alpha, pixel by pixel, to three planes of (colour / 255 - mean) / std, of red, green and blue.
FOUNDATION_EXPORT NSMutableData* PixelsToFloats(NSData* rgba, const float mean[_Nonnull 3], const float std[_Nonnull 3]);

NS_ASSUME_NONNULL_END
