// gather: y[i, j, k] = x[i, index[i, j, k], k] for dim 1. Every index is checked in each run; where a row shares one index
// (an expanded one) it is copied whole.
#include "penlight/ops/index/walk.h"

namespace pen {

struct GatherParams {
  Walk walk;                    // index, output, x
  int64_t size, stride, tasks;  // of x's dim
};

PEN_SHAPE(gather) {
  PEN_TRY(check_long_indices(s, 1));
  const Tensor &x = s.in(0), &index = s.in(1);
  int64_t dim = s.integer("dim");
  if (dim < 0 || dim >= x.rank) return s.fail(-1, "a dim that the tensor has", "dim %lld of rank %d", static_cast<long long>(dim), x.rank);
  if (index.rank != x.rank) return s.fail(1, "indices of the tensor's rank", "rank %d, not %d", index.rank, x.rank);
  for (int d = 0; d < x.rank; ++d) {
    if (d != dim && index.dims[d] > x.dims[d])
      return s.fail(1, "at most the tensor's size in the other dims", "%lld in dim %d, for %lld", static_cast<long long>(index.dims[d]), d,
                    static_cast<long long>(x.dims[d]));
  }
  return s.output(0, x.dtype, shape_of(index));
}

PEN_BIND(gather) {
  PEN_TRY(b.need_plain(0));
  PEN_TRY(b.need_plain(1));
  PEN_TRY(b.output(0));
  GatherParams* p = b.params<GatherParams>();
  const Tensor &x = b.in(0), &index = b.in(1), &y = b.out(0);
  int64_t dim = b.integer("dim");
  if (is_empty(y)) return PEN_OK;
  for (int d = 0; d < x.rank; ++d) p->walk.add(y.dims[d], index.strides[d], y.strides[d], d == dim ? 0 : x.strides[d]);
  p->walk.close();
  p->size = x.dims[dim];
  p->stride = x.strides[dim];
  p->tasks = task_count(y.numel(), 16384);
  b.tasks(p->tasks);
  return PEN_OK;
}

template <class T>
static inline void gather_elements(const Run& r) {
  const GatherParams& p = r.as<GatherParams>();
  const int inner = p.walk.rank - 1;
  const int64_t index_step = p.walk.steps[0][inner], y_step = p.walk.steps[1][inner], x_step = p.walk.steps[2][inner];
  const int64_t numel = p.walk.numel(), size = p.size, stride = p.stride;
  p.walk.rows(part(numel, p.tasks, r.begin).begin, part(numel, p.tasks, r.end - 1).end, [&](int64_t n, const int64_t* at) {
    const int64_t* index = r.in[1].as<int64_t>() + at[0];
    T* y = r.out[0].as<T>() + at[1];
    const T* x = r.in[0].as<T>() + at[2];
    if (index_step == 0) {
      if (static_cast<uint64_t>(*index) >= static_cast<uint64_t>(size)) return r.fail_index(1, *index, 0, size);
      return copy_run(reinterpret_cast<char*>(y), reinterpret_cast<const char*>(x + *index * stride), n, y_step, x_step, sizeof(T));
    }
    for (int64_t i = 0; i < n; ++i) {
      int64_t k = index[i * index_step];
      if (PEN_UNLIKELY(static_cast<uint64_t>(k) >= static_cast<uint64_t>(size))) return r.fail_index(1, k, 0, size);
      y[i * y_step] = x[k * stride + i * x_step];
    }
  });
}

PEN_KERNEL_ANY(gather, b8) { gather_elements<uint8_t>(r); }
PEN_KERNEL_ANY(gather, b16) { gather_elements<uint16_t>(r); }
PEN_KERNEL_ANY(gather, b32) { gather_elements<uint32_t>(r); }
PEN_KERNEL_ANY(gather, b64) { gather_elements<uint64_t>(r); }

}  // namespace pen
