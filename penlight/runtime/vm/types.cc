#include "penlight/runtime/vm/types.h"

namespace pen {
namespace {

struct Text {
  const char* begin;
  const char* end;
  size_t size() const { return static_cast<size_t>(end - begin); }
  bool is(const char* name) const { return strlen(name) == size() && memcmp(begin, name, size()) == 0; }
  bool starts(const char* name) const { return strlen(name) <= size() && memcmp(begin, name, strlen(name)) == 0; }
};

Text trimmed(Text t) {
  while (t.begin < t.end && *t.begin == ' ') ++t.begin;
  while (t.begin < t.end && t.end[-1] == ' ') --t.end;
  return t;
}

// Takes the next part off `rest`, up to a separator outside of brackets.
Text next_part(Text* rest, char separator) {
  int depth = 0;
  const char* p = rest->begin;
  for (; p < rest->end; ++p) {
    depth += (*p == '[' || *p == '(') - (*p == ']' || *p == ')');
    if (*p == separator && depth == 0) break;
  }
  Text part = {rest->begin, p};
  rest->begin = p < rest->end ? p + 1 : p;
  return trimmed(part);
}

// What stands in the brackets of "List[…]".
bool inside(Text t, const char* name, Text* in) {
  size_t n = strlen(name);
  if (!t.starts(name) || t.size() < n + 2 || t.begin[n] != '[' || t.end[-1] != ']') return false;
  *in = trimmed({t.begin + n + 1, t.end - 1});
  return true;
}

constexpr int64_t kMaxLooks = int64_t{1} << 24;  // shared parts are looked at each time: a small value may be much work

bool fits(const Value& v, Text type, int depth, int64_t* left);

bool all_fit(const Value* items, int64_t count, Text type, int depth, int64_t* left) {
  for (int64_t i = 0; i < count; ++i)
    if (!fits(items[i], type, depth + 1, left)) return false;
  return true;
}

bool fits(const Value& v, Text type, int depth, int64_t* left) {
  if (depth > kMaxNesting || --*left < 0) return false;
  type = trimmed(type);
  Text in;
  if (type.is("Tensor")) return v.tag() == Tag::tensor;
  if (type.is("int")) return v.tag() == Tag::integer;
  if (type.is("float")) return v.tag() == Tag::real;
  if (type.is("bool")) return v.tag() == Tag::boolean;
  if (type.is("str") || type.is("Device")) return v.tag() == Tag::string;
  if (type.is("NoneType") || type.is("None")) return v.is_none();
  if (type.is("Any")) return true;
  if (type.is("number") || type.is("Scalar")) return v.is_number() && v.tag() != Tag::boolean;
  if (type.is("list") || type.is("AnyList")) return v.tag() == Tag::list;
  if (type.is("tuple") || type.is("AnyTuple")) return v.tag() == Tag::tuple;
  if (inside(type, "Optional", &in)) return v.is_none() || fits(v, in, depth + 1, left);
  if (inside(type, "List", &in)) return v.tag() == Tag::list && all_fit(v.list()->items, v.list()->count, in, depth, left);
  if (inside(type, "Union", &in)) {
    while (in.begin < in.end)
      if (fits(v, next_part(&in, ','), depth + 1, left)) return true;
    return false;
  }
  if (inside(type, "Tuple", &in)) {
    if (v.tag() != Tag::tuple) return false;
    int64_t i = 0;
    if (in.is("()")) return v.tuple()->count == 0;
    for (; in.begin < in.end; ++i) {
      Text part = next_part(&in, ',');
      if (i >= v.tuple()->count || !fits(v.tuple()->items[i], part, depth + 1, left)) return false;
    }
    return i == v.tuple()->count;
  }
  if (inside(type, "Dict", &in)) {
    if (v.tag() != Tag::dict) return false;
    Text key = next_part(&in, ',');
    for (int64_t i = -1; dict_next(v.dict(), &i);)
      if (!fits(v.dict()->entries[i].key, key, depth + 1, left) || !fits(v.dict()->entries[i].value, in, depth + 1, left)) return false;
    return true;
  }
  if (v.tag() == Tag::object) return v.object()->type_name && type.is(v.object()->type_name);
  return v.tag() == Tag::tuple && v.tuple()->type && type.is(v.tuple()->type->name);
}

}  // namespace

bool is_instance(const Value& value, const char* types, int64_t* looks) {
  Text rest = {types, types + strlen(types)};
  int64_t left = kMaxLooks;
  bool found = false;
  while (!found && rest.begin < rest.end) found = fits(value, next_part(&rest, '|'), 0, &left);
  *looks = kMaxLooks - left;
  return found;
}

}  // namespace pen
