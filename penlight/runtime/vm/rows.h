// Elementwise work of the VM: a few row functions of Penlight's elementwise kernels one after the other over broadcast inputs,
// chunk by chunk, in one pass over memory. Nothing is planned, so a call costs little more than its loop.
//
//   Rows r(c);
//   int x = r.cast(r.input(c.tensor(0)), DType::f32);
//   return r.give(r.node("mul", DType::f32, x, r.number(2.0, DType::f32)));
//
// The result lies as torch's would: its dims in the order of the inputs' strides, so relu of a permuted tensor is permuted.
#pragma once
#include "penlight/runtime/vm/op.h"

namespace pen {

class Rows {
 public:
  explicit Rows(const Call& c) : call_(c) {}

  // These give the number of a value. A tensor must live until the run.
  int input(const TensorObject& t);
  int input(const Tensor& t);
  int number(const Value& v, DType dtype);
  int number(double v, DType dtype) { return number(Value(v), dtype); }
  // `kernel` of this dtype ("add", f32): its inputs must be of it, but for the condition of where.
  int node(const char* kernel, DType dtype, int a, int b = -1, int d = -1);
  // The float attributes of the last node, in the order of its schema.
  int with(int node, double first, double second = 0, double third = 0);
  // Says of the last node that it adds two values: a convolution before it may take it along (images.h).
  int sum(int node) {
    sums_ = true;
    return node;
  }
  int cast(int value, DType to);
  DType dtype(int value) const { return items_[value].dtype; }

  // Computes the value into a fresh tensor.
  Status run(int value, TensorObject** made, bool row_major = false);
  // As the result of the call; where it writes in place, straight into that argument, if nothing is read after it was written.
  Status give(int value);

 private:
  static constexpr int kMaxItems = 40, kMaxTensors = 6;
  struct Item {
    DType dtype = DType::f32;
    int8_t tensor = -1, step = -1;  // neither: a number
    alignas(8) char bytes[8] = {};
  };
  struct Step {
    RowFn row = nullptr;
    const KernelEntry* kernel = nullptr;
    int inputs = 0, in[3] = {}, item = 0;
    double args[3] = {};
  };
  struct Walk;
  int add_item(DType dtype, int tensor, int step);
  Status check(int value);
  bool fits_in(const TensorObject& to, DType dtype, const Shape& shape) const;
  Status broadcast_inputs(Shape* shape) const;
  Status compute(int value, const Tensor& out);
  Status spend_loops(const Step& step, int64_t elements) const;
  bool join(int value);
  TensorObject* fresh(DType dtype, const Shape& shape, bool row_major) const;

  const Call& call_;
  Item items_[kMaxItems];
  Step steps_[kMaxItems];
  Tensor tensors_[kMaxTensors];                    // as they lie
  const TensorObject* objects_[kMaxTensors] = {};  // null: it was given as a Tensor
  int item_count_ = 0, step_count_ = 0, tensor_count_ = 0;
  char missing_[48] = {};  // a kernel that this library lacks
  bool full_ = false, sums_ = false;
};

// The strides that torch (its TensorIterator) gives a fresh result of these operands, which broadcast to `shape`: dims sorted, from
// the last, by the strides of the first operand that tells two of them apart.
void result_strides(const Shape& shape, const Tensor* operands, int count, int64_t* strides);

// The dtype in which `kernel` computes where torch's result dtype is `dtype`: that one, one which holds all its numbers, or, for
// functions of floats, f32. False: the kernel has none that would be right.
bool carrier_of(const char* kernel, DType dtype, DType* carrier);

}  // namespace pen
