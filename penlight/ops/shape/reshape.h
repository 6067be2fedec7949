// Where a reshaped tensor lies, as a view or in fresh memory: for the rules of reshape on every device.
#pragma once
#include "penlight/runtime/exec/kernel.h"

namespace pen {

// Strides with which `x` can be seen as `shape`. First, dims of x that continue each other become groups; then each
// group is cut into new dims, innermost first. A new dim across two groups has no stride.
[[maybe_unused]] static PEN_SMALL bool view_strides(const Tensor& x, const Shape& shape, int64_t* strides) {
  int64_t sizes[kMaxRank + 1], steps[kMaxRank + 1];
  int groups = 0;  // innermost first
  for (int d = x.rank - 1; d >= 0; --d) {
    if (x.dims[d] == 1) continue;
    if (groups > 0 && x.strides[d] == steps[groups - 1] * sizes[groups - 1]) {
      sizes[groups - 1] *= x.dims[d];
    } else {
      sizes[groups] = x.dims[d];
      steps[groups++] = x.strides[d];
    }
  }
  int group = 0;
  int64_t taken = 1;  // of the current group
  for (int d = shape.rank - 1; d >= 0; --d) {
    if (shape.dims[d] == 1) {
      strides[d] = group < groups ? steps[group] * taken : 0;
      continue;
    }
    if (group == groups || sizes[group] % (taken * shape.dims[d]) != 0) return false;
    strides[d] = steps[group] * taken;
    taken *= shape.dims[d];
    if (taken == sizes[group]) {
      ++group;
      taken = 1;
    }
  }
  return true;
}

// The product of sizes, -1 where one is negative or 64 bits do not hold it (a view with stride 0 can be of any size).
[[maybe_unused]] static PEN_SMALL int64_t element_count(const int64_t* dims, int rank) {
  int64_t n = 1;
  for (int d = 0; d < rank; ++d) {
    if (dims[d] == 0) return 0;
    if (dims[d] < 0 || __builtin_mul_overflow(n, dims[d], &n)) return -1;
  }
  return n;
}

// Lays output 0. *copies: whether the elements of input 0 have to be copied into it, which is *seen then, with the input's dims.
[[maybe_unused]] static PEN_SMALL Status lay_reshaped(Lay& b, Tensor* seen, bool* copies) {
  const Tensor& x = b.in(0);
  *copies = false;
  PEN_TRY(b.need_plain(0));
  bool empty = element_count(x.dims, x.rank) == 0;
  int64_t strides[kMaxRank] = {};
  if (b.out_may_view(0) && (empty || view_strides(x, shape_of(b.out(0)), strides))) return b.view(0, 0, strides, 0);
  PEN_TRY(b.output(0));
  if (empty) return PEN_OK;
  if (!b.out_is_nhwc(0)) PEN_TRY(b.need_out(0, Need::dense));
  *seen = x;
  if (!view_strides(b.out(0), shape_of(x), seen->strides))
    return b.fail(-1, "dims that are merged only, for a result in layout nhwc", "others");
  *copies = true;
  return PEN_OK;
}

}  // namespace pen
