// Outlines of what PenlightObjC uses of Apple's Foundation, so that it is compiled for iPhones, with ARC, where there is no Xcode. Never
// run.
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef signed char BOOL;
typedef long NSInteger;
typedef unsigned long NSUInteger;
#define nil __null
#define YES ((BOOL)1)
#define NO ((BOOL)0)
#define NS_ENUM(type, name) \
  enum name : type name;    \
  enum name : type
#define NS_ASSUME_NONNULL_BEGIN _Pragma("clang assume_nonnull begin")
#define NS_ASSUME_NONNULL_END _Pragma("clang assume_nonnull end")
#define NS_SWIFT_NAME(name) __attribute__((swift_name(#name)))
#define NS_SWIFT_SENDABLE __attribute__((swift_attr("@Sendable")))

NS_ASSUME_NONNULL_BEGIN
@class NSString, NSArray<Item>, NSData;
typedef struct {
  unsigned long state;
  __unsafe_unretained id _Nullable* _Nullable itemsPtr;
  unsigned long* _Nullable mutationsPtr;
  unsigned long extra[5];
} NSFastEnumerationState;
@protocol NSCopying
@end
__attribute__((objc_root_class))
@interface NSObject
+ (instancetype)alloc;
+ (Class)class;
- (instancetype)init;
- (Class)class;
- (BOOL)isKindOfClass:(Class)aClass;
- (id)copy;
- (void)dealloc;
@end
@interface NSString : NSObject <NSCopying>
@property(readonly) const char* UTF8String;
- (instancetype)initWithBytes:(const void*)bytes length:(NSUInteger)length encoding:(NSUInteger)encoding;
- (nullable NSData*)dataUsingEncoding:(NSUInteger)encoding;
@end
enum { NSUTF8StringEncoding = 4, NSISOLatin1StringEncoding = 5 };
@interface NSConstantString : NSString
@end
@interface NSNumber : NSObject <NSCopying>
+ (instancetype)numberWithBool:(BOOL)value;
+ (instancetype)numberWithFloat:(float)value;
+ (instancetype)numberWithDouble:(double)value;
+ (instancetype)numberWithLongLong:(long long)value;
@property(readonly) const char* objCType;
@property(readonly) BOOL boolValue;
@property(readonly) float floatValue;
@property(readonly) double doubleValue;
@property(readonly) long long longLongValue;
@property(readonly) unsigned long long unsignedLongLongValue;
@property(readonly) NSString* stringValue;
@end
@interface NSNull : NSObject
+ (NSNull*)null;
@end
@interface NSData : NSObject
+ (instancetype)dataWithBytes:(nullable const void*)bytes length:(NSUInteger)length;
@property(readonly) NSUInteger length;
@property(readonly) const void* bytes;
@end
@interface NSArray<Item> : NSObject
+ (instancetype)array;
@property(readonly) NSUInteger count;
- (Item)objectAtIndex:(NSUInteger)index;
- (NSUInteger)indexOfObject:(Item)item;
- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained _Nullable[_Nonnull])buffer
                                    count:(NSUInteger)length;
@end
@interface NSMutableArray<Item> : NSArray <Item>
+ (instancetype)arrayWithCapacity:(NSUInteger)capacity;
- (void)addObject:(Item)item;
@end
@interface NSDictionary<Key, Item> : NSObject
+ (instancetype)dictionaryWithObject:(Item)item forKey:(Key)key;
+ (instancetype)dictionaryWithObjects:(NSArray*)items forKeys:(NSArray*)keys;
- (nullable Item)objectForKey:(Key)key;
- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id __unsafe_unretained _Nullable[_Nonnull])buffer
                                    count:(NSUInteger)length;
@end
@interface NSError : NSObject
+ (instancetype)errorWithDomain:(NSString*)domain code:(NSInteger)code userInfo:(nullable NSDictionary*)about;
@end
extern NSString* const NSLocalizedDescriptionKey;
extern "C" NSString* NSStringFromClass(Class aClass);
extern "C" void NSLog(NSString* format, ...);
NS_ASSUME_NONNULL_END
