// grid_sampler, affine_grid_generator and torchvision's operators of the VM.
#include "penlight/runtime/vm/calls.h"
#include "penlight/runtime/vm/flat.h"

namespace pen {

static Status need_single(const Call& c, const TensorObject& t) {
  return is_floating(t.dtype()) && t.dtype() != DType::f64 ? PEN_OK
                                                           : c.fail("a tensor of Float, Half or BFloat16", "%s", dtype_name(t.dtype()));
}
static int in_f32(Graph* g, const TensorObject& t) { return g->input(t, DType::f32); }

PEN_OP(grid_sampler,
       "aten::{grid_sampler,grid_sampler_2d[out],grid_sampler_3d[out]}(Tensor input, Tensor grid, int interpolation_mode, int "
       "padding_mode, bool align_corners) -> Tensor") {
  static const char* const kModes[] = {"linear", "nearest", "cubic"};
  static const char* const kPaddings[] = {"zeros", "border", "reflection"};
  const TensorObject &x = c.tensor(0), &grid = c.tensor(1);
  int64_t mode = c.integer(2), padding = c.integer(3);
  PEN_TRY(need_single(c, x));
  if (grid.dtype() != x.dtype()) return c.fail("input and grid of one dtype", "%s and %s", dtype_name(x.dtype()), dtype_name(grid.dtype()));
  int spatial = x.rank() - 2;
  if ((spatial != 2 && spatial != 3) || grid.rank() != x.rank() || grid.dim(grid.rank() - 1) != spatial || grid.dim(0) != x.dim(0))
    return c.fail("an input [N, C, H, W] or [N, C, D, H, W] and a grid [N, …, 2 or 3]", "rank %d and %d, or other sizes", x.rank(),
                  grid.rank());
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2)
    return c.fail("modes from 0 to 2", "%lld and %lld", static_cast<long long>(mode), static_cast<long long>(padding));
  int64_t places[] = {grid.dim(0), 1, spatial}, size[3];
  for (int i = 0; i < spatial; ++i) {
    size[i] = grid.dim(1 + i);
    if (mul_overflows(places[1], size[i], &places[1])) return c.fail("a grid that memory can hold", "more");
  }
  Graph g(c);
  int image = in_f32(&g, x), at = in_f32(&g, grid);
  at = g.node("reshape.b32", at);
  g.ints("shape", places, 3);
  int y = g.node("grid_sample.f32", image, at);
  g.ints("size", size, spatial)
      .text("mode", kModes[mode])
      .text("padding", kPaddings[padding])
      .flag("align_corners", c.flag(4))
      .flag("pixels", false);
  PEN_TRY(g.run(g.cast(y, DType::f32, x.dtype())));
  return c.give(g.take(0));
}

// Places of an affine map's results: theta [N, 2, 3] or [N, 3, 4] times (x, y, (z,) 1) at each pixel.
PEN_OP(affine_grid_generator, "[out]", "aten::affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor") {
  const TensorObject& theta = c.tensor(0);
  int64_t size[5];
  int count = c.ints(1, size, 5), axes = count - 2;
  if (!is_floating(theta.dtype())) return c.fail("floats", "%s", dtype_name(theta.dtype()));
  if ((count != 4 && count != 5) || theta.rank() != 3 || theta.dim(1) != axes || theta.dim(2) != axes + 1 || theta.dim(0) != size[0])
    return c.fail("theta [N, 2, 3] and a size of 4, or [N, 3, 4] and 5", "rank %d, %d sizes", theta.rank(), count);
  Shape shape;
  shape.dims[shape.rank++] = size[0];
  for (int i = 0; i < axes; ++i) shape.dims[shape.rank++] = size[2 + i];
  shape.dims[shape.rank++] = axes;
  Value made = Value::own(tensor_create(DType::f64, shape)), matrix;
  if (made.is_none()) return c.out_of_memory();
  PEN_TRY(elements_of(c, theta, DType::f64, &matrix));
  double* out = made.tensor()->as<double>();
  int64_t pixels = 1;
  for (int i = 0; i < axes; ++i) pixels *= size[2 + i];
  for (int64_t n = 0; n < size[0]; ++n)
    for (int64_t p = 0; p < pixels; ++p) {
      double at[4];
      int64_t rest = p;
      for (int i = 0; i < axes; ++i) {  // x first
        int64_t steps = size[count - 1 - i], k = rest % steps;
        rest /= steps;
        at[i] = !c.flag(2)  ? static_cast<double>(2 * k + 1) / static_cast<double>(steps) - 1
                : steps > 1 ? 2.0 * static_cast<double>(k) / static_cast<double>(steps - 1) - 1
                            : 0;
      }
      at[axes] = 1;
      for (int i = 0; i < axes; ++i) {
        double sum = 0;
        for (int j = 0; j <= axes; ++j) sum += matrix.tensor()->as<double>()[(n * axes + i) * (axes + 1) + j] * at[j];
        *out++ = sum;
      }
    }
  return give_as(c, static_cast<Value&&>(made), theta.dtype());
}

PEN_OP(nms, "torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor") {
  const TensorObject &boxes = c.tensor(0), &scores = c.tensor(1);
  if (boxes.rank() != 2 || boxes.dim(1) != 4 || scores.rank() != 1 || scores.dim(0) != boxes.dim(0))
    return c.fail("boxes [n, 4] and scores [n]", "rank %d and %d, or other sizes", boxes.rank(), scores.rank());
  PEN_TRY(need_single(c, boxes));
  PEN_TRY(need_single(c, scores));
  Graph g(c);
  int values = g.node("sort.f32", in_f32(&g, scores)), order = g.output();
  g.integer("dim", 0).flag("descending", true);
  (void)values;
  int kept = g.node("nms.f32", in_f32(&g, boxes), order);
  g.number("threshold", c.number(2));
  PEN_TRY(g.run(kept));
  return c.give(g.take(0));
}

// Result 1, which channel was looked at, is for gradients: zeros.
static Status regions(Call& c, const char* key, bool align, int64_t sampling, bool aligned, bool sensitive) {
  const TensorObject &x = c.tensor(0), &rois = c.tensor(1);
  PEN_TRY(need_single(c, x));
  if (rois.dtype() != x.dtype())
    return c.fail("input and regions of one dtype", "%s and %s", dtype_name(x.dtype()), dtype_name(rois.dtype()));
  int64_t size[] = {c.integer(3), c.integer(4)}, sides[] = {size[0], size[1], sampling, sampling}, samples = rois.numel();
  for (int64_t side : sides)  // how many places it looks at
    if (side > 0 && mul_overflows(samples, side, &samples)) samples = INT64_MAX;
  PEN_TRY(c.spend(samples));
  Graph g(c);
  int y = g.node(key, in_f32(&g, x), in_f32(&g, rois));
  g.number("scale", c.number(2)).ints("size", size, 2);
  if (align)
    g.integer("sampling", sampling > 0 ? sampling : 0).flag("aligned", aligned);
  else
    g.flag("mean", sensitive);
  g.flag("sensitive", sensitive);
  g.channels(y);
  int made = g.cast(y, DType::f32, x.dtype());
  if (made == y) made = g.copy(y, x.dtype());
  PEN_TRY(g.run(made));
  PEN_TRY(c.give(g.take(0)));
  if (c.op->result_count < 2) return PEN_OK;
  const TensorObject& result = *c.results[0].tensor();
  Value places = Value::own(tensor_create(DType::i32, result.rank(), result.shape.dims));
  if (places.is_none()) return c.out_of_memory();
  memset(places.tensor()->data(), 0, static_cast<size_t>(result.numel()) * 4);
  return c.give(static_cast<Value&&>(places), 1);
}
PEN_OP(roi_align,
       "torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int "
       "sampling_ratio, bool aligned) -> Tensor") {
  return regions(c, "roi_align.f32", true, c.integer(5), c.flag(6), false);
}
PEN_OP(ps_roi_align,
       "torchvision::ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int "
       "sampling_ratio) -> (Tensor, Tensor)") {
  return regions(c, "roi_align.f32", true, c.integer(5), true, true);
}
PEN_OP(roi_pool,
       "torchvision::{roi_pool,ps_roi_pool}(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> "
       "(Tensor, Tensor)") {
  return regions(c, "roi_pool.f32", false, 0, false, c.word() == 1);
}

// Each tap of the kernel looks at a place of its own for each output pixel: one grid_sample, then a matrix product.
PEN_OP(deform_conv2d,
       "torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
       "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor") {
  const TensorObject &x = c.tensor(0), &w = c.tensor(1), &offset = c.tensor(2);
  if (x.dtype() != DType::f32 || w.dtype() != DType::f32 || offset.dtype() != DType::f32) return c.fail("Float tensors", "others");
  int64_t groups = c.integer(11), offset_groups = c.integer(12);
  if (x.rank() != 4 || w.rank() != 4 || offset.rank() != 4 || groups < 1 || offset_groups < 1)
    return c.fail("input, weight and offset of rank 4", "rank %d, %d and %d", x.rank(), w.rank(), offset.rank());
  int64_t n = x.dim(0), ch = x.dim(1), co = w.dim(0), kh = w.dim(2), kw = w.dim(3), h = offset.dim(2), width = offset.dim(3),
          taps = kh * kw, places = h * width;
  if (ch % offset_groups != 0 || ch % groups != 0 || co % groups != 0 || w.dim(1) != ch / groups || offset.dim(0) != n ||
      offset.dim(1) != 2 * offset_groups * taps)
    return c.fail("a weight and offsets that fit the input's channels and groups", "others");
  bool masked = c.flag(13);
  if (masked && (c.tensor(3).rank() != 4 || c.tensor(3).numel() != n * offset_groups * taps * places))
    return c.fail("a mask for each offset", "rank %d", c.tensor(3).rank());
  int64_t grid_dims[] = {taps, places, 2};
  Value at = Value::own(tensor_create(DType::f32, 3, grid_dims));
  if (at.is_none()) return c.out_of_memory();
  float* to = at.tensor()->as<float>();
  for (int64_t k = 0; k < taps; ++k)
    for (int64_t p = 0; p < places; ++p) {
      PEN_TRY(c.walk(2));
      *to++ = static_cast<float>(k % kw * c.integer(10) + p % width * c.integer(6) - c.integer(8));
      *to++ = static_cast<float>(k / kw * c.integer(9) + p / width * c.integer(5) - c.integer(7));
    }
  Calls t(c);
  int64_t each = n * offset_groups;
  Value moves = t("aten::permute", t("aten::reshape", offset, t.ints(each, taps, 2, places)), t.ints(0, 1, 3, 2));
  Value grid = t("aten::reshape", t("aten::add.Tensor", t("aten::flip", moves, t.ints(3)), at), t.ints(each, taps * places, 2));
  Value image = t("aten::reshape", x, t.ints(each, ch / offset_groups, x.dim(2), x.dim(3)));
  PEN_TRY(t.status);
  Graph g(c);
  int64_t size[] = {taps, places};
  int y = g.node("grid_sample.f32", *image.tensor(), *grid.tensor());
  g.ints("size", size, 2).text("mode", "linear").text("padding", "zeros").flag("align_corners", true).flag("pixels", true);
  PEN_TRY(g.run(y));
  Value seen = Value::own(g.take(0));
  if (masked) seen = t("aten::mul.Tensor", seen, t("aten::reshape", c.args[3], t.ints(each, 1, taps, places)));
  seen = t("aten::reshape", seen, t.ints(n, groups, ch / groups * taps, places));
  Value product = t("aten::matmul", t("aten::reshape", w, t.ints(groups, co / groups, ch / groups * taps)), seen);
  Value made = t("aten::add.Tensor", t("aten::reshape", product, t.ints(n, co, places)), t("aten::reshape", c.args[4], t.ints(co, 1)));
  return t.give(c, t("aten::reshape", made, t.ints(n, co, h, width)));
}

}  // namespace pen
