// Convolutions of the VM over the kernels of conv2d, conv3d and their transposed forms.
#include "penlight/ops/conv/convolution.h"

#include "conv_kernels.h"  // generated from kernels.py
#include "penlight/ops/conv/windows.h"
#include "penlight/runtime/vm/images.h"
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
  const ConvChoice* k = kConvChoices;
  while (!k->ops[2 * v.transposed + (spatial == 3)] || !inside(k->groups, v.groups) || !inside(k->inputs, w.inputs) ||
         !inside(k->outputs, w.outputs / v.groups) || !inside(k->width, w.w.dims[w.w.rank - 1]))
    ++k;  // the last one fits all
  return kConvKernels[k - kConvChoices];
}

// Whether the call can wait for what follows (images.h), and the size of its result. Only where all is well: whoever does not wait finds
// out what is wrong.
static bool can_wait(const Call& c, const Planes& p, const ConvWeight& weight, const Convolution& v, int64_t* result) {
  constexpr int64_t kMost = 1 << 20;  // of a side, its kernel, stride, dilation and padding
  const Tensor& x = p.x;
  if (!p.hidden || c.count > kMostWaitingArgs || c.op->outs || v.transposed || v.limited || x.dtype != DType::f32 || x.dims[0] < 1 ||
      weight.outputs < 1 || weight.inputs > kMost || v.groups > kMost || weight.inputs * v.groups != x.dims[1])
    return false;
  result[0] = x.dims[0];
  result[1] = weight.outputs;
  for (int i = 0; i < 2; ++i) {
    const WindowSide w = {x.dims[2 + i], weight.w.dims[2 + i], v.stride[i], v.dilation[i], v.before[i], v.after[i]};
    auto inside = [](int64_t n, int64_t least) { return n >= least && n <= kMost; };
    if (!inside(w.size, 0) || !inside(w.kernel, 1) || !inside(w.stride, 1) || !inside(w.dilation, 1) || !inside(w.before, 0) ||
        !inside(w.after, 0))
      return false;
    result[2 + i] = window_count(w);
    if (result[2 + i] < 1) return false;
  }
  return weight.w.dims[2] * weight.w.dims[3] <= kMost;
}

static Status finish_in(Call& c, Graph* g, int value, TensorObject* made) {
  g->channels(value);
  g->into(made);
  PEN_TRY(g->run(value));
  Value computed = Value::own(g->take(0));
  return computed.tensor() == made ? PEN_OK : c.fail("a result as it was when the call began to wait", "another");
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
  if (tensor_is_channels_last(w) && !tensor_is_contiguous(w) && p.batched && spatial == 2 && !v.limited) {
    p.channels_last = true;
    p.hidden = false;
  }
  ConvWeight weight;
  PEN_TRY(weight_of(c, w, v, &weight));
  if (b && (b->rank() != 1 || b->dim(0) != weight.outputs))
    return c.fail("a bias for each output channel", "rank %d, %lld elements, %lld channels", b->rank(), static_cast<long long>(b->numel()),
                  static_cast<long long>(weight.outputs));
  DType carrier = x.dtype() == DType::f64 ? DType::f64 : is_floating(x.dtype()) ? DType::f32 : DType::i64;
  int64_t result[4];
  if (can_wait(c, p, weight, v, result)) return wait_with(c, result);
  const ConvKernel& kernel_used = kernel_of(v, weight, spatial);
  const char *variant = carrier == DType::f32 ? kernel_used.variant : "", *layout = carrier == DType::f32 ? kernel_used.layout : "plain";
  Graph g(c);
  int image = g.input(p.x, carrier), kernel, bias = b ? g.input(*b, carrier) : -1;
  PEN_TRY(pack_weight(c, &g, w, weight.w, weight.split, layout, v.groups, &kernel));
  const char* op = v.transposed ? (spatial == 3 ? "conv_transpose3d" : "conv_transpose2d") : (spatial == 3 ? "conv3d" : "conv2d");
  const Waiting* after = c.finishing;
  int residual = after && !after->residual.is_none() ? g.input(*after->residual.tensor()) : -1;
  int y = g.node(Key(op, carrier, variant), image, kernel, bias, residual);
  int sides = p.sides();
  int64_t padding[6];
  for (int i = 0; i < sides; ++i) {
    padding[i] = v.before[i];
    padding[sides + i] = v.after[i];
  }
  double limits[] = {v.low, v.high};
  g.ints("stride", v.stride, sides).ints("padding", padding, 2 * sides).ints("dilation", v.dilation, sides).integer("groups", v.groups);
  if (after) {
    bool clamp = strcmp(after->act, "clamp") == 0;
    g.text("act", after->act).numbers("act_args", after->act_args, clamp ? 2 : after->act[0] ? 3 : 0);
    return finish_in(c, &g, y, after->made.tensor());
  }
  g.text("act", v.limited ? "clamp" : "").numbers("act_args", limits, v.limited ? 2 : 0);
  DType to = x.dtype();
  return give_planes(c, &g, p, &y, 1, &carrier, &to);
}

}  // namespace pen
