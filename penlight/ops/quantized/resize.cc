// Bilinear resizing of quantized maps, in f32 over the integers, and questions about packed convolutions.
#include "penlight/ops/quantized/packed.h"

namespace pen {

namespace {
// torch's source coordinates: the share of the input that an output pixel steps over, in f32.
struct Axis {
  float ratio;
  bool align;
  int64_t in;
  void at(int64_t o, int64_t* place, int64_t* next, float* rest) const {
    float source = align ? ratio * static_cast<float>(o) : ratio * (static_cast<float>(o) + 0.5f) - 0.5f;
    if (source < 0.0f) source = 0.0f;
    *place = static_cast<int64_t>(source);
    if (*place > in - 1) *place = in - 1;
    *next = *place < in - 1 ? 1 : 0;
    *rest = source - static_cast<float>(*place);
  }
};
}  // namespace
static Axis axis_of(int64_t in, int64_t out, bool align, double scale) {
  float ratio;
  if (align)
    ratio = out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1) : 0.0f;
  else
    ratio = scale > 0 ? static_cast<float>(1.0 / scale) : static_cast<float>(in) / static_cast<float>(out);
  return {ratio, align, in};
}

static Status bilinear(Call& c, bool is_vec) {
  const TensorObject& x = c.tensor(0);
  Affine a;
  PEN_TRY(affine_of(c, x, &a));
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
  Order order = order_of(x);
  Status status;
  Value dense = Value::own(ordered(c, x, order, &status));
  PEN_TRY(status);
  int64_t dims[] = {x.dim(0), x.dim(1), size[0], size[1]};
  Value made = Value::own(quantized_create(x.dtype(), 4, dims, order, a.scale, a.zero));
  if (made.is_none()) return c.out_of_memory();
  const TensorObject &from = *dense.tensor(), &to = *made.tensor();
  bool same = size[0] == x.dim(2) && size[1] == x.dim(3);
  if (same) {
    PEN_TRY(copy_into(c, made.tensor(), x));
    return c.give(static_cast<Value&&>(made));
  }
  Axis rows = axis_of(x.dim(2), size[0], align, scales[0]), columns = axis_of(x.dim(3), size[1], align, scales[1]);
  const int64_t *fs = from.shape.strides, *ts = to.shape.strides;
  Levels l = levels_of(x.dtype());
  float zero = static_cast<float>(a.zero);
  in_parts(c, x.dim(0) * size[0], 1 + 2048 / (size[1] * x.dim(1) + 1), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      int64_t n = line / size[0], oh = line % size[0], y, y_next;
      float y1;
      rows.at(oh, &y, &y_next, &y1);
      float y0 = 1.0f - y1;
      for (int64_t ow = 0; ow < size[1]; ++ow) {
        int64_t k, k_next;
        float x1;
        columns.at(ow, &k, &k_next, &x1);
        float x0 = 1.0f - x1;
        for (int64_t ch = 0; ch < x.dim(1); ++ch) {
          int64_t at = n * fs[0] + ch * fs[1] + y * fs[2] + k * fs[3], right = k_next * fs[3], below = y_next * fs[2];
          auto value = [&](int64_t where) { return static_cast<float>(stored(from, where)); };
          float v = y0 * (x0 * value(at) + x1 * value(at + right)) + y1 * (x0 * value(at + below) + x1 * value(at + below + right)) - zero;
          store(to, n * ts[0] + ch * ts[1] + oh * ts[2] + ow * ts[3], limit(nearest_wide(v + zero), l));
        }
      }
    }
  });
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
