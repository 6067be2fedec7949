// max_pool, avg_pool and the adaptive ones of the VM.
#include "penlight/ops/pool/pooling.h"
#include "penlight/runtime/vm/calls.h"

namespace pen {

Status need_pool_dtype(const Call& c, const TensorObject& x, bool integers, DType* carrier) {
  if (x.dtype() == DType::boolean || (!integers && !is_floating(x.dtype())))
    return c.fail(integers ? "numbers" : "a tensor of floats", "%s", dtype_name(x.dtype()));
  *carrier = x.dtype() == DType::f64 ? DType::f64 : is_floating(x.dtype()) ? DType::f32 : DType::i64;
  return PEN_OK;
}

void add_window(Graph* g, const Window& w, int sides, bool dilated) {
  int64_t padding[6];
  for (int i = 0; i < sides; ++i) padding[i] = padding[sides + i] = w.padding[i];
  g->ints("kernel", w.kernel, sides).ints("stride", w.stride, sides).ints("padding", padding, 2 * sides);
  if (dilated) g->ints("dilation", w.dilation, sides);
  g->flag("ceil_mode", w.ceil_mode);
}
void add_divisor(Graph* g, const Window& w) {
  g->flag("count_include_pad", w.count_padding);
  if (w.divisor)
    g->integer("divisor", w.divisor);
  else
    g->none("divisor");
}

// Schemas go from one dim to three, and so again with indices; one more is the out= form of two.
static int spatial_of(const Call& c, bool with_out) { return with_out && c.form() == 3 ? 2 : c.form() % 3 + 1; }

static Status max_pool(Call& c) {
  const TensorObject& x = c.tensor(0);
  int spatial = spatial_of(c, false);
  bool indices = c.op->result_count == 2;
  Planes p;
  Window w = {};
  DType carrier;
  PEN_TRY(planes_of(c, x, spatial, &p));
  PEN_TRY(need_pool_dtype(c, x, true, &carrier));
  PEN_TRY(sides_of(c, 1, spatial, 1, w.kernel));
  PEN_TRY(sides_of(c, 2, spatial, 1, w.stride, w.kernel));
  PEN_TRY(sides_of(c, 3, spatial, 0, w.padding));
  PEN_TRY(sides_of(c, 4, spatial, 1, w.dilation));
  w.ceil_mode = c.flag(5);
  Graph g(c);
  const char* op = indices ? "max_pool_indices" : spatial == 3 ? "max_pool3d" : "max_pool2d";
  int y[] = {g.node(Key(op, carrier), g.input(p.x, carrier)), 0};
  if (indices) y[1] = g.output();
  add_window(&g, w, p.sides(), true);
  DType from[] = {carrier, DType::i64}, to[] = {x.dtype(), DType::i64};
  return give_planes(c, &g, p, y, indices ? 2 : 1, from, to);
}
PEN_OP(max_pool, "[nhwc]",
       "aten::max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1, bool ceil_mode=False) -> "
       "Tensor",
       "aten::{max_pool2d,mkldnn_max_pool2d[out]}(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, "
       "bool ceil_mode=False) -> Tensor",
       "aten::max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> "
       "Tensor",
       "aten::max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, int[1] dilation=1, bool "
       "ceil_mode=False) -> (Tensor, Tensor)",
       "[out=out out indices]aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] "
       "dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
       "[out=out out indices]aten::max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] "
       "dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)") {
  return max_pool(c);
}

PEN_OP(avg_pool, "[nhwc]",
       "[out]aten::avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=0, bool ceil_mode=False, bool "
       "count_include_pad=True) -> Tensor",
       "aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool "
       "count_include_pad=True, int? divisor_override=None) -> Tensor",
       "[out]aten::avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool "
       "count_include_pad=True, int? divisor_override=None) -> Tensor",
       "aten::avg_pool2d.out(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool "
       "count_include_pad=True, int? divisor_override=None, *, Tensor(a!) out) -> Tensor(a!)") {
  const TensorObject& x = c.tensor(0);
  int spatial = spatial_of(c, true);
  Planes p;
  Window w = {};
  DType carrier, to = x.dtype();
  PEN_TRY(planes_of(c, x, spatial, &p));
  PEN_TRY(need_pool_dtype(c, x, true, &carrier));
  PEN_TRY(sides_of(c, 1, spatial, 1, w.kernel));
  PEN_TRY(sides_of(c, 2, spatial, 1, w.stride, w.kernel));
  PEN_TRY(sides_of(c, 3, spatial, 0, w.padding));
  for (int64_t& d : w.dilation) d = 1;
  w.ceil_mode = c.flag(4);
  w.count_padding = c.flag(5);
  if (c.inputs() > 6 && c.given(6)) {
    w.divisor = c.integer(6);
    if (w.divisor == 0) return c.fail("a divisor_override that is not zero", "0");
  }
  Graph g(c);
  int y = g.node(Key(spatial == 3 ? "avg_pool3d" : "avg_pool2d", carrier), g.input(p.x, carrier));
  add_window(&g, w, p.sides(), false);
  add_divisor(&g, w);
  return give_planes(c, &g, p, &y, 1, &carrier, &to);
}

static Status adaptive(Call& c, bool maximum) {
  const TensorObject& x = c.tensor(0);
  int spatial = spatial_of(c, true);
  Planes p;
  DType carrier;
  int64_t size[3] = {};
  if (!maximum && x.rank() > spatial + 2) {  // torch takes any rank where the maps become one pixel each
    bool pixel = true;
    PEN_TRY(sides_of(c, 1, spatial, 1, size));
    for (int i = 0; i < spatial; ++i) pixel &= size[i] == 1;
    Calls t(c);
    if (pixel) return t.give(c, t("aten::mean.dim", x, spatial == 3 ? t.ints(-3, -2, -1) : t.ints(-2, -1), true, Value()));
  }
  PEN_TRY(planes_of(c, x, spatial, &p));
  PEN_TRY(need_pool_dtype(c, x, false, &carrier));
  PEN_TRY(sides_of(c, 1, spatial, 1, size));
  bool one = true;
  for (int i = 0; i < p.sides(); ++i) one &= size[i] == 1;
  for (int d = p.x.rank - spatial; d < p.x.rank; ++d)
    if (p.x.dims[d] == 0) return c.fail("an image with pixels", "size 0 in dim %d", d);
  Graph g(c);
  int image = g.input(p.x, carrier);
  DType from[] = {carrier, DType::i64}, to[] = {x.dtype(), DType::i64};
  if (one && !maximum) {
    int64_t dims[] = {2, 3, 4};
    int y = g.node(Key("mean", carrier), image);
    g.ints("dims", dims, p.sides()).flag("keepdim", true);
    PEN_TRY(g.run(g.cast(y, carrier, x.dtype())));
    return give_planes(c, p, g.take(0));
  }
  const char* op = maximum ? "adaptive_max_pool_indices" : spatial == 3 ? "adaptive_avg_pool3d" : "adaptive_avg_pool2d";
  int y[] = {g.node(Key(op, carrier), image), 0};
  if (maximum) y[1] = g.output();
  g.ints("size", size, p.sides());
  return give_planes(c, &g, p, y, maximum ? 2 : 1, from, to);
}
PEN_OP(adaptive_avg_pool, "[nhwc]", "[out]aten::adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor",
       "aten::{adaptive_avg_pool2d,_adaptive_avg_pool2d[out]}(Tensor self, SymInt[2] output_size) -> Tensor",
       "[out]aten::{adaptive_avg_pool3d,_adaptive_avg_pool3d}(Tensor self, SymInt[3] output_size) -> Tensor",
       "aten::adaptive_avg_pool2d.out(Tensor self, SymInt[2] output_size, *, Tensor(a!) out) -> Tensor(a!)") {
  return adaptive(c, false);
}
PEN_OP(adaptive_max_pool, "[nhwc]", "aten::adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)",
       "[out=out out indices]aten::adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)",
       "[out=out out indices]aten::adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)") {
  return adaptive(c, true);
}

}  // namespace pen
