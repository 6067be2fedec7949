// conv1d … conv_transpose3d and _convolution of the VM.
#include "penlight/ops/conv/convolution.h"

namespace pen {

static const TensorObject* optional_tensor(const Call& c, int i) { return c.given(i) ? &c.tensor(i) : nullptr; }

// What is cut off the end of a transposed convolution is less by output_padding.
static Status end_of(const Call& c, Convolution* v, int sides, const int64_t* more) {
  for (int i = 0; i < sides; ++i) {
    v->after[i] = v->before[i];
    if (!v->transposed) continue;
    if (more[i] < 0 || (more[i] >= v->stride[i] && more[i] >= v->dilation[i]))
      return c.fail("an output_padding below stride or dilation", "%lld", static_cast<long long>(more[i]));
    v->after[i] -= more[i];
  }
  return PEN_OK;
}

PEN_OP(convolution, "[nhwc]",
       "aten::conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=1, SymInt[1] padding=0, SymInt[1] dilation=1, SymInt "
       "groups=1) -> Tensor",
       "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2] dilation=1, SymInt "
       "groups=1) -> Tensor",
       "aten::conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=1, SymInt[3] padding=0, SymInt[3] dilation=1, SymInt "
       "groups=1) -> Tensor") {
  int spatial = c.form() + 1;
  if (c.tensor(1).rank() != spatial + 2) return c.fail("a weight with a dim for each side, and two more", "rank %d", c.tensor(1).rank());
  Convolution v = {};
  v.groups = c.integer(6);
  PEN_TRY(sides_of(c, 3, spatial, 1, v.stride));
  PEN_TRY(sides_of(c, 4, spatial, 0, v.before));
  PEN_TRY(sides_of(c, 5, spatial, 1, v.dilation));
  for (int i = 0; i < 3; ++i) v.after[i] = v.before[i];
  return convolve(c, c.tensor(0), c.tensor(1), optional_tensor(c, 2), v);
}

PEN_OP(convolution_padded, "[nhwc]",
       "aten::conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=1, str padding='valid', SymInt[1] "
       "dilation=1, SymInt groups=1) -> Tensor",
       "aten::conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, str padding='valid', SymInt[2] "
       "dilation=1, SymInt groups=1) -> Tensor",
       "aten::conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=1, str padding='valid', SymInt[3] "
       "dilation=1, SymInt groups=1) -> Tensor",
       "aten::_convolution_mode(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, str padding, SymInt[] dilation, SymInt groups) "
       "-> Tensor") {
  const TensorObject& w = c.tensor(1);
  int spatial = w.rank() - 2, sides = spatial == 3 ? 3 : 2;
  if (spatial < 1 || spatial > 3 || (c.form() < 3 && c.form() + 1 != spatial))
    return c.fail("a weight with a dim for each side, and two more", "rank %d", w.rank());
  bool same = strcmp(c.text(4), "same") == 0;
  if (!same && strcmp(c.text(4), "valid") != 0) return c.fail("padding \"same\" or \"valid\"", "\"%s\"", c.text(4));
  Convolution v = {};
  v.groups = c.integer(6);
  PEN_TRY(sides_of(c, 3, spatial, 1, v.stride));
  PEN_TRY(sides_of(c, 5, spatial, 1, v.dilation));
  for (int i = 0; i < sides && same; ++i) {
    if (v.stride[i] != 1) return c.fail("stride 1 with padding \"same\"", "%lld", static_cast<long long>(v.stride[i]));
    int64_t kernel = spatial == 1 ? (i == 0 ? 1 : w.dim(2)) : w.dim(2 + i), total;
    if (v.dilation[i] < 1 || mul_overflows(v.dilation[i], kernel - 1, &total))
      return c.fail("a dilation of 1 or more", "%lld", static_cast<long long>(v.dilation[i]));
    v.before[i] = total / 2;  // the odd pixel comes at the end
    v.after[i] = total - total / 2;
  }
  return convolve(c, c.tensor(0), w, optional_tensor(c, 2), v);
}

PEN_OP(convolution_transposed, "[nhwc]",
       "aten::conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=1, SymInt[1] padding=0, SymInt[1] "
       "output_padding=0, SymInt groups=1, SymInt[1] dilation=1) -> Tensor",
       "aten::conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0, SymInt[2] "
       "output_padding=0, SymInt groups=1, SymInt[2] dilation=1) -> Tensor",
       "aten::conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=1, SymInt[3] padding=0, SymInt[3] "
       "output_padding=0, SymInt groups=1, SymInt[3] dilation=1) -> Tensor") {
  int spatial = c.form() + 1;
  if (c.tensor(1).rank() != spatial + 2) return c.fail("a weight with a dim for each side, and two more", "rank %d", c.tensor(1).rank());
  Convolution v = {};
  int64_t more[3];
  v.groups = c.integer(6);
  v.transposed = true;
  PEN_TRY(sides_of(c, 3, spatial, 1, v.stride));
  PEN_TRY(sides_of(c, 4, spatial, 0, v.before));
  PEN_TRY(sides_of(c, 5, spatial, 0, more));
  PEN_TRY(sides_of(c, 7, spatial, 1, v.dilation));
  PEN_TRY(end_of(c, &v, spatial == 3 ? 3 : 2, more));
  return convolve(c, c.tensor(0), c.tensor(1), optional_tensor(c, 2), v);
}

PEN_OP(
    convolution_any, "[nhwc]",
    "[out]aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool "
    "transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
    "[out]aten::_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool "
    "transposed, SymInt[] output_padding, SymInt groups, bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32) -> "
    "Tensor",
    "aten::_convolution.deprecated(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, bool "
    "transposed, int[] output_padding, int groups, bool benchmark, bool deterministic, bool cudnn_enabled) -> Tensor",
    "[out]aten::convolution_overrideable(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
    "bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
    "[out]aten::mkldnn_convolution(Tensor self, Tensor weight, Tensor? bias, SymInt[] padding, SymInt[] stride, SymInt[] dilation, SymInt "
    "groups) -> Tensor",
    "[out]aten::thnn_conv2d(Tensor self, Tensor weight, SymInt[2] kernel_size, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=0) "
    "-> Tensor",
    "[out]aten::_nnpack_spatial_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[2] padding, SymInt[2] stride=1) -> Tensor") {
  int spatial = c.tensor(1).rank() - 2, sides = spatial == 3 ? 3 : 2;
  if (spatial < 1 || spatial > 3) return c.fail("a weight of rank 3 to 5", "rank %d", c.tensor(1).rank());
  Convolution v = {};
  v.groups = 1;
  for (int64_t& d : v.dilation) d = 1;
  int64_t more[3] = {0, 0, 0};
  int bias = 2;
  if (c.form() == 4) {  // mkldnn
    PEN_TRY(sides_of(c, 3, spatial, 0, v.before));
    PEN_TRY(sides_of(c, 4, spatial, 1, v.stride));
    PEN_TRY(sides_of(c, 5, spatial, 1, v.dilation));
    v.groups = c.integer(6);
  } else if (c.form() == 5) {  // thnn
    bias = 3;
    PEN_TRY(sides_of(c, 4, spatial, 1, v.stride));
    PEN_TRY(sides_of(c, 5, spatial, 0, v.before));
  } else if (c.form() == 6) {  // nnpack
    PEN_TRY(sides_of(c, 3, spatial, 0, v.before));
    PEN_TRY(sides_of(c, 4, spatial, 1, v.stride));
  } else {
    v.transposed = c.flag(6);
    v.groups = c.integer(8);
    PEN_TRY(sides_of(c, 3, spatial, 1, v.stride));
    PEN_TRY(sides_of(c, 4, spatial, 0, v.before));
    PEN_TRY(sides_of(c, 5, spatial, 1, v.dilation));
    int64_t none[3] = {0, 0, 0};
    PEN_TRY(sides_of(c, 7, spatial, 0, more, none));
  }
  PEN_TRY(end_of(c, &v, sides, more));
  return convolve(c, c.tensor(0), c.tensor(1), optional_tensor(c, bias), v);
}

}  // namespace pen
