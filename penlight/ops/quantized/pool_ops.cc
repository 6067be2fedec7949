// Pooling and means of quantized tensors over the integer kernels; the scale and the zero point stay. Averages of u8 are qnnpack's: a
// window's sum times 1 / its size, whatever lies in the padding counted as zeros.
#include "penlight/ops/pool/pooling.h"
#include "penlight/ops/quantized/quantized.h"

namespace pen {

namespace {
// The planes of a map of bytes.
struct Maps {
  Value bytes;
  Affine a;
  Planes p;
};
}  // namespace
static Status maps_of(const Call& c, int spatial, Maps* m) {
  PEN_TRY(bytes_of(c, c.tensor(0), order_of(c.tensor(0)), &m->bytes, &m->a));
  return planes_of(c, *m->bytes.tensor(), spatial, &m->p);
}
static int add_maps(Graph* g, const char* key, const Maps& m) {
  int x = g->input(m.p.x);
  g->quantized(x, m.a.scale, m.a.zero);
  int y = g->node(key, x);
  g->quantized(y, m.a.scale, m.a.zero);
  return y;
}
static Status give_maps(Call& c, Graph* g, const Maps& m, int y) {
  const TensorObject& x = c.tensor(0);
  const DType bytes = DType::u8;
  PEN_TRY(give_planes(c, g, m.p, &y, 1, &bytes, &bytes));
  return from_bytes(c, x.dtype(), order_of(x), x.quantizer->scale, x.quantizer->zero_point, &c.results[0]);
}

static Status max_pooled(Call& c, int spatial) {
  const TensorObject& x = c.tensor(0);
  Window w = {};
  PEN_TRY(sides_of(c, 1, spatial, 1, w.kernel));
  PEN_TRY(sides_of(c, 2, spatial, 1, w.stride, w.kernel));
  PEN_TRY(sides_of(c, 3, spatial, 0, w.padding));
  PEN_TRY(sides_of(c, 4, spatial, 1, w.dilation));
  w.ceil_mode = c.flag(5);
  Graph g(c);
  if (x.dtype() == DType::i32) {
    Affine a;
    Planes p;
    PEN_TRY(affine_of(c, x, &a));
    PEN_TRY(planes_of(c, x, spatial, &p));
    int y = g.node(Key(spatial == 3 ? "max_pool3d" : "max_pool2d", DType::i64), g.input(p.x, DType::i64));
    add_window(&g, w, p.sides(), true);
    const DType from = DType::i64, to = DType::i32;
    PEN_TRY(give_planes(c, &g, p, &y, 1, &from, &to));
    return from_bytes(c, x.dtype(), order_of(x), a.scale, a.zero, &c.results[0]);
  }
  Maps m;
  PEN_TRY(maps_of(c, spatial, &m));
  int y = add_maps(&g, spatial == 3 ? "max_pool3d.q8" : "max_pool2d.q8", m);
  add_window(&g, w, m.p.sides(), true);
  return give_maps(c, &g, m, y);
}
PEN_OP(quantized_max_pool2d, "[quantized]",
       "quantized::max_pool2d(Tensor qx, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode) -> Tensor",
       "[out]aten::quantized_max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool "
       "ceil_mode=False) -> Tensor") {
  return max_pooled(c, 2);
}
PEN_OP(quantized_max_pool1d, "[quantized]",
       "quantized::max_pool1d(Tensor qx, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode) -> Tensor",
       "[out]aten::quantized_max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool "
       "ceil_mode=False) -> Tensor") {
  return max_pooled(c, 1);
}
PEN_OP(quantized_max_pool3d, "[quantized][out]",
       "aten::quantized_max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool "
       "ceil_mode=False) -> Tensor") {
  return max_pooled(c, 3);
}

PEN_QUANTIZED(max_pool1d, "aten::max_pool1d") { return max_pooled(c, 1); }
PEN_QUANTIZED(max_pool2d, "aten::max_pool2d") { return max_pooled(c, 2); }
PEN_QUANTIZED(max_pool3d, "aten::max_pool3d") { return max_pooled(c, 3); }

static Status avg_pool(Call& c, int spatial) {
  const TensorObject& x = c.tensor(0);
  if (x.dtype() == DType::i32) return on_reals(c);
  Maps m;
  Window w = {};
  PEN_TRY(maps_of(c, spatial, &m));
  PEN_TRY(sides_of(c, 1, spatial, 1, w.kernel));
  PEN_TRY(sides_of(c, 2, spatial, 1, w.stride, w.kernel));
  PEN_TRY(sides_of(c, 3, spatial, 0, w.padding));
  w.ceil_mode = c.flag(4);
  w.count_padding = c.flag(5);
  if (c.given(6) && c.integer(6) == 0) return c.fail("a divisor that is not 0", "0");
  w.divisor = c.given(6) ? c.integer(6) : 0;
  // qnnpack counts the padding, and knows no divisor; all else is torch's own formula, by which the kernel goes where there is one.
  if (spatial == 2 && x.dtype() == DType::u8 && !w.ceil_mode && x.rank() == 4)
    w.count_padding = true, w.divisor = 0;
  else if (spatial == 2 && !w.ceil_mode && w.count_padding && w.divisor == 0)
    w.divisor = w.kernel[0] * w.kernel[1];
  Graph g(c);
  int y = add_maps(&g, spatial == 3 ? "avg_pool3d.q8" : "avg_pool2d.q8", m);
  add_window(&g, w, m.p.sides(), false);
  add_divisor(&g, w);
  return give_maps(c, &g, m, y);
}
PEN_QUANTIZED(avg_pool2d, "aten::avg_pool2d") { return avg_pool(c, 2); }
PEN_QUANTIZED(avg_pool3d, "aten::avg_pool3d") { return avg_pool(c, 3); }

static Status adaptive_avg_pool(Call& c, int spatial) {
  if (c.tensor(0).dtype() == DType::i32) return on_reals(c);
  Maps m;
  int64_t size[3];
  PEN_TRY(maps_of(c, spatial, &m));
  PEN_TRY(sides_of(c, 1, spatial, 1, size));
  Graph g(c);
  int y = add_maps(&g, spatial == 3 ? "adaptive_avg_pool3d.q8" : "adaptive_avg_pool2d.q8", m);
  g.ints("size", size, m.p.sides());
  return give_maps(c, &g, m, y);
}
PEN_QUANTIZED(adaptive_avg_pool2d, "aten::adaptive_avg_pool2d", "aten::_adaptive_avg_pool2d") { return adaptive_avg_pool(c, 2); }
PEN_QUANTIZED(adaptive_avg_pool3d, "aten::adaptive_avg_pool3d", "aten::_adaptive_avg_pool3d") { return adaptive_avg_pool(c, 3); }

// The mean over some dims, or all.
static Status mean(Call& c, int dims_at) {
  const TensorObject& x = c.tensor(0);
  DType dtype;
  PEN_TRY(quantized_dtype(c, dims_at < 0 ? 1 : dims_at + 2, x.dtype(), &dtype));
  if (dtype != x.dtype()) return c.fail("the input's dtype", "%s", dtype_name(dtype));
  int64_t over[kMaxRank], elements = 1;
  int count = dims_at >= 0 && c.given(dims_at) ? c.ints(dims_at, over, kMaxRank) : 0;
  if (count > kMaxRank) return c.fail("at most 8 dims", "%d", count);
  if (count == 0)
    for (; count < x.rank(); ++count) over[count] = count;
  bool reduced[kMaxRank] = {};
  for (int i = 0; i < count; ++i) {
    int d;
    PEN_TRY(c.dim(over[i], x.rank(), &d));
    if (reduced[d]) return c.fail("each dim once", "dim %d twice", d);
    reduced[d] = true;
    over[i] = d;
    elements *= x.dim(d);
  }
  constexpr int64_t kMost = INT32_MAX / 256;  // that sums of 32 bits hold
  if (dtype == DType::i32 || elements > kMost) return on_reals(c);
  Value bytes;
  Affine a;
  PEN_TRY(bytes_of(c, x, order_of(x), &bytes, &a));
  Graph g(c);
  int in = g.input(*bytes.tensor());
  g.quantized(in, a.scale, a.zero);
  int y = g.node("mean.q8", in);
  g.ints("dims", over, count).flag("keepdim", dims_at >= 0 && c.flag(dims_at + 1));
  g.quantized(y, a.scale, a.zero);
  PEN_TRY(g.run(y));
  Value made = Value::own(g.take(0));
  PEN_TRY(from_bytes(c, dtype, Order::rows, x.quantizer->scale, x.quantizer->zero_point, &made));
  return c.give(static_cast<Value&&>(made));
}
PEN_QUANTIZED(mean_dim, "aten::mean.dim") { return mean(c, 1); }
PEN_QUANTIZED(mean, "aten::mean") { return mean(c, -1); }

}  // namespace pen
