// Foundation's objects to penlight::Value and back. NSNumber says by its type encoding whether it is a bool, a whole number or a float.
#import "PENValues.h"

NSString* const PENErrorDomain = @"org.pytorch.penlight";

std::string PENText(NSString* text) {
  NSData* bytes = [text dataUsingEncoding:NSUTF8StringEncoding];  // not UTF8String: a text may have a 0 inside
  return std::string(static_cast<const char*>([bytes bytes]), [bytes length]);
}

NSString* PENString(const std::string& text) {
  NSString* made = [[NSString alloc] initWithBytes:text.data() length:text.size() encoding:NSUTF8StringEncoding];
  // A model's text or a file's name may be any bytes; nil in a container would end the app.
  if (!made) made = [[NSString alloc] initWithBytes:text.data() length:text.size() encoding:NSISOLatin1StringEncoding];
  return PEN_AUTORELEASED(made);
}

void PENSetError(NSError** error, const penlight::Error& problem) {
  if (!error) return;
  NSDictionary* about = [NSDictionary dictionaryWithObject:PENString(problem.message) forKey:NSLocalizedDescriptionKey];
  *error = [NSError errorWithDomain:PENErrorDomain code:problem.status userInfo:about];
}

static const int kDeepest = 200;  // levels, as in other languages

static bool valueFromObject(id object, penlight::Value* value, std::string* problem, int depth);

static bool number(NSNumber* given, penlight::Value* value, std::string* problem) {
  const char type = [given objCType][0];
  if (type == 'c' || type == 'B' || type == @encode(BOOL)[0]) {  // BOOL is another type here and there
    *value = [given boolValue] != NO;
  } else if (type == 'f' || type == 'd') {
    *value = [given doubleValue];
  } else if (type == 'Q' && [given unsignedLongLongValue] > INT64_MAX) {
    *problem = "an argument: expected a whole number of at most 64 bits with its sign, got " + PENText([given stringValue]);
    return false;
  } else {
    *value = int64_t([given longLongValue]);
  }
  return true;
}

static bool several(NSArray* objects, std::vector<penlight::Value>* made, std::string* problem, int depth) {
  for (id item in objects) {
    made->emplace_back();
    if (!valueFromObject(item, &made->back(), problem, depth)) return false;
  }
  return true;
}

bool PENValueFromObject(id object, penlight::Value* value, std::string* problem) { return valueFromObject(object, value, problem, 0); }

static bool valueFromObject(id object, penlight::Value* value, std::string* problem, int depth) {
  std::vector<penlight::Value> items;
  if (depth > kDeepest) {
    *problem = "an argument: expected at most 200 levels, got more, or one that contains itself";
    return false;
  }
  if (object == nil || [object isKindOfClass:[NSNull class]]) {
    *value = penlight::Value();
  } else if ([object isKindOfClass:[PENTensor class]]) {
    *value = [static_cast<PENTensor*>(object) penlight];
  } else if ([object isKindOfClass:[NSNumber class]]) {
    if (!number(object, value, problem)) return false;
  } else if ([object isKindOfClass:[NSString class]]) {
    *value = PENText(object);
  } else if ([object isKindOfClass:[NSArray class]]) {
    if (!several(object, &items, problem, depth + 1)) return false;
    *value = penlight::Value::list(std::move(items));
  } else if ([object isKindOfClass:[PENTuple class]]) {
    PENTuple* tuple = object;
    if (!several([tuple items], &items, problem, depth + 1)) return false;
    std::vector<std::string> fields;
    for (NSString* field in [tuple fields]) fields.push_back(PENText(field));
    *value = penlight::Value::named_tuple(PENText([tuple type]), std::move(fields), std::move(items));
  } else if ([object isKindOfClass:[NSDictionary class]]) {
    std::vector<std::pair<penlight::Value, penlight::Value>> entries;
    for (id key in static_cast<NSDictionary*>(object)) {
      entries.emplace_back();
      if (!valueFromObject(key, &entries.back().first, problem, depth + 1) ||
          !valueFromObject([static_cast<NSDictionary*>(object) objectForKey:key], &entries.back().second, problem, depth + 1))
        return false;
    }
    *value = penlight::Value::dict(std::move(entries));
  } else {
    *problem = "an argument must be a PENTensor, NSNumber, NSString, NSNull, NSArray, PENTuple or NSDictionary, got a " +
               PENText(NSStringFromClass([object class]));
    return false;
  }
  return true;
}

static NSArray* objects(const std::vector<penlight::Value>& items) {
  NSMutableArray* made = [NSMutableArray arrayWithCapacity:items.size()];
  for (const penlight::Value& item : items) [made addObject:PENObjectFromValue(item)];
  return made;
}

id PENObjectFromValue(const penlight::Value& value) {
  switch (value.kind()) {
    case PEN_KIND_BOOL:
      return [NSNumber numberWithBool:*value.boolean()];
    case PEN_KIND_INT:
      return [NSNumber numberWithLongLong:*value.integer()];
    case PEN_KIND_FLOAT:
      return [NSNumber numberWithDouble:*value.number()];
    case PEN_KIND_STRING:
      return PENString(*value.string());
    case PEN_KIND_TENSOR:
      return [PENTensor tensorWithPenlight:*value.tensor()];
    case PEN_KIND_LIST:
      return objects(value.items());
    case PEN_KIND_DICT:
      return [NSDictionary dictionaryWithObjects:objects(value.items()) forKeys:objects(value.keys())];
    case PEN_KIND_NONE:
      return [NSNull null];
    default: {
      NSMutableArray* fields = [NSMutableArray array];
      for (const std::string& field : value.fields()) [fields addObject:PENString(field)];
      return [PENTuple tupleWithType:PENString(value.type()) fields:fields items:objects(value.items())];
    }
  }
}
