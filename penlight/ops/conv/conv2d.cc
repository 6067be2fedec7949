// conv2d, conv3d, conv_transpose2d, conv_transpose3d: cutting of work for all variants. The shape rules are in conv_shapes.cc, the kernels
// in siblings: conv2d_gemm.cc (matrix product of gathered pixels and packed panels), conv2d_grouped.cc (small groups), and for
// conv2d alone conv2d_direct.cc (few input channels), conv2d_winograd.cc, conv2d_depthwise.cc.
#include "penlight/ops/conv/conv2d.h"

#include "conv_kernels.h"  // generated from kernels.py
#include "penlight/ops/conv/conv2d_q8.h"
#include "penlight/ops/conv/winograd.h"
#include "penlight/runtime/base/memory.h"
#include "penlight/runtime/base/packed.h"
#include "penlight/runtime/cpu/blocking.h"
#include "penlight/runtime/cpu/depthwise_q8.h"

namespace pen {

// Products of sizes that may be hostile: saturates.
static int64_t times(int64_t a, int64_t b) {
  int64_t r;
  return mul_overflows(a, b, &r) ? INT64_MAX : r;
}

static PEN_SMALL Status bind_weight(Bind& b, const char* layout, int64_t groups) {
  if (strcmp(b.in_layout(1), layout) != 0) return b.fail(1, layout, "layout %s", b.in_layout(1));
  int64_t bytes = 0;
  if (strcmp(layout, "plain") == 0)
    PEN_TRY(b.need(1, Need::dense));
  else
    bytes = packed_bytes(layout, b.in(1), groups);
  if (bytes < 0 || b.in_bytes(1) < bytes)
    return b.fail(1, "as many bytes as its packed layout takes", "%lld of %lld", static_cast<long long>(b.in_bytes(1)),
                  static_cast<long long>(bytes));
  return PEN_OK;
}

// How much of the kernel falls above or below the image, over all output rows, in 1/256.
static int64_t rows_on_padding(const Conv2d& p, int64_t h, int64_t oh) {
  int64_t dead = 0;
  for (int64_t k = 0; k < p.kernel[0]; ++k) {
    int64_t offset = k * p.dilation[0] - p.pad[0];  // output y reads row y * stride + offset
    int64_t above = offset < 0 ? (-offset + p.stride[0] - 1) / p.stride[0] : 0;
    int64_t inside = h - offset <= 0 ? 0 : (h - offset + p.stride[0] - 1) / p.stride[0];  // outputs that end inside
    inside = (inside < oh ? inside : oh) - above;
    dead += oh - (inside > 0 ? inside : 0);
  }
  return dead * 256 / (oh * p.kernel[0]);
}

// A task is worth about this many multiply-adds at least: some ten microseconds.
static constexpr int64_t kTaskWork = int64_t{1} << 19;
static constexpr int64_t kMaxTasks = 256;

static int64_t at_most(int64_t n, int64_t limit) { return n < limit ? n : limit; }

// About `wanted` tasks, of `least` units or, where threads have evenly many of them then, a few fewer.
static int64_t some_of(const Bind& b, int64_t units, int64_t least, int64_t wanted) {
  const int64_t tasks = at_most(wanted, (units + least - 1) / least);
  return b.threads() == 1 ? tasks : at_most(even_tasks(tasks), units);
}

// Rows of all phases: a transposed convolution goes by them.
static int64_t phase_rows(const Conv2d& p, const Tensor& out) {
  int64_t ow = out.dims[out.rank - 1];
  return ow == 0 ? 0 : times(p.pixels / ow, phase_count(p, 1, ow));
}

static PEN_SMALL Status cut_gemm(Bind& b, Conv2d* p) {
  const Tensor &x = b.in(0), &out = b.out(0);
  int64_t oh = out.dims[out.rank - 2], ow = out.dims[out.rank - 1];
  const bool bytes = kHasBytes && x.dtype == DType::u8;
  p->copied = bytes && p->ci_g % 4 != 0;
  // Longer runs gain little, and more of them are copied where padding cuts them.
  p->runs = !p->copied && !p->transposed && p->kernel[1] > 1 && p->dilation[1] == 1 && p->groups == 1 &&
            p->ci_g * dtype_size(x.dtype) <= kRunBytes && pixel_pitch(x) == p->ci_g;
  // Of bytes, padding can be skipped where it is 0; their tiles lose nothing by being lower, so less of it is worth it.
  const int64_t worth = !bytes ? 32 : x.quant->zero == 0 && !p->copied ? 6 : 257;
  p->by_rows = p->transposed || (ow >= 4 && rows_on_padding(*p, map_side(x, 0), oh) >= worth);
  // Pixels first, then columns: a pixel part gathers its rows once for all its columns.
  int64_t work = times(times(p->pixels, kernel_taps(*p) * p->ci_g), p->co_g * p->groups);
  if (p->transposed) work /= times(p->stride[0], times(p->stride[1], p->stride[2]));
  // Of bytes, a thread alone gains half a percent by larger tasks; their sums are exact, however they are cut.
  int64_t target = at_most(work / (!bytes ? kTaskWork : b.threads() == 1 ? 4 * kTaskWork : 2 * kTaskWork) + 1, kMaxTasks);
  // About two tiles to a task, of rows as of columns, and small maps whole: their weights are what has to be fetched.
  p->pixel_unit = p->by_rows ? ow : kPixelUnit;
  p->pixel_units = p->transposed ? phase_rows(*p, out) : (p->pixels + p->pixel_unit - 1) / p->pixel_unit;
  p->pixel_tasks = p->pixels <= kBlockPixels ? 1 : some_of(b, p->pixel_units, p->by_rows ? 1 : 2, target);
  p->column_tasks =
      some_of(b, gemm_units(*p), p->groups > 1 ? 1 : kColumnUnit / kColumnPanel, (target + p->pixel_tasks - 1) / p->pixel_tasks);
  b.tasks(p->pixel_tasks * p->column_tasks);
  // What a task shares with the next one should be the larger of the two: it then comes from afar only once.
  // Weights that stay in the second cache level anyway leave the order by pixels, which suits the next node (pool.cc).
  int64_t inputs = times(times(x.dims[0], x.dims[1]), times(times(map_side(x, 0), map_side(x, 1)), map_side(x, 2)));
  p->columns_outer = b.in_bytes(1) > near_weights(processor()) && b.in_bytes(1) / dtype_size(x.dtype) > inputs;
  return b.scratch(gather_sizes(*p, x.dims[1], dtype_size(x.dtype)).total);
}

// A strip of output rows to a task: enough pixels that the weights are worth fetching, few enough that the strip stays in the
// second cache level (strip_bytes).
static constexpr int64_t kStripPixels = 8 * kBlockPixels;

// Of the strip alone; saturates, sizes may be hostile.
static int64_t direct_bytes(const Conv2d& p, int64_t ow) {
  int64_t rows = (p.pixel_unit - 1) * p.stride[0] + (p.kernel[0] - 1) * p.dilation[0] + 1;
  int64_t width = (ow - 1) * p.stride[1] + (p.kernel[1] - 1) * p.dilation[1] + 1;
  return times(times(rows, width), p.ci_g * 4);
}

static PEN_SMALL Status cut_direct(Bind& b, Conv2d* p, int64_t oh, int64_t ow) {
  int64_t columns = (p->co_g + kColumnUnit - 1) / kColumnUnit, k = times(p->kernel[0] * p->kernel[1], p->ci_g);
  if (k > kConvLimit) return b.fail(1, "at most 2^24 weights for one output channel", "%lld", static_cast<long long>(k));
  p->pixel_unit = at_most((kStripPixels + ow - 1) / ow, oh);
  const int64_t most = strip_bytes(processor());
  while (p->pixel_unit > 1 && direct_bytes(*p, ow) > most) p->pixel_unit = (p->pixel_unit + 1) / 2;
  // Offsets into the strip are 32-bit.
  if (direct_bytes(*p, ow) > INT32_MAX)
    return b.fail(0, "input rows under one output row of at most 2 GB", "%lld bytes", static_cast<long long>(direct_bytes(*p, ow)));
  int64_t strips = times(b.in(0).dims[0], (oh + p->pixel_unit - 1) / p->pixel_unit);
  int64_t work = times(times(p->pixel_unit * ow, k), p->co_g);
  p->column_tasks = strips >= 8 ? 1 : at_most(columns, work / kTaskWork + 1);
  b.tasks(times(strips, p->column_tasks));
  return b.scratch(direct_sizes(*p, ow).total);
}

static PEN_INLINE void begin_conv(Bind& b, bool transposed, Conv2d* p) {
  p->transposed = transposed;
  p->groups = b.integer("groups");
  p->ci_g = b.in(1).dims[1];
  p->co_g = b.in(1).dims[0] / p->groups;
}
static PEN_SMALL Status need_depthwise(Bind& b, const Conv2d& p) {
  if (p.ci_g == 1 && p.co_g == 1) return PEN_OK;
  return b.fail(1, "one input and one output channel in every group", "%lld and %lld", static_cast<long long>(p.ci_g),
                static_cast<long long>(p.co_g));
}
static PEN_INLINE void count_pixels(const Tensor& out, Conv2d* p) {
  p->pixels = out.dims[0];
  for (int d = 2; d < out.rank; ++d) p->pixels = times(p->pixels, out.dims[d]);
}

// By output rows; small maps by channels. What half a task's multiply-adds of floats take, bytes do in a fraction.
[[maybe_unused]] static PEN_SMALL Status cut_depthwise_q8(Bind& b, Conv2d* p) {
  const Tensor &x = b.in(0), &out = b.out(0);
  int64_t ow = out.dims[3], channels = out.dims[1], units = depthwise_units_q8(channels);
  int64_t row_work = times(times(ow, kernel_taps(*p) + 1), channels), target = times(p->pixels / ow, row_work) / (kTaskWork / 2) + 1;
  bool small = p->pixels <= kBlockPixels;
  p->pixel_units = p->pixels / ow;
  p->pixel_tasks = small ? 1 : at_most(at_most(target, kMaxTasks), p->pixel_units);
  p->column_tasks = small ? at_most(at_most(target, kMaxTasks), units) : 1;
  b.tasks(p->pixel_tasks * p->column_tasks);
  const int64_t in[2] = {map_side(x, 0), map_side(x, 1)};
  return b.scratch(depthwise_sizes_q8(p->kernel, in, channels).total);
}

// Of quantized bytes: conv2d_q8.cc, conv2d_q8_depthwise.cc.
[[maybe_unused]] static PEN_SMALL Status bind_q8(Bind& b, bool depthwise) {
  const GroupsQ8 g = groups_q8(b.in(1), b.integer("groups"), depthwise);
  ConvQ8* p = params_q8<ConvQ8>(b, g);
  if (!p) return PEN_ERROR_SHAPE;
  begin_conv(b, false, p);
  PEN_TRY(bind_weight(b, depthwise ? "taps" : "quads16", p->groups));
  if (depthwise) PEN_TRY(need_depthwise(b, *p));
  PEN_TRY(b.need(0, Need::channels));
  PEN_TRY(bind_maps(b, p));
  PEN_TRY(bind_result_q8(b, g, reinterpret_cast<float*>(p + 1), &p->result, &p->act));
  count_pixels(b.out(0), p);
  if (p->pixels == 0 || b.out(0).dims[1] == 0) return PEN_OK;
  return depthwise ? cut_depthwise_q8(b, p) : cut_gemm(b, p);
}

static PEN_SMALL Status bind_conv(Bind& b, bool transposed) {
  const char* variant = b.key();
  for (const char* c = variant; *c; ++c)
    if (*c == '.') variant = c + 1;
  bool gemm = strcmp(variant, "gemm") == 0, depthwise = strncmp(variant, "depthwise", 9) == 0;
  bool direct = strcmp(variant, "direct") == 0;
  bool winograd = strncmp(variant, "winograd", 8) == 0, plain = strcmp(variant, "i64") == 0 || strcmp(variant, "f64") == 0;
  const char* packed = winograd ? variant : "plain";
  for (const ConvKernel& k : kConvKernels)
    if (strcmp(variant, k.variant) == 0) packed = k.layout;
  if (kHasBytes && b.in(0).dtype == DType::u8) return bind_q8(b, depthwise);
  Conv2d* p = winograd ? b.params<Winograd>() : b.params<Conv2d>();
  if (!p) return PEN_ERROR_MEMORY;

  begin_conv(b, transposed, p);
  PEN_TRY(bind_weight(b, packed, p->groups));
  if (b.has(2)) PEN_TRY(b.need(2, Need::dense));
  if (depthwise) PEN_TRY(need_depthwise(b, *p));
  PEN_TRY(bind_activation(b, &p->act));
  if (!direct) PEN_TRY(b.need(0, Need::channels));
  PEN_TRY(bind_maps(b, p));
  const Tensor &x = b.in(0), &out = b.out(0);
  count_pixels(out, p);
  if (p->pixels == 0 || out.dims[1] == 0) return PEN_OK;
  if (gemm) return cut_gemm(b, p);
  if (direct) {
    if (p->groups != 1) return b.fail(-1, "one group", "%lld", static_cast<long long>(p->groups));
    return cut_direct(b, p, out.dims[2], out.dims[3]);
  }
  if (winograd) {
    if (p->stride[0] != 1 || p->stride[1] != 1)
      return b.fail(-1, "stride 1", "%lld and %lld", static_cast<long long>(p->stride[0]), static_cast<long long>(p->stride[1]));
    return cut_winograd(b, static_cast<Winograd*>(p), variant[8] - '0', out.dims[2], out.dims[3]);
  }
  if (plain) {
    p->pixel_units = times(out.dims[0], out.dims[1]);
    p->pixel_tasks = task_count(p->pixel_units, 1);
    b.tasks(p->pixel_tasks);
    return PEN_OK;
  }
  // The others go by output rows.
  int64_t rows = phase_rows(*p, out), ow = out.dims[out.rank - 1];
  int64_t row_work = times(times(ow, kernel_taps(*p) * p->ci_g + 1), out.dims[1]);
  // Depthwise reads far more than it computes: a quarter of the work makes a task.
  p->pixel_units = rows;
  p->pixel_tasks = task_count(rows, kTaskWork / 4 / row_work + 1);
  p->column_tasks = 1;
  if (depthwise && p->pixels <= kBlockPixels) {
    // Small maps by channels, as the matrix kernel cuts those before and after it.
    p->column_tasks = at_most(task_count(times(rows, row_work), kTaskWork / 4), (out.dims[1] + kColumnUnit - 1) / kColumnUnit);
    p->pixel_tasks = 1;
  }
  b.tasks(p->pixel_tasks * p->column_tasks);
  return depthwise ? PEN_OK : b.scratch(grouped_sizes(*p, x.dims[1], out.dims[1]).total);
}

PEN_BIND(conv2d) { return bind_conv(b, false); }
PEN_BIND(conv3d) { return bind_conv(b, false); }
PEN_BIND(conv_transpose2d) { return bind_conv(b, true); }
PEN_BIND(conv_transpose3d) { return bind_conv(b, true); }

}  // namespace pen
