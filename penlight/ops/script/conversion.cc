// int(), float(), bool(), str(), ord(), chr(), hex() … of numbers, strings and one-element tensors.
#include "penlight/ops/script/script.h"

namespace pen {

PEN_OP(int_of, "aten::Int.float(float a) -> int", "aten::Int.bool(bool a) -> int", "aten::Int.Scalar(Scalar a) -> int") {
  if (c.op->param(0).kind == Kind::number && c.args[0].tag() == Tag::real && script::cut(c.number(0)) == INT64_MIN)
    return c.raise("value cannot be converted to type int without overflow");
  return c.give(c.args[0].tag() == Tag::real ? script::cut(c.number(0)) : c.integer(0));
}
PEN_OP(float_of, "aten::Float.int(int a) -> float", "aten::Float.bool(bool a) -> float", "aten::Float.Scalar(Scalar a) -> float") {
  return c.give(c.number(0));
}
PEN_OP(bool_of, "aten::Bool.int(int a) -> bool", "aten::Bool.float(float a) -> bool") { return c.give(c.number(0) != 0); }

// The text of a number in an error, cut to what a message holds.
static int shown(const StringObject& s) { return s.size > 60 ? 60 : static_cast<int>(s.size); }

// Digits alone and a sign, with spaces before them only where the whole of it is a number: what std::stoll takes.
PEN_OP(int_of_str, "aten::Int.str(str a) -> int") {
  const StringObject& s = *c.args[0].string();
  const char *at = s.text, *end = s.text + s.size;
  while (at < end && (*at == ' ' || (*at >= '\t' && *at <= '\r'))) ++at;
  bool minus = at < end && *at == '-';
  if (at < end && (*at == '-' || *at == '+')) ++at;
  const char* digits = at;
  uint64_t magnitude = 0;
  bool too_large = false;
  for (; at < end && *at >= '0' && *at <= '9'; ++at) {
    uint64_t digit = static_cast<uint64_t>(*at - '0');
    too_large |= magnitude > (UINT64_MAX - digit) / 10;
    magnitude = magnitude * 10 + digit;
  }
  if (at == digits || at != end) return c.raise("invalid literal for int() with base 10: '%.*s'", shown(s), s.text);
  if (too_large || magnitude > static_cast<uint64_t>(INT64_MAX) + minus)
    return c.raise("int() of '%.*s': more than 64 bits", shown(s), s.text);
  return c.give(static_cast<int64_t>(minus ? 0 - magnitude : magnitude));
}
PEN_OP(float_of_str, "aten::Float.str(str a) -> float") {
  const StringObject& s = *c.args[0].string();
  char* end;
  double value = strtod(s.text, &end);
  if (end == s.text || end != s.text + s.size) return c.raise("could not convert string to float: '%.*s'", shown(s), s.text);
  bool digits = false;  // else it says inf itself
  for (int64_t i = 0; i < s.size; ++i) digits |= s.text[i] >= '0' && s.text[i] <= '9';
  if (digits && __builtin_fabs(value) == __builtin_inf()) return c.raise("float() of '%.*s': too large", shown(s), s.text);
  return c.give(value);
}

// ---- tensors of one element ----
PEN_OP(int_of_tensor, "[quantized]", "aten::Int.Tensor(Tensor a) -> int", "aten::IntImplicit(Tensor a) -> int") {
  Value number;
  PEN_TRY(number_in(c, c.tensor(0), &number));
  if (number.tag() != Tag::real) return c.give(number.integer());
  if (script::cut(number.real()) == INT64_MIN) return c.raise("value cannot be converted to type int64_t without overflow");
  return c.give(script::cut(number.real()));
}
PEN_OP(float_of_tensor, "[quantized]", "aten::Float.Tensor(Tensor a) -> float", "aten::FloatImplicit(Tensor a) -> float") {
  Value number;
  PEN_TRY(number_in(c, c.tensor(0), &number));
  return c.give(number.number());
}
PEN_OP(bool_of_tensor, "[quantized]", "aten::Bool.Tensor(Tensor a) -> bool") {
  Value number;
  PEN_TRY(number_in(c, c.tensor(0), &number));
  return c.give(number.number() != 0);
}
PEN_OP(number_of_tensor, "[quantized]", "aten::item(Tensor self) -> Scalar", "aten::ScalarImplicit(Tensor a) -> Scalar",
       "aten::_local_scalar_dense(Tensor self) -> Scalar") {
  Value number;
  PEN_TRY(number_in(c, c.tensor(0), &number));
  return c.give(static_cast<Value&&>(number));
}

// ---- to text ----
PEN_OP(str_of, "[quantized]", "aten::str(t elem) -> str") {
  script::Text text(c);
  script::write_value(&text, c, c.args[0]);
  return script::give_text(c, text);
}
PEN_OP(ord, "aten::ord(str string) -> int") {
  const StringObject& s = *c.args[0].string();
  if (s.size != 1) return c.raise("String for ord() must be 1 character, found %lld", static_cast<long long>(s.size));
  return c.give(int64_t{static_cast<uint8_t>(s.text[0])});
}
PEN_OP(chr, "aten::chr(int i) -> str") {
  if (c.integer(0) < 0 || c.integer(0) > 1114111)
    return c.raise("chr() arg not in range(0x110000), found %lld", static_cast<long long>(c.integer(0)));
  char byte = static_cast<char>(c.integer(0));
  return script::give_text(c, &byte, 1);
}
static Status to_base(Call& c, const char* prefix, int bits) {
  int64_t i = c.integer(0);
  uint64_t magnitude = static_cast<uint64_t>(i);
  if (i < 0) magnitude = 0 - magnitude;
  char buffer[80];
  int at = sizeof buffer;
  do {
    buffer[--at] = "0123456789abcdef"[magnitude & ((1u << bits) - 1)];
    magnitude >>= bits;
  } while (magnitude);
  buffer[--at] = prefix[1];
  buffer[--at] = prefix[0];
  if (i < 0) buffer[--at] = '-';
  return script::give_text(c, buffer + at, static_cast<int64_t>(sizeof buffer) - at);
}
PEN_OP(hex, "aten::hex(int i) -> str") { return to_base(c, "0x", 4); }
PEN_OP(oct, "aten::oct(int i) -> str") { return to_base(c, "0o", 3); }
PEN_OP(bin, "aten::bin(int i) -> str") { return to_base(c, "0b", 1); }

// Equal values have equal hashes; the numbers themselves are this library's own.
static uint64_t hash_value(const Value& v) {
  uint64_t h = 14695981039346656037ull;
  switch (v.tag()) {
    case Tag::none:
      return 0;
    case Tag::boolean:
    case Tag::integer:
      return static_cast<uint64_t>(v.integer());
    case Tag::real: {
      double d = v.real();
      if (static_cast<double>(script::cut(d)) == d) return static_cast<uint64_t>(script::cut(d));
      memcpy(&h, &d, sizeof h);
      return h;
    }
    case Tag::string:
      for (int64_t i = 0; i < v.string()->size; ++i) h = (h ^ static_cast<uint8_t>(v.string()->text[i])) * 1099511628211ull;
      return h;
    default:
      return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(v.heap())) >> 4;
  }
}
PEN_OP(hash, "aten::hash.generic(t value) -> int") {
  auto text = [](const Value& v) { return v.tag() == Tag::string ? v.string()->size >> 4 : int64_t{0}; };
  PEN_TRY(c.walk(text(c.args[0])));
  if (c.args[0].tag() != Tag::tuple) return c.give(static_cast<int64_t>(hash_value(c.args[0])));
  uint64_t h = 0;
  const TupleObject& t = *c.args[0].tuple();
  for (int64_t i = 0; i < t.count; ++i) {
    if (t.items[i].on_heap() && t.items[i].tag() != Tag::string)
      return c.fail("a tuple of numbers and strings", "%s in it", t.items[i].tag_name());
    PEN_TRY(c.walk(1 + text(t.items[i])));
    h = (h ^ hash_value(t.items[i])) * 0x9E3779B97F4A7C15ull + 1;
  }
  return c.give(static_cast<int64_t>(h));
}

}  // namespace pen
