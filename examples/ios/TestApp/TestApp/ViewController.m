#import "ViewController.h"

#import "Benchmark.h"

@implementation ViewController

- (void)loadView {
  UITextView* view = [[UITextView alloc] init];
  view.editable = NO;
  self.view = view;
}

- (void)viewDidLoad {
  [super viewDidLoad];
  [self performSelectorInBackground:@selector(run) withObject:nil];
}

- (void)run {
  @autoreleasepool {
    NSData* text = [NSData dataWithContentsOfFile:[[NSBundle mainBundle] pathForResource:@"config" ofType:@"json"]];
    NSDictionary* config = text ? [NSJSONSerialization JSONObjectWithData:text options:0 error:NULL] : nil;
    NSString* lines = config && [Benchmark setup:config] ? [Benchmark run] : @"config.json or model.pt cannot be read: see the log.";
    [self performSelectorOnMainThread:@selector(show:) withObject:lines waitUntilDone:NO];
  }
}

- (void)show:(NSString*)lines {
  ((UITextView*)self.view).text = lines;
}

@end
