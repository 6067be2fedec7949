// Values as text, the way torch's operator<< writes them: str(x) and "{}".format(x) in TorchScript, which are not Python's. Floats
// have 17 digits ("0.10000000000000001"), whole ones end in a point ("1."), strings inside lists have no quotes.
#include "penlight/ops/script/script.h"

namespace pen::script {

Text::~Text() {
  free(data);
  account_give(account_at_work(), static_cast<size_t>(capacity));
}
void Text::add(const char* text) { add(text, static_cast<int64_t>(strlen(text))); }
void Text::add(const StringObject& s) { add(s.text, s.size); }
void Text::add(char ch) { add(&ch, 1); }
bool Text::spend(int64_t steps) {
  counted = size;
  if (status == PEN_OK) status = call.walk(steps);
  return ok = ok && status == PEN_OK;
}
void Text::add(const char* text, int64_t count) {
  constexpr int64_t kCountedEvery = 1 << 16;  // bytes
  if (!ok || count <= 0 || (size - counted >= kCountedEvery && !spend((size - counted) >> 4))) return;
  if (count > kMost - size) {
    ok = false;
    return;
  }
  if (size + count > capacity) {
    int64_t larger = capacity < 64 ? 64 : capacity * 2;
    if (larger < size + count) larger = size + count;
    Account* account = account_at_work();
    bool allowed = account_take(account, static_cast<size_t>(larger));
    char* grown = allowed ? static_cast<char*>(malloc(static_cast<size_t>(larger))) : nullptr;
    if (!grown) {
      if (allowed) account_give(account, static_cast<size_t>(larger));
      ok = false;
      starved = true;
      return;
    }
    if (size) memcpy(grown, data, static_cast<size_t>(size));
    free(data);
    account_give(account, static_cast<size_t>(capacity));
    data = grown;
    capacity = larger;
  }
  memcpy(data + size, text, static_cast<size_t>(count));
  size += count;
}
void Text::repeat(char ch, int64_t count) {
  if (count > kMost) ok = false;
  for (int64_t i = 0; ok && i < count; ++i) add(ch);
}
void Text::format(const char* format, ...) {
  char buffer[400];  // a float written out with "%f" has up to 317 characters
  __builtin_va_list args;
  __builtin_va_start(args, format);
  int count = vsnprintf(buffer, sizeof buffer, format, args);
  __builtin_va_end(args);
  add(buffer, count < static_cast<int>(sizeof buffer) ? count : static_cast<int>(sizeof buffer) - 1);
}
Status give_text(Call& c, const char* text, int64_t size, int result) { return c.give(string_create(text, size), result); }
Status give_text(Call& c, Text& text, int result) {
  if (text.starved) return c.out_of_memory();
  text.spend((text.size - text.counted) >> 4);
  PEN_TRY(text.status);
  if (!text.ok) return c.fail("text of at most 256 MiB, of at most 4194304 values", "more");
  return give_text(c, text.data, text.size, result);
}

static void write_float(Text* text, double d) {
  int64_t whole = cut(d);
  if (whole != INT64_MIN && static_cast<double>(whole) == d)
    text->format("%lld.", static_cast<long long>(whole));
  else if (d != d)
    text->add("nan");
  else
    text->format("%.17g", d);
}

static void write(Text* text, const Call& c, const Value& value, int depth);

static void write_items(Text* text, const Call& c, const Value* items, int64_t count, int depth) {
  for (int64_t i = 0; text->ok && i < count; ++i) {
    if (i) text->add(", ");
    write(text, c, items[i], depth + 1);
  }
}

static void write(Text* text, const Call& c, const Value& value, int depth) {
  if (depth > kMaxNesting) return text->add("...");
  if (++text->values > Text::kMostValues) text->ok = false;
  if (text->ok) text->spend(1 + ((text->size - text->counted) >> 4));
  if (!text->ok) return;
  switch (value.tag()) {
    case Tag::none:
      return text->add("None");
    case Tag::boolean:
      return text->add(value.boolean() ? "True" : "False");
    case Tag::integer:
      return text->format("%lld", static_cast<long long>(value.integer()));
    case Tag::real:
      return write_float(text, value.real());
    case Tag::string:
      return text->add(*value.string());
    case Tag::tensor:
      return write_tensor(text, c, *value.tensor());
    case Tag::list:
      text->add('[');
      write_items(text, c, value.list()->items, value.list()->count, depth);
      return text->add(']');
    case Tag::tuple: {
      const TupleObject& t = *value.tuple();
      text->add('(');
      write_items(text, c, t.items, t.count, depth);
      return text->add(t.count == 1 ? ",)" : ")");
    }
    case Tag::dict: {
      text->add('{');
      bool first = true;
      for (int64_t i = -1; text->ok && dict_next(value.dict(), &i); first = false) {
        if (!first) text->add(", ");
        write(text, c, value.dict()->entries[i].key, depth + 1);
        text->add(": ");
        write(text, c, value.dict()->entries[i].value, depth + 1);
      }
      return text->add('}');
    }
    case Tag::object:
      text->add('<');
      text->add(value.object()->type_name ? value.object()->type_name : "object");
      return text->format(" object at %p>", static_cast<const void*>(value.heap()));
  }
}

void write_value(Text* text, const Call& c, const Value& value) { write(text, c, value, 0); }

}  // namespace pen::script
