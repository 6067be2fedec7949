// max_unpool2d and max_unpool3d of the VM: values back at the places that max_pool found them at, zeros elsewhere.
#include "penlight/runtime/vm/flat.h"

namespace pen {

PEN_OP(max_unpool, "[out]", "aten::max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor",
       "aten::max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) -> Tensor") {
  const TensorObject &x = c.tensor(0), &indices = c.tensor(1);
  int spatial = c.form() + 2;
  int64_t size[3], rows[2] = {1, 1}, pixels = 1;
  if (c.ints(2, size, 3) != spatial) return c.fail("an output size for each side", "%d", c.ints(2, size, 3));
  if (x.rank() != spatial + 1 && x.rank() != spatial + 2)
    return c.fail("an input of images, with a batch dim or without", "rank %d", x.rank());
  bool same = indices.rank() == x.rank() && indices.dtype() == DType::i64;
  for (int d = 0; same && d < x.rank(); ++d) same = indices.dim(d) == x.dim(d);
  if (!same) return c.fail("Long indices of the input's shape", "%s, rank %d", dtype_name(indices.dtype()), indices.rank());
  Shape shape = shape_of(x);
  for (int d = 0; d < x.rank(); ++d) {
    int side = d - (x.rank() - spatial);
    int64_t& product = rows[side >= 0];
    product *= x.dim(d);
    if (side < 0) continue;
    shape.dims[d] = size[side];
    if (size[side] < 1 || mul_overflows(pixels, size[side], &pixels))
      return c.fail("output sizes of 1 or more", "%lld", static_cast<long long>(size[side]));
  }
  Graph g(c);
  int values = g.node(Key::by_size("reshape", x.dtype()), x);
  g.ints("shape", rows, 2);
  int places = g.node("reshape.b64", indices);
  g.ints("shape", rows, 2);
  int y = g.node(Key::by_size("max_unpool", x.dtype()), values, places);
  g.integer("size", pixels);
  PEN_TRY(g.run(y));
  Value made = Value::own(g.take(0));
  return c.give(in_shape(*made.tensor(), shape));
}

}  // namespace pen
