// Sorting lists; the least, the largest, the sum, any and all of them.
#include "penlight/ops/script/script.h"
#include "penlight/runtime/vm/machine.h"

namespace pen {

namespace script {

// -1: a comes before b; 1: after; 0: neither (a NaN beside anything, too); kNoOrder: such values have none. Counts what it goes through:
// parts of tuples may be shared, so that a little memory is a lot. kStopped: the run is to end.
static constexpr int kNoOrder = 2, kStopped = 3;
static int number_order(const Value& a, const Value& b) {
  if (both_integers(a, b)) return a.integer() < b.integer() ? -1 : a.integer() > b.integer();
  return a.number() < b.number() ? -1 : a.number() > b.number();
}
static int order(const Call& c, const Value& a, const Value& b, int depth) {
  if (a.is_number() && b.is_number()) return number_order(a, b);
  if (a.tag() != b.tag() || depth > kMaxNesting) return kNoOrder;
  switch (a.tag()) {
    case Tag::string: {
      const StringObject &s = *a.string(), &t = *b.string();
      const int64_t size = s.size < t.size ? s.size : t.size;
      if (c.walk(size >> 4) != PEN_OK) return kStopped;
      int bytes = memcmp(s.text, t.text, static_cast<size_t>(size));
      if (bytes) return bytes < 0 ? -1 : 1;
      return s.size < t.size ? -1 : s.size > t.size;
    }
    case Tag::tensor: {
      Value x, y;
      if (number_in(c, *a.tensor(), &x) != PEN_OK || number_in(c, *b.tensor(), &y) != PEN_OK) return kNoOrder;
      return number_order(x, y);
    }
    case Tag::tuple: {
      const TupleObject &s = *a.tuple(), &t = *b.tuple();
      for (int64_t i = 0; i < s.count && i < t.count; ++i) {
        if (c.walk(1) != PEN_OK) return kStopped;
        int item = order(c, s.items[i], t.items[i], depth + 1);
        if (item) return item;
      }
      return s.count < t.count ? -1 : s.count > t.count;
    }
    default:
      return kNoOrder;
  }
}
Status comes_before(const Call& c, const Value& a, const Value& b, bool* before) {
  int found = order(c, a, b, 0);
  *before = found < 0;
  if (found == kStopped) return static_cast<Status>(c.machine->error.status);
  return found == kNoOrder ? c.fail("items that have an order: numbers, strings, tensors of one element, tuples of these", "others")
                           : PEN_OK;
}

}  // namespace script

// Stable, from the bottom up: runs of 1, 2, 4 … items are merged. Values are moved as bytes. After an error the list still holds every item
// once.
static Status merge_sort(const Call& c, Value* items, Value* space, int64_t count, bool reverse) {
  for (int64_t run = 1; run < count; run *= 2) {
    for (int64_t begin = 0; begin + run < count; begin += 2 * run) {
      int64_t i = begin, j = begin + run, middle = j, end = middle + run < count ? middle + run : count, n = 0;
      PEN_TRY(c.walk(end - begin));
      while (i < middle && j < end) {
        // The right one goes first only if it truly comes before the left one.
        bool right;
        PEN_TRY(script::comes_before(c, items[reverse ? i : j], items[reverse ? j : i], &right));
        memcpy(static_cast<void*>(space + n++), items + (right ? j++ : i++), sizeof(Value));
      }
      memcpy(static_cast<void*>(space + n), items + i, sizeof(Value) * static_cast<size_t>(middle - i));
      memcpy(static_cast<void*>(items + begin), space, sizeof(Value) * static_cast<size_t>(n + middle - i));
    }
  }
  return PEN_OK;
}
static Status sort_list(const Call& c, ListObject* list, bool reverse) {
  if (list->count < 2) return PEN_OK;
  Value* space = static_cast<Value*>(calloc(static_cast<size_t>(list->count), sizeof(Value)));
  if (!space) return c.out_of_memory();
  Status status = merge_sort(c, list->items, space, list->count, reverse);
  free(space);  // holds no references of its own
  return status;
}

PEN_OP(sort_list, "[direct]", "aten::sort.int(int[](a!) self, bool reverse=False) -> ()",
       "aten::sort.float(float[](a!) self, bool reverse=False) -> ()", "aten::sort.bool(bool[](a!) self, bool reverse=False) -> ()",
       "aten::sort.str(str[](a!) self, bool reverse=False) -> ()", "aten::sort.Tensor(Tensor[](a!) self, bool reverse=False) -> ()",
       "aten::sort.any(t[](a!) self, bool reverse=False) -> ()") {
  return sort_list(c, &c.list(0), c.flag(1));
}
PEN_OP(sorted_list, "aten::sorted.int(int[](a) input) -> int[]", "aten::sorted.float(float[](a) input) -> float[]",
       "aten::sorted.bool(bool[](a) input) -> bool[]", "aten::sorted.str(str[](a) input) -> str[]",
       "aten::sorted.Tensor(Tensor[](a) input) -> Tensor[]", "aten::sorted.any(t[](a) self) -> t[]") {
  const ListObject& from = c.list(0);
  PEN_TRY(c.walk(from.count));
  Value made = Value::own(list_create(from.count));
  if (made.is_none()) return c.out_of_memory();
  for (int64_t i = 0; i < from.count; ++i)
    if (!list_append(made.list(), from.items[i])) return c.out_of_memory();
  PEN_TRY(sort_list(c, made.list(), false));
  return c.give(static_cast<Value&&>(made));
}

static Status extreme(Call& c, bool largest) {
  const ListObject& l = c.list(0);
  if (l.count == 0) return c.raise("%s() arg is an empty sequence", largest ? "max" : "min");
  int64_t best = 0;
  for (int64_t i = 1; i < l.count; ++i) {
    bool better;
    PEN_TRY(script::comes_before(c, l.items[largest ? best : i], l.items[largest ? i : best], &better));
    if (better) best = i;
  }
  return c.give(Value(l.items[best]));
}
PEN_OP(min_of_list, "prim::min.self_int(int[] self) -> int", "prim::min.self_float(float[] self) -> float",
       "prim::min.self_bool(bool[] self) -> bool") {
  return extreme(c, false);
}
PEN_OP(max_of_list, "prim::max.self_int(int[] self) -> int", "prim::max.self_float(float[] self) -> float",
       "prim::max.self_bool(bool[] self) -> bool") {
  return extreme(c, true);
}

// Of two lists the one that comes first, or last; of equal ones the second.
static Status give_first(Call& c, int a, int b) {
  const ListObject &s = c.list(a), &t = c.list(b);
  bool before = s.count < t.count;
  int64_t compared = 0;  // with the arguments, which are flat
  for (int64_t i = 0; i < s.count && i < t.count; ++i)
    if (values_equal(s.items[i], t.items[i], &compared) != 1) {
      PEN_TRY(script::comes_before(c, s.items[i], t.items[i], &before));
      break;
    }
  return c.give(Value(before ? c.args[0] : c.args[1]));
}
PEN_OP(min_of_lists, "prim::min.int_list(int[] l, int[] r) -> int[]", "prim::min.float_list(float[] l, float[] r) -> float[]",
       "prim::min.bool_list(bool[] l, bool[] r) -> bool[]") {
  return give_first(c, 0, 1);
}
PEN_OP(max_of_lists, "prim::max.int_list(int[] l, int[] r) -> int[]", "prim::max.float_list(float[] l, float[] r) -> float[]",
       "prim::max.bool_list(bool[] l, bool[] r) -> bool[]") {
  return give_first(c, 1, 0);
}

PEN_OP(sum_of_list, "aten::sum.int(int[] self) -> int", "aten::sum.bool(bool[] self) -> int") {
  int64_t sum = 0;
  for (int64_t i = 0; i < c.list(0).count; ++i) sum = script::wrap_add(sum, c.list(0).items[i].integer());
  return c.give(sum);
}
PEN_OP(sum_of_floats, "aten::sum.float(float[] self) -> float") {
  double sum = 0;
  for (int64_t i = 0; i < c.list(0).count; ++i) sum += c.list(0).items[i].real();
  return c.give(sum);
}
static bool truth(const Value& v) { return v.tag() == Tag::string ? v.string()->size != 0 : v.number() != 0; }
PEN_OP(any_of_list, "aten::any.int(int[] self) -> bool", "aten::any.float(float[] self) -> bool", "aten::any.bool(bool[] self) -> bool",
       "aten::any.str(str[] self) -> bool") {
  for (int64_t i = 0; i < c.list(0).count; ++i)
    if (truth(c.list(0).items[i])) return c.give(true);
  return c.give(false);
}
PEN_OP(all_of_list, "aten::all.int(int[] self) -> bool", "aten::all.float(float[] self) -> bool", "aten::all.bool(bool[] self) -> bool") {
  for (int64_t i = 0; i < c.list(0).count; ++i)
    if (!truth(c.list(0).items[i])) return c.give(false);
  return c.give(true);
}

}  // namespace pen
