// A model that is ready to run.
//
//   NSError* error = nil;
//   PENModule* module = [[PENModule alloc] initWithFileAtPath:path error:&error];
//   PENTensor* image = [PENTensor tensorWithBytesNoCopy:pixels shape:@[ @1, @3, @224, @224 ] dataType:PENDataTypeFloat32 error:&error];
//   PENTensor* scores = [module forward:@[ image ] error:&error];
//
// Arguments and results are PENTensor, NSNumber (a bool, an int or a double, as it was made), NSString, NSNull, NSArray for lists, PENTuple
// and NSDictionary. Any thread may call; calls of one module wait for each other.
#import "PENTensor.h"

NS_ASSUME_NONNULL_BEGIN

NS_SWIFT_SENDABLE
@interface PENModule : NSObject {
 @private
  void* _state;
}
/// On the CPU, with a thread per core. A TorchScript file (.pt, .ptl) is an error that says how to convert it.
- (nullable instancetype)initWithFileAtPath:(NSString*)path error:(NSError**)error;
/// device: "cpu", or "vulkan" where the library was built with it. "metal" is an error in words: this version has no Metal backend.
/// threads: 0 is one per core.
- (nullable instancetype)initWithFileAtPath:(NSString*)path device:(NSString*)device threads:(NSInteger)threads error:(NSError**)error;
/// nil, and an error in words, where it fails. None is NSNull.
- (nullable id)forward:(NSArray*)arguments error:(NSError**)error;
- (nullable id)runMethod:(NSString*)method arguments:(NSArray*)arguments error:(NSError**)error;
@property(nonatomic, readonly) NSArray<NSString*>* methodNames;
/// JSON: labels, preprocessing and whatever else the file says.
@property(nonatomic, readonly) NSString* metadata;
/// The sizes that an input of a planned method takes, -1 where any will do; nil where there is no such input.
- (nullable NSArray<NSNumber*>*)shapeOfInput:(NSUInteger)index method:(NSString*)method;
@end

NS_ASSUME_NONNULL_END
