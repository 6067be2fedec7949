// pad, repeat, triangle, full and arange on a GPU: each element comes from one place, or is a number.
#include "penlight/ops/shape/elements.h"
#include "penlight/runtime/gpu/walk.h"

namespace pen {
namespace {

enum Mode : uint32_t { kNumber, kReflect, kReplicate, kAround, kLower, kUpper };

struct Axis {
  int64_t dim, size, before, x_stride, y_stride;  // of y and x
};
struct Axes {
  Axis at[kMaxRank];  // innermost first
  int rank = 0;
};

// In y's order of memory; those that are passed whole are merged. before[d]: see fetch.comp.
Axes axes_of(const Tensor& x, const Tensor& y, const int64_t* before) {
  int order[kMaxRank], n = 0;
  for (int d = 0; d < y.rank; ++d) {
    if (x.dims[d] == 1 && y.dims[d] == 1) continue;
    int at = n++;
    for (; at > 0 && y.strides[order[at - 1]] >= y.strides[d]; --at) order[at] = order[at - 1];
    order[at] = d;
  }
  Axes axes;
  for (int i = 0; i < n; ++i) {
    int d = order[i];
    Axis next = {y.dims[d], x.dims[d], before[d], x.strides[d], y.strides[d]};
    Axis* last = axes.rank ? &axes.at[axes.rank - 1] : nullptr;
    bool whole = last && last->dim == last->size && !last->before && next.dim == next.size && !next.before;
    if (whole && next.x_stride == last->x_stride * last->dim && next.y_stride == last->y_stride * last->dim)
      last->dim = last->size = last->dim * next.dim;
    else
      axes.at[axes.rank++] = next;
  }
  return axes;
}

// Axes beyond those of the shader are gone through here. x is not read where it is `none`.
Status dispatch_fetch(Gpu& b, Mode mode, const Axes& axes, uint64_t bits, const Operand& x, const Operand& y) {
  constexpr int kAxes = 5;
  constexpr int64_t kMost = 4096;
  shader::Fetch s;
  s.KIND = gpu_kind(y.dtype);
  s.MODE = mode;
  s.RANK = static_cast<uint32_t>(axes.rank < kAxes ? axes.rank : kAxes);
  s.push.low = static_cast<uint32_t>(bits), s.push.high = static_cast<uint32_t>(bits >> 32);
  int64_t n = 1, outer = 1;
  for (int d = 0; d < axes.rank; ++d) {
    const Axis& a = axes.at[d];
    (d < kAxes ? n : outer) *= a.dim;
    if (d >= kAxes) continue;
    s.push.dims[d] = static_cast<uint32_t>(a.dim);
    s.push.sizes[d] = static_cast<int32_t>(a.size), s.push.before[d] = static_cast<int32_t>(a.before);
    s.push.x_strides[d] = static_cast<uint32_t>(a.x_stride), s.push.y_strides[d] = static_cast<uint32_t>(a.y_stride);
  }
  if (outer > kMost || (mode != kAround && outer > 1))
    return b.fail(-1, "at most 5 dims that do not merge, on this device", "%d", axes.rank);
  s.push.n = static_cast<uint32_t>(n);
  for (int64_t i = 0; i < outer; ++i) {
    int64_t rest = i, from = 0, to = 0;
    for (int d = kAxes; d < axes.rank; ++d) {
      int64_t k = rest % axes.at[d].dim;
      rest /= axes.at[d].dim;
      from += k % axes.at[d].size * axes.at[d].x_stride;
      to += k * axes.at[d].y_stride;
    }
    s.push.x_at = static_cast<uint32_t>(from), s.push.y_at = static_cast<uint32_t>(to);
    PEN_TRY(b.dispatch(s, {x, y}, rounds(n, 128)));
  }
  return PEN_OK;
}

}  // namespace

PEN_GPU(pad, "b8 b32 b64") {
  PEN_TRY(b.output(0));
  const Tensor &x = b.in(0), &y = b.out(0);
  if (y.numel() == 0) return PEN_OK;
  IntList padding = b.ints("padding");
  int64_t before[kMaxRank] = {};
  for (int i = 0; 2 * i < padding.count; ++i) before[x.rank - 1 - i] = padding[2 * i];
  const char* name = b.text("mode");
  Mode mode = name[0] == 'c' ? (name[1] == 'o' ? kNumber : kAround) : strcmp(name, "reflect") == 0 ? kReflect : kReplicate;
  return dispatch_fetch(b, mode, axes_of(x, y, before), filling_bits(b.number("value"), x), b.reads(0), b.writes(0));
}

PEN_GPU(repeat, "b8 b32 b64") {
  PEN_TRY(b.output(0));
  if (b.out(0).numel() == 0) return PEN_OK;
  int64_t before[kMaxRank] = {};
  return dispatch_fetch(b, kAround, axes_of(b.in(0), b.out(0), before), 0, b.reads(0), b.writes(0));
}

// Rows and columns stay axes of their own.
PEN_GPU(triangle, "b8 b32 b64") {
  if (b.in(0).rank > 5) PEN_TRY(b.need(0, Need::dense));
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  const Tensor &x = b.in(0), &y = b.out(0);
  if (y.numel() == 0) return PEN_OK;
  int64_t rows = x.dims[x.rank - 2], columns = x.dims[x.rank - 1], diagonal = b.integer("diagonal");
  int64_t batches = y.numel() / (rows * columns);
  Axes axes;
  for (int d = x.rank - 1; d >= 0; --d) {
    if (d == x.rank - 3 && x.rank > 5) {
      axes.at[axes.rank++] = {batches, batches, 0, rows * columns, rows * columns};
      break;
    }
    axes.at[axes.rank++] = {y.dims[d], y.dims[d], 0, x.strides[d], y.strides[d]};
  }
  axes.at[0].before = diagonal < -rows ? -rows : diagonal > columns ? columns : diagonal;
  return dispatch_fetch(b, b.flag("upper") ? kUpper : kLower, axes, 0, b.reads(0), b.writes(0));
}

PEN_GPU(full, "b8 b32 b64") {
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  int64_t n = b.out(0).numel();
  Axes axes;
  axes.at[axes.rank++] = {n, 0, 0, 0, 1};
  return n == 0 ? PEN_OK : dispatch_fetch(b, kNumber, axes, element_bits(b.number("value"), b.out(0).dtype), b.none(), b.writes(0));
}

PEN_GPU(arange, "f32 i32 i64") {
  PEN_TRY(b.output(0));
  shader::Arange s;
  int64_t start = b.integer("start"), step = b.integer("step"), n = b.out(0).dims[0];
  s.KIND = gpu_kind(b.out(0).dtype);
  s.push.n = static_cast<uint32_t>(n);
  memcpy(s.push.start, &start, 8);
  memcpy(s.push.step, &step, 8);
  return b.dispatch(s, {b.writes(0)}, rounds(n, 128));
}

}  // namespace pen
