// ImageSegmentation without a screen: model, pixels and their width in, names out, and the pixels with colours over them.
#import <Foundation/Foundation.h>
extern "C" {  // which GNUstep's FOUNDATION_EXPORT leaves out
#import "Pixels.h"
#import "Segments.h"
#import "TorchModule.h"
}

int main(int, char* argv[]) {
  @autoreleasepool {
    TorchModule* module = [[TorchModule alloc] initWithFileAtPath:[NSString stringWithUTF8String:argv[1]]];
    NSData* pixels = [NSData dataWithContentsOfFile:[NSString stringWithUTF8String:argv[2]]];
    NSUInteger width = NSUInteger(atoi(argv[3])), height = pixels.length / 4 / width;
    const float mean[] = {0.485f, 0.456f, 0.406f}, std[] = {0.229f, 0.224f, 0.225f};
    NSData* numbers = [module predictImage:PixelsToFloats(pixels, mean, std).mutableBytes width:width height:height];
    if (!numbers) return 2;
    printf("%s\n", [SegmentsFound(numbers) componentsJoinedByString:@", "].UTF8String);
    NSString* out = [NSString stringWithUTF8String:argv[4]];
    [numbers writeToFile:[out stringByAppendingString:@".classes"] atomically:NO];
    [SegmentOverlay(pixels, numbers) writeToFile:out atomically:NO];
  }
}
