#include "penlight/runtime/gpu/rows.h"

namespace pen {

// Rows side by side read memory side by side; so do the elements of one row, where they lie so.
uint32_t GpuRows::columns() const {
  bool beside = across.dims[0] > 1 && across.strides[1][0] == 1;
  if (along.n < 8) return kRowThreads;
  return beside ? (along.n >= 64 ? 16 : 32) : along.n >= 64 ? 1 : 16;
}

Groups GpuRows::groups() const {
  int64_t n = ceil_div(across.n, columns());
  return {n < 32768 ? n : 32768};
}

Status rows_of(Gpu& b, const bool* along, const int64_t* out, GpuRows* rows) {
  for (int pass = 0; pass < 2; ++pass) {
    const Tensor& x = b.in(0);
    Shape shapes[2];
    int64_t strides[2][2][kMaxRank] = {};
    for (int d = 0; d < x.rank; ++d) {
      Shape& s = shapes[along[d]];
      strides[along[d]][0][s.rank] = out[d];
      strides[along[d]][1][s.rank] = x.strides[d];
      s.dims[s.rank++] = x.dims[d];
    }
    rows->across = walk_together(shapes[0], strides[0], 2);
    rows->along = walk_together(shapes[1], strides[1], 2);
    if (rows->across.rank <= GpuRows::kDims && rows->along.rank <= GpuRows::kDims) break;
    if (pass) return b.fail(0, "at most 4 runs of dims that are reduced, and of dims that are kept", "more");
    PEN_TRY(b.need(0, Need::dense));
  }
  return PEN_OK;
}

}  // namespace pen
