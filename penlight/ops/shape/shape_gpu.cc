// Operators that move elements and compute nothing, on a GPU: copies between strides.
#include "penlight/ops/shape/lies_so.h"
#include "penlight/ops/shape/reshape.h"
#include "penlight/runtime/base/dims.h"
#include "penlight/runtime/gpu/walk.h"

namespace pen {

PEN_GPU(copy, "b8 b32 b64") {
  if (!b.flag("force") && lies_so(b.in(0), b.out_is_nhwc(0))) return b.view(0, 0, b.in(0).strides, 0);
  PEN_TRY(b.output(0));
  return dispatch_copy(b, b.in(0), b.reads(0), b.out(0), b.writes(0));
}

PEN_GPU(reshape, "b8 b32 b64") {
  Tensor seen;
  bool copies;
  PEN_TRY(lay_reshaped(b, &seen, &copies));
  return copies ? dispatch_copy(b, b.in(0), b.reads(0), seen, b.writes(0)) : PEN_OK;
}

PEN_GPU(cat, "b8 b32 b64") {
  int count = b.input_count();
  PEN_TRY(b.output(0));
  const Tensor& y = b.out(0);
  int64_t at = 0, dim = from_end(b.integer("dim"), y.rank);
  for (int k = 0; k < count; ++k) {
    const Tensor& x = b.in(k);
    if (x.numel() == 0) continue;
    int64_t offset = at * y.strides[dim];
    at += x.dims[dim];
    if (dtype_size(y.dtype) > 1) b.may_place(k, 0, offset);  // bytes are written by four, and would spill over
    Tensor part = y;
    part.dims[dim] = x.dims[dim];
    Operand to = b.writes(0), from = b.reads(k);
    to.offset += offset * dtype_size(y.dtype);
    int64_t reach = 0;
    for (int d = 0; d < part.rank; ++d) reach += (part.dims[d] - 1) * part.strides[d];
    to.bytes = (reach + 1) * dtype_size(y.dtype);
    if (from.buffer == to.buffer && from.offset == to.offset) continue;  // it was computed there
    PEN_TRY(dispatch_copy(b, x, from, part, to, 0, true));
  }
  return PEN_OK;
}

PEN_GPU(flip, "b8 b32 b64") {
  PEN_TRY(b.output(0));
  Tensor x = b.in(0);
  IntList dims = b.ints("dims");
  int64_t first = 0;
  for (int i = 0; i < dims.count && x.numel() > 0; ++i) {
    first += (x.dims[dims[i]] - 1) * x.strides[dims[i]];
    x.strides[dims[i]] = -x.strides[dims[i]];
  }
  return dispatch_copy(b, x, b.reads(0), b.out(0), b.writes(0), first);
}

PEN_GPU(as_strided_scatter, "b8 b32 b64") {
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  PEN_TRY(dispatch_copy(b, b.in(0), b.reads(0), b.out(0), b.writes(0)));
  const Tensor& src = b.in(1);
  if (src.numel() == 0) return PEN_OK;
  IntList stride = b.ints("stride");
  Tensor part = src;
  int64_t reach = 1, order[kMaxRank] = {};
  for (int d = 0; d < src.rank; ++d) {
    part.strides[d] = stride[d];
    reach += (src.dims[d] - 1) * stride[d];
    for (int k = d; k >= 0; --k) {  // by rising stride
      order[k] = d;
      if (k == 0 || stride[static_cast<int>(order[k - 1])] <= stride[d]) break;
      order[k] = order[k - 1];
    }
  }
  int64_t inside = 0;  // which of several elements for one place stays is known in a row only
  for (int k = 0; k < src.rank; ++k) {
    int64_t d = order[k];
    if (src.dims[d] > 1 && stride[static_cast<int>(d)] <= inside) return b.fail(-1, "places that differ, on this device", "some twice");
    inside += (src.dims[d] - 1) * stride[static_cast<int>(d)];
  }
  Operand to = b.writes(0);
  to.offset += b.integer("offset") * dtype_size(src.dtype);
  to.bytes = reach * dtype_size(src.dtype);
  return dispatch_copy(b, src, b.reads(1), part, to, 0, true);
}

}  // namespace pen
