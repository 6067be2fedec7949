// masked_scatter: where the mask is true, the next element of source, in order; else x. One task: places in the source follow
// from all of the mask before.
#include "penlight/ops/index/walk.h"

namespace pen {

PEN_SHAPE(masked_scatter) {
  const Tensor &x = s.in(0), &mask = s.in(1);
  if (mask.dtype != DType::boolean) return s.fail(1, "a mask of bool", "dtype %s", kDTypeNames[static_cast<int>(mask.dtype)]);
  if (mask.rank != x.rank) return s.fail(1, "the tensor's rank", "rank %d, not %d", mask.rank, x.rank);
  for (int d = 0; d < x.rank; ++d) {
    if (mask.dims[d] != x.dims[d]) return s.fail(1, "the tensor's shape", "%lld in dim %d", static_cast<long long>(mask.dims[d]), d);
  }
  return s.output(0, x.dtype, shape_of(x));
}

PEN_BIND(masked_scatter) {
  PEN_TRY(b.need_plain(0));
  PEN_TRY(b.need_plain(1));
  PEN_TRY(b.need(2, Need::dense));
  const Tensor &x = b.in(0), &mask = b.in(1);
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  if (is_empty(x)) return PEN_OK;
  Walk* p = b.params<Walk>();  // mask, x, output
  for (int d = 0; d < x.rank; ++d) p->add(x.dims[d], mask.strides[d], x.strides[d], b.out(0).strides[d]);
  p->close();
  b.may_reuse(0, 0, true);
  b.tasks(1);
  return PEN_OK;
}

template <class T>
static inline void fill_masked(const Run& r) {
  const Walk& p = r.as<Walk>();
  const int inner = p.rank - 1;
  const T* next = r.in[2].as<T>();
  int64_t used = 0, count = r.in[2].numel();
  p.rows(0, p.numel(), [&](int64_t n, const int64_t* at) {
    const uint8_t* mask = r.in[1].as<uint8_t>() + at[0];
    const T* x = r.in[0].as<T>() + at[1];
    T* y = r.out[0].as<T>() + at[2];
    for (int64_t i = 0; i < n; ++i) {
      bool take = mask[i * p.steps[0][inner]] != 0;
      if (PEN_UNLIKELY(take && used >= count)) return r.fail_index(2, used, 0, count);
      y[i * p.steps[2][inner]] = take ? next[used++] : x[i * p.steps[1][inner]];
    }
  });
}

PEN_KERNEL_ANY(masked_scatter, b8) { fill_masked<uint8_t>(r); }
PEN_KERNEL_ANY(masked_scatter, b16) { fill_masked<uint16_t>(r); }
PEN_KERNEL_ANY(masked_scatter, b32) { fill_masked<uint32_t>(r); }
PEN_KERNEL_ANY(masked_scatter, b64) { fill_masked<uint64_t>(r); }

}  // namespace pen
