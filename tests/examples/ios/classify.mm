// HelloWorld and HelloWorld-Metal without a screen: model, labels and pixels in, what the app shows out.
#import <Foundation/Foundation.h>
extern "C" {  // which GNUstep's FOUNDATION_EXPORT leaves out
#import "Labels.h"
#import "Pixels.h"
#import "TorchModule.h"
}

int main(int, char* argv[]) {
  @autoreleasepool {
    TorchModule* module = [[TorchModule alloc] initWithFileAtPath:[NSString stringWithUTF8String:argv[1]]];
    if (!module) return 1;
    Labels* labels = [[Labels alloc] initWithContentsOfFile:[NSString stringWithUTF8String:argv[2]]];
    NSData* pixels = [NSData dataWithContentsOfFile:[NSString stringWithUTF8String:argv[3]]];
    const float mean[] = {127 / 255.f, 127 / 255.f, 127 / 255.f}, std[] = {128 / 255.f, 128 / 255.f, 128 / 255.f};
    NSArray* scores = [module predictImage:PixelsToFloats(pixels, mean, std).mutableBytes];
    if (!scores) return 2;
    for (NSString* line in [labels top:3 ofScores:scores]) printf("%s\n", line.UTF8String);
    if ([module respondsToSelector:@selector(device)]) printf("%s\n", [[module performSelector:@selector(device)] UTF8String]);
  }
}
