#import "ViewController.h"

#import "PhotographView.h"
#import "Pixels.h"
#import "Segments.h"
#import "TorchModule.h"
#import "UIImage+Pixels.h"

static const NSUInteger kSize = 400;  // sides of what the model sees

@implementation ViewController

- (void)loadView {
  self.view = [[PhotographView alloc] init];
}

- (void)viewDidLoad {
  [super viewDidLoad];
  PhotographView* view = (PhotographView*)self.view;
  view.photograph.image = [UIImage imageNamed:@"image.jpg"];
  view.text.text = @"…";
  [self performSelectorInBackground:@selector(segment:) withObject:view.photograph.image];  // it takes a second
}

- (void)segment:(UIImage*)photograph {
  @autoreleasepool {
    NSString* path = [[NSBundle mainBundle] pathForResource:@"deeplabv3" ofType:@"pen"];
    TorchModule* module = [[TorchModule alloc] initWithFileAtPath:path];
    NSData* pixels = [photograph pixelsScaledToWidth:kSize height:kSize];
    // As torchvision's networks were trained.
    const float mean[] = {0.485f, 0.456f, 0.406f}, std[] = {0.229f, 0.224f, 0.225f};
    NSMutableData* floats = pixels ? PixelsToFloats(pixels, mean, std) : nil;
    NSData* numbers = floats ? [module predictImage:floats.mutableBytes width:kSize height:kSize] : nil;
    NSMutableDictionary* shown = [NSMutableDictionary dictionary];
    shown[@"text"] = numbers ? [SegmentsFound(numbers) componentsJoinedByString:@", "] : @"The model did not run: see the log.";
    if (numbers) shown[@"image"] = [UIImage imageWithPixels:SegmentOverlay(pixels, numbers) width:kSize height:kSize];
    [self performSelectorOnMainThread:@selector(show:) withObject:shown waitUntilDone:NO];
  }
}

- (void)show:(NSDictionary*)shown {
  PhotographView* view = (PhotographView*)self.view;
  view.text.text = shown[@"text"];
  if (shown[@"image"]) view.photograph.image = shown[@"image"];
}

@end
