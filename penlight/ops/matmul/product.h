// Products of the VM: torch.matmul of any two tensors inside a graph, and what its relatives share.
#pragma once
#include "penlight/runtime/base/error.h"
#include "penlight/runtime/vm/graph.h"

namespace pen {

// A rank-0 operand of a graph; it must live until the run.
struct Number {
  Number(double value, DType dtype);  // f32, f64 or i64
  alignas(8) char bytes[8] = {};
  Tensor t;
};

struct Product {
  DType dtype;    // torch's result
  DType carrier;  // in which it is computed: f32, f64 or i64
  Shape shape;    // torch's
  int value;      // in the graph, of that shape, in the carrier
};
// Checks dtypes and shapes as torch.matmul does, and adds the product to the graph.
Status add_product(const Call& c, Graph* g, const TensorObject& a, const TensorObject& b, Product* p);
// beta * x + alpha * product; where beta is 0, x is not looked at. x can be broadcast to the product's shape. Gives result 0.
Status give_scaled_sum(Call& c, Graph* g, const TensorObject& x, double beta, const Product& p, double alpha);
// Gives the product itself.
Status give_product(Call& c, Graph* g, const Product& p);
// x w^T + b, cut to low … high where limited. Gives result 0.
struct Limits {
  bool limited;
  double low, high;
};
Status give_linear(Call& c, const TensorObject& x, const TensorObject& w, const TensorObject* b, const Limits& limits);

}  // namespace pen
