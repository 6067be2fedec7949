// upsample_* of the VM: nearest, linear and cubic, over the resize kernels.
#include "penlight/ops/resize/resizing.h"

namespace pen {

namespace {

Status size_of(const Call& c, double scale, int64_t in, int64_t* to) {
  double size = floor(static_cast<double>(in) * scale);
  if (!(size >= 0 && size < 1e9)) return c.fail("a scale factor that gives a size", "%g of %lld", scale, static_cast<long long>(in));
  *to = static_cast<int64_t>(size);
  return PEN_OK;
}

// The overload's arguments, for what *r says already: "vec" has a size or factors as lists, the others a size and a factor for each side.
Status read(const Call& c, bool aligned, Resize* r) {
  const TensorObject& x = c.tensor(0);
  if (x.rank() != r->spatial + 2) {
    char expected[48];
    set_text(expected, sizeof expected, "an input of rank %d", r->spatial + 2);
    return c.fail(expected, "rank %d", x.rank());
  }
  r->align_corners = aligned && c.flag(2);
  int at = aligned ? 3 : 2;
  bool list = c.op->param(at).kind == Kind::reals;
  int64_t given[3];
  int count = c.ints(1, given, 3);
  bool sized = c.given(1) && count > 0;
  if (sized && count != r->spatial) return c.fail("an output size for each side", "%d", count);
  for (int i = 0; i < r->spatial; ++i) {
    int64_t in = x.dim(2 + i);
    r->scales[i] = 0;
    if (list && c.given(at)) {
      if (c.list(at).count != r->spatial) return c.fail("a scale factor for each side", "%lld", static_cast<long long>(c.list(at).count));
      r->scales[i] = c.list(at).items[i].real();
    } else if (!list && c.given(at + i)) {
      r->scales[i] = c.number(at + i);
    }
    if (sized) {
      r->size[i] = given[i];
      if (list) r->scales[i] = 0;
    } else {
      if (!list || !c.given(at)) return c.fail("an output size or scale factors", "neither");
      PEN_TRY(size_of(c, r->scales[i], in, &r->size[i]));
    }
    if (in < 1 || r->size[i] < 1)
      return c.fail("input and output sizes of 1 or more", "%lld and %lld", static_cast<long long>(in), static_cast<long long>(r->size[i]));
    if (!(r->scales[i] > 0)) r->scales[i] = 0;
    // torch's nearest pixel in images of the same or twice the size goes by that, whatever factor was given with it
    if (!aligned && r->spatial == 2 && !r->exact && (r->size[i] == in || r->size[i] == 2 * in)) r->scales[i] = 0;
  }
  return PEN_OK;
}

int add_reshape(Graph* g, int value, DType dtype, const int64_t* dims) {
  int made = g->node(Key::by_size("reshape", dtype), value);
  g->strided(made);
  g->ints("shape", dims, 4);
  return made;
}
// One step over two sides of [N, C, H, W].
int add_step(Graph* g, int value, const Resize& r, DType dtype, const int64_t* size, const double* scales) {
  int made = g->node(r.mode ? Key("resize", dtype) : Key::by_size("resize_nearest", dtype), value);
  int factors = scales[0] > 0 || scales[1] > 0 ? 2 : 0;
  g->ints("size", size, 2);
  if (r.mode)
    g->text("mode", r.mode).flag("align_corners", r.align_corners).flag("antialias", r.antialias).numbers("scales", scales, factors);
  else
    g->numbers("scales", scales, factors).flag("exact", r.exact);
  return made;
}

Status resize(Call& c, const Resize& r) {
  const TensorObject& x = c.tensor(0);
  DType dtype = r.mode && x.dtype() != DType::f64 ? DType::f32 : x.dtype();
  bool bytes = x.dtype() == DType::u8 && r.mode;
  if (r.mode && !is_floating(x.dtype()) && !bytes) return c.fail("floats or bytes", "%s", dtype_name(x.dtype()));
  Graph g(c);
  int y = g.input(x, dtype);
  bool channels_last = r.spatial == 2 && tensor_suggests_channels_last(x);
  auto rounded = [&](int value) {
    if (!bytes) return value;
    value = g.node("clamp.f32", g.node("round.f32", value));
    g.number("lo", 0).number("hi", 255);
    return value;
  };
  int64_t n = x.dim(0), ch = x.dim(1), lead = n * ch;
  if (r.spatial == 1) {
    int64_t planes[] = {n, ch, 1, x.dim(2)}, size[] = {1, r.size[0]};
    double scales[] = {0, r.scales[0]};
    y = rounded(add_step(&g, add_reshape(&g, y, dtype, planes), r, dtype, size, scales));
  } else if (r.spatial == 2) {
    if (bytes) {  // bytes are rounded after each side, the width first
      int64_t wide[] = {x.dim(2), r.size[1]};
      double across[] = {0, r.scales[1]}, down[] = {r.scales[0], 0};
      y = rounded(add_step(&g, y, r, dtype, wide, across));
      y = rounded(add_step(&g, y, r, dtype, r.size, down));
    } else {
      if (channels_last && x.dtype() != dtype) g.channels(y);
      y = add_step(&g, y, r, dtype, r.size, r.scales);
      if (channels_last) g.channels(y);
    }
  } else {  // images first, then columns of whole planes
    int64_t wide;
    if (mul_overflows(r.size[1], r.size[2], &wide)) return c.out_of_memory();
    int64_t planes[] = {lead, x.dim(2), x.dim(3), x.dim(4)}, columns[] = {lead, 1, x.dim(2), wide}, size[] = {r.size[0], wide};
    double scales[] = {r.scales[0], 0};
    y = add_step(&g, add_reshape(&g, y, dtype, planes), r, dtype, r.size + 1, r.scales + 1);
    y = rounded(add_step(&g, add_reshape(&g, y, dtype, columns), r, dtype, size, scales));
  }
  int made = g.cast(y, dtype, x.dtype());
  if (channels_last && made != y) g.channels(made);
  PEN_TRY(g.run(made));
  Value result = Value::own(g.take(0));
  if (r.spatial == 2) return c.give(static_cast<Value&&>(result));
  Shape shape = shape_of(x);
  for (int i = 0; i < r.spatial; ++i) shape.dims[2 + i] = r.size[i];
  return c.give(in_shape(*result.tensor(), shape));
}

}  // namespace

PEN_OP(resize_nearest,
       "aten::{upsample_nearest1d,upsample_nearest2d[out],upsample_nearest3d,_upsample_nearest_exact1d,_upsample_nearest_exact2d,_upsample_"
       "nearest_exact3d}.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor",
       "[out]aten::{upsample_nearest1d,_upsample_nearest_exact1d}(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor",
       "aten::{upsample_nearest2d,_upsample_nearest_exact2d[out]}(Tensor self, SymInt[2] output_size, float? scales_h=None, float? "
       "scales_w=None) -> Tensor",
       "[out]aten::{upsample_nearest3d,_upsample_nearest_exact3d}(Tensor self, SymInt[3] output_size, float? scales_d=None, float? "
       "scales_h=None, float? scales_w=None) -> Tensor",
       "aten::upsample_nearest2d.out(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None, *, Tensor(a!) out) -> "
       "Tensor(a!)") {
  Resize r = {};
  const bool listed = c.form() == 0;  // "vec", with all of them as words
  r.spatial = listed ? c.word() % 3 + 1 : c.form() == 4 ? 2 : c.form();
  r.exact = listed ? c.word() >= 3 : c.word() == 1;
  PEN_TRY(read(c, false, &r));
  return resize(c, r);
}
PEN_OP(resize_linear,
       "aten::{upsample_linear1d,upsample_trilinear3d,upsample_bilinear2d[out],upsample_bicubic2d,_upsample_bilinear2d_aa,_upsample_"
       "bicubic2d_aa}.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor",
       "[out]aten::upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None) -> Tensor",
       "aten::{upsample_bilinear2d,upsample_bicubic2d[out],_upsample_bilinear2d_aa[out],_upsample_bicubic2d_aa[out]}(Tensor self, "
       "SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
       "[out]aten::upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, float? "
       "scales_h=None, float? scales_w=None) -> Tensor",
       "aten::upsample_bilinear2d.out(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None, "
       "*, Tensor(a!) out) -> Tensor(a!)") {
  Resize r = {};
  const int first[] = {0, 0, 2, 1, 2}, way = first[c.form()] + c.word();  // as the words of "vec" have them
  r.spatial = way == 0 ? 1 : way == 1 ? 3 : 2;
  r.antialias = way >= 4;
  r.mode = way == 3 || way == 5 ? "cubic" : "linear";
  PEN_TRY(read(c, true, &r));
  return resize(c, r);
}

}  // namespace pen
