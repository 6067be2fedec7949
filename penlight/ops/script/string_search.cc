// Strings inside strings: finding, counting, replacing, splitting.
#include "penlight/ops/script/script.h"

namespace pen {

namespace {

const StringObject& str(const Call& c, int i) { return *c.args[i].string(); }
Status give_part(Call& c, const StringObject& s, int64_t from, int64_t to, int result = 0) {
  return script::give_text(c, s.text + from, to > from ? to - from : 0, result);
}

struct Bounds {
  int64_t from, to;
};
// torch's `start` and `end`: a negative end counts from one past the last byte, so the default, -1, is the whole string.
Bounds asked(const Call& c, int64_t size) {
  int64_t from = c.integer(2), to = c.integer(3);
  if (from < 0) from = from + size < 0 ? 0 : from + size;
  if (to < 0) to = to + size + 1 < 0 ? 0 : to + size + 1;
  return {from, to > size ? size : to};
}
// In pieces, of which those that are the same count: "aa…" and "aa…ab" are alike for long, at every place.
Status matches(const Call& c, const StringObject& s, int64_t at, const StringObject& part, bool* same) {
  constexpr int64_t kPiece = 4096;
  *same = true;
  for (int64_t i = 0; *same && i < part.size; i += kPiece) {
    const int64_t size = part.size - i < kPiece ? part.size - i : kPiece;
    if (i) PEN_TRY(c.walk(kPiece >> 4));
    *same = memcmp(s.text + at + i, part.text + i, static_cast<size_t>(size)) == 0;
  }
  return PEN_OK;
}
// The first (or last) place of `part` that lies wholly in from..to; -1: none.
Status find_in(const Call& c, const StringObject& s, const StringObject& part, int64_t from, int64_t to, bool last, int64_t* place) {
  const int64_t places = to - part.size - from + 1;
  // A long part may be compared for a whole piece before it differs.
  const int64_t together = part.size < 64 ? 16 : 1;
  for (int64_t i = 0; i < places; ++i) {
    bool same;
    *place = last ? from + places - 1 - i : from + i;
    if (i % together == 0) PEN_TRY(c.walk(1));
    PEN_TRY(matches(c, s, *place, part, &same));
    if (same) return PEN_OK;
  }
  *place = -1;
  return PEN_OK;
}
Status find_asked(const Call& c, bool last, int64_t* place) {
  Bounds r = asked(c, str(c, 0).size);
  *place = -1;
  return r.from > r.to ? PEN_OK : find_in(c, str(c, 0), str(c, 1), r.from, r.to, last, place);
}
Status give_place(Call& c, bool last, bool must) {
  int64_t at;
  PEN_TRY(find_asked(c, last, &at));
  return must && at < 0 ? c.raise("ValueError: substring not found") : c.give(at);
}

bool append_part(ListObject* list, const char* text, int64_t size) {
  Value part = Value::own(string_create(text, size));
  return !part.is_none() && list_append(list, part);
}

}  // namespace

PEN_OP(find_str, "[counts]", "aten::find(str self, str substr, int start=0, int end=-1) -> int") { return give_place(c, false, false); }
PEN_OP(rfind_str, "[counts]", "aten::rfind(str self, str substr, int start=0, int end=-1) -> int") { return give_place(c, true, false); }
PEN_OP(index_str, "[counts]", "aten::index.str(str self, str substr, int start=0, int end=-1) -> int") {
  return give_place(c, false, true);
}
PEN_OP(rindex_str, "[counts]", "aten::rindex(str self, str substr, int start=0, int end=-1) -> int") { return give_place(c, true, true); }
// Of an end before the start these two make the end of the string.
static Bounds edges(const Call& c) {
  Bounds r = asked(c, str(c, 0).size);
  return {r.from, r.to < r.from ? str(c, 0).size : r.to};
}
static Status give_match(Call& c, const Bounds& r, int64_t at) {
  bool same = r.from <= r.to && r.to - r.from >= str(c, 1).size;
  if (same) PEN_TRY(matches(c, str(c, 0), at, str(c, 1), &same));
  return c.give(same);
}
PEN_OP(startswith, "[counts]", "aten::startswith(str self, str substr, int start=0, int end=-1) -> bool") {
  Bounds r = edges(c);
  return give_match(c, r, r.from);
}
PEN_OP(endswith, "[counts]", "aten::endswith(str self, str substr, int start=0, int end=-1) -> bool") {
  Bounds r = edges(c);
  return give_match(c, r, r.to - str(c, 1).size);
}
PEN_OP(count_str, "aten::count(str self, str substr, int start=0, int end=-1) -> int") {
  const StringObject &s = str(c, 0), &part = str(c, 1);
  Bounds r = asked(c, s.size);
  if (r.from > r.to) return c.give(int64_t{0});
  if (part.size == 0) return c.give(r.to - r.from + 1);
  int64_t count = 0;
  // Beginning before the end is enough for torch.
  for (int64_t at = r.from;; at += part.size, ++count) {
    PEN_TRY(find_in(c, s, part, at, s.size, false, &at));
    if (at < 0 || at >= r.to) return c.give(count);
  }
}
PEN_OP(replace, "aten::replace(str self, str old, str new, int max=-1) -> str") {
  const StringObject &s = str(c, 0), &old = str(c, 1), &fresh = str(c, 2);
  int64_t left = c.integer(3) < 0 ? INT64_MAX : c.integer(3);
  script::Text text(c);
  int64_t at = 0;
  while (text.ok && left > 0) {
    int64_t next;
    PEN_TRY(find_in(c, s, old, at, s.size, false, &next));
    if (next < 0) break;
    text.add(s.text + at, next - at);
    text.add(fresh);
    at = next + old.size;
    --left;
    if (old.size > 0) continue;
    if (at == s.size) break;  // of an empty `old`: before every byte, and at the end
    text.add(s.text[at++]);
  }
  text.add(s.text + at, s.size - at);
  return script::give_text(c, text);
}

// ---- splitting ----
PEN_OP(split_str, "aten::split.str(str self, str? separator=None, int max=-1) -> str[]") {
  const StringObject& s = str(c, 0);
  Value made = Value::own(list_create(4));
  if (made.is_none()) return c.out_of_memory();
  int64_t left = c.integer(2) < 0 ? INT64_MAX : c.integer(2), at = 0;
  if (!c.given(1)) {  // at any run of white space
    auto space = [&](int64_t i) { return s.text[i] == ' ' || (s.text[i] >= '\t' && s.text[i] <= '\r'); };
    while (true) {
      while (at < s.size && space(at)) ++at;
      if (at == s.size) break;
      int64_t end = at;
      while (end < s.size && !space(end)) ++end;
      if (!append_part(made.list(), s.text + at, end - at)) return c.out_of_memory();
      at = end;
    }
    return c.give(static_cast<Value&&>(made));
  }
  const StringObject& separator = str(c, 1);
  if (separator.size == 0) return c.raise("ValueError: empty separator");
  for (; left > 0; --left) {
    int64_t next;
    PEN_TRY(find_in(c, s, separator, at, s.size, false, &next));
    if (next < 0) break;
    if (!append_part(made.list(), s.text + at, next - at)) return c.out_of_memory();
    at = next + separator.size;
  }
  if (!append_part(made.list(), s.text + at, s.size - at)) return c.out_of_memory();
  return c.give(static_cast<Value&&>(made));
}
PEN_OP(rsplit_str, "aten::rsplit(str self, str separator=' ', int max=-1) -> str[]") {
  const StringObject &s = str(c, 0), &separator = str(c, 1);
  if (separator.size == 0) return c.raise("ValueError: empty separator");
  Value made = Value::own(list_create(4));
  if (made.is_none()) return c.out_of_memory();
  int64_t left = c.integer(2) < 0 ? INT64_MAX : c.integer(2), end = s.size;
  for (; left > 0; --left) {
    int64_t next;
    PEN_TRY(find_in(c, s, separator, 0, end, true, &next));
    if (next < 0) break;
    if (!append_part(made.list(), s.text + next + separator.size, end - next - separator.size)) return c.out_of_memory();
    end = next;
  }
  if (!append_part(made.list(), s.text, end)) return c.out_of_memory();
  ListObject& l = *made.list();
  for (int64_t i = 0, j = l.count - 1; i < j; ++i, --j) l.items[i].swap(l.items[j]);
  return c.give(static_cast<Value&&>(made));
}
// Lines end at any single byte of these, those of U+2028 and U+2029 in UTF-8 among them; kept ends are items of their own.
PEN_OP(splitlines, "aten::splitlines(str self, bool keepends=False) -> str[]") {
  static const char kEnds[] = "\n\r\v\f\x1c\x1d\x1e\x85\xe2\x80\xa8\xa9";
  const StringObject& s = str(c, 0);
  Value made = Value::own(list_create(4));
  if (made.is_none()) return c.out_of_memory();
  for (int64_t at = 0; at < s.size;) {
    int64_t end = at;
    auto ends = [&](char ch) {
      for (const char* e = kEnds; *e; ++e)
        if (*e == ch) return true;
      return false;
    };
    while (end < s.size && !ends(s.text[end])) ++end;
    if (!append_part(made.list(), s.text + at, end - at)) return c.out_of_memory();
    if (end < s.size && c.flag(1) && !append_part(made.list(), s.text + end, 1)) return c.out_of_memory();
    at = end + 1;
  }
  return c.give(static_cast<Value&&>(made));
}
static Status parted(Call& c, bool last) {
  const StringObject &s = str(c, 0), &separator = str(c, 1);
  int64_t at;
  PEN_TRY(find_in(c, s, separator, 0, s.size, last, &at));
  if (at < 0) {
    PEN_TRY(give_part(c, s, 0, last ? 0 : s.size, 0));
    PEN_TRY(give_part(c, s, 0, 0, 1));
    return give_part(c, s, 0, last ? s.size : 0, 2);
  }
  PEN_TRY(give_part(c, s, 0, at, 0));
  PEN_TRY(c.give(Value(c.args[1]), 1));
  return give_part(c, s, at + separator.size, s.size, 2);
}
PEN_OP(partition, "aten::partition(str self, str separator) -> (str, str, str)") { return parted(c, false); }
PEN_OP(rpartition, "aten::rpartition(str self, str separator) -> (str, str, str)") { return parted(c, true); }

}  // namespace pen
