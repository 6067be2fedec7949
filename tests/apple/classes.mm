// The Objective-C classes: every kind of value in and out, mistakes, many threads. Its models are those of tests/cpp/test_values.py
// (Script, a linear layer) and a picture's (tests/cpp/test_documents.py). Says "all well".
#import "PenlightObjC.h"

#include <stdio.h>

#include <string>
#include <thread>
#include <vector>

#define CHECK(...)                                   \
  if (!(__VA_ARGS__)) {                              \
    printf("line %d: %s\n", __LINE__, #__VA_ARGS__); \
    return 1;                                        \
  }

static bool says(NSError* error, const char* words) {
  bool found = error && [[error domain] isEqual:PENErrorDomain] && [error code] != 0 &&
               std::string([[error localizedDescription] UTF8String]).find(words) != std::string::npos;
  if (!found) printf("expected %s, got %s\n", words, error ? [[error localizedDescription] UTF8String] : "no error");
  return found;
}

static int script(NSString* path) {
  NSError* error = nil;
  PENModule* module = [[PENModule alloc] initWithFileAtPath:path error:&error];
  CHECK(module && [[module methodNames] isEqual:@[ @"forward" ]]);
  float data[] = {1, 2, 3, 4};
  NSArray* shape = @[ @2, @2 ];
  PENTensor* x = [PENTensor tensorWithBytesNoCopy:data shape:shape dataType:PENDataTypeFloat32 error:&error];
  PENTensor* one = [PENTensor tensorWithData:[NSData dataWithBytes:data length:16] shape:shape dataType:PENDataTypeFloat32 error:&error];
  CHECK([x bytes] == data && [one bytes] != data && [[one numbers] isEqual:@[ @1.0f, @2.0f, @3.0f, @4.0f ]]);
  NSArray* arguments = @[ x, @{@"a" : @[ one ]}, [NSNumber numberWithBool:YES], @1, @2.0, @"wörd" ];
  for (int call = 1; call <= 2; ++call) {
    PENTuple* result = [module forward:arguments error:&error];
    CHECK(result && [[result items] count] == 7);
    NSDictionary* tensors = [[result items] objectAtIndex:0];
    PENTensor* y = [tensors objectForKey:@1];
    CHECK([[y numbers] isEqual:(@[ @3.0f, @9.0f, @6.0f, @12.0f ])] && [[y shape] isEqual:shape]);  // (2x + x) transposed
    CHECK([[tensors objectForKey:@(-1)] dataType] == PENDataTypeInt64);
    PENTuple* pair = [[[result items] objectAtIndex:1] objectForKey:@"wörd"];
    CHECK([[[pair items] objectAtIndex:0] doubleValue] == 2.0 / 3 && [[[pair items] objectAtIndex:1] boolValue]);
    CHECK([[[result items] objectAtIndex:2] isEqual:(@[ @[ @1, @2 ], @[ @1 ] ])]);
    CHECK([[[result items] objectAtIndex:3] isEqual:@"wörd!"]);
    CHECK([[[[result items] objectAtIndex:4] objectAtIndex:1] dataType] == PENDataTypeBool);
    CHECK([[[result items] objectAtIndex:5] intValue] == call);
    CHECK([[[result items] objectAtIndex:6] isEqual:@"p3"]);
  }
  NSArray* more = [arguments arrayByAddingObjectsFromArray:@[ [NSNull null], [PENTuple tupleWithItems:@[ @7, @"q" ]] ]];
  PENTuple* result = [module forward:more error:&error];
  CHECK([[[result items] objectAtIndex:6] isEqual:@"q7"]);
  CHECK(![module forward:@[ x ] error:&error] && says(error, "arguments of"));
  CHECK(![module forward:@[ [NSDate date] ] error:&error] && says(error, "an argument must be a PENTensor, NSNumber, NSString"));
  NSMutableArray* itself = [NSMutableArray array];
  NSArray* inside = itself;  // unseen by the compiler, which warns of it
  [itself addObject:inside];
  CHECK(![module forward:@[ itself ] error:&error] && says(error, "at most 200 levels"));
  CHECK(![module forward:@[ @18446744073709551615ULL ] error:&error] &&
        says(error, "at most 64 bits with its sign, got 18446744073709551615"));
  [itself removeAllObjects];
  CHECK(![module runMethod:@"none" arguments:@[] error:&error] && says(error, "none"));
  CHECK(![module forward:@[] error:NULL]);
  CHECK(![PENTensor tensorWithData:[NSData data] shape:shape dataType:PENDataTypeFloat32 error:&error] && says(error, "expected 16 bytes"));
  CHECK(![PENTensor tensorWithBytesNoCopy:data shape:@[ @-1 ] dataType:PENDataTypeInt8 error:&error] && says(error, "0 or more"));
  void* nothing = NULL;
  CHECK(![PENTensor tensorWithBytesNoCopy:nothing shape:shape dataType:PENDataTypeInt8 error:&error] && says(error, "got NULL"));
  CHECK([PENTensor tensorWithBytesNoCopy:nothing shape:@[ @0 ] dataType:PENDataTypeInt8 error:&error]);
  CHECK(![[PENModule alloc] initWithFileAtPath:@"/no/such.pen" error:&error] && says(error, "/no/such.pen"));
  CHECK(![[PENModule alloc] initWithFileAtPath:path device:@"metal" threads:1 error:&error] &&
        says(error, "Metal: this version of Penlight"));
  CHECK(![[[PENModule alloc] init] forward:@[] error:&error] && says(error, "without initWithFileAtPath:"));
  return 0;
}

static int threads(NSString* path) {
  NSError* error = nil;
  PENModule* module = [[PENModule alloc] initWithFileAtPath:path device:@"cpu" threads:1 error:&error];
  CHECK(module && [[module shapeOfInput:0 method:@"forward"] isEqual:(@[ @2, @4 ])] && ![module shapeOfInput:1 method:@"forward"]);
  std::vector<std::thread> all;
  std::vector<int> good(8, 0);
  for (int t = 0; t < 8; ++t)
    all.emplace_back([&good, module, t] {
      @autoreleasepool {
        std::vector<float> data(8, float(t));
        for (int i = 0; i < 50; ++i) {
          PENTensor* x = [PENTensor tensorWithBytesNoCopy:data.data() shape:@[ @2, @4 ] dataType:PENDataTypeFloat32 error:NULL];
          PENTensor* y = [module forward:@[ x ] error:NULL];
          const float* out = static_cast<const float*>([y bytes]);
          good[size_t(t)] += [y count] == 6 && out[0] == out[3];  // both rows are the same
        }
      }
    });
  for (std::thread& thread : all) thread.join();
  for (int each : good) CHECK(each == 50);
  return 0;
}

int main(int, char** argv) {
  @autoreleasepool {
    if (script([NSString stringWithUTF8String:argv[1]])) return 0;
    if (threads([NSString stringWithUTF8String:argv[2]])) return 0;
    TorchModule* torch = [[TorchModule alloc] initWithFileAtPath:[NSString stringWithUTF8String:argv[3]]];
    std::vector<float> image(3 * 224 * 224, 0.5f);
    NSArray<NSNumber*>* scores = [torch predictImage:image.data()];
    printf("%s\n", [scores count] == 1000 && ![[TorchModule alloc] initWithFileAtPath:@"/no/such.pen"] ? "all well" : "no scores");
    for (NSNumber* score in scores) printf("%.9g ", [score floatValue]);
  }
}
