// Strings: bytes, as in torch, whose letters are ASCII's. Building, cutting, asking what they are made of.
#include "penlight/ops/script/script.h"

namespace pen {

static const StringObject& str(const Call& c, int i) { return *c.args[i].string(); }
static Status give_part(Call& c, const StringObject& s, int64_t from, int64_t to, int result = 0) {
  return script::give_text(c, s.text + from, to > from ? to - from : 0, result);
}

PEN_OP(add_str, "aten::add.str(str a, str b) -> str") {
  const StringObject &a = str(c, 0), &b = str(c, 1);
  StringObject* made = string_create(nullptr, a.size + b.size);
  if (made) {
    memcpy(made->text, a.text, static_cast<size_t>(a.size));
    memcpy(made->text + a.size, b.text, static_cast<size_t>(b.size));
  }
  return c.give(made);
}
PEN_OP(getitem_str, "[counts]", "aten::__getitem__.str(str s, int index) -> str", "prim::StringIndex(str string, int index) -> str") {
  int64_t at = script::from_end(c.integer(1), str(c, 0).size);
  if (at < 0 || at >= str(c, 0).size) return c.raise("string index out of range");
  return give_part(c, str(c, 0), at, at + 1);
}
PEN_OP(slice_str, "[counts]", "aten::slice.str(str string, int? start=None, int? end=None, int step=1) -> str") {
  script::Slice slice;
  PEN_TRY(script::slice_of(c, c.args[1], c.args[2], c.integer(3), str(c, 0).size, &slice));
  script::Text text(c);
  for (int64_t i = 0; i < slice.picked; ++i) text.add(str(c, 0).text[slice.from + i * slice.step]);
  return script::give_text(c, text);
}
PEN_OP(join, "aten::join(str self, str[] values) -> str") {
  script::Text text(c);
  for (int64_t i = 0; i < c.list(1).count; ++i) {
    if (i) text.add(str(c, 0));
    text.add(*c.list(1).items[i].string());
  }
  return script::give_text(c, text);
}

// ---- letters ----
static bool is_upper(char ch) { return ch >= 'A' && ch <= 'Z'; }
static bool is_lower(char ch) { return ch >= 'a' && ch <= 'z'; }
static bool is_alpha(char ch) { return is_upper(ch) || is_lower(ch); }
static bool is_digit(char ch) { return ch >= '0' && ch <= '9'; }
static bool is_alnum(char ch) { return is_alpha(ch) || is_digit(ch); }
static bool is_space(char ch) { return ch == ' ' || (ch >= '\t' && ch <= '\r'); }
static bool is_print(char ch) { return ch >= ' ' && ch <= '~'; }
static char upper(char ch) { return is_lower(ch) ? static_cast<char>(ch - 32) : ch; }
static char lower(char ch) { return is_upper(ch) ? static_cast<char>(ch + 32) : ch; }
static char swapped(char ch) { return is_lower(ch) ? upper(ch) : lower(ch); }

static Status map(Call& c, char (*letter)(char)) {
  StringObject* made = string_create(str(c, 0).text, str(c, 0).size);
  for (int64_t i = 0; made && i < made->size; ++i) made->text[i] = letter(made->text[i]);
  return c.give(made);
}
static Status all_letters(Call& c, bool (*is)(char), bool of_none = false) {
  const StringObject& s = str(c, 0);
  for (int64_t i = 0; i < s.size; ++i)
    if (!is(s.text[i])) return c.give(false);
  return c.give(s.size > 0 || of_none);
}
PEN_OP(upper, "aten::upper(str self) -> str") { return map(c, upper); }
PEN_OP(lower, "aten::lower(str self) -> str") { return map(c, lower); }
PEN_OP(swapcase, "aten::swapcase(str self) -> str") { return map(c, swapped); }
PEN_OP(capitalize, "aten::capitalize(str self) -> str") {
  StringObject* made = string_create(str(c, 0).text, str(c, 0).size);
  for (int64_t i = 0; made && i < made->size; ++i) made->text[i] = i ? lower(made->text[i]) : upper(made->text[i]);
  return c.give(made);
}
PEN_OP(title, "aten::title(str self) -> str") {
  StringObject* made = string_create(str(c, 0).text, str(c, 0).size);
  bool inside = false;  // a word
  for (int64_t i = 0; made && i < made->size; ++i) {
    made->text[i] = inside ? lower(made->text[i]) : upper(made->text[i]);
    inside = is_alpha(made->text[i]);
  }
  return c.give(made);
}
PEN_OP(isalpha, "aten::isalpha(str self) -> bool") { return all_letters(c, is_alpha); }
PEN_OP(isdigit, "aten::isdigit(str self) -> bool", "aten::isnumeric(str self) -> bool", "aten::isdecimal(str self) -> bool") {
  return all_letters(c, is_digit);
}
PEN_OP(isalnum, "aten::isalnum(str self) -> bool") { return all_letters(c, is_alnum); }
PEN_OP(isspace, "aten::isspace(str self) -> bool") { return all_letters(c, is_space); }
PEN_OP(isprintable, "aten::isprintable(str self) -> bool") { return all_letters(c, is_print, true); }
// No underscores, unlike in Python.
PEN_OP(isidentifier, "aten::isidentifier(str self) -> bool") {
  const StringObject& s = str(c, 0);
  for (int64_t i = 0; i < s.size; ++i)
    if (!(i ? is_alnum(s.text[i]) : is_alpha(s.text[i]))) return c.give(false);
  return c.give(s.size > 0);
}
static Status one_case(Call& c, bool (*other)(char)) {
  const StringObject& s = str(c, 0);
  bool letters = false;
  for (int64_t i = 0; i < s.size; ++i) {
    if (other(s.text[i])) return c.give(false);
    letters |= is_alpha(s.text[i]);
  }
  return c.give(letters);
}
PEN_OP(isupper, "aten::isupper(str self) -> bool") { return one_case(c, is_lower); }
PEN_OP(islower, "aten::islower(str self) -> bool") { return one_case(c, is_upper); }
PEN_OP(istitle, "aten::istitle(str self) -> bool") {
  const StringObject& s = str(c, 0);
  bool inside = false, letters = false;
  for (int64_t i = 0; i < s.size; ++i) {
    if (is_alpha(s.text[i])) {
      if (inside ? is_upper(s.text[i]) : is_lower(s.text[i])) return c.give(false);
      letters = true;
    }
    inside = is_alpha(s.text[i]);
  }
  return c.give(letters);
}

// ---- width ----
static Status padded(Call& c, int64_t left, int64_t right) {
  if (str(c, 2).size != 1) return c.raise("TypeError: The fill character must be exactly one character long");
  script::Text text(c);
  text.repeat(str(c, 2).text[0], left);
  text.add(str(c, 0));
  text.repeat(str(c, 2).text[0], right);
  return script::give_text(c, text);
}
// How much is missing to the width asked for; a width far beyond any text is refused by Text.
static int64_t missing(const Call& c) {
  int64_t size = str(c, 0).size;
  return c.integer(1) > size ? c.integer(1) - size : 0;
}
PEN_OP(ljust, "aten::ljust(str self, int width, str fillchar=' ') -> str") { return padded(c, 0, missing(c)); }
PEN_OP(rjust, "aten::rjust(str self, int width, str fillchar=' ') -> str") { return padded(c, missing(c), 0); }
PEN_OP(center, "aten::center(str self, int width, str fillchar=' ') -> str") {
  int64_t total = missing(c), left = total / 2 + (total & c.integer(1) & 1);  // Python's choice of the wider side
  return padded(c, left, total - left);
}
// A sign stays behind the zeros, unlike in Python.
PEN_OP(zfill, "aten::zfill(str self, int width) -> str") {
  script::Text text(c);
  text.repeat('0', missing(c));
  text.add(str(c, 0));
  return script::give_text(c, text);
}
// Columns count from the beginning of the string, not of the line.
PEN_OP(expandtabs, "aten::expandtabs(str self, int tabsize=8) -> str") {
  const StringObject& s = str(c, 0);
  int64_t tab = c.integer(1), column = 0;
  script::Text text(c);
  for (int64_t i = 0; text.ok && i < s.size; ++i) {
    if (s.text[i] == '\t') {
      if (tab <= 0) continue;
      int64_t spaces = tab - column % tab;
      text.repeat(' ', spaces);
      column += spaces;
    } else {
      text.add(s.text[i]);
      ++column;
    }
  }
  return script::give_text(c, text);
}

// ---- edges ----
static Status stripped(Call& c, bool left, bool right) {
  const StringObject &s = str(c, 0), &chars = str(c, 1);
  bool among[256] = {};
  for (int64_t i = 0; i < chars.size; ++i) among[static_cast<uint8_t>(chars.text[i])] = true;
  int64_t from = 0, to = s.size;
  while (left && from < to && among[static_cast<uint8_t>(s.text[from])]) ++from;
  while (right && to > from && among[static_cast<uint8_t>(s.text[to - 1])]) --to;
  return give_part(c, s, from, to);
}
PEN_OP(strip, "aten::strip(str self, str chars=' \\n\\t\\f\\v') -> str") { return stripped(c, true, true); }
PEN_OP(lstrip, "aten::lstrip(str self, str chars=' \\n\\t\\f\\v') -> str") { return stripped(c, true, false); }
PEN_OP(rstrip, "aten::rstrip(str self, str chars=' \\n\\t\\f\\v') -> str") { return stripped(c, false, true); }

}  // namespace pen
