// Dicts: insertion order, keys that are numbers, bools or strings. One set of functions for all key types.
#include "penlight/ops/script/script.h"

namespace pen {

// Keys of the `any` forms come unchecked.
static Status check_key(const Call& c, const Value& key) {
  if (dict_can_hold(key)) return PEN_OK;
  return c.fail("a key that is a number, a bool or a str (tensors as keys are not supported)", "%s", key.tag_name());
}
// To hash a key that was not taken as text.
static int64_t key_steps(const Value& key) { return 1 + (key.tag() == Tag::string ? key.string()->size >> 4 : 0); }
static Status key_error(const Call& c, const Value& key) {
  script::Text text(c);
  script::write_value(&text, c, key);
  text.add('\0');
  PEN_TRY(text.status);
  return c.raise("KeyError: %s", text.ok ? text.data : "?");
}
static Status give_value(Call& c, Value&& value) { return c.give(static_cast<Value&&>(value)); }

PEN_OP(len_dict, "aten::len.Dict_str(Dict(str, t) self) -> int", "aten::len.Dict_int(Dict(int, t) self) -> int",
       "aten::len.Dict_bool(Dict(bool, t) self) -> int", "aten::len.Dict_float(Dict(float, t) self) -> int") {
  return c.give(c.dict(0).count);
}
PEN_OP(getitem_dict, "aten::__getitem__.Dict_str(Dict(str, t) self, str key) -> t(*)",
       "aten::__getitem__.Dict_int(Dict(int, t) self, int key) -> t(*)",
       "aten::__getitem__.Dict_bool(Dict(bool, t) self, bool key) -> t(*)",
       "aten::__getitem__.Dict_float(Dict(float, t) self, float key) -> t(*)", "aten::__getitem__.Dict(dict d, any key) -> any") {
  PEN_TRY(check_key(c, c.args[1]));
  PEN_TRY(c.walk(key_steps(c.args[1])));
  const Value* found = dict_find(&c.dict(0), c.args[1]);
  return found ? give_value(c, Value(*found)) : key_error(c, c.args[1]);
}
PEN_OP(get_dict, "[quantized]", "aten::get.str(Dict(str, t) self, str key) -> t(*)?", "aten::get.int(Dict(int, t) self, int key) -> t(*)?",
       "aten::get.bool(Dict(bool, t) self, bool key) -> t(*)?", "aten::get.float(Dict(float, t) self, float key) -> t(*)?",
       "aten::get.default_str(Dict(str, t) self, str key, t default_value) -> t(*)",
       "aten::get.default_int(Dict(int, t) self, int key, t default_value) -> t(*)",
       "aten::get.default_bool(Dict(bool, t) self, bool key, t default_value) -> t(*)",
       "aten::get.default_float(Dict(float, t) self, float key, t default_value) -> t(*)") {
  const Value* found = dict_find(&c.dict(0), c.args[1]);
  return give_value(c, found ? Value(*found) : c.count > 2 ? Value(c.args[2]) : Value());
}
PEN_OP(contains_dict, "aten::__contains__.str(Dict(str, t) dict, str key) -> bool",
       "aten::__contains__.int(Dict(int, t) dict, int key) -> bool", "aten::__contains__.bool(Dict(bool, t) dict, bool key) -> bool",
       "aten::__contains__.float(Dict(float, t) dict, float key) -> bool") {
  return c.give(dict_find(&c.dict(0), c.args[1]) != nullptr);
}
PEN_OP(set_item_dict, "[direct][quantized]", "aten::_set_item.str(Dict(str, t)(a!) l, str(b -> *) idx, t(c -> *) v) -> ()",
       "aten::_set_item.int(Dict(int, t)(a!) l, int(b -> *) idx, t(c -> *) v) -> ()",
       "aten::_set_item.bool(Dict(bool, t)(a!) l, bool(b -> *) idx, t(c -> *) v) -> ()",
       "aten::_set_item.float(Dict(float, t)(a!) l, float(b -> *) idx, t(c -> *) v) -> ()") {
  return dict_set(&c.dict(0), c.args[1], c.args[2]) ? PEN_OK : c.out_of_memory();
}
PEN_OP(setdefault_dict, "[direct][quantized]",
       "aten::setdefault.str(Dict(str, t)(a!) self, str(b -> *) key, t(c -> *) default_value) -> t(*)",
       "aten::setdefault.int(Dict(int, t)(a!) self, int(b -> *) key, t(c -> *) default_value) -> t(*)",
       "aten::setdefault.bool(Dict(bool, t)(a!) self, bool(b -> *) key, t(c -> *) default_value) -> t(*)",
       "aten::setdefault.float(Dict(float, t)(a!) self, float(b -> *) key, t(c -> *) default_value) -> t(*)") {
  const Value* found = dict_find(&c.dict(0), c.args[1]);
  if (found) return give_value(c, Value(*found));
  if (!dict_set(&c.dict(0), c.args[1], c.args[2])) return c.out_of_memory();
  return give_value(c, Value(c.args[2]));
}
PEN_OP(pop_dict, "[direct][quantized]", "aten::pop.Dict_str(Dict(str, t)(a!) self, str key) -> t(*)",
       "aten::pop.Dict_int(Dict(int, t)(a!) self, int key) -> t(*)", "aten::pop.Dict_bool(Dict(bool, t)(a!) self, bool key) -> t(*)",
       "aten::pop.Dict_float(Dict(float, t)(a!) self, float key) -> t(*)",
       "aten::pop.Dict_default_str(Dict(str, t)(a!) self, str key, t default_value) -> t(*)",
       "aten::pop.Dict_default_int(Dict(int, t)(a!) self, int key, t default_value) -> t(*)",
       "aten::pop.Dict_default_bool(Dict(bool, t)(a!) self, bool key, t default_value) -> t(*)",
       "aten::pop.Dict_default_float(Dict(float, t)(a!) self, float key, t default_value) -> t(*)") {
  const Value* found = dict_find(&c.dict(0), c.args[1]);
  if (!found && c.count > 2) return give_value(c, Value(c.args[2]));
  if (!found) return key_error(c, c.args[1]);
  Value kept(*found);
  dict_remove(&c.dict(0), c.args[1]);
  return give_value(c, static_cast<Value&&>(kept));
}
PEN_OP(delete_dict, "[direct]", "aten::Delete.Dict_str(Dict(str, t)(a!) self, str key) -> ()",
       "aten::Delete.Dict_int(Dict(int, t)(a!) self, int key) -> ()", "aten::Delete.Dict_bool(Dict(bool, t)(a!) self, bool key) -> ()",
       "aten::Delete.Dict_float(Dict(float, t)(a!) self, float key) -> ()") {
  return dict_remove(&c.dict(0), c.args[1]) ? PEN_OK : key_error(c, c.args[1]);
}
PEN_OP(clear_dict, "[direct]", "aten::clear.str(Dict(str, t)(a!) self) -> ()", "aten::clear.int(Dict(int, t)(a!) self) -> ()",
       "aten::clear.bool(Dict(bool, t)(a!) self) -> ()", "aten::clear.float(Dict(float, t)(a!) self) -> ()") {
  PEN_TRY(c.walk(c.dict(0).used + (c.dict(0).slot_count >> 2)));
  dict_clear(&c.dict(0));
  return PEN_OK;
}

static Status pair(const Call& c, const DictObject::Entry& e, Value* to) {
  TupleObject* made = tuple_create(2);
  if (!made) return c.out_of_memory();
  made->items[0] = e.key, made->items[1] = e.value;
  *to = Value::own(made);
  return PEN_OK;
}
// The first entry: torch's order, where Python takes the last.
PEN_OP(popitem_dict, "[direct]", "aten::popitem.str(Dict(str, t)(a!) self) -> ((str, t))",
       "aten::popitem.int(Dict(int, t)(a!) self) -> ((int, t))", "aten::popitem.bool(Dict(bool, t)(a!) self) -> ((bool, t))",
       "aten::popitem.float(Dict(float, t)(a!) self) -> ((float, t))") {
  int64_t at = -1;
  if (!dict_next(&c.dict(0), &at)) return c.raise("popitem(): dictionary is empty");
  Value made;
  PEN_TRY(c.walk(at));  // removed ones before it
  PEN_TRY(pair(c, c.dict(0).entries[at], &made));
  dict_remove(&c.dict(0), made.tuple()->items[0]);
  return give_value(c, static_cast<Value&&>(made));
}

enum class Part { keys, values, items };
static Status list_of(Call& c, Part part) {
  const DictObject& d = c.dict(0);
  PEN_TRY(c.walk(d.used));
  Value made = Value::own(list_create(d.count));
  if (made.is_none()) return c.out_of_memory();
  for (int64_t i = -1; dict_next(&d, &i);) {
    Value item;
    if (part == Part::items)
      PEN_TRY(pair(c, d.entries[i], &item));
    else
      item = part == Part::keys ? d.entries[i].key : d.entries[i].value;
    if (!list_append(made.list(), item)) return c.out_of_memory();
  }
  return give_value(c, static_cast<Value&&>(made));
}
PEN_OP(keys_dict, "aten::keys.str(Dict(str, t) self) -> str[](*)", "aten::keys.int(Dict(int, t) self) -> int[](*)",
       "aten::keys.bool(Dict(bool, t) self) -> bool[](*)", "aten::keys.float(Dict(float, t) self) -> float[](*)") {
  return list_of(c, Part::keys);
}
PEN_OP(values_dict, "aten::values.str(Dict(str, t) self) -> t[](*)", "aten::values.int(Dict(int, t) self) -> t[](*)",
       "aten::values.bool(Dict(bool, t) self) -> t[](*)", "aten::values.float(Dict(float, t) self) -> t[](*)") {
  return list_of(c, Part::values);
}
PEN_OP(items_dict, "aten::items.str(Dict(str, t) self) -> ((str, t)[])", "aten::items.int(Dict(int, t) self) -> ((int, t)[])",
       "aten::items.bool(Dict(bool, t) self) -> ((bool, t)[])", "aten::items.float(Dict(float, t) self) -> ((float, t)[])") {
  return list_of(c, Part::items);
}

static Status put_all(const Call& c, DictObject* to, const DictObject& from) {
  PEN_TRY(c.walk(from.used));
  for (int64_t i = -1; to != &from && dict_next(&from, &i);) {
    PEN_TRY(c.walk(key_steps(from.entries[i].key)));
    if (!dict_set(to, from.entries[i].key, from.entries[i].value)) return c.out_of_memory();
  }
  return PEN_OK;
}
PEN_OP(update_dict, "[direct]", "aten::update.str(Dict(str, t)(a!) self, Dict(str, t)(a!) to_add) -> ()",
       "aten::update.int(Dict(int, t)(a!) self, Dict(int, t)(a!) to_add) -> ()",
       "aten::update.bool(Dict(bool, t)(a!) self, Dict(bool, t)(a!) to_add) -> ()",
       "aten::update.float(Dict(float, t)(a!) self, Dict(float, t)(a!) to_add) -> ()") {
  return put_all(c, &c.dict(0), c.dict(1));
}
PEN_OP(copy_dict, "aten::copy.Dict_str(Dict(str, t)(a) self) -> Dict(str, t)", "aten::copy.Dict_int(Dict(int, t)(a) self) -> Dict(int, t)",
       "aten::copy.Dict_bool(Dict(bool, t)(a) self) -> Dict(bool, t)", "aten::copy.Dict_float(Dict(float, t)(a) self) -> Dict(float, t)",
       "aten::dict.Dict_str(Dict(str, t)(a) self) -> Dict(str, t)", "aten::dict.Dict_int(Dict(int, t)(a) self) -> Dict(int, t)",
       "aten::dict.Dict_bool(Dict(bool, t)(a) self) -> Dict(bool, t)", "aten::dict.Dict_float(Dict(float, t)(a) self) -> Dict(float, t)") {
  Value made = Value::own(dict_create());
  if (made.is_none()) return c.out_of_memory();
  PEN_TRY(put_all(c, made.dict(), c.dict(0)));
  return give_value(c, static_cast<Value&&>(made));
}
// From a list of (key, value), or empty. In torch's schemas the argument is "(str, tVal)[] inputs".
PEN_OP(make_dict, "aten::dict() -> Dict(str, Tensor)", "aten::dict.str(t[] inputs) -> Dict(str, tVal)",
       "aten::dict.int(t[] inputs) -> Dict(int, tVal)", "aten::dict.bool(t[] inputs) -> Dict(bool, tVal)",
       "aten::dict.float(t[] inputs) -> Dict(float, tVal)") {
  Value made = Value::own(dict_create());
  if (made.is_none()) return c.out_of_memory();
  for (int64_t i = 0; c.count > 0 && i < c.list(0).count; ++i) {
    const Value& item = c.list(0).items[i];
    if (item.tag() != Tag::tuple || item.tuple()->count != 2) return c.fail("a list of pairs", "%s in it", item.tag_name());
    PEN_TRY(check_key(c, item.tuple()->items[0]));
    PEN_TRY(c.walk(key_steps(item.tuple()->items[0])));
    if (!dict_set(made.dict(), item.tuple()->items[0], item.tuple()->items[1])) return c.out_of_memory();
  }
  return give_value(c, static_cast<Value&&>(made));
}

}  // namespace pen
