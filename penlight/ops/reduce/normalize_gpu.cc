// softmax, log_softmax, layer_norm, rms_norm, group_norm and var_mean on a GPU.
#include "penlight/ops/reduce/normalize_gpu.h"
#include "penlight/ops/reduce/reduce.h"

namespace pen {

// Whether the output may be the input's memory: a thread writes what it alone has read.
static void reuse_if_alike(Gpu& b) {
  const Tensor &x = b.in(0), &y = b.out(0);
  for (int d = 0; d < x.rank; ++d)
    if (x.dims[d] != 1 && x.strides[d] != y.strides[d]) return;
  b.may_reuse(0, 0);
}

static Status softmax_on_gpu(Gpu& b, Normalize kind) {
  bool along[kMaxRank] = {};
  along[b.integer("dim")] = true;
  PEN_TRY(b.output(0));
  if (is_empty(b.out(0))) return PEN_OK;
  GpuRows rows;
  PEN_TRY(rows_of(b, along, b.out(0).strides, &rows));
  reuse_if_alike(b);
  Operand x = b.reads(0), y = b.writes(0);
  return b.dispatch(normalize_shader(rows, kind, x, y), {x, b.none(), b.none(), y, b.none()}, rows.groups());
}
PEN_GPU(softmax, "f32") { return softmax_on_gpu(b, Normalize::softmax); }
PEN_GPU(log_softmax, "f32") { return softmax_on_gpu(b, Normalize::log_softmax); }

// Inputs: x, then w and b as far as there are any.
static Status norm_on_gpu(Gpu& b, const GpuRows& rows, Normalize kind, int operands, uint32_t channels) {
  reuse_if_alike(b);
  Operand x = b.reads(0), y = b.writes(0);
  shader::Normalize s = normalize_shader(rows, kind, x, y);
  s.CHANNELS = channels;
  s.SCALED = b.has(1);
  s.SHIFTED = operands > 2 && b.has(2);
  s.push.number = static_cast<float>(b.number("eps"));
  return b.dispatch(s, {x, b.reads(1), operands > 2 ? b.reads(2) : b.none(), y, b.none()}, rows.groups());
}

static Status layer_norm_on_gpu(Gpu& b, Normalize kind, int operands) {
  int rank = b.in(0).rank, dims = static_cast<int>(b.integer("dims"));
  for (int k = 1; k < operands; ++k)
    if (b.has(k)) PEN_TRY(b.need(k, Need::dense));
  PEN_TRY(b.output(0));
  if (is_empty(b.out(0))) return PEN_OK;
  if (dims > 1) {  // places in a row are those of w and b
    PEN_TRY(b.need(0, Need::dense));
    PEN_TRY(b.need_out(0, Need::dense));
  }
  bool along[kMaxRank] = {};
  for (int d = rank - dims; d < rank; ++d) along[d] = true;
  GpuRows rows;
  PEN_TRY(rows_of(b, along, b.out(0).strides, &rows));
  return norm_on_gpu(b, rows, kind, operands, 0);
}
PEN_GPU(layer_norm, "f32") { return layer_norm_on_gpu(b, Normalize::norm, 3); }
PEN_GPU(rms_norm, "f32") { return layer_norm_on_gpu(b, Normalize::rms_norm, 2); }

PEN_GPU(group_norm, "f32") {
  for (int k = 1; k < 3; ++k)
    if (b.has(k)) PEN_TRY(b.need(k, Need::dense));
  PEN_TRY(b.output(0));
  if (is_empty(b.out(0))) return PEN_OK;
  bool nhwc = b.out_is_nhwc(0);
  PEN_TRY(b.need(0, nhwc ? Need::channels : Need::dense));
  PEN_TRY(b.need_out(0, nhwc ? Need::channels : Need::dense));
  int64_t groups = b.integer("groups"), width = b.in(0).dims[1] / groups, pixels = 1;
  for (int d = 2; d < b.in(0).rank; ++d) pixels *= b.in(0).dims[d];
  // Groups of an image beside each other; a group's channels, and their pixels, inside of these or outside: never merged, as the shader
  // tells channels by them.
  GpuRows rows;
  rows.across.rank = rows.along.rank = 2;
  const int64_t sizes[] = {nhwc ? width : pixels, nhwc ? pixels : width};
  for (int i = 0; i < 2; ++i) rows.along.dims[i] = sizes[i];
  rows.along.n = width * pixels;
  rows.across.dims[0] = groups;
  rows.across.dims[1] = b.in(0).dims[0];
  rows.across.n = groups * b.in(0).dims[0];
  for (int side = 0; side < 2; ++side) {
    const Tensor& t = side ? b.in(0) : b.out(0);
    // A side of size 1 may have any stride.
    int64_t pitch = !nhwc ? 1 : t.dims[3] != 1 ? t.strides[3] : t.strides[2];
    rows.along.strides[side][0] = 1;
    rows.along.strides[side][1] = nhwc ? pitch : pixels;
    rows.across.strides[side][0] = nhwc ? width : width * pixels;
    rows.across.strides[side][1] = t.strides[0];
  }
  return norm_on_gpu(b, rows, Normalize::norm, 3, nhwc ? 2 : 1);
}

PEN_GPU(var_mean, "f32") {
  bool reduced[kMaxRank] = {};
  PEN_TRY(mark_dims(b, reduced));
  PEN_TRY(b.output(0));
  PEN_TRY(b.output(1));
  if (is_empty(b.out(0))) return PEN_OK;
  int64_t out[kMaxRank], other[kMaxRank];
  reduce_out_strides(b.in(0), b.out(0), reduced, b.flag("keepdim"), out);
  reduce_out_strides(b.in(0), b.out(1), reduced, b.flag("keepdim"), other);
  for (int d = 0; d < b.in(0).rank; ++d)
    if (b.in(0).dims[d] > 1 && out[d] != other[d]) return b.fail(-1, "two outputs that lie alike", "another stride in dim %d", d);
  GpuRows rows;
  PEN_TRY(rows_of(b, reduced, out, &rows));
  Operand x = b.reads(0), y = b.writes(0);
  shader::Normalize s = normalize_shader(rows, Normalize::var_mean, x, y);
  double degrees = static_cast<double>(rows.along.n) - b.number("correction");
  s.push.number = static_cast<float>(degrees > 0 ? degrees : 0);
  return b.dispatch(s, {x, b.none(), b.none(), y, b.writes(1)}, rows.groups());
}

}  // namespace pen
