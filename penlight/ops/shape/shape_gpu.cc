// Operators that move elements and compute nothing, on a GPU: copies between strides.
#include "penlight/ops/shape/lies_so.h"
#include "penlight/ops/shape/reshape.h"
#include "penlight/runtime/base/dims.h"
#include "penlight/runtime/gpu/walk.h"

namespace pen {

static Status need_plain(const Gpu& b, int input) {
  if (strcmp(b.in_layout(input), "plain") == 0) return PEN_OK;
  return b.fail(input, "a tensor that is not packed", "one packed as %s", b.in_layout(input));
}

PEN_GPU(copy, "b8 b32 b64") {
  PEN_TRY(need_plain(b, 0));
  if (!b.flag("force") && lies_so(b.in(0), b.out_is_nhwc(0))) return b.view(0, 0, b.in(0).strides, 0);
  PEN_TRY(b.output(0));
  return dispatch_copy(b, b.in(0), b.reads(0), b.out(0), b.writes(0));
}

PEN_GPU(reshape, "b8 b32 b64") {
  PEN_TRY(need_plain(b, 0));
  const Tensor& x = b.in(0);
  bool empty = element_count(x.dims, x.rank) == 0;
  int64_t strides[kMaxRank] = {};
  if (b.out_may_view(0) && (empty || view_strides(x, shape_of(b.out(0)), strides))) return b.view(0, 0, strides, 0);
  PEN_TRY(b.output(0));
  if (empty) return PEN_OK;
  if (!b.out_is_nhwc(0)) PEN_TRY(b.need_out(0, Need::dense));
  Tensor seen = x;  // the output, seen with the input's dims
  if (!view_strides(b.out(0), shape_of(x), seen.strides))
    return b.fail(-1, "dims that are merged only, for a result in layout nhwc", "others");
  return dispatch_copy(b, x, b.reads(0), seen, b.writes(0));
}

PEN_GPU(cat, "b32 b64") {
  int count = b.input_count();
  for (int k = 0; k < count; ++k) PEN_TRY(need_plain(b, k));
  PEN_TRY(b.output(0));
  const Tensor& y = b.out(0);
  int64_t at = 0, dim = from_end(b.integer("dim"), y.rank);
  for (int k = 0; k < count; ++k) {
    const Tensor& x = b.in(k);
    if (x.numel() == 0) continue;
    int64_t offset = at * y.strides[dim];
    at += x.dims[dim];
    b.may_place(k, 0, offset);
    Tensor part = y;
    part.dims[dim] = x.dims[dim];
    Operand to = b.writes(0), from = b.reads(k);
    to.offset += offset * dtype_size(y.dtype);
    int64_t reach = 0;
    for (int d = 0; d < part.rank; ++d) reach += (part.dims[d] - 1) * part.strides[d];
    to.bytes = (reach + 1) * dtype_size(y.dtype);
    if (from.buffer == to.buffer && from.offset == to.offset) continue;  // it was computed there
    PEN_TRY(dispatch_copy(b, x, from, part, to));
  }
  return PEN_OK;
}

}  // namespace pen
