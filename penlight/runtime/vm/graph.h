// A few of Penlight's kernels over tensors at hand, planned and run at once: how an operator of the VM computes.
//
//   Graph g(c);
//   int y = g.node("matmul.f32", c.tensor(0), c.tensor(1));
//   PEN_TRY(g.run(y));
//   return c.give(g.take(0));
//
// Nodes are those of the .pen file (penlight/ops/**/*.py: schema, kernel keys): all attributes of the schema, in its order.
// Plans are kept by the machine, so the same call at the same shapes plans nothing again. Errors name the VM's operator, its source
// line, and tensors by what the operator's schema calls them.
#pragma once
#include "penlight/runtime/vm/op.h"

namespace pen {

struct GraphCode;

class Graph {
 public:
  explicit Graph(const Call& c);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // A tensor that a node reads, as it lies. It must live until run() returns.
  int input(const TensorObject& t);
  int input(const Tensor& t);
  // The same in another dtype.
  int input(const TensorObject& t, DType as) { return cast(input(t), t.dtype(), as); }
  int input(const Tensor& t, DType as) { return cast(input(t), t.dtype, as); }
  // A weight in a packed layout, as pack_weight (packing.h) made it. The graph keeps a reference.
  int packed(TensorObject* t, const char* layout);
  // A kernel call: "conv2d.f32.gemm", its inputs: tensors, or values of this graph (-1: an optional one left out). Returns its first
  // output.
  template <class... Inputs>
  int node(const char* key, const Inputs&... inputs) {
    int list[] = {value(inputs)..., -1};  // in braces: from left to right
    return node_of(key, list, static_cast<int>(sizeof...(inputs)));
  }
  int node_of(const char* key, const int* inputs, int count);
  // One more output of the last node.
  int output();
  // Attributes of the last node.
  Graph& integer(const char* name, int64_t value) { return ints_as(name, &value, 1, false); }
  Graph& ints(const char* name, const int64_t* values, int count) { return ints_as(name, values, count, true); }
  Graph& number(const char* name, double value) { return numbers_as(name, &value, 1, false); }
  Graph& numbers(const char* name, const double* values, int count) { return numbers_as(name, values, count, true); }
  Graph& flag(const char* name, bool value);
  Graph& text(const char* name, const char* value);
  Graph& none(const char* name);
  // How an output lies: channels-last (convolution and pooling need it), or as a view where the operator can.
  void channels(int value);
  void strided(int value);
  // What the integers of a value stand for: real = (stored - zero) * scale. `made`: those that a node makes.
  void quantized(int value, double scale, int64_t zero, DType made = DType::u8);
  // A value in fresh row-major memory: what run() can give back where a node gave a view or channels-last.
  int copy(int value, DType dtype);
  // The same numbers in another dtype; itself where it is that already.
  int cast(int value, DType from, DType to);

  // Computes these values, each fresh and row-major (but for channels-last ones, which stay so).
  Status run(int value) { return run_all(&value, 1); }
  Status run(int first, int second) {
    int both[] = {first, second};
    return run_all(both, 2);
  }
  Status run_all(const int* values, int count);
  // Result 0 goes into this tensor's memory, where that lies as the plan would have it. It must live until run() returns.
  void into(TensorObject* t) { into_ = t; }
  // A result of run(), once.
  TensorObject* take(int index);

 private:
  static int value(int v) { return v; }
  int value(const TensorObject& t) { return input(t); }
  int value(const Tensor& t) { return input(t); }
  const char* parameter(const Tensor& t) const;
  Status fault(Status status);
  Graph& ints_as(const char* name, const int64_t* values, int count, bool list);
  Graph& numbers_as(const char* name, const double* values, int count, bool list);
  const Call& call_;
  GraphCode* code_;
  ListObject* held_;
  TensorObject* into_ = nullptr;
  TensorObject* results_[8];
};

// "add" and f32 → "add.f32", in a buffer of the caller's.
struct Key {
  Key(const char* op, DType dtype, const char* variant = "");
  // By the size of an element: "cat.b32".
  static Key by_size(const char* op, DType dtype);
  operator const char*() const { return text; }
  char text[64];

 private:
  Key() = default;
};

}  // namespace pen
