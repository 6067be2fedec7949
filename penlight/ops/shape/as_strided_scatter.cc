// as_strided_scatter: x, with the elements of src written over those that as_strided would show. In place where x is not
// needed any more: then only src is moved.
#include "penlight/ops/index/walk.h"

namespace pen {

struct StridedScatterParams {
  CopyFirst copy;
  Runs runs;
  int64_t numel, offset, tasks;
};

PEN_BIND(as_strided_scatter) {
  PEN_TRY(need_unpacked(b, 0));
  PEN_TRY(need_unpacked(b, 1));
  PEN_TRY(need_countable(b, 1));
  const Tensor &x = b.in(0), &src = b.in(1);
  IntList stride = b.ints("stride");
  int64_t offset = b.integer("offset"), last = offset, numel = 1;
  if (stride.count != src.rank) return b.fail(1, "a stride for each dim", "%d strides for rank %d", stride.count, src.rank);
  StridedScatterParams* p = b.params<StridedScatterParams>();
  PEN_TRY(bind_copy_first(b, &p->copy));
  if (is_empty(src)) {
    b.tasks(p->copy.tasks);
    return PEN_OK;
  }
  Tensor view = src;
  bool wrong = offset < 0 || is_empty(x);
  for (int d = 0; d < src.rank && !wrong; ++d) {
    int64_t span;
    view.strides[d] = src.dims[d] == 1 ? 0 : stride[d];
    wrong =
        view.strides[d] < 0 || __builtin_mul_overflow(src.dims[d] - 1, view.strides[d], &span) || __builtin_add_overflow(last, span, &last);
    numel *= src.dims[d];
  }
  if (wrong || last >= x.numel()) return b.fail(-1, "places inside the tensor", "some outside");
  p->runs = make_runs(src, src, view);
  bool overlaps = false;  // then what comes last stays: one task
  int64_t reach = 0;
  for (int d = p->runs.rank - 1; d >= 0; --d) {
    if (p->runs.dims[d] > 1 && p->runs.out[d] <= reach) overlaps = true;
    reach += (p->runs.dims[d] - 1) * p->runs.out[d];
  }
  p->numel = numel;
  p->offset = offset;
  p->tasks = overlaps ? 1 : task_count(numel * dtype_size(x.dtype), 1 << 16);
  b.tasks(p->copy.tasks, p->tasks);
  return PEN_OK;
}

static void write_strided(const Run& r) {
  const StridedScatterParams& p = r.as<StridedScatterParams>();
  if (r.phase == 0) return copy_first(r, p.copy);
  int64_t size = dtype_size(r.out[0].dtype);
  copy_range(p.runs, r.out[0].data + p.offset * size, r.in[1].data, size, part(p.numel, p.tasks, r.begin).begin,
             part(p.numel, p.tasks, r.end - 1).end);
}

PEN_KERNEL_ANY(as_strided_scatter, b8) { write_strided(r); }
PEN_KERNEL_ANY(as_strided_scatter, b16) { write_strided(r); }
PEN_KERNEL_ANY(as_strided_scatter, b32) { write_strided(r); }
PEN_KERNEL_ANY(as_strided_scatter, b64) { write_strided(r); }

}  // namespace pen
