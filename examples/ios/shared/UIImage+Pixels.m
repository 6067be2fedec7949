#import "UIImage+Pixels.h"

static CGContextRef contextOn(NSMutableData* rgba, NSUInteger width, NSUInteger height) CF_RETURNS_RETAINED;
static CGContextRef contextOn(NSMutableData* rgba, NSUInteger width, NSUInteger height) {
  CGColorSpaceRef colours = CGColorSpaceCreateDeviceRGB();
  CGContextRef context =
      CGBitmapContextCreate(rgba.mutableBytes, width, height, 8, width * 4, colours, (CGBitmapInfo)kCGImageAlphaNoneSkipLast);
  CGColorSpaceRelease(colours);
  return context;
}

@implementation UIImage (Pixels)

- (nullable NSData*)pixelsOfMiddle:(NSUInteger)side shorterSide:(NSUInteger)shorter {
  CGFloat scale = shorter / fmin(self.size.width, self.size.height);
  CGFloat width = round(self.size.width * scale), height = round(self.size.height * scale);
  return [self pixelsOfWidth:side height:side drawnInto:CGRectMake((side - width) / 2, (side - height) / 2, width, height)];
}

- (nullable NSData*)pixelsScaledToWidth:(NSUInteger)width height:(NSUInteger)height {
  return [self pixelsOfWidth:width height:height drawnInto:CGRectMake(0, 0, width, height)];
}

- (nullable NSData*)pixelsOfWidth:(NSUInteger)width height:(NSUInteger)height drawnInto:(CGRect)place {
  NSMutableData* rgba = [NSMutableData dataWithLength:width * height * 4];
  CGContextRef context = contextOn(rgba, width, height);
  if (!context) return nil;
  CGContextTranslateCTM(context, 0, height);  // UIKit's rows go down, Core Graphics' up
  CGContextScaleCTM(context, 1, -1);
  UIGraphicsPushContext(context);
  [self drawInRect:place];  // turned as the camera was held
  UIGraphicsPopContext();
  CGContextRelease(context);
  return rgba;
}

+ (nullable UIImage*)imageWithPixels:(NSData*)rgba width:(NSUInteger)width height:(NSUInteger)height {
  NS_VALID_UNTIL_END_OF_SCOPE NSMutableData* copy = [rgba mutableCopy];
  CGContextRef context = contextOn(copy, width, height);
  if (!context) return nil;
  CGImageRef made = CGBitmapContextCreateImage(context);
  CGContextRelease(context);
  UIImage* image = [UIImage imageWithCGImage:made];
  CGImageRelease(made);
  return image;
}

@end
