// Tensors and tuples, for Objective-C and Swift. Plain Objective-C: no C++ is seen by those who import it.
#import <Foundation/Foundation.h>

#ifndef NS_ASSUME_NONNULL_BEGIN
#define NS_ASSUME_NONNULL_BEGIN _Pragma("clang assume_nonnull begin")
#define NS_ASSUME_NONNULL_END _Pragma("clang assume_nonnull end")
#endif
#ifndef NS_SWIFT_NAME
#define NS_SWIFT_NAME(name)
#endif
#ifndef NS_SWIFT_SENDABLE
#define NS_SWIFT_SENDABLE
#endif

NS_ASSUME_NONNULL_BEGIN

/// Kinds of elements, numbered as in penlight.h.
typedef NS_ENUM(NSInteger, PENDataType) {
  PENDataTypeFloat32 = 0,
  PENDataTypeFloat16 = 1,
  PENDataTypeFloat64 = 2,
  PENDataTypeInt8 = 3,
  PENDataTypeUInt8 NS_SWIFT_NAME(uint8) = 4, PENDataTypeInt16 = 5, PENDataTypeInt32 = 6, PENDataTypeInt64 = 7, PENDataTypeBool = 8,
                                 PENDataTypeBFloat16 = 9
  };

/// Of errors: the code is a pen_status of penlight.h, the description the words.
extern NSString* const PENErrorDomain;

/// Elements, row by row, with a shape. It never changes, so any thread may read it.
NS_SWIFT_SENDABLE
@interface PENTensor : NSObject {
 @private
  void* _tensor;
}
/// A copy of the data, which must have the very size that the shape says.
+ (nullable instancetype)tensorWithData:(NSData*)data
                                  shape:(NSArray<NSNumber*>*)shape
                               dataType:(PENDataType)dataType
                                  error:(NSError**)error NS_SWIFT_NAME(init(data:shape:dataType:));
/// In the caller's memory, which must outlive the tensor and is large enough: for a camera's buffer that is filled again and again.
+ (nullable instancetype)tensorWithBytesNoCopy:(void*)bytes
                                         shape:(NSArray<NSNumber*>*)shape
                                      dataType:(PENDataType)dataType
                                         error:(NSError**)error NS_SWIFT_NAME(init(bytesNoCopy:shape:dataType:));
@property(nonatomic, readonly) NSArray<NSNumber*>* shape;
@property(nonatomic, readonly) PENDataType dataType;
/// How many elements it has.
@property(nonatomic, readonly) NSUInteger count;
/// Its elements, for as long as it lives.
@property(nonatomic, readonly) const void* bytes;
@property(nonatomic, readonly) NSUInteger byteCount;
/// A copy of the elements.
@property(nonatomic, readonly) NSData* data;
/// The elements as numbers; empty for float16 and bfloat16, which NSNumber has not.
@property(nonatomic, readonly) NSArray<NSNumber*>* numbers;
@end

/// A tuple, which methods tell from a list; with a type and names of its fields where it is a named tuple or an object.
@interface PENTuple : NSObject {
 @private
  NSArray* _items;
  NSString* _type;
  NSArray<NSString*>* _fields;
}
+ (instancetype)tupleWithItems:(NSArray*)items;
+ (instancetype)tupleWithType:(NSString*)type fields:(NSArray<NSString*>*)fields items:(NSArray*)items;
@property(nonatomic, readonly) NSArray* items;
@property(nonatomic, readonly) NSString* type;
@property(nonatomic, readonly) NSArray<NSString*>* fields;
/// nil where there is no such field.
- (nullable id)itemForField:(NSString*)field;
@end

NS_ASSUME_NONNULL_END
