// conv2d, expand_depthwise and linear on a GPU.
#include "penlight/ops/conv/conv_gpu.h"

namespace pen {

static uint32_t u(int64_t n) { return static_cast<uint32_t>(n); }

template <class S>
static void fill(S* s, const GpuConv& c) {
  auto& p = s->push;
  p.ci = u(c.ci), p.ih = u(c.x.height), p.iw = u(c.x.width), p.oh = u(c.y.height), p.ow = u(c.y.width), p.kw = u(c.kernel[1]);
  p.sy = u(c.stride[0]), p.sx = u(c.stride[1]), p.py = static_cast<int32_t>(c.pad[0]), p.px = static_cast<int32_t>(c.pad[1]);
  p.dy = u(c.dilation[0]), p.dx = u(c.dilation[1]);
  p.x_pitch = u(c.x.pitch), p.x_row = u(c.x.row), p.x_image = u(c.x.image);
  p.y_pitch = u(c.y.pitch), p.y_image = u(c.y.image), p.r_pitch = u(c.residual.pitch), p.r_image = u(c.residual.image);
  for (int i = 0; i < 4; ++i) p.args[i] = c.activation.args[i];
  s->ACT = c.activation.number > 0 ? u(c.activation.number) : 0;
  s->BIAS = c.bias.buffer >= 0;
  s->RESIDUAL = c.add.buffer >= 0;
}

// Whether all of it can be read `n` channels at a time.
static bool lies_in(int64_t n, const GpuMap& m, const Operand& o) {
  return m.pitch % n == 0 && m.row % n == 0 && m.image % n == 0 && o.offset % (n * dtype_size(o.dtype)) == 0;
}

// An activation that no shader does by itself follows as a dispatch of its own.
static Status finish(Gpu& b, const GpuConv& c) {
  if (c.activation.number >= 0) return PEN_OK;
  Tensor t;
  t.rank = 4;
  const int64_t dims[] = {c.y.images, c.y.channels, c.y.height, c.y.width}, strides[] = {c.y.image, 1, c.y.row, c.y.pitch};
  for (int d = 0; d < 4; ++d) t.dims[d] = dims[d], t.strides[d] = strides[d];
  return dispatch_activation(b, c.activation.name, c.activation.args, 4, t, c.written);
}

// What both shaders of a matrix product are told.
struct Product {
  int64_t pixels, depth;
};
template <class S>
static Product fill_product(S* s, const GpuConv& c) {
  fill(s, c);
  Product p = {c.y.images * c.y.height * c.y.width, c.kernel[0] * c.kernel[1] * c.ci};
  s->push.pixels = u(p.pixels), s->push.channels = u(c.co), s->push.depth = u(p.depth);
  bool point = c.kernel[0] == 1 && c.kernel[1] == 1 && c.stride[0] == 1 && c.stride[1] == 1 && c.pad[0] == 0 && c.pad[1] == 0;
  s->POINTWISE = point && c.x.height == c.y.height && c.x.width == c.y.width && c.x.row == c.x.pitch * c.x.width;
  s->FOURS_OUT = c.co % 4 == 0 && lies_in(4, c.y, c.written) && (!s->RESIDUAL || lies_in(4, c.residual, c.add)) && c.bias.offset % 16 == 0;
  return p;
}

// Tiles of 16 x 16 that a subgroup multiplies.
static Status dispatch_matrix(Gpu& b, const GpuConv& c) {
  shader::ConvMatrix s;
  auto [pixels, depth] = fill_product(&s, c);
  // Where there are outputs enough for the whole device, wide tiles that load less for a product; else narrow ones, and more subgroups to
  // cut the sum. Measured (docs/GPU.md).
  constexpr int64_t kMany = 300, kLong = 2048;
  bool many = ceil_div(pixels, 16) * ceil_div(c.co, 64) * c.groups >= kMany;
  s.FN = many ? 4 : 2;
  s.WARPS = depth <= 64 || (many && depth < kLong) ? 2 : many || depth <= 128 ? 4 : 8;
  s.THREADS = s.WARPS * 32;
  int64_t rows = ceil_div(pixels, 16);
  PEN_TRY(b.dispatch(s, {c.read, c.weights, c.bias, c.add, c.written},
                     {ceil_div(c.co, s.FN * 16), rows < kMostGroups ? rows : kMostGroups, c.groups}));
  return finish(b, c);
}

Status dispatch_gemm(Gpu& b, const GpuConv& c) {
  if (c.y.images * c.y.height * c.y.width == 0 || c.co == 0) return PEN_OK;
  constexpr uint32_t kMatrixShared = 32 << 10;  // what it takes at most
  shader::ConvGemm s;
  int64_t pixels = fill_product(&s, c).pixels;
  if (b.limits().matrix && b.limits().shared_bytes >= kMatrixShared && c.ci % 8 == 0 && lies_in(8, c.x, c.read) &&
      c.weights.offset % 32 == 0)
    return dispatch_matrix(b, c);
  s.FOURS = c.ci % 4 == 0 && lies_in(4, c.x, c.read);
  // Small products: small tiles, so that there are enough of them for the whole device.
  struct Tile {
    uint32_t tx, ty, tm, tn;
  };
  static constexpr Tile kTiles[] = {{16, 16, 4, 1}, {8, 16, 2, 1}, {8, 8, 2, 1}};
  constexpr int64_t kEnough = 256;
  Tile tile = kTiles[2];
  for (const Tile& t : kTiles)
    if (ceil_div(pixels, t.ty * t.tm) * ceil_div(c.co, t.tx * 4 * t.tn) * c.groups >= kEnough && t.tx * t.ty <= b.limits().group_threads) {
      tile = t;
      break;
    }
  s.TX = tile.tx, s.TY = tile.ty, s.TM = tile.tm, s.TN = tile.tn;
  int64_t rows = ceil_div(pixels, tile.ty * tile.tm);
  PEN_TRY(b.dispatch(s, {c.read, c.weights, c.bias, c.add, c.written},
                     {ceil_div(c.co, tile.tx * 4 * tile.tn), rows < kMostGroups ? rows : kMostGroups, c.groups}));
  return finish(b, c);
}

Status dispatch_depthwise(Gpu& b, const GpuConv& c, bool grouped) {
  shader::ConvDepthwise s;
  fill(&s, c);
  s.push.kh = u(c.kernel[0]);
  s.push.co = u(c.co);
  s.push.channels = u(c.y.channels);
  s.GROUPED = grouped;
  if (c.kernel[1] <= 7) s.KW = u(c.kernel[1]);
  s.FOURS_OUT = !grouped && c.y.channels % 4 == 0 && lies_in(4, c.x, c.read) && lies_in(4, c.y, c.written) &&
                (!s.RESIDUAL || lies_in(4, c.residual, c.add)) && c.bias.offset % 16 == 0;
  int64_t n = c.y.images * c.y.height * c.y.width * (s.FOURS_OUT ? c.y.channels / 4 : c.y.channels);
  if (n >= int64_t{1} << 31) return b.fail(-1, "less than 2^31 pieces of work", "%lld", static_cast<long long>(n));
  s.push.n = u(n);
  PEN_TRY(b.dispatch(s, {c.read, c.weights, c.bias, c.add, c.written}, rounds(n, 64)));
  return finish(b, c);
}

static const char* variant_of(const char* key) {
  const char* variant = key;
  for (const char* c = key; *c; ++c)
    if (*c == '.') variant = c + 1;
  return variant;
}

static Status bind_window(Gpu& b, int weights, GpuConv* c) {
  IntList stride = b.ints("stride"), padding = b.ints("padding"), dilation = b.ints("dilation");
  for (int i = 0; i < 2; ++i) {
    c->kernel[i] = b.in(weights).dims[2 + i];
    c->stride[i] = stride[i];
    c->pad[i] = padding[i];
    c->dilation[i] = dilation[i];
  }
  return PEN_OK;
}

// Windows side by side along a row, as those of patches: a window's row is one run of memory, so its columns become channels, of which a
// shader then reads several at a time. Weights lie the same either way: kh, kw, ci.
static void fold_columns(GpuConv* c) {
  bool beside = c->groups == 1 && c->kernel[1] > 1 && c->stride[1] == c->kernel[1] && c->pad[1] == 0 && c->dilation[1] == 1;
  if (!beside || c->x.pitch != c->ci || c->x.channels != c->ci || c->y.width * c->kernel[1] > c->x.width) return;
  c->ci *= c->kernel[1];
  c->x.channels = c->x.pitch = c->ci;
  c->x.width /= c->kernel[1];
  c->kernel[1] = c->stride[1] = 1;
}

PEN_GPU(conv2d, "f32.gemm f32.direct f32.depthwise* f32.grouped") {
  GpuConv c = {};
  c.groups = b.integer("groups");
  const char* variant = variant_of(b.key());
  const Tensor& w = b.in(1);
  c.ci = w.dims[1], c.co = w.dims[0] / c.groups;
  PEN_TRY(need_weights(b, c.groups));
  PEN_TRY(b.need(0, Need::channels));
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::channels));
  if (b.has(2)) PEN_TRY(b.need(2, Need::dense));
  if (b.has(3)) PEN_TRY(b.need(3, Need::channels));
  PEN_TRY(bind_window(b, 1, &c));
  c.x = gpu_map(b.in(0)), c.y = gpu_map(b.out(0));
  if (b.has(3)) c.residual = gpu_map(b.in(3));
  c.read = b.reads(0), c.weights = b.reads(1), c.bias = b.reads(2), c.add = b.reads(3), c.written = b.writes(0);
  PEN_TRY(b.activation("act", "act_args", &c.activation));
  if (b.out(0).numel() == 0) return PEN_OK;
  if (strncmp(variant, "depthwise", 9) == 0) return dispatch_depthwise(b, c, false);
  if (strcmp(variant, "grouped") == 0) return dispatch_depthwise(b, c, true);
  fold_columns(&c);
  return dispatch_gemm(b, c);
}

PEN_GPU(expand_depthwise, "f32*") {
  GpuConv first = {}, second = {};
  PEN_TRY(b.need_packed(1, "panel16"));
  PEN_TRY(b.need_packed(3, "taps"));
  PEN_TRY(b.need(0, Need::channels));
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::channels));
  for (int bias = 2; bias <= 4; bias += 2)
    if (b.has(bias)) PEN_TRY(b.need(bias, Need::dense));
  if (b.has(5)) PEN_TRY(b.need(5, Need::channels));
  if (b.out(0).numel() == 0) return PEN_OK;
  first.groups = second.groups = 1;
  first.x = gpu_map(b.in(0));
  first.ci = b.in(1).dims[1], first.co = b.in(1).dims[0];
  first.y = first.x;
  first.y.channels = first.y.pitch = first.co;
  first.y.row = first.y.width * first.co;
  first.y.image = first.y.row * first.y.height;
  first.read = b.reads(0), first.weights = b.reads(1), first.bias = b.reads(2), first.add = b.none();
  for (int i = 0; i < 2; ++i) first.kernel[i] = first.stride[i] = first.dilation[i] = 1;
  PEN_TRY(b.activation("act", "act_args", &first.activation));
  PEN_TRY(b.scratch(DType::f32, first.y.images * first.y.image, &first.written));
  PEN_TRY(dispatch_gemm(b, first));

  PEN_TRY(bind_window(b, 3, &second));
  second.x = first.y, second.y = gpu_map(b.out(0));
  if (b.has(5)) second.residual = gpu_map(b.in(5));
  second.ci = second.co = 1;
  second.read = first.written, second.weights = b.reads(3), second.bias = b.reads(4), second.add = b.reads(5), second.written = b.writes(0);
  PEN_TRY(b.activation("act2", "act2_args", &second.activation));
  return dispatch_depthwise(b, second, false);
}

PEN_GPU(linear, "f32") {
  PEN_TRY(b.need_packed(1, "panel16"));
  PEN_TRY(b.need(0, Need::rows));
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::rows));
  if (b.has(2)) PEN_TRY(b.need(2, Need::dense));
  if (b.has(3)) PEN_TRY(b.need(3, Need::rows));
  // Rows are pixels of images of one row: one pitch where the leading dims merge, else what lies otherwise is laid densely.
  auto pitch = [](const Tensor& t, int64_t* out) {
    int64_t expected = -1;
    *out = t.dims[t.rank - 1];
    for (int d = t.rank - 2; d >= 0; --d) {
      if (t.dims[d] == 1) continue;
      if (expected < 0)
        *out = t.strides[d];
      else if (t.strides[d] != expected)
        return false;
      expected = t.strides[d] * t.dims[d];
    }
    return true;
  };
  int64_t x_pitch, y_pitch, r_pitch = 0;
  if (!pitch(b.in(0), &x_pitch)) {
    PEN_TRY(b.need(0, Need::dense));
    pitch(b.in(0), &x_pitch);
  }
  if (!pitch(b.out(0), &y_pitch)) return b.fail(-1, "an output whose rows have one pitch", "another");
  if (b.has(3) && !pitch(b.in(3), &r_pitch)) {
    PEN_TRY(b.need(3, Need::dense));
    pitch(b.in(3), &r_pitch);
  }
  const Tensor &x = b.in(0), &w = b.in(1);
  int64_t rows = 1;
  for (int d = 0; d < x.rank - 1; ++d) rows *= x.dims[d];
  if (rows == 0 || w.dims[0] == 0) return PEN_OK;
  GpuConv c = {};
  c.groups = 1, c.ci = w.dims[1], c.co = w.dims[0];
  c.x = {1, c.ci, 1, rows, x_pitch, x_pitch * rows, x_pitch * rows};
  c.y = {1, c.co, 1, rows, y_pitch, y_pitch * rows, y_pitch * rows};
  c.residual = {1, c.co, 1, rows, r_pitch, r_pitch * rows, r_pitch * rows};
  for (int i = 0; i < 2; ++i) c.kernel[i] = c.stride[i] = c.dilation[i] = 1;
  c.read = b.reads(0), c.weights = b.reads(1), c.bias = b.reads(2), c.add = b.reads(3), c.written = b.writes(0);
  PEN_TRY(b.activation("act", "act_args", &c.activation));
  return dispatch_gemm(b, c);
}

}  // namespace pen
