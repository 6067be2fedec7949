// PENTensor over penlight::Tensor, and PENTuple.
#import "PENValues.h"

@implementation PENTensor

+ (instancetype)tensorWithPenlight:(penlight::Tensor)tensor {
  PENTensor* made = [[self alloc] init];
  auto host = tensor.cpu();
  made->_tensor = new penlight::Tensor(host ? host->contiguous() : penlight::Tensor());
  return PEN_AUTORELEASED(made);
}

// The shape, and the bytes that it takes; false where there is no such tensor.
static bool sizes(NSArray<NSNumber*>* shape, PENDataType dataType, penlight::Shape* dims, uint64_t* bytes, NSError** error) {
  *bytes = penlight::dtype_bytes(pen_dtype(dataType));
  bool fine = *bytes > 0 && [shape count] <= 8;
  for (NSNumber* dim in shape) {
    dims->push_back([dim longLongValue]);
    fine = fine && dims->back() >= 0 && !__builtin_mul_overflow(*bytes, uint64_t(dims->back()), bytes);
  }
  if (!fine)
    PENSetError(error, {PEN_ERROR_ARGUMENT, "a tensor: expected at most 8 sizes of 0 or more, and a PENDataType, got " +
                                                std::to_string([shape count]) + " sizes and type " + std::to_string(dataType)});
  return fine;
}

+ (nullable instancetype)tensorWithData:(NSData*)data
                                  shape:(NSArray<NSNumber*>*)shape
                               dataType:(PENDataType)dataType
                                  error:(NSError**)error {
  penlight::Shape dims;
  uint64_t bytes;
  if (!sizes(shape, dataType, &dims, &bytes, error)) return nil;
  if (bytes != [data length]) {
    PENSetError(error, {PEN_ERROR_ARGUMENT, "a tensor's data: expected " + std::to_string(bytes) + " bytes for its shape, got " +
                                                std::to_string([data length])});
    return nil;
  }
  penlight::Tensor made = penlight::Tensor::zeros(dims, pen_dtype(dataType));
  if (!made.data()) {
    PENSetError(error, {PEN_ERROR_MEMORY, "no memory for a tensor of " + std::to_string(bytes) + " bytes"});
    return nil;
  }
  if (bytes) memcpy(made.data(), [data bytes], bytes);
  return [self tensorWithPenlight:std::move(made)];
}

+ (nullable instancetype)tensorWithBytesNoCopy:(void*)bytes
                                         shape:(NSArray<NSNumber*>*)shape
                                      dataType:(PENDataType)dataType
                                         error:(NSError**)error {
  penlight::Shape dims;
  uint64_t size;
  if (!sizes(shape, dataType, &dims, &size, error)) return nil;
  if (!bytes && size > 0) {
    PENSetError(error, {PEN_ERROR_ARGUMENT, "a tensor's data: expected " + std::to_string(size) + " bytes for its shape, got NULL"});
    return nil;
  }
  return [self tensorWithPenlight:penlight::Tensor::borrow(bytes, pen_dtype(dataType), dims)];
}

- (const penlight::Tensor&)penlight {
  static const penlight::Tensor none;  // of [[PENTensor alloc] init]
  return _tensor ? *static_cast<penlight::Tensor*>(_tensor) : none;
}

- (NSArray<NSNumber*>*)shape {
  NSMutableArray* made = [NSMutableArray array];
  for (int64_t dim : [self penlight].shape()) [made addObject:[NSNumber numberWithLongLong:dim]];
  return made;
}

- (PENDataType)dataType {
  return PENDataType([self penlight].dtype());
}

- (NSUInteger)count {
  return [self penlight].numel();
}

- (const void*)bytes {
  return [self penlight].data();
}

- (NSUInteger)byteCount {
  return [self penlight].bytes();
}

- (NSData*)data {
  return [NSData dataWithBytes:[self bytes] length:[self byteCount]];
}

template <class T>
static NSArray<NSNumber*>* numbersOf(const penlight::Tensor& tensor) {
  NSMutableArray* made = [NSMutableArray arrayWithCapacity:tensor.numel()];
  const T* values = tensor.data<T>();
  for (size_t i = 0; i < tensor.numel(); ++i) {
    if constexpr (std::is_same_v<T, bool>)
      [made addObject:[NSNumber numberWithBool:values[i]]];
    else if constexpr (std::is_same_v<T, float>)
      [made addObject:[NSNumber numberWithFloat:values[i]]];
    else if constexpr (std::is_same_v<T, double>)
      [made addObject:[NSNumber numberWithDouble:values[i]]];
    else
      [made addObject:[NSNumber numberWithLongLong:values[i]]];
  }
  return made;
}

- (NSArray<NSNumber*>*)numbers {
  const penlight::Tensor& tensor = [self penlight];
  switch (tensor.dtype()) {
    case PEN_F32:
      return numbersOf<float>(tensor);
    case PEN_F64:
      return numbersOf<double>(tensor);
    case PEN_I8:
      return numbersOf<int8_t>(tensor);
    case PEN_U8:
      return numbersOf<uint8_t>(tensor);
    case PEN_I16:
      return numbersOf<int16_t>(tensor);
    case PEN_I32:
      return numbersOf<int32_t>(tensor);
    case PEN_I64:
      return numbersOf<int64_t>(tensor);
    case PEN_BOOL:
      return numbersOf<bool>(tensor);
    default:
      return [NSArray array];
  }
}

- (void)dealloc {
  delete static_cast<penlight::Tensor*>(_tensor);
  PEN_DEALLOC_SUPER();
}

@end

@implementation PENTuple

+ (instancetype)tupleWithItems:(NSArray*)items {
  return [self tupleWithType:@"" fields:[NSArray array] items:items];
}

+ (instancetype)tupleWithType:(NSString*)type fields:(NSArray<NSString*>*)fields items:(NSArray*)items {
  PENTuple* made = [[self alloc] init];
  made->_type = [type copy];
  made->_fields = [fields copy];
  made->_items = [items copy];
  return PEN_AUTORELEASED(made);
}

- (NSArray*)items {
  return _items;
}

- (NSString*)type {
  return _type;
}

- (NSArray<NSString*>*)fields {
  return _fields;
}

- (nullable id)itemForField:(NSString*)field {
  NSUInteger index = [_fields indexOfObject:field];
  return index < [_items count] ? [_items objectAtIndex:index] : nil;
}

- (void)dealloc {
  PEN_LET_GO(_type);
  PEN_LET_GO(_fields);
  PEN_LET_GO(_items);
  PEN_DEALLOC_SUPER();
}

@end
