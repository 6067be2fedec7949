// Between Foundation's objects and penlight::Value; for the files beside it.
#pragma once
#import "PENModule.h"

#include "penlight.hpp"

// A file compiles with ARC and without it: these are all that differs.
#if __has_feature(objc_arc)
#define PEN_RETAINED(x) (x)
#define PEN_LET_GO(x)
#define PEN_AUTORELEASED(x) (x)
#define PEN_DEALLOC_SUPER()
#else
#define PEN_RETAINED(x) [(x) retain]
#define PEN_LET_GO(x) [(x) release]
#define PEN_AUTORELEASED(x) [(x) autorelease]
#define PEN_DEALLOC_SUPER() [super dealloc]
#endif

@interface PENTensor (Penlight)
+ (instancetype)tensorWithPenlight:(penlight::Tensor)tensor;
- (const penlight::Tensor&)penlight;
@end

// nil: `problem` says what it is that no method takes.
bool PENValueFromObject(id object, penlight::Value* value, std::string* problem);
id PENObjectFromValue(const penlight::Value& value);
// Sets *error, where that is wanted.
void PENSetError(NSError** error, const penlight::Error& problem);
std::string PENText(NSString* text);
NSString* PENString(const std::string& text);
