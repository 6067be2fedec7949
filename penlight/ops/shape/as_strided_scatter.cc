// as_strided_scatter: x, with the elements of src written over those that as_strided would show. In place where x is not
// needed any more: then only src is moved.
#include "penlight/ops/index/walk.h"

namespace pen {

struct StridedScatterParams {
  CopyFirst copy;
  Runs runs;
  int64_t numel, offset, tasks;
};

PEN_SHAPE(as_strided_scatter) {
  PEN_TRY(need_countable(s, 1));
  const Tensor &x = s.in(0), &src = s.in(1);
  IntList stride = s.ints("stride");
  int64_t last = s.integer("offset");
  if (src.dtype != x.dtype) return s.fail(1, "the tensor's dtype", "%s", kDTypeNames[static_cast<int>(src.dtype)]);
  if (stride.count != src.rank) return s.fail(1, "a stride for each dim", "%d strides for rank %d", stride.count, src.rank);
  PEN_TRY(s.output(0, x.dtype, shape_of(x)));
  if (is_empty(src)) return PEN_OK;
  bool wrong = last < 0 || is_empty(x);
  for (int d = 0; d < src.rank && !wrong; ++d) {
    int64_t span, step = src.dims[d] == 1 ? 0 : stride[d];
    wrong = step < 0 || __builtin_mul_overflow(src.dims[d] - 1, step, &span) || __builtin_add_overflow(last, span, &last);
  }
  return wrong || last >= x.numel() ? s.fail(-1, "places inside the tensor", "some outside") : PEN_OK;
}

PEN_BIND(as_strided_scatter) {
  PEN_TRY(b.need_plain(0));
  PEN_TRY(b.need_plain(1));
  const Tensor& src = b.in(1);
  IntList stride = b.ints("stride");
  StridedScatterParams* p = b.params<StridedScatterParams>();
  PEN_TRY(bind_copy_first(b, &p->copy));
  if (is_empty(src)) {
    b.tasks(p->copy.tasks);
    return PEN_OK;
  }
  Tensor view = src;
  for (int d = 0; d < src.rank; ++d) view.strides[d] = stride[d];
  p->runs = make_runs(src, src, view);
  bool overlaps = false;  // then what comes last stays: one task
  int64_t reach = 0;
  for (int d = p->runs.rank - 1; d >= 0; --d) {
    if (p->runs.dims[d] > 1 && p->runs.out[d] <= reach) overlaps = true;
    reach += (p->runs.dims[d] - 1) * p->runs.out[d];
  }
  p->numel = src.numel();
  p->offset = b.integer("offset");
  p->tasks = overlaps ? 1 : task_count(p->numel * dtype_size(src.dtype), 1 << 16);
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
