// "{}".format(…) and "%d" % …, in the small part of Python's language that TorchScript has.
#include "penlight/ops/script/script.h"

namespace pen {

PEN_OP(format, "[quantized]", "aten::format(str self, ...) -> str") {
  const StringObject& s = *c.args[0].string();
  script::Text text(c);
  int used = 1;
  for (int64_t i = 0; i < s.size; ++i) {
    if (s.text[i] != '{' || i + 1 >= s.size || s.text[i + 1] != '}') {
      text.add(s.text[i]);
      continue;
    }
    if (used >= c.count) return c.raise("Too few arguments for format string: %.300s", s.text);
    script::write_value(&text, c, c.args[used++]);
    ++i;
  }
  return script::give_text(c, text);
}

static Status write_item(Call& c, script::Text* text, char key, const Value& v) {
  bool number = v.is_number();
  switch (key) {
    case 'd':
    case 'i':
      if (!number) return c.raise("%%%c requires a number for formatting, but got %s", key, v.tag_name());
      if (v.tag() != Tag::real) {
        text->format("%lld", static_cast<long long>(v.integer()));
        return PEN_OK;
      }
      // A 32-bit int, as torch casts it.
      text->format("%d", v.real() > -2147483649.0 && v.real() < 2147483648.0 ? static_cast<int>(v.real()) : INT32_MIN);
      return PEN_OK;
    case 'e':
    case 'E':
    case 'f':
    case 'F': {
      if (!number) return c.raise("%%%c requires a number for formatting, but got %s", key, v.tag_name());
      // torch's number is a float32 here, and infinity has small letters but for E.
      char format[] = {'%', key == 'F' ? 'f' : key, 0};
      char buffer[400];
      snprintf(buffer, sizeof buffer, format, static_cast<double>(static_cast<float>(v.number())));
      text->add(buffer);
      return PEN_OK;
    }
    case 'c':
      if (v.tag() == Tag::integer)
        text->add(static_cast<char>(v.integer()));
      else if (v.tag() == Tag::string && v.string()->size == 1)
        text->add(*v.string());
      else
        return c.raise("%%c requires an int or char for formatting, but got %s", v.tag_name());
      return PEN_OK;
    case 's':
      script::write_value(text, c, v);
      return PEN_OK;
    default:
      return c.raise("The specifier %%%c is not supported in TorchScript format strings", key);
  }
}

PEN_OP(percent_format, "[quantized]", "aten::percentFormat(str self, ...) -> str") {
  const StringObject& s = *c.args[0].string();
  if (c.count < 2) return c.fail("a value or a tuple of values to format", "none");
  const Value& given = c.args[1];
  bool tuple = given.tag() == Tag::tuple;
  int64_t used = 0, count = tuple ? given.tuple()->count : 1;
  script::Text text(c);
  for (int64_t i = 0; i < s.size; ++i) {
    if (s.text[i] != '%') {
      text.add(s.text[i]);
      continue;
    }
    if (++i == s.size) return c.raise("Incomplete format specifier");
    if (s.text[i] == '%') {
      text.add('%');
      continue;
    }
    if (used >= count) return c.raise("Too few arguments for format string");
    PEN_TRY(write_item(c, &text, s.text[i], tuple ? given.tuple()->items[used] : given));
    ++used;
  }
  if (used != count) return c.raise("Too many arguments for format string");
  return script::give_text(c, text);
}

}  // namespace pen
