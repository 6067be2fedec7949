// flip: dims backwards. A copy that begins at the last element of those dims and goes through them with negative steps.
#include "penlight/ops/shape/runs.h"

namespace pen {

struct FlipParams {
  Runs runs;
  int64_t start, numel, tasks;
};

PEN_SHAPE(flip) {
  PEN_TRY(need_countable(s, 0));
  const Tensor& x = s.in(0);
  IntList dims = s.ints("dims");
  PEN_TRY(s.output(0, x.dtype, shape_of(x)));
  if (is_empty(x)) return PEN_OK;
  bool seen[kMaxRank] = {};
  for (int i = 0; i < dims.count; ++i) {
    int64_t d = dims[i];
    if (d < 0 || d >= x.rank || seen[d])
      return s.fail(-1, "different dims of the tensor", "dim %lld of rank %d", static_cast<long long>(d), x.rank);
    seen[d] = true;
  }
  return PEN_OK;
}

PEN_BIND(flip) {
  PEN_TRY(b.need_plain(0));
  Tensor x = b.in(0);
  IntList dims = b.ints("dims");
  PEN_TRY(b.output(0));
  FlipParams* p = b.params<FlipParams>();
  if (is_empty(x)) return PEN_OK;
  for (int i = 0; i < dims.count; ++i) {
    int64_t d = dims[i];
    p->start += (x.dims[d] - 1) * x.strides[d];
    x.strides[d] = -x.strides[d];
  }
  p->runs = make_runs(x, x, b.out(0));
  p->numel = x.numel();
  p->tasks = task_count(p->numel * dtype_size(x.dtype), 1 << 16);
  b.tasks(p->tasks);
  return PEN_OK;
}

static void flip_elements(const Run& r) {
  const FlipParams& p = r.as<FlipParams>();
  int64_t size = dtype_size(r.out[0].dtype);
  copy_range(p.runs, r.out[0].data, r.in[0].data + p.start * size, size, part(p.numel, p.tasks, r.begin).begin,
             part(p.numel, p.tasks, r.end - 1).end);
}

PEN_KERNEL_ANY(flip, b8) { flip_elements(r); }
PEN_KERNEL_ANY(flip, b16) { flip_elements(r); }
PEN_KERNEL_ANY(flip, b32) { flip_elements(r); }
PEN_KERNEL_ANY(flip, b64) { flip_elements(r); }

}  // namespace pen
