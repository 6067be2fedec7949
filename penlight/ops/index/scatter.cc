// scatter: x, and then y[i, index[i, j, k], k] = src[i, j, k] for dim 1, or its sum, product, largest or smallest with what
// is there. Elements that meet come in index order: tasks cut another dim than `dim`, and each goes through all of that.
#include "penlight/ops/index/walk.h"

namespace pen {

struct ScatterParams {
  CopyFirst copy;
  Walk walk;  // index, src, output
  int cut;    // the dim of the walk that is cut into tasks; -1: one task
  int64_t size, stride, tasks;
  Combine how;
};

PEN_SHAPE(scatter) {
  PEN_TRY(check_long_indices(s, 1));
  const Tensor &x = s.in(0), &index = s.in(1), &src = s.in(2);
  int64_t dim = s.integer("dim");
  Combine how;
  if (dim < 0 || dim >= x.rank) return s.fail(-1, "a dim that the tensor has", "dim %lld of rank %d", static_cast<long long>(dim), x.rank);
  if (index.rank != x.rank) return s.fail(1, "indices of the tensor's rank", "rank %d, not %d", index.rank, x.rank);
  if (src.rank != x.rank) return s.fail(2, "the tensor's rank", "rank %d, not %d", src.rank, x.rank);
  if (src.dtype != x.dtype) return s.fail(2, "the tensor's dtype", "%s", kDTypeNames[static_cast<int>(src.dtype)]);
  if (!parse_combine(s.text("reduce"), &how)) return s.fail(-1, "reduce of add, mul, max, min or nothing", "%s", s.text("reduce"));
  for (int d = 0; d < x.rank; ++d) {
    if (index.dims[d] > src.dims[d] || (d != dim && index.dims[d] > x.dims[d]))
      return s.fail(1, "at most the sizes of tensor and src", "%lld in dim %d", static_cast<long long>(index.dims[d]), d);
  }
  return s.output(0, x.dtype, shape_of(x));
}

PEN_BIND(scatter) {
  for (int i = 0; i < 3; ++i) PEN_TRY(b.need_plain(i));
  const Tensor &x = b.in(0), &index = b.in(1), &src = b.in(2);
  int64_t dim = b.integer("dim");
  ScatterParams* p = b.params<ScatterParams>();
  parse_combine(b.text("reduce"), &p->how);
  PEN_TRY(bind_copy_first(b, &p->copy));
  if (is_empty(index)) {
    b.tasks(p->copy.tasks);
    return PEN_OK;
  }
  const Tensor& y = b.out(0);
  for (int d = 0; d < x.rank; ++d) p->walk.add(index.dims[d], index.strides[d], src.strides[d], d == dim ? 0 : y.strides[d]);
  p->walk.close();
  p->size = x.dims[dim];
  p->stride = y.strides[dim];
  p->cut = cut_dim(p->walk, 2);
  p->tasks = task_count(p->walk.numel(), 16384);
  int64_t most = p->cut < 0 ? 1 : p->walk.dims[p->cut];
  if (p->tasks > most) p->tasks = most;
  b.tasks(p->copy.tasks, p->tasks);
  return PEN_OK;
}

template <class T, bool kNumbers>
static inline void scatter_elements(const Run& r) {
  const ScatterParams& p = r.as<ScatterParams>();
  if (r.phase == 0) return copy_first(r, p.copy);
  Walk walk = p.walk;
  int64_t start[3] = {};
  if (p.cut >= 0) {
    int64_t first = part(p.walk.dims[p.cut], p.tasks, r.begin).begin, last = part(p.walk.dims[p.cut], p.tasks, r.end - 1).end;
    walk.dims[p.cut] = last - first;
    for (int t = 0; t < 3; ++t) start[t] = first * walk.steps[t][p.cut];
  }
  const int inner = walk.rank - 1;
  const int64_t index_step = walk.steps[0][inner], step = walk.steps[1][inner], y_step = walk.steps[2][inner];
  const int64_t size = p.size, stride = p.stride;
  Patience patience(r);
  walk.rows(0, walk.numel(), [&](int64_t all, const int64_t* at) {
    in_pieces(patience, all, [&](int64_t begin, int64_t end) {
      const int64_t* index = r.in[1].as<int64_t>() + start[0] + at[0] + begin * index_step;
      const T* src = r.in[2].as<T>() + start[1] + at[1] + begin * step;
      T* y = r.out[0].as<T>() + start[2] + at[2] + begin * y_step;
      auto place = [&r, index, index_step, size, stride](int64_t i) -> int64_t {
        int64_t to = index[i * index_step];
        if (PEN_LIKELY(static_cast<uint64_t>(to) < static_cast<uint64_t>(size))) return to * stride;
        r.fail_index(1, to, 0, size);
        return -1;
      };
      if (index_step == 0)
        put_row<true, kNumbers>(p.how, y, y_step, place, src, step, end - begin);
      else
        put_row<false, kNumbers>(p.how, y, y_step, place, src, step, end - begin);
    });
  });
}

PEN_KERNEL_ANY(scatter, b8) { scatter_elements<uint8_t, false>(r); }
PEN_KERNEL_ANY(scatter, b16) { scatter_elements<uint16_t, false>(r); }
PEN_KERNEL_ANY(scatter, b32) { scatter_elements<uint32_t, false>(r); }
PEN_KERNEL_ANY(scatter, b64) { scatter_elements<uint64_t, false>(r); }
PEN_KERNEL_ANY(scatter, f32) { scatter_elements<float, true>(r); }
PEN_KERNEL_ANY(scatter, i32) { scatter_elements<int32_t, true>(r); }
PEN_KERNEL_ANY(scatter, i64) { scatter_elements<int64_t, true>(r); }

}  // namespace pen
