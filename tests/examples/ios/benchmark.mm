// TestApp without a screen: config.json and a model in, its lines out.
#import "Benchmark.h"

int main(int, char* argv[]) {
  @autoreleasepool {
    NSData* text = [NSData dataWithContentsOfFile:[NSString stringWithUTF8String:argv[1]]];
    NSDictionary* config = [NSJSONSerialization JSONObjectWithData:text options:0 error:NULL];
    if (![Benchmark setup:config model:[NSString stringWithUTF8String:argv[2]]]) return 1;
    printf("%s", [Benchmark run].UTF8String);
  }
}
