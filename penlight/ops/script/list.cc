// Lists: items, slices, growing and shrinking, in place as in Python.
#include "penlight/ops/script/script.h"

namespace pen {

namespace script {

Status slice_of(const Call& c, const Value& start, const Value& end, int64_t step, int64_t count, Slice* to) {
  if (step == 0) return c.raise("List slice should have non-zero step");
  if (step == INT64_MIN) step = -INT64_MAX;  // picks no other items
  bool back = step < 0;
  // A place before the first or behind the last item stands for the one beside them that the direction can begin or end at.
  auto place = [&](const Value& v, int64_t otherwise) {
    if (v.is_none()) return otherwise;
    int64_t at = from_end(v.integer(), count);
    if (at < 0) return back ? int64_t{-1} : int64_t{0};
    return at >= count ? (back ? count - 1 : count) : at;
  };
  int64_t from = place(start, back ? count - 1 : 0), until = place(end, back ? -1 : count);
  int64_t distance = back ? from - until : until - from;
  *to = {from, step, distance <= 0 ? 0 : (distance - 1) / (back ? -step : step) + 1};
  return PEN_OK;
}

}  // namespace script

static Status out_of_range(const Call& c) { return c.raise("list index out of range"); }
// The place that an index names, in *to.
static Status place(const Call& c, int i, int64_t count, int64_t* to) {
  *to = script::from_end(c.integer(i), count);
  return *to < 0 || *to >= count ? out_of_range(c) : PEN_OK;
}
static Status append_all(const Call& c, ListObject* to, const ListObject& from) {
  PEN_TRY(c.walk(from.count));
  for (int64_t i = 0, n = from.count; i < n; ++i)  // `from` may be `to` itself
    if (!list_append(to, from.items[i])) return c.out_of_memory();
  return PEN_OK;
}
static Status give_copy(Call& c, const ListObject& from) {
  Value made = Value::own(list_create(from.count));
  if (made.is_none()) return c.out_of_memory();
  PEN_TRY(append_all(c, made.list(), from));
  return c.give(static_cast<Value&&>(made));
}
// Takes out an item, which moves those behind it.
static Status take_out(const Call& c, int64_t at) {
  PEN_TRY(c.walk(c.list(0).count - 1 - at));
  list_remove(&c.list(0), at);
  return PEN_OK;
}

PEN_OP(len_list, "[quantized]", "aten::len.t(t[] a) -> int", "aten::len.any(Any[] a) -> int") { return c.give(c.list(0).count); }
PEN_OP(len_str, "[counts]", "aten::len.str(str s) -> int") { return c.give(c.args[0].string()->size); }
PEN_OP(getitem_list, "[quantized]", "aten::__getitem__.t(t[](a) list, int idx) -> t(*)", "aten::select.t(t[](a) list, int idx) -> t(*)") {
  int64_t at;
  PEN_TRY(place(c, 1, c.list(0).count, &at));
  return c.give(Value(c.list(0).items[at]));
}
PEN_OP(set_item_list, "[direct][quantized]", "aten::_set_item.t(t[](a!) l, int idx, t(b -> *) el) -> t[](a!)") {
  int64_t at;
  PEN_TRY(place(c, 1, c.list(0).count, &at));
  if (!list_set(&c.list(0), at, c.args[2])) return c.out_of_memory();
  return c.give(Value(c.args[0]));
}
PEN_OP(append, "[direct][quantized]", "aten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!)") {
  if (!list_append(&c.list(0), c.args[1])) return c.out_of_memory();
  return c.give(Value(c.args[0]));
}
PEN_OP(extend, "[direct][quantized]", "aten::extend.t(t[](a!) self, t[] other) -> ()") { return append_all(c, &c.list(0), c.list(1)); }
PEN_OP(add_list_, "[direct][quantized]", "aten::add_.t(t[](a!) self, t[] b) -> t[]") {
  PEN_TRY(append_all(c, &c.list(0), c.list(1)));
  return c.give(Value(c.args[0]));
}
PEN_OP(insert, "[direct][quantized]", "aten::insert.t(t[](a!) self, int idx, t(b -> *) el) -> ()") {
  ListObject& l = c.list(0);
  int64_t at = script::from_end(c.integer(1), l.count);
  at = at < 0 ? 0 : at > l.count ? l.count : at;
  PEN_TRY(c.walk(l.count - at));
  return list_insert(&l, at, c.args[2]) ? PEN_OK : c.out_of_memory();
}
PEN_OP(pop_list, "[direct][quantized]", "aten::pop.t(t[](a!) self, int idx=-1) -> t(*)") {
  if (c.list(0).count == 0) return c.raise("pop from empty list");
  int64_t at = script::from_end(c.integer(1), c.list(0).count);
  if (at < 0 || at >= c.list(0).count) return c.raise("pop index out of range");
  Value item(c.list(0).items[at]);
  PEN_TRY(take_out(c, at));
  return c.give(static_cast<Value&&>(item));
}
PEN_OP(delete_item, "[direct][quantized]", "aten::Delete.t(t[](a!) self, int idx) -> ()") {
  int64_t at;
  PEN_TRY(place(c, 1, c.list(0).count, &at));
  return take_out(c, at);
}
PEN_OP(clear_list, "[direct][quantized]", "aten::clear.t(t[](a!) self) -> ()") {
  list_clear(&c.list(0));
  return PEN_OK;
}
PEN_OP(reverse_list, "[direct][quantized]", "aten::reverse.t(t[](a!) self) -> ()") {
  ListObject& l = c.list(0);
  PEN_TRY(c.walk(l.count));
  for (int64_t i = 0, j = l.count - 1; i < j; ++i, --j) l.items[i].swap(l.items[j]);
  return PEN_OK;
}
PEN_OP(copy_list, "[quantized]", "aten::copy.t(t[](a) self) -> t[]", "aten::list.t(t[] l) -> t[]", "aten::Size(int[] sizes) -> int[]") {
  return give_copy(c, c.list(0));
}
PEN_OP(add_list, "[quantized]", "aten::add.t(t[] a, t[] b) -> t[]") {
  Value made = Value::own(list_create(c.list(0).count + c.list(1).count));
  if (made.is_none()) return c.out_of_memory();
  PEN_TRY(append_all(c, made.list(), c.list(0)));
  PEN_TRY(append_all(c, made.list(), c.list(1)));
  return c.give(static_cast<Value&&>(made));
}

// ---- repeating ----
constexpr int64_t kMostItems = int64_t{1} << 26;  // 1 GiB of them
// A new list of n times the items; how long it may be is checked, as n comes from the file.
static Status repeated(Call& c, const ListObject& l, int64_t n, Value* to) {
  int64_t total = 0;
  if (n < 0) n = 0;
  if (mul_overflows(l.count, n, &total) || total > kMostItems)
    return c.fail("a list of at most 2^26 items", "%lld times %lld", static_cast<long long>(n), static_cast<long long>(l.count));
  *to = Value::own(list_create(total));
  if (to->is_none()) return c.out_of_memory();
  for (int64_t i = 0; i < n && l.count; ++i) PEN_TRY(append_all(c, to->list(), l));
  return PEN_OK;
}
PEN_OP(mul_list, "[quantized]", "aten::mul.left_t(t[] l, int n) -> t[]") {
  Value made;
  PEN_TRY(repeated(c, c.list(0), c.integer(1), &made));
  return c.give(static_cast<Value&&>(made));
}
PEN_OP(mul_list_right, "[quantized]", "aten::mul.right_(int n, t[] l) -> t[]") {
  Value made;
  PEN_TRY(repeated(c, c.list(1), c.integer(0), &made));
  return c.give(static_cast<Value&&>(made));
}
PEN_OP(mul_list_, "[direct][quantized]", "aten::mul_.t(t[](a!) l, int n) -> t[](a!)") {
  Value made;
  PEN_TRY(repeated(c, c.list(0), c.integer(1), &made));
  ListObject &to = c.list(0), &from = *made.list();
  Value* items = to.items;
  int64_t count = to.count, capacity = to.capacity;
  to.items = from.items, to.count = from.count, to.capacity = from.capacity;
  from.items = items, from.count = count, from.capacity = capacity;
  return c.give(Value(c.args[0]));
}

PEN_OP(slice_list, "[quantized]", "aten::slice.t(t[] l, int? start=None, int? end=None, int step=1) -> t[]") {
  script::Slice slice;
  PEN_TRY(script::slice_of(c, c.args[1], c.args[2], c.integer(3), c.list(0).count, &slice));
  PEN_TRY(c.walk(slice.picked));
  Value made = Value::own(list_create(slice.picked));
  if (made.is_none()) return c.out_of_memory();
  for (int64_t i = 0; i < slice.picked; ++i)
    if (!list_append(made.list(), c.list(0).items[slice.from + i * slice.step])) return c.out_of_memory();
  return c.give(static_cast<Value&&>(made));
}
PEN_OP(list_of_str, "aten::list(str t) -> str[]") {
  const StringObject& s = *c.args[0].string();
  PEN_TRY(c.walk(s.size));
  Value made = Value::own(list_create(s.size));
  if (made.is_none()) return c.out_of_memory();
  for (int64_t i = 0; i < s.size; ++i) {
    Value letter = Value::own(string_create(s.text + i, 1));
    if (letter.is_none() || !list_append(made.list(), letter)) return c.out_of_memory();
  }
  return c.give(static_cast<Value&&>(made));
}
PEN_OP(range_list, "prim::rangelist(int n) -> int[]") {
  if (c.integer(0) > kMostItems) return c.fail("a list of at most 2^26 items", "%lld", static_cast<long long>(c.integer(0)));
  PEN_TRY(c.walk(c.integer(0) < 0 ? 0 : c.integer(0)));
  Value made = Value::own(list_create(c.integer(0)));
  if (made.is_none()) return c.out_of_memory();
  for (int64_t i = 0; i < c.integer(0); ++i)
    if (!list_append(made.list(), Value(i))) return c.out_of_memory();
  return c.give(static_cast<Value&&>(made));
}

// ---- looking for items ----
// The place of args[1] in the list args[0]; -1: not there.
static Status find_item(const Call& c, int64_t* place) {
  const ListObject& l = c.list(0);
  bool same = false;
  for (*place = 0; *place < l.count; ++*place) {
    PEN_TRY(script::items_equal(c, l.items[*place], c.args[1], &same));
    if (same) return PEN_OK;
  }
  *place = -1;
  return PEN_OK;
}
PEN_OP(contains_list, "aten::__contains__.int_list(int[] l, int item) -> bool",
       "aten::__contains__.float_list(float[] l, float item) -> bool", "aten::__contains__.str_list(str[] l, str item) -> bool") {
  int64_t at;
  PEN_TRY(find_item(c, &at));
  return c.give(at >= 0);
}
PEN_OP(index_list, "aten::index.list_int(int[] self, int el) -> int", "aten::index.list_float(float[] self, float el) -> int",
       "aten::index.list_bool(bool[] self, bool el) -> int", "aten::index.list_str(str[] self, str el) -> int",
       "aten::index.list_Tensor(Tensor[] self, Tensor el) -> int") {
  int64_t at;
  PEN_TRY(find_item(c, &at));
  if (at >= 0) return c.give(at);
  script::Text text(c);
  script::write_value(&text, c, c.args[1]);
  text.add('\0');
  PEN_TRY(text.status);
  return c.raise("'%s' is not in list", text.ok ? text.data : "?");
}
PEN_OP(count_list, "aten::count.int(int[] self, int el) -> int", "aten::count.float(float[] self, float el) -> int",
       "aten::count.bool(bool[] self, bool el) -> int", "aten::count.str(str[] self, str el) -> int",
       "aten::count.Tensor(Tensor[] self, Tensor el) -> int") {
  const ListObject& l = c.list(0);
  int64_t count = 0;
  for (int64_t i = 0; i < l.count; ++i) {
    bool same;
    PEN_TRY(script::items_equal(c, l.items[i], c.args[1], &same));
    count += same;
  }
  return c.give(count);
}
PEN_OP(remove_list, "[direct]", "aten::remove.int(int[](a!) self, int el) -> ()", "aten::remove.float(float[](a!) self, float el) -> ()",
       "aten::remove.bool(bool[](a!) self, bool el) -> ()", "aten::remove.str(str[](a!) self, str el) -> ()",
       "aten::remove.Tensor(Tensor[](a!) self, Tensor el) -> ()") {
  int64_t at;
  PEN_TRY(find_item(c, &at));
  if (at < 0) return c.raise("list.remove(x): x not in list");
  return take_out(c, at);
}

}  // namespace pen
