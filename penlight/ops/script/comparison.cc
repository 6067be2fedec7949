// == != < > <= >= of numbers, strings and lists, and `is`.
#include "penlight/ops/script/script.h"
#include "penlight/runtime/vm/calls.h"

namespace pen {

// An int beside a float is compared as a float, as torch does, even past 2^53.
static bool numbers_equal(const Value& a, const Value& b) {
  return script::both_integers(a, b) ? a.integer() == b.integer() : a.number() == b.number();
}
// a < b
static bool number_before(const Value& a, const Value& b) {
  return script::both_integers(a, b) ? a.integer() < b.integer() : a.number() < b.number();
}
// a <= b, which of NaN is not the opposite of b < a.
static bool number_up_to(const Value& a, const Value& b) {
  return script::both_integers(a, b) ? a.integer() <= b.integer() : a.number() <= b.number();
}

PEN_OP(eq_number, "aten::eq.int(int a, int b) -> bool", "aten::eq.float(float a, float b) -> bool",
       "aten::eq.int_float(int a, float b) -> bool", "aten::eq.float_int(float a, int b) -> bool", "aten::eq.bool(bool a, bool b) -> bool",
       "aten::eq(Scalar a, Scalar b) -> bool") {
  return c.give(numbers_equal(c.args[0], c.args[1]));
}
PEN_OP(ne_number, "aten::ne.int(int a, int b) -> bool", "aten::ne.float(float a, float b) -> bool",
       "aten::ne.int_float(int a, float b) -> bool", "aten::ne.float_int(float a, int b) -> bool", "aten::ne.bool(bool a, bool b) -> bool",
       "aten::ne(Scalar a, Scalar b) -> bool") {
  return c.give(!numbers_equal(c.args[0], c.args[1]));
}
PEN_OP(lt_number, "aten::lt.int(int a, int b) -> bool", "aten::lt.float(float a, float b) -> bool",
       "aten::lt.int_float(int a, float b) -> bool", "aten::lt.float_int(float a, int b) -> bool", "aten::lt(Scalar a, Scalar b) -> bool") {
  return c.give(number_before(c.args[0], c.args[1]));
}
PEN_OP(gt_number, "aten::gt.int(int a, int b) -> bool", "aten::gt.float(float a, float b) -> bool",
       "aten::gt.int_float(int a, float b) -> bool", "aten::gt.float_int(float a, int b) -> bool", "aten::gt(Scalar a, Scalar b) -> bool") {
  return c.give(number_before(c.args[1], c.args[0]));
}
PEN_OP(le_number, "aten::le.int(int a, int b) -> bool", "aten::le.float(float a, float b) -> bool",
       "aten::le.int_float(int a, float b) -> bool", "aten::le.float_int(float a, int b) -> bool", "aten::le(Scalar a, Scalar b) -> bool") {
  return c.give(number_up_to(c.args[0], c.args[1]));
}
PEN_OP(ge_number, "aten::ge.int(int a, int b) -> bool", "aten::ge.float(float a, float b) -> bool",
       "aten::ge.int_float(int a, float b) -> bool", "aten::ge.float_int(float a, int b) -> bool", "aten::ge(Scalar a, Scalar b) -> bool") {
  return c.give(number_up_to(c.args[1], c.args[0]));
}

// Byte by byte, as std::string compares.
static int text_order(const Call& c) {
  const StringObject &a = *c.args[0].string(), &b = *c.args[1].string();
  int order = memcmp(a.text, b.text, static_cast<size_t>(a.size < b.size ? a.size : b.size));
  return order ? order : a.size < b.size ? -1 : a.size > b.size;
}
PEN_OP(eq_str, "aten::eq.str(str a, str b) -> bool", "aten::eq.device(Device a, Device b) -> bool") { return c.give(text_order(c) == 0); }
PEN_OP(ne_str, "aten::ne.str(str a, str b) -> bool", "aten::ne.device(Device a, Device b) -> bool") { return c.give(text_order(c) != 0); }
PEN_OP(lt_str, "aten::lt.str(str a, str b) -> bool") { return c.give(text_order(c) < 0); }
PEN_OP(gt_str, "aten::gt.str(str a, str b) -> bool") { return c.give(text_order(c) > 0); }
PEN_OP(le_str, "aten::le.str(str a, str b) -> bool") { return c.give(text_order(c) <= 0); }
PEN_OP(ge_str, "aten::ge.str(str a, str b) -> bool") { return c.give(text_order(c) >= 0); }

Status script::items_equal(const Call& c, const Value& a, const Value& b, bool* same) {
  if (a.tag() != Tag::tensor || b.tag() != Tag::tensor) {
    int64_t compared = 0;
    *same = values_equal(a, b, &compared) == 1;
    return compared > 1 ? c.walk(compared) : PEN_OK;
  }
  Calls t(c);
  Value truth = t("aten::is_nonzero", t("aten::eq.Tensor", a, b));
  PEN_TRY(t.status);
  *same = truth.boolean();
  return PEN_OK;
}
static Status lists_equal(const Call& c, bool* same) {
  const ListObject &a = c.list(0), &b = c.list(1);
  *same = a.count == b.count;
  for (int64_t i = 0; *same && i < a.count && i < b.count; ++i) PEN_TRY(script::items_equal(c, a.items[i], b.items[i], same));
  return PEN_OK;
}
PEN_OP(eq_list, "aten::eq.int_list(int[] a, int[] b) -> bool", "aten::eq.float_list(float[] a, float[] b) -> bool",
       "aten::eq.bool_list(bool[] a, bool[] b) -> bool", "aten::eq.str_list(str[] a, str[] b) -> bool",
       "aten::eq.Tensor_list(Tensor[] a, Tensor[] b) -> bool") {
  bool same;
  PEN_TRY(lists_equal(c, &same));
  return c.give(same);
}
PEN_OP(ne_list, "aten::ne.int_list(int[] a, int[] b) -> bool", "aten::ne.float_list(float[] a, float[] b) -> bool",
       "aten::ne.bool_list(bool[] a, bool[] b) -> bool", "aten::ne.str_list(str[] a, str[] b) -> bool",
       "aten::ne.Tensor_list(Tensor[] a, Tensor[] b) -> bool") {
  bool same;
  PEN_TRY(lists_equal(c, &same));
  return c.give(!same);
}

// None is None; numbers are what they are equal to, of one kind; all else is itself.
PEN_OP(is, "[quantized][nhwc]", "aten::__is__(t1 self, t2 obj) -> bool") { return c.give(c.args[0].is(c.args[1])); }
PEN_OP(isnot, "[quantized][nhwc]", "aten::__isnot__(t1 self, t2 obj) -> bool") { return c.give(!c.args[0].is(c.args[1])); }

// An enum's member is its value, as files store it, or an object with `name` and `value`.
static Status member(Call& c, int i, const char* field, const Value** to) {
  const Value& v = c.args[i];
  if (v.tag() == Tag::object)
    *to = instance_attribute(v.object(), field);
  else
    *to = strcmp(field, "value") == 0 && dict_can_hold(v) ? &v : nullptr;
  if (!*to) return c.fail("a member of an enum", "%s without its %s", v.tag_name(), field);
  return PEN_OK;
}
static Status members_equal(Call& c, bool* same) {
  *same = c.args[0].is(c.args[1]);
  if (*same) return PEN_OK;
  const Value *a, *b;
  PEN_TRY(member(c, 0, "value", &a));
  PEN_TRY(member(c, 1, "value", &b));
  int64_t compared = 0;
  *same = values_equal(*a, *b, &compared) == 1;
  return c.walk(compared);
}
PEN_OP(eq_enum, "aten::eq.enum(any a, any b) -> bool") {
  bool same;
  PEN_TRY(members_equal(c, &same));
  return c.give(same);
}
PEN_OP(ne_enum, "aten::ne.enum(any a, any b) -> bool") {
  bool same;
  PEN_TRY(members_equal(c, &same));
  return c.give(!same);
}
PEN_OP(enum_name, "prim::EnumName(any enum) -> str") {
  const Value* name;
  PEN_TRY(member(c, 0, "name", &name));
  return c.give(Value(*name));
}
PEN_OP(enum_value, "prim::EnumValue.int(any enum) -> int", "prim::EnumValue.float(any enum) -> float",
       "prim::EnumValue.str(any enum) -> str") {
  const Value* value;
  PEN_TRY(member(c, 0, "value", &value));
  return c.give(Value(*value));
}

}  // namespace pen
