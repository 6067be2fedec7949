// conv2d: shape rule and cutting of work for all variants. The kernels are siblings: conv2d_gemm.cc (matrix product of
// gathered pixels and packed panels), conv2d_depthwise.cc, conv2d_grouped.cc.
#include "penlight/ops/conv/conv2d.h"

#include "penlight/ops/conv/pack.h"
#include "penlight/runtime/base/memory.h"

namespace pen {

// No attribute may be larger: keeps every product below far from overflow, and is more than any image's side.
static constexpr int64_t kLimit = int64_t{1} << 24;

// One side of the image: attributes checked, output size.
static Status bind_side(Bind& b, Conv2d* p, int side, int64_t pad_end, int64_t in, int64_t* out) {
  int64_t k = p->kernel[side], s = p->stride[side], d = p->dilation[side], pad = p->pad[side];
  if (k < 1 || s < 1 || d < 1 || k > kLimit || s > kLimit || d > kLimit)
    return b.fail(-1, "kernel, stride and dilation from 1 to 2^24", "%lld, %lld and %lld", static_cast<long long>(k),
                  static_cast<long long>(s), static_cast<long long>(d));
  if (pad < 0 || pad_end < 0 || pad > kLimit || pad_end > kLimit)
    return b.fail(-1, "padding from 0 to 2^24", "%lld and %lld", static_cast<long long>(pad), static_cast<long long>(pad_end));
  int64_t reach = d * (k - 1) + 1, room = in + pad + pad_end - reach;
  if (room < 0)
    return b.fail(0, "a padded image at least as large as the kernel", "%lld, the kernel reaches over %lld",
                  static_cast<long long>(in + pad + pad_end), static_cast<long long>(reach));
  *out = room / s + 1;
  return PEN_OK;
}

static Status bind_weight(Bind& b, Conv2d* p, const char* layout) {
  const Tensor &x = b.in(0), &w = b.in(1);
  if (x.rank != 4) return b.fail(0, "rank 4", "rank %d", x.rank);
  if (w.rank != 4) return b.fail(1, "rank 4", "rank %d", w.rank);
  int64_t groups = p->groups, co = w.dims[0], ci_g = w.dims[1];
  if (groups < 1 || groups > kLimit || ci_g > kLimit || co % groups != 0 || ci_g * groups != x.dims[1])
    return b.fail(1, "weights [Co, Ci / groups, kh, kw] with Co divisible by groups", "[%lld, %lld, ...] in %lld groups for %lld channels",
                  static_cast<long long>(co), static_cast<long long>(ci_g), static_cast<long long>(groups),
                  static_cast<long long>(x.dims[1]));
  p->ci_g = ci_g;
  p->co_g = co / groups;
  p->kernel[0] = w.dims[2];
  p->kernel[1] = w.dims[3];
  if (strcmp(b.in_layout(1), layout) != 0) return b.fail(1, layout, "layout %s", b.in_layout(1));
  int64_t bytes = packed_bytes(layout, w, groups);
  if (bytes < 0 || b.in_bytes(1) < bytes)
    return b.fail(1, "as many bytes as its packed layout takes", "%lld of %lld", static_cast<long long>(b.in_bytes(1)),
                  static_cast<long long>(bytes));
  if (b.has(2)) {
    if (b.in(2).rank != 1 || b.in(2).dims[0] != co)
      return b.fail(2, "one bias per output channel", "rank %d, %lld for %lld channels", b.in(2).rank,
                    static_cast<long long>(b.in(2).rank > 0 ? b.in(2).dims[0] : 1), static_cast<long long>(co));
    PEN_TRY(b.need(2, Need::dense));
  }
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

// Products of sizes that may be hostile: saturates.
static int64_t times(int64_t a, int64_t b) {
  int64_t r;
  return mul_overflows(a, b, &r) ? INT64_MAX : r;
}

static Status cut_gemm(Bind& b, Conv2d* p, int64_t oh, int64_t ow) {
  const Tensor& x = b.in(0);
  p->runs = p->kernel[1] > 1 && p->dilation[1] == 1 && p->groups == 1 && p->ci_g <= 32 && pixel_pitch(x) == p->ci_g;
  p->by_rows = ow >= 8 && rows_on_padding(*p, x.dims[2], oh) >= 32;
  // Pixels first, then columns: a pixel part gathers its rows once for all its columns.
  int64_t work = times(times(p->pixels, p->kernel[0] * p->kernel[1] * p->ci_g), p->co_g * p->groups);
  int64_t target = at_most(work / kTaskWork + 1, kMaxTasks);
  int64_t units = p->groups > 1 ? p->groups : (p->co_g + kColumnUnit - 1) / kColumnUnit;
  // At least two tiles to a task, and small maps whole: their weights are what has to be fetched.
  p->pixel_unit = p->by_rows ? ow : 2 * kPixelUnit;
  p->pixel_units = (p->pixels + p->pixel_unit - 1) / p->pixel_unit;
  p->pixel_tasks = p->pixels <= kBlockPixels ? 1 : at_most(target, p->pixel_units);
  p->column_tasks = at_most((target + p->pixel_tasks - 1) / p->pixel_tasks, units);
  b.tasks(p->pixel_tasks * p->column_tasks);
  // What a task shares with the next one should be the larger of the two: it then comes from afar only once.
  p->columns_outer = b.in_bytes(1) / 4 > times(times(x.dims[0], x.dims[1]), times(x.dims[2], x.dims[3]));
  return b.scratch(gather_sizes(*p, x.dims[1]).total);
}

PEN_BIND(conv2d) {
  Conv2d* p = b.params<Conv2d>();
  if (!p) return PEN_ERROR_MEMORY;
  const char* variant = b.key();
  for (const char* c = variant; *c; ++c)
    if (*c == '.') variant = c + 1;
  bool gemm = strcmp(variant, "gemm") == 0, depthwise = strcmp(variant, "depthwise") == 0;

  IntList stride = b.ints("stride"), padding = b.ints("padding"), dilation = b.ints("dilation");
  if (stride.count != 2 || padding.count != 4 || dilation.count != 2)
    return b.fail(-1, "2 strides, 4 paddings and 2 dilations", "%d, %d and %d", stride.count, padding.count, dilation.count);
  p->groups = b.integer("groups");
  PEN_TRY(bind_weight(b, p, gemm ? "panel16" : depthwise ? "taps" : "grouped"));
  PEN_TRY(bind_activation(b, &p->act));
  PEN_TRY(b.need(0, Need::channels));
  const Tensor& x = b.in(0);
  Shape out;
  out.rank = 4;
  out.dims[0] = x.dims[0];
  out.dims[1] = b.in(1).dims[0];
  for (int i = 0; i < 2; ++i) {
    p->stride[i] = stride[i];
    p->pad[i] = padding[i];
    p->dilation[i] = dilation[i];
    PEN_TRY(bind_side(b, p, i, padding[i + 2], x.dims[2 + i], &out.dims[2 + i]));
  }
  PEN_TRY(b.output(0, DType::f32, out));
  PEN_TRY(b.need_out(0, Need::channels));
  if (b.has(3)) {
    bool same = b.in(3).rank == 4;
    for (int d = 0; same && d < 4; ++d) same = b.in(3).dims[d] == out.dims[d];
    if (!same) return b.fail(3, "a residual of the output's shape", "another shape, rank %d", b.in(3).rank);
    PEN_TRY(b.need(3, Need::channels));
  }
  p->pixels = times(times(out.dims[0], out.dims[2]), out.dims[3]);
  if (p->pixels == 0 || out.dims[1] == 0) return PEN_OK;
  if (gemm) return cut_gemm(b, p, out.dims[2], out.dims[3]);
  // The others go by output rows.
  int64_t rows = out.dims[0] * out.dims[2];
  int64_t row_work = times(times(out.dims[3], p->kernel[0] * p->kernel[1] * p->ci_g + 1), out.dims[1]);
  // Depthwise reads far more than it computes: a quarter of the work makes a task.
  p->pixel_units = rows;
  p->pixel_tasks = task_count(rows, kTaskWork / 4 / row_work + 1);
  b.tasks(p->pixel_tasks);
  return depthwise ? PEN_OK : b.scratch(x.dims[1] * 4 + 64);  // grouped: a pixel of zeros
}

}  // namespace pen
