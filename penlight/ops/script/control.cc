// What TorchScript code does besides computing: tuples, optionals, casts of types that are known already, exceptions, and the
// switches of training that inference has no use for.
#include "penlight/ops/script/script.h"
#include "penlight/runtime/vm/machine.h"

namespace pen {

// ---- tuples ----
static Status check_tuple(const Call& c) { return c.args[0].tag() == Tag::tuple ? PEN_OK : c.fail("a tuple", "%s", c.args[0].tag_name()); }
PEN_OP(tuple_index, "[quantized]", "prim::TupleIndex(any t, int i) -> any") {
  PEN_TRY(check_tuple(c));
  const TupleObject& t = *c.args[0].tuple();
  int64_t at = script::from_end(c.integer(1), t.count);
  if (at < 0 || at >= t.count) return c.raise("Tuple index out of range");
  return c.give(Value(t.items[at]));
}
PEN_OP(tuple_slice, "[quantized]", "prim::TupleSlice(any t, int begin, int end) -> any") {
  PEN_TRY(check_tuple(c));
  const TupleObject& t = *c.args[0].tuple();
  script::Slice slice;
  PEN_TRY(script::slice_of(c, c.args[1], c.args[2], 1, t.count, &slice));
  PEN_TRY(c.walk(slice.picked));
  TupleObject* made = tuple_create(slice.picked);
  for (int64_t i = 0; made && i < made->count; ++i) made->items[i] = t.items[slice.from + i];
  return c.give(made);
}

// ---- types ----
PEN_OP(same_value, "[quantized][nhwc]", "prim::unchecked_cast(t x) -> t", "prim::Guard(Tensor(a) t) -> Tensor(a)") {
  return c.give(Value(c.args[0]));
}
PEN_OP(unwrap_optional, "[quantized][nhwc]", "prim::unchecked_unwrap_optional(t(a)? optional) -> t(a)",
       "aten::_unwrap_optional(t(a)? optional) -> t(a)") {
  if (c.args[0].is_none()) return c.raise("Unwrapping null optional");
  return c.give(Value(c.args[0]));
}
PEN_OP(uninitialized, "prim::Uninitialized() -> Any") { return c.give(Value()); }
PEN_OP(if_then_else, "[quantized][nhwc]", "prim::IfThenElse(bool cond, Any(a) x, Any(b) y) -> Any(b|a)") {
  return c.give(Value(c.flag(0) ? c.args[1] : c.args[2]));
}
PEN_OP(abs_of_tensor, "prim::abs(Tensor x) -> Tensor") {
  const OpEntry* op = find_operator("aten::abs");
  if (!op) return c.fail("the operator aten::abs in this library", "none");
  Value x(c.args[0]);
  return call_operator(c.machine, *op, &x, 1, c.results);
}
// Modules in a ModuleList or ModuleDict by a place known at run time only: children named "0", "1" …, or by their key.
static Status child(Call& c, const char* name) {
  const Value* found = c.args[0].tag() == Tag::object ? instance_attribute(c.args[0].object(), name) : nullptr;
  if (!found) return c.raise("KeyError: no module '%.100s' in this container", name);
  return c.give(Value(*found));
}
PEN_OP(container_index_list, "prim::ModuleContainerIndex.list(Any self, int ind) -> Any") {
  char name[32];
  snprintf(name, sizeof name, "%lld", static_cast<long long>(c.integer(1)));
  return child(c, name);
}
PEN_OP(container_index_dict, "prim::ModuleContainerIndex.dict(Any self, str ind) -> Any") { return child(c, c.text(1)); }

// ---- exceptions and messages ----
// "builtins.ValueError" and its message; an assertion's message has its name in it already.
PEN_OP(raise_exception, "prim::RaiseException(str msg, str? cls=None) -> ()") {
  const StringObject& message = *c.args[0].string();
  int size = message.size > 560 ? 560 : static_cast<int>(message.size);
  if (!c.given(1)) return c.raise("%.*s", message.text[0] ? size : 9, message.text[0] ? message.text : "Exception");
  const char* name = c.text(1);
  if (strncmp(name, "builtins.", 9) == 0) name += 9;
  return c.raise("%.100s: %.*s", name, size, message.text);
}
PEN_OP(assert_scalar, "aten::_assert_scalar(Scalar self, str assert_msg) -> ()") {
  return c.number(0) != 0 ? PEN_OK : c.raise("AssertionError: %.560s", c.text(1));
}
// A library on a phone has nowhere to print to.
PEN_OP(print, "[quantized]", "prim::Print(...) -> ()") { return PEN_OK; }
PEN_OP(warn, "aten::warn(str message, int stacklevel=2) -> ()", "aten::_print(str s) -> ()",
       "aten::sym_constrain_range(Scalar size, *, int? min=None, int? max=None) -> ()",
       "aten::sym_constrain_range_for_size(Scalar size, *, int? min=None, int? max=None) -> ()") {
  return PEN_OK;
}

// ---- modes ----
PEN_OP(never, "aten::is_autocast_enabled() -> bool", "aten::is_autocast_cpu_enabled() -> bool", "aten::_get_tracing_state() -> bool",
       "aten::_use_cudnn_rnn_flatten_weight() -> bool", "aten::_nnpack_available() -> bool", "aten::is_vulkan_available() -> bool",
       "aten::has_torch_function(...) -> bool") {
  return c.give(false);
}
// With gradients on, attention takes the path of plain operators, which can be planned, not one fused operator.
PEN_OP(always, "aten::is_scripting() -> bool", "aten::is_grad_enabled() -> bool") { return c.give(true); }
PEN_OP(set_grad_enabled, "aten::set_grad_enabled(bool val) -> ()") { return PEN_OK; }
// Random numbers are this library's own (repeatable by seed, not torch's).
PEN_OP(manual_seed, "aten::manual_seed(int seed) -> ()") {
  c.machine->runner.random = {static_cast<uint64_t>(c.integer(0)), 0};
  return PEN_OK;
}
PEN_OP(time_point, "prim::TimePoint() -> int") {
  pen_timespec now = {};
  clock_gettime(platform::kMonotonic, &now);
  return c.give(int64_t{now.seconds} * 1000000000 + int64_t{now.nanoseconds});
}
PEN_OP(object_id, "prim::id(any x) -> int") {
  return c.give(c.args[0].on_heap() ? static_cast<int64_t>(reinterpret_cast<uintptr_t>(c.args[0].heap())) : int64_t{0});
}

}  // namespace pen
