// What TorchScript's own operators share: text that grows, numbers of either kind, places in lists and strings.
#pragma once
#include "penlight/runtime/base/dims.h"
#include "penlight/runtime/vm/op.h"

namespace pen::script {

// Text while it is put together, its bytes counted as steps. A value that contains itself would print for ever: past kMost bytes or
// kMostValues values, `ok` turns false; so it does where the run is to end, and then `status` tells.
struct Text {
  static constexpr int64_t kMost = int64_t{1} << 28, kMostValues = int64_t{1} << 22;
  const Call& call;
  char* data = nullptr;
  int64_t size = 0, capacity = 0, values = 0, counted = 0;
  Status status = PEN_OK;
  bool ok = true, starved = false;

  explicit Text(const Call& c) : call(c) {}
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  ~Text();
  void add(const char* text, int64_t count);
  void add(const char* text);
  void add(const StringObject& s);
  void add(char ch);
  void repeat(char ch, int64_t count);
  void format(const char* format, ...) __attribute__((format(printf, 2, 3)));
  // False where the run is to end.
  bool spend(int64_t steps);
};
// The text as an operator's result.
Status give_text(Call& c, Text& text, int result = 0);
Status give_text(Call& c, const char* text, int64_t size, int result = 0);

// A value as torch writes it into a string: "[1., 0.5]", a tensor over several lines.
void write_value(Text* text, const Call& c, const Value& value);
// Whether two items of lists are the same; tensors must have one element each.
Status items_equal(const Call& c, const Value& a, const Value& b, bool* same);
void write_tensor(Text* text, const Call& c, const TensorObject& tensor);

static PEN_INLINE bool both_integers(const Value& a, const Value& b) { return a.tag() != Tag::real && b.tag() != Tag::real; }
// A float cut to an int. C++ leaves the ones that do not fit open; the processors that torch runs on give the smallest.
static PEN_INLINE int64_t cut(double d) {
  return d >= -9223372036854775808.0 && d < 9223372036854775808.0 ? static_cast<int64_t>(d) : INT64_MIN;
}
// Ints wrap around.
static PEN_INLINE int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
static PEN_INLINE int64_t wrap_sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
static PEN_INLINE int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

using pen::from_end;
// What start:end:step picks out of `count` items, by Python's rules: `picked` items from `from` on. A None is the respective end.
struct Slice {
  int64_t from, step, picked;
};
Status slice_of(const Call& c, const Value& start, const Value& end, int64_t step, int64_t count, Slice* to);

// Whether a comes before b. An error where the two have no order: only numbers, strings, tensors of one element and tuples of these do.
Status comes_before(const Call& c, const Value& a, const Value& b, bool* before);
static PEN_INLINE bool same_text(const StringObject& a, const StringObject& b) {
  return a.size == b.size && memcmp(a.text, b.text, static_cast<size_t>(a.size)) == 0;
}

}  // namespace pen::script
