// Shape rules of conv2d, conv3d, the transposed ones and expand_depthwise: weights, window, image and residual checked, the output's size.
// In one file, compiled once, because they share most of it.
#include "penlight/ops/conv/conv2d.h"
#include "penlight/runtime/base/memory.h"

namespace pen {

// One side of the image: attributes checked, output size.
static Status shape_side(const Shapes& shapes, const Conv2d& p, int side, int64_t pad_end, int64_t in, int64_t* out) {
  int64_t k = p.kernel[side], s = p.stride[side], d = p.dilation[side], pad = p.pad[side];
  if (k < 1 || s < 1 || d < 1 || k > kConvLimit || s > kConvLimit || d > kConvLimit)
    return shapes.fail(-1, "kernel, stride and dilation from 1 to 2^24", "%lld, %lld and %lld", static_cast<long long>(k),
                       static_cast<long long>(s), static_cast<long long>(d));
  // What a transposed convolution cuts off its end may be less than nothing (output_padding).
  if (pad < 0 || pad_end < (p.transposed ? -kConvLimit : 0) || pad > kConvLimit || pad_end > kConvLimit)
    return shapes.fail(-1, "padding from 0 to 2^24", "%lld and %lld", static_cast<long long>(pad), static_cast<long long>(pad_end));
  const WindowSide w = {in, k, s, d, pad, pad_end};
  if (p.transposed) {
    if (in < 1 || in > kConvLimit) return shapes.fail(0, "an image with sides from 1 to 2^24", "%lld", static_cast<long long>(in));
    *out = transposed_size(w);
    if (*out < 1) return shapes.fail(-1, "padding that leaves something of the result", "size %lld", static_cast<long long>(*out));
    return PEN_OK;
  }
  *out = window_count(w);
  if (*out < 1)
    return shapes.fail(0, "a padded image at least as large as the kernel", "%lld, the kernel reaches over %lld",
                       static_cast<long long>(in + pad + pad_end), static_cast<long long>(window_reach(w)));
  return PEN_OK;
}

// The attributes of the window, the output's shape and the residual, which is input `residual`. Channels are those of input 1. The
// ranks of x and of the weights are checked.
static Status shape_maps(Shapes& s, bool transposed, int weights, int residual) {
  IntList stride = s.ints("stride"), padding = s.ints("padding"), dilation = s.ints("dilation");
  const Tensor& x = s.in(0);
  int spatial = x.rank - 2;
  if (stride.count != spatial || padding.count != 2 * spatial || dilation.count != spatial)
    return s.fail(-1, "a stride, two paddings and a dilation for each spatial dim", "%d, %d and %d", stride.count, padding.count,
                  dilation.count);
  Conv2d p = {};
  p.transposed = transposed;
  place_window(s, &p, weights);
  Shape out = shape_of(x);
  out.dims[1] = s.in(1).dims[0];
  for (int i = 0; i < spatial; ++i) PEN_TRY(shape_side(s, p, side_of(i, spatial), padding[i + spatial], x.dims[2 + i], &out.dims[2 + i]));
  PEN_TRY(s.output(0, kHasBytes && x.dtype == DType::u8 ? s.declared_dtype(0) : x.dtype, out));
  if (!s.has(residual)) return PEN_OK;
  bool same = s.in(residual).rank == x.rank;
  for (int d = 0; same && d < x.rank; ++d) same = s.in(residual).dims[d] == out.dims[d];
  return same ? PEN_OK : s.fail(residual, "a residual of the output's shape", "another shape, rank %d", s.in(residual).rank);
}

static Status shape_conv(Shapes& s, int spatial, bool transposed) {
  const Tensor &x = s.in(0), &w = s.in(1);
  if (x.rank != 2 + spatial) return s.fail(0, spatial == 2 ? "rank 4" : "rank 5", "rank %d", x.rank);
  if (w.rank != 2 + spatial) return s.fail(1, spatial == 2 ? "rank 4" : "rank 5", "rank %d", w.rank);
  int64_t groups = s.integer("groups"), co = w.dims[0], ci_g = w.dims[1];
  if (groups < 1 || groups > kConvLimit || ci_g > kConvLimit || co % groups != 0 || ci_g * groups != x.dims[1])
    return s.fail(1, "weights [Co, Ci / groups, kh, kw] with Co divisible by groups", "[%lld, %lld, ...] in %lld groups for %lld channels",
                  static_cast<long long>(co), static_cast<long long>(ci_g), static_cast<long long>(groups),
                  static_cast<long long>(x.dims[1]));
  const bool bytes = kHasBytes && x.dtype == DType::u8;  // whose columns the bind rule checks
  if (!bytes && s.has(2) && (s.in(2).rank != 1 || s.in(2).dims[0] != co))
    return s.fail(2, "one bias per output channel", "rank %d, %lld for %lld channels", s.in(2).rank,
                  static_cast<long long>(s.in(2).rank > 0 ? s.in(2).dims[0] : 1), static_cast<long long>(co));
  PEN_TRY(shape_maps(s, transposed, 1, 3));
  int64_t taps = 1;
  for (int d = 2; d < w.rank; ++d)
    if (mul_overflows(taps, w.dims[d], &taps)) taps = INT64_MAX;
  return taps > kConvLimit ? s.fail(1, "a kernel of at most 2^24 positions", "%lld", static_cast<long long>(taps)) : PEN_OK;
}

PEN_SHAPE(conv2d) { return shape_conv(s, 2, false); }
PEN_SHAPE(conv3d) { return shape_conv(s, 3, false); }
PEN_SHAPE(conv_transpose2d) { return shape_conv(s, 2, true); }
PEN_SHAPE(conv_transpose3d) { return shape_conv(s, 3, true); }

PEN_SHAPE(expand_depthwise) {
  const Tensor &x = s.in(0), &w = s.in(1), &w2 = s.in(3);
  if (x.rank != 4) return s.fail(0, "rank 4", "rank %d", x.rank);
  if (w.rank != 4 || w.dims[1] != x.dims[1] || w.dims[2] != 1 || w.dims[3] != 1)
    return s.fail(1, "pointwise weights [C, Ci, 1, 1] for the channels of x", "rank %d, [%lld, %lld, ...]", w.rank,
                  static_cast<long long>(w.rank > 0 ? w.dims[0] : 0), static_cast<long long>(w.rank > 1 ? w.dims[1] : 0));
  if (w2.rank != 4 || w2.dims[0] != w.dims[0] || w2.dims[1] != 1)
    return s.fail(3, "depthwise weights [C, 1, kh, kw] for the channels of w", "rank %d, [%lld, ...]", w2.rank,
                  static_cast<long long>(w2.rank > 0 ? w2.dims[0] : 0));
  for (int bias = 2; bias <= 4; bias += 2)
    if (s.has(bias) && (s.in(bias).rank != 1 || s.in(bias).dims[0] != w.dims[0]))
      return s.fail(bias, "one bias per channel", "rank %d", s.in(bias).rank);
  if (x.dims[2] < 1 || x.dims[3] < 1)  // the pointwise convolution has nothing to stand on, whatever the padding after it
    return s.fail(0, "an image of at least one pixel", "%lld x %lld", static_cast<long long>(x.dims[2]), static_cast<long long>(x.dims[3]));
  return shape_maps(s, false, 3, 5);
}

}  // namespace pen
