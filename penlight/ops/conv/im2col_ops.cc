// im2col and col2im of the VM (torch.nn.functional.unfold and fold).
#include "penlight/runtime/vm/flat.h"

namespace pen {

// Two numbers, or one for both sides.
static Status pair_of(const Call& c, int arg, int64_t* to) {
  int n = c.ints(arg, to, 2);
  if (n == 1) to[1] = to[0];
  return n == 1 || n == 2 ? PEN_OK : c.fail("two numbers a side", "%d for %s", n, c.op->param(arg).name.text());
}
static Tensor batched(const TensorObject& x, int rank) {
  Tensor t = x.view();
  if (t.rank == rank) return t;
  for (int d = t.rank; d > 0; --d) t.dims[d] = t.dims[d - 1], t.strides[d] = t.strides[d - 1];
  t.dims[0] = 1;
  t.strides[0] = x.numel();
  ++t.rank;
  return t;
}
static Status give_unbatched(Call& c, const TensorObject& x, int rank, Value&& made) {
  if (x.rank() == rank) return c.give(static_cast<Value&&>(made));
  const TensorObject& t = *made.tensor();
  return c.give(tensor_view(t, t.rank() - 1, t.shape.dims + 1, t.shape.strides + 1, t.offset));
}

PEN_OP(im2col, "[out]", "aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  if (x.rank() != 4 && x.rank() != 3) return c.fail("an input [N, C, H, W] or [C, H, W]", "rank %d", x.rank());
  int64_t kernel[2], dilation[2], padding[2], stride[2];
  PEN_TRY(pair_of(c, 1, kernel));
  PEN_TRY(pair_of(c, 2, dilation));
  PEN_TRY(pair_of(c, 3, padding));
  PEN_TRY(pair_of(c, 4, stride));
  Graph g(c);
  int y = g.node(Key::by_size("im2col", x.dtype()), batched(x, 4));
  g.ints("kernel", kernel, 2).ints("stride", stride, 2).ints("padding", padding, 2).ints("dilation", dilation, 2);
  PEN_TRY(g.run(y));
  return give_unbatched(c, x, 4, Value::own(g.take(0)));
}
PEN_OP(col2im, "[out]",
       "aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  if (x.rank() != 3 && x.rank() != 2) return c.fail("columns [N, C * kernel, windows] or [C * kernel, windows]", "rank %d", x.rank());
  if (!is_floating(x.dtype()) || x.dtype() == DType::f64) return c.fail("a tensor of Float, Half or BFloat16", "%s", dtype_name(x.dtype()));
  int64_t size[2], kernel[2], dilation[2], padding[2], stride[2];
  PEN_TRY(pair_of(c, 1, size));
  PEN_TRY(pair_of(c, 2, kernel));
  PEN_TRY(pair_of(c, 3, dilation));
  PEN_TRY(pair_of(c, 4, padding));
  PEN_TRY(pair_of(c, 5, stride));
  Graph g(c);
  int y = g.node("col2im.f32", g.input(batched(x, 3), DType::f32));
  g.ints("size", size, 2).ints("kernel", kernel, 2).ints("stride", stride, 2).ints("padding", padding, 2).ints("dilation", dilation, 2);
  PEN_TRY(g.run(g.cast(y, DType::f32, x.dtype())));
  return give_unbatched(c, x, 3, Value::own(g.take(0)));
}

}  // namespace pen
