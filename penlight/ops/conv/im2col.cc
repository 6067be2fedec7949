// im2col, col2im: row by row. im2col moves elements of any kind; a unit of work is one row of the matrix, that is one tap of
// one channel in all windows. col2im adds f32; a unit is a plane of the image, so that sums are in one order always.
#include "penlight/ops/conv/windows.h"
#include "penlight/runtime/base/memory.h"
#include "penlight/runtime/exec/kernel.h"
#include "penlight/runtime/simd/simd.h"

namespace pen {

// Index 0 is H, 1 is W.
struct Im2Col {
  int64_t kernel[2], stride[2], pad[2], dilation[2];
  int64_t image[2], windows[2];
  int64_t channels, units, tasks;
};

// One side of the image: the attributes, and how many windows they make.
static PEN_SMALL void set_side(const Given& g, Im2Col* p, int side, int64_t image) {
  p->image[side] = image;
  p->kernel[side] = g.ints("kernel")[side];
  p->stride[side] = g.ints("stride")[side];
  p->pad[side] = g.ints("padding")[side];
  p->dilation[side] = g.ints("dilation")[side];
  p->windows[side] = window_count({image, p->kernel[side], p->stride[side], p->dilation[side], p->pad[side], p->pad[side]});
}

static PEN_SMALL Status shape_windows(const Shapes& s, Im2Col* p, const int64_t* image) {
  constexpr int64_t kLimit = 1 << 24;  // keeps every product below far from overflow
  IntList kernel = s.ints("kernel"), stride = s.ints("stride"), padding = s.ints("padding"), dilation = s.ints("dilation");
  if (kernel.count != 2 || stride.count != 2 || padding.count != 2 || dilation.count != 2)
    return s.fail(-1, "2 kernel sizes, 2 strides, 2 paddings and 2 dilations", "%d, %d, %d and %d", kernel.count, stride.count,
                  padding.count, dilation.count);
  for (int i = 0; i < 2; ++i) {
    if (kernel[i] < 1 || stride[i] < 1 || dilation[i] < 1 || padding[i] < 0 || kernel[i] > kLimit || stride[i] > kLimit ||
        dilation[i] > kLimit || padding[i] > kLimit || image[i] > kLimit)
      return s.fail(-1, "kernel, stride and dilation from 1 to 2^24, padding from 0", "other numbers");
    set_side(s, p, i, image[i]);
    if (p->windows[i] < 1)
      return s.fail(0, "a padded image at least as large as the kernel", "size %lld", static_cast<long long>(image[i]));
  }
  return PEN_OK;
}

PEN_SHAPE(im2col) {
  const Tensor& x = s.in(0);
  if (x.rank != 4) return s.fail(0, "rank 4", "rank %d", x.rank);
  Im2Col p = {};
  PEN_TRY(shape_windows(s, &p, x.dims + 2));
  Shape out;
  out.rank = 3;
  out.dims[0] = x.dims[0];
  if (mul_overflows(x.dims[1], p.kernel[0] * p.kernel[1], &out.dims[1])) return s.fail(0, "a matrix that fits in memory", "more");
  out.dims[2] = p.windows[0] * p.windows[1];
  return s.output(0, x.dtype, out);
}

PEN_BIND(im2col) {
  PEN_TRY(b.need(0, Need::rows));
  PEN_TRY(b.output(0));
  const Tensor &x = b.in(0), &out = b.out(0);
  Im2Col* p = b.params<Im2Col>();
  if (!p) return PEN_ERROR_MEMORY;
  for (int i = 0; i < 2; ++i) set_side(b, p, i, x.dims[2 + i]);
  p->channels = x.dims[1];
  p->units = out.dims[0] * out.dims[1];
  p->tasks = task_count(p->units, 16384 / out.dims[2] + 1);
  if (p->units > 0) b.tasks(p->tasks);
  return PEN_OK;
}

PEN_SHAPE(col2im) {
  const Tensor& x = s.in(0);
  IntList size = s.ints("size");
  if (x.rank != 3) return s.fail(0, "rank 3", "rank %d", x.rank);
  if (size.count != 2 || size[0] < 0 || size[1] < 0) return s.fail(-1, "an image's height and width", "%d numbers", size.count);
  Im2Col p = {};
  PEN_TRY(shape_windows(s, &p, size.data));
  int64_t taps = p.kernel[0] * p.kernel[1], columns = p.windows[0] * p.windows[1];
  if (x.dims[1] % taps != 0 || x.dims[2] != columns)
    return s.fail(0, "[N, C * kh * kw, windows]", "%lld rows for %lld taps, %lld columns for %lld windows",
                  static_cast<long long>(x.dims[1]), static_cast<long long>(taps), static_cast<long long>(x.dims[2]),
                  static_cast<long long>(columns));
  Shape out;
  out.rank = 4;
  out.dims[0] = x.dims[0];
  out.dims[1] = x.dims[1] / taps;
  out.dims[2] = size[0];
  out.dims[3] = size[1];
  return s.output(0, DType::f32, out);
}

PEN_BIND(col2im) {
  PEN_TRY(b.need(0, Need::dense));
  PEN_TRY(b.output(0));
  const Tensor &x = b.in(0), &out = b.out(0);
  Im2Col* p = b.params<Im2Col>();
  if (!p) return PEN_ERROR_MEMORY;
  for (int i = 0; i < 2; ++i) set_side(b, p, i, out.dims[2 + i]);
  p->channels = out.dims[1];
  p->units = out.dims[0] * out.dims[1];
  p->tasks = task_count(p->units, 16384 / (p->kernel[0] * p->kernel[1] * x.dims[2] + 1) + 1);
  if (p->units > 0) b.tasks(p->tasks);
  return PEN_OK;
}

// Windows [begin, end) along a side, of which tap k lies in the image.
static PEN_INLINE Range inside(const Im2Col& p, int side, int64_t k) {
  int64_t offset = k * p.dilation[side] - p.pad[side], s = p.stride[side], left = p.image[side] - offset;
  int64_t begin = offset < 0 ? (-offset + s - 1) / s : 0, end = left > 0 ? (left + s - 1) / s : 0;
  end = end < p.windows[side] ? end : p.windows[side];
  return {begin < end ? begin : end, end};
}

namespace PEN_ISA {

template <class T>
static void to_columns(const Run& r) {
  const Im2Col& p = r.as<Im2Col>();
  const Tensor& x = r.in[0];
  int64_t taps = p.kernel[0] * p.kernel[1], width = p.windows[1], stride = p.stride[1];
  int64_t end = part(p.units, p.tasks, r.end - 1).end;
  for (int64_t unit = part(p.units, p.tasks, r.begin).begin; unit < end; ++unit) {
    int64_t tap = unit % taps, c = unit / taps % p.channels, n = unit / taps / p.channels;
    int64_t ky = tap / p.kernel[1], kx = tap % p.kernel[1];
    Range rows = inside(p, 0, ky), columns = inside(p, 1, kx);
    const T* image = x.as<T>() + n * x.strides[0] + c * x.strides[1] + kx * p.dilation[1] - p.pad[1];
    T* out = r.out[0].as<T>() + unit * p.windows[0] * width;
    for (int64_t oy = 0; oy < p.windows[0]; ++oy, out += width) {
      bool there = oy >= rows.begin && oy < rows.end && columns.begin < columns.end;
      int64_t begin = there ? columns.begin : width, stop = there ? columns.end : width;
      memset(out, 0, static_cast<size_t>(begin) * sizeof(T));
      memset(out + stop, 0, static_cast<size_t>(width - stop) * sizeof(T));
      if (!there) continue;
      const T* row = image + (oy * p.stride[0] + ky * p.dilation[0] - p.pad[0]) * x.strides[2];
      if (stride == 1)
        memcpy(out + begin, row + begin, static_cast<size_t>(stop - begin) * sizeof(T));
      else
        for (int64_t ox = begin; ox < stop; ++ox) out[ox] = row[ox * stride];
    }
  }
}

// y[i * stride] += x[i]
static PEN_INLINE void add_row(const float* x, int64_t n, float* y, int64_t stride) {
  int64_t i = 0;
  if (stride == 1)
    for (; i + kLanes <= n; i += kLanes) store(y + i, load(y + i) + load(x + i));
  for (; i < n; ++i) y[i * stride] += x[i];
}

}  // namespace PEN_ISA

PEN_KERNEL(im2col, b8) { PEN_ISA::to_columns<uint8_t>(r); }
PEN_KERNEL(im2col, b16) { PEN_ISA::to_columns<uint16_t>(r); }
PEN_KERNEL(im2col, b32) { PEN_ISA::to_columns<uint32_t>(r); }
PEN_KERNEL(im2col, b64) { PEN_ISA::to_columns<uint64_t>(r); }

PEN_KERNEL(col2im, f32) {
  const Im2Col& p = r.as<Im2Col>();
  int64_t pixels = p.image[0] * p.image[1], taps = p.kernel[0] * p.kernel[1], width = p.windows[1];
  int64_t end = part(p.units, p.tasks, r.end - 1).end;
  for (int64_t plane = part(p.units, p.tasks, r.begin).begin; plane < end; ++plane) {
    float* image = r.out[0].as<float>() + plane * pixels;
    const float* column = r.in[0].as<float>() + plane * taps * p.windows[0] * width;
    memset(image, 0, static_cast<size_t>(pixels) * sizeof(float));
    for (int64_t tap = 0; tap < taps; ++tap, column += p.windows[0] * width) {
      int64_t ky = tap / p.kernel[1], kx = tap % p.kernel[1];
      Range rows = inside(p, 0, ky), columns = inside(p, 1, kx);
      for (int64_t oy = rows.begin; oy < rows.end && columns.begin < columns.end; ++oy) {
        int64_t iy = oy * p.stride[0] + ky * p.dilation[0] - p.pad[0];
        int64_t ix = columns.begin * p.stride[1] + kx * p.dilation[1] - p.pad[1];
        PEN_ISA::add_row(column + oy * width + columns.begin, columns.end - columns.begin, image + iy * p.image[1] + ix, p.stride[1]);
      }
    }
  }
}

}  // namespace pen
