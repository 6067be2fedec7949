// Convolutions of the VM over the kernels of conv2d, conv3d and their transposed forms.
#include "penlight/ops/conv/convolution.h"

#include "conv_kernels.h"  // generated from kernels.py
#include "penlight/runtime/vm/packing.h"

namespace pen {

// The weight as kernels mean it: [Co, Ci / groups, (D,) H, W], or with the groups as a dim of their own before it.
struct ConvWeight {
  Tensor w;
  bool split;
  int64_t outputs, inputs;  // Co, Ci / groups
};

static Status weight_of(const Call& c, const TensorObject& t, const Convolution& v, ConvWeight* to) {
  const Tensor w = t.view();
  int spatial = w.rank - 2, at = 0;
  if (v.groups < 1 || w.dims[0] % v.groups != 0)
    return c.fail("a weight whose first dim can be divided by the groups", "%lld in %lld groups", static_cast<long long>(w.dims[0]),
                  static_cast<long long>(v.groups));
  to->w = w;
  to->split = v.transposed && v.groups > 1;
  auto add = [&](int64_t dim, int64_t stride) {
    to->w.dims[at] = dim;
    to->w.strides[at++] = stride;
  };
  if (!v.transposed) {
    to->outputs = w.dims[0];
    to->inputs = w.dims[1];
    add(w.dims[0], w.strides[0]);
    add(w.dims[1], w.strides[1]);
  } else {
    to->inputs = w.dims[0] / v.groups;
    if (mul_overflows(w.dims[1], v.groups, &to->outputs)) return c.fail("a weight of countable size", "more");
    if (to->split) add(v.groups, to->inputs * w.strides[0]);
    add(w.dims[1], w.strides[1]);
    add(to->inputs, w.strides[0]);
  }
  if (spatial == 1) add(1, w.dims[2] * w.strides[2]);
  for (int d = 2; d < w.rank; ++d) add(w.dims[d], w.strides[d]);
  to->w.rank = at;
  return PEN_OK;
}

static const ConvKernel& kernel_of(const Convolution& v, const ConvWeight& w, int spatial) {
  auto inside = [](const auto& bounds, int64_t n) { return n >= bounds.least && n <= bounds.most; };
  const ConvKernel* k = kConvKernels;
  while (!k->ops[2 * v.transposed + (spatial == 3)] || !inside(k->groups, v.groups) || !inside(k->inputs, w.inputs) ||
         !inside(k->outputs, w.outputs / v.groups) || !inside(k->width, w.w.dims[w.w.rank - 1]))
    ++k;  // the last one fits all
  return *k;
}

Status convolve(Call& c, const TensorObject& x, const TensorObject& w, const TensorObject* b, const Convolution& v) {
  int spatial = w.rank() - 2;
  if (spatial < 1 || spatial > 3) return c.fail("a weight of rank 3 to 5", "rank %d", w.rank());
  if (x.dtype() != w.dtype() || (b && b->dtype() != w.dtype()))
    return c.fail("input, weight and bias of one dtype", "%s, %s and %s", dtype_name(x.dtype()), dtype_name(w.dtype()),
                  b ? dtype_name(b->dtype()) : "none");
  if (x.dtype() == DType::boolean) return c.fail("numbers", "Bool");
  if (v.limited && x.dtype() != DType::f32) return c.fail("a Float tensor, as packed weights are", "%s", dtype_name(x.dtype()));
  Planes p;
  PEN_TRY(planes_of(c, x, spatial, &p));
  if (tensor_is_channels_last(w) && !tensor_is_contiguous(w) && p.batched && spatial == 2 && !v.limited) p.channels_last = true;
  ConvWeight weight;
  PEN_TRY(weight_of(c, w, v, &weight));
  if (b && (b->rank() != 1 || b->dim(0) != weight.outputs))
    return c.fail("a bias for each output channel", "rank %d, %lld elements, %lld channels", b->rank(), static_cast<long long>(b->numel()),
                  static_cast<long long>(weight.outputs));
  DType carrier = x.dtype() == DType::f64 ? DType::f64 : is_floating(x.dtype()) ? DType::f32 : DType::i64;
  const ConvKernel& kernel_used = kernel_of(v, weight, spatial);
  const char *variant = carrier == DType::f32 ? kernel_used.variant : "", *layout = carrier == DType::f32 ? kernel_used.layout : "plain";
  Graph g(c);
  int image = g.input(p.x, carrier), kernel, bias = b ? g.input(*b, carrier) : -1;
  PEN_TRY(pack_weight(c, &g, w, weight.w, weight.split, layout, v.groups, &kernel));
  const char* op = v.transposed ? (spatial == 3 ? "conv_transpose3d" : "conv_transpose2d") : (spatial == 3 ? "conv3d" : "conv2d");
  int y = g.node(Key(op, carrier, variant), image, kernel, bias, -1);
  int sides = p.sides();
  int64_t padding[6];
  for (int i = 0; i < sides; ++i) {
    padding[i] = v.before[i];
    padding[sides + i] = v.after[i];
  }
  double limits[] = {v.low, v.high};
  g.ints("stride", v.stride, sides).ints("padding", padding, 2 * sides).ints("dilation", v.dilation, sides).integer("groups", v.groups);
  g.text("act", v.limited ? "clamp" : "").numbers("act_args", limits, v.limited ? 2 : 0);
  DType to = x.dtype();
  return give_planes(c, &g, p, &y, 1, &carrier, &to);
}

}  // namespace pen
