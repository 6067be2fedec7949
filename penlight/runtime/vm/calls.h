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
    const Argument list[] = {args..., Argument()};
    return first(name, list, counted<Args...>());
  }
  // All of them, up to eight.
  template <class... Args>
  void all(Value* results, const char* name, const Args&... args) {
    const Argument list[] = {args..., Argument()};
    run(name, list, counted<Args...>(), results);
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
  // A number, or a value that lives as long as the call: without a reference of its own, as there are hundreds of these calls, and each
  // would have code to give them back.
  struct Argument {
    Tag tag = Tag::none;
    union {
      int64_t integer = 0;
      double real;
      const Value* value;
      const TensorObject* tensor;
    };
    bool borrowed = false;
    Argument() = default;
    Argument(const Value& v) : value(&v), borrowed(true) {}
    Argument(const TensorObject& t) : tag(Tag::tensor), tensor(&t) {}
    Argument(int64_t v) : tag(Tag::integer), integer(v) {}
    Argument(int v) : tag(Tag::integer), integer(v) {}
    Argument(double v) : tag(Tag::real), real(v) {}
    Argument(bool v) : tag(Tag::boolean), integer(v) {}
    Value own() const;
  };
  static constexpr int kMost = 16;
  template <class... Args>
  static constexpr int counted() {
    static_assert(sizeof...(Args) <= kMost, "run() has room for so many");
    return static_cast<int>(sizeof...(Args));
  }
  Value first(const char* name, const Argument* args, int count);
  void run(const char* name, const Argument* args, int count, Value* results);

  const Call& call_;
};

}  // namespace pen
