// Bilinear resizing of quantized maps, and questions about packed convolutions.
#include "penlight/ops/quantized/packed.h"
#include "penlight/runtime/vm/graph.h"

namespace pen {

static Status bilinear(Call& c, bool is_vec) {
  const TensorObject& x = c.tensor(0);
  if (x.dtype() == DType::i32) return on_reals(c);
  if (x.rank() != 4 || x.dim(2) < 1 || x.dim(3) < 1) return c.fail("a map of rank 4 that is not empty", "rank %d", x.rank());
  int64_t size[2];
  double scales[2] = {0, 0};
  bool align = c.flag(2);
  if (is_vec && c.given(3)) {
    const ListObject& factors = c.list(3);
    if (factors.count != 2) return c.fail("two scale factors", "%lld", static_cast<long long>(factors.count));
    for (int d = 0; d < 2; ++d) {
      scales[d] = factors.items[d].real();
      double wanted = static_cast<double>(x.dim(2 + d)) * scales[d];
      if (!(wanted >= 1 && wanted < 1e9)) return c.fail("scale factors that leave a pixel", "%g", scales[d]);
      size[d] = static_cast<int64_t>(wanted);
    }
  } else {
    if (c.ints(1, size, 2) != 2) return c.fail("an output size of two numbers", "another");
    for (int d = 0; !is_vec && d < 2; ++d)
      if (c.given(3 + d)) scales[d] = c.number(3 + d);
  }
  if (size[0] < 1 || size[1] < 1)
    return c.fail("an output size above 0", "%lld by %lld", static_cast<long long>(size[0]), static_cast<long long>(size[1]));
  Affine a;
  Value bytes;
  PEN_TRY(bytes_of(c, x, order_of(x), &bytes, &a));
  Graph g(c);
  int in = g.input(*bytes.tensor());
  g.quantized(in, a.scale, a.zero);
  int y = g.node("resize.q8", in);
  g.ints("size", size, 2).text("mode", "linear").flag("align_corners", align).flag("antialias", false);
  g.numbers("scales", scales, scales[0] > 0 || scales[1] > 0 ? 2 : 0);
  g.quantized(y, a.scale, a.zero);
  if (order_of(x) == Order::channels) g.channels(y);
  PEN_TRY(g.run(y));
  Value made = Value::own(g.take(0));
  PEN_TRY(from_bytes(c, x.dtype(), order_of(x), x.quantizer->scale, x.quantizer->zero_point, &made));
  return c.give(static_cast<Value&&>(made));
}

PEN_QUANTIZED(upsample_bilinear2d, "aten::upsample_bilinear2d") { return bilinear(c, false); }
PEN_QUANTIZED(upsample_bilinear2d_vec, "aten::upsample_bilinear2d.vec") { return bilinear(c, true); }

// ---- what packed convolutions say of themselves ----
static Status packed_list(Call& c, const char* name) {
  if (c.args[0].tag() != Tag::object) return c.fail("packed parameters", "%s", c.args[0].tag_name());
  const Value* found = instance_attribute(c.args[0].object(), name);
  if (!found || found->tag() != Tag::list) return c.fail("packed parameters of a convolution", "none with %s", name);
  const ListObject& from = *found->list();
  Value made = Value::own(list_create(from.count));
  if (made.is_none()) return c.out_of_memory();
  for (int64_t i = 0; i < from.count; ++i)
    if (!list_append(made.list(), from.items[i])) return c.out_of_memory();
  return c.give(static_cast<Value&&>(made));
}
PEN_OP(packed_conv_stride,
       "quantized::{conv2d,conv_transpose2d}_stride(__torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weights) -> int[]",
       "quantized::{conv3d,conv_transpose3d}_stride(__torch__.torch.classes.quantized.Conv3dPackedParamsBase packed_weights) -> int[]") {
  return packed_list(c, "stride");
}
PEN_OP(packed_conv_padding,
       "quantized::{conv2d,conv_transpose2d}_padding(__torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weights) -> int[]",
       "quantized::{conv3d,conv_transpose3d}_padding(__torch__.torch.classes.quantized.Conv3dPackedParamsBase packed_weights) -> int[]") {
  return packed_list(c, "padding");
}
PEN_OP(
    packed_conv_output_padding,
    "quantized::{conv2d,conv_transpose2d}_output_padding(__torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weights) -> int[]",
    "quantized::{conv3d,conv_transpose3d}_output_padding(__torch__.torch.classes.quantized.Conv3dPackedParamsBase packed_weights) -> "
    "int[]") {
  return packed_list(c, "output_padding");
}
PEN_OP(packed_conv_dilation,
       "quantized::{conv2d,conv_transpose2d}_dilation(__torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weights) -> int[]",
       "quantized::{conv3d,conv_transpose3d}_dilation(__torch__.torch.classes.quantized.Conv3dPackedParamsBase packed_weights) -> int[]") {
  return packed_list(c, "dilation");
}
PEN_OP(packed_conv_groups,
       "quantized::{conv2d,conv_transpose2d}_groups(__torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weights) -> int",
       "quantized::{conv3d,conv_transpose3d}_groups(__torch__.torch.classes.quantized.Conv3dPackedParamsBase packed_weights) -> int") {
  int64_t groups;
  PEN_TRY(packed_int(c, *c.args[0].object(), "groups", &groups));
  return c.give(groups);
}
PEN_OP(packed_conv_transpose,
       "quantized::{conv2d,conv_transpose2d}_transpose(__torch__.torch.classes.quantized.Conv2dPackedParamsBase packed_weights) -> int",
       "quantized::{conv3d,conv_transpose3d}_transpose(__torch__.torch.classes.quantized.Conv3dPackedParamsBase packed_weights) -> int") {
  bool transposed;
  PEN_TRY(packed_flag(c, *c.args[0].object(), "transposed", &transposed));
  return c.give(int64_t{transposed});
}

}  // namespace pen
