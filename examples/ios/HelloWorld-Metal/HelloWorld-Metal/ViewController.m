#import "ViewController.h"

#import "Labels.h"
#import "PhotographView.h"
#import "Pixels.h"
#import "TorchModule.h"
#import "UIImage+Pixels.h"

@implementation ViewController

- (void)loadView {
  self.view = [[PhotographView alloc] init];
}

- (void)viewDidLoad {
  [super viewDidLoad];
  PhotographView* view = (PhotographView*)self.view;
  UIImage* photograph = [UIImage imageNamed:@"image.jpg"];
  view.photograph.image = photograph;
  view.text.text = [[self classify:photograph] componentsJoinedByString:@"\n"];
}

// EfficientNet-Lite0 takes 224 x 224 pixels, each (pixel - 127) / 128.
- (NSArray<NSString*>*)classify:(UIImage*)photograph {
  NSBundle* bundle = [NSBundle mainBundle];
  TorchModule* module = [[TorchModule alloc] initWithFileAtPath:[bundle pathForResource:@"model" ofType:@"pen"]];
  Labels* labels = [[Labels alloc] initWithContentsOfFile:[bundle pathForResource:@"labels" ofType:@"txt"]];
  NSData* pixels = [photograph pixelsOfMiddle:224 shorterSide:256];
  if (!module || !labels || !pixels) return @[ @"Model, labels or photograph cannot be read: see the log." ];
  const float mean[] = {127 / 255.f, 127 / 255.f, 127 / 255.f}, std[] = {128 / 255.f, 128 / 255.f, 128 / 255.f};
  NSArray<NSNumber*>* scores = [module predictImage:PixelsToFloats(pixels, mean, std).mutableBytes];
  if (!scores) return @[ @"The model did not run: see the log." ];
  return [[labels top:3 ofScores:scores] arrayByAddingObject:module.device];
}

@end
