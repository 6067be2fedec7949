// Operators made of other operators: torch's calls, written in C++.
//
//   Calls t(c);
//   Value apart = t("aten::sub.Tensor", x, y);
//   return t.give(c, t("aten::norm.Scalar", apart, p));
//
// After an error every further call does nothing and gives None; give() or status tells it.
#pragma once
#include "penlight/runtime/vm/op.h"

namespace pen {

class Calls {
 public:
  explicit Calls(const Call& c) : call_(c) {}

  // The first result.
  template <class... Args>
  Value operator()(const char* name, const Args&... args) {
    Value list[] = {value(args)..., Value()}, made[8];
    run(name, list, static_cast<int>(sizeof...(args)), made);
    return made[0];
  }
  // All of them, up to eight.
  template <class... Args>
  void all(Value* results, const char* name, const Args&... args) {
    Value list[] = {value(args)..., Value()};
    run(name, list, static_cast<int>(sizeof...(args)), results);
  }
  template <class... Ints>
  Value ints(Ints... numbers) {
    int64_t all[] = {static_cast<int64_t>(numbers)..., 0};
    return ints_of(all, static_cast<int>(sizeof...(numbers)));
  }
  Value ints_of(const int64_t* numbers, int count);
  Value tensors(const Value* items, int count);

  Status give(Call& c, Value&& made, int result = 0) {
    PEN_TRY(status);
    return c.give(static_cast<Value&&>(made), result);
  }
  Status status = PEN_OK;

 private:
  static Value value(const Value& v) { return v; }
  static Value value(int64_t v) { return Value(v); }
  static Value value(int v) { return Value(int64_t{v}); }
  static Value value(double v) { return Value(v); }
  static Value value(bool v) { return Value(v); }
  static Value value(const TensorObject& t) { return Value::share(const_cast<TensorObject*>(&t)); }
  void run(const char* name, Value* args, int count, Value* results);

  const Call& call_;
};

}  // namespace pen
