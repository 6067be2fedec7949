// A tensor as rows: what one result depends on is a row, its dims "along", those of the rows "across". For reductions, norms, scans.
#pragma once
#include "penlight/runtime/gpu/walk.h"

namespace pen {

struct GpuRows {
  static constexpr int kDims = 4;  // that shaders count, of both
  GpuWalk across, along;           // operand 0: the output, 1: the input
  // Of a workgroup's threads, how many take rows of their own, side by side.
  uint32_t columns() const;
  Groups groups() const;
};

constexpr int kRowThreads = 128;  // of a workgroup

// Input 0, with dims marked in `along`; `out`: strides of the output by the input's dims. What has more runs of dims than shaders count
// is laid densely first.
Status rows_of(Gpu& b, const bool* along, const int64_t* out, GpuRows* rows);

// Push constants that all such shaders have, as rows.glsl reads them.
template <class Push>
static void fill_rows(const GpuRows& r, Push* p) {
  auto u = [](int64_t n) { return static_cast<uint32_t>(n); };
  p->rows = u(r.across.n), p->count = u(r.along.n);
  for (int d = 0; d < GpuRows::kDims; ++d) {
    bool a = d < r.across.rank, l = d < r.along.rank;
    p->across[d] = u(a ? r.across.dims[d] : 1), p->along[d] = u(l ? r.along.dims[d] : 1);
    p->across_out[d] = u(a ? r.across.strides[0][d] : 0), p->across_in[d] = u(a ? r.across.strides[1][d] : 0);
    p->along_in[d] = u(l ? r.along.strides[1][d] : 0);
  }
}

}  // namespace pen
