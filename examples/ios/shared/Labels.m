#import "Labels.h"

#include <math.h>

static NSInteger byScore(id a, id b, void* context) {
  NSArray<NSNumber*>* scores = (__bridge NSArray<NSNumber*>*)context;
  return [[scores objectAtIndex:[b unsignedIntegerValue]] compare:[scores objectAtIndex:[a unsignedIntegerValue]]];
}

@implementation Labels {
  NSArray<NSString*>* _names;
}

- (nullable instancetype)initWithContentsOfFile:(NSString*)path {
  self = [super init];
  if (self) {
    NSString* text = [[NSString alloc] initWithContentsOfFile:path encoding:NSUTF8StringEncoding error:NULL];
    if (!text) return nil;
    _names = [[text stringByTrimmingCharactersInSet:[NSCharacterSet newlineCharacterSet]] componentsSeparatedByString:@"\n"];
  }
  return self;
}

- (NSArray<NSString*>*)top:(NSUInteger)count ofScores:(NSArray<NSNumber*>*)scores {
  NSMutableArray<NSNumber*>* order = [NSMutableArray arrayWithCapacity:scores.count];
  for (NSUInteger i = 0; i < scores.count; ++i) [order addObject:@(i)];
  [order sortUsingFunction:byScore context:(__bridge void*)scores];
  NSMutableArray<NSString*>* lines = [NSMutableArray array];
  double sum = 0, largest = [[scores valueForKeyPath:@"@max.self"] doubleValue];
  for (NSNumber* score in scores) sum += exp(score.doubleValue - largest);
  for (NSUInteger i = 0; i < MIN(count, scores.count); ++i) {
    NSUInteger number = [order objectAtIndex:i].unsignedIntegerValue;
    double probability = exp([scores objectAtIndex:number].doubleValue - largest) / sum;
    [lines addObject:[NSString stringWithFormat:@"%.1f %%  %@", 100 * probability, [_names objectAtIndex:number]]];
  }
  return lines;
}

@end
