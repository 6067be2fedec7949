// add, sub, mul … of the VM, over the elementwise kernels.
#include "penlight/runtime/vm/graph.h"

namespace pen {

PEN_OP(add_tensor, "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
       "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)") {
  Promotion p;
  p.add(c.tensor(0));
  p.add(c.tensor(1));
  DType dtype = p.result();
  Graph g(c);
  int a = g.cast(g.input(c.tensor(0)), c.tensor(0).dtype(), dtype), b = g.cast(g.input(c.tensor(1)), c.tensor(1).dtype(), dtype);
  PEN_TRY(g.run(g.node(Key("add", dtype), a, b)));
  return c.give(g.take(0));
}

}  // namespace pen
