// linear: the shape rule and the schedule on the CPU, for floats and quantized bytes. In a file of its own, compiled once: kernels are in
// linear.cc and linear_q8.cc.
#include "penlight/ops/matmul/linear.h"
#include "penlight/runtime/base/packed.h"

namespace pen {

PEN_SHAPE(linear) {
  const Tensor &x = s.in(0), &w = s.in(1);
  if (x.rank < 1) return s.fail(0, "rank 1 or more", "rank 0");
  if (w.rank != 2) return s.fail(1, "rank 2", "rank %d", w.rank);
  if (w.dims[1] != x.dims[x.rank - 1])
    return s.fail(1, "as many columns as x has", "%lld for %lld", static_cast<long long>(w.dims[1]),
                  static_cast<long long>(x.dims[x.rank - 1]));
  const bool bytes = kHasBytes && x.dtype == DType::u8;  // whose columns the bind rule checks
  if (!bytes && s.has(2) && (s.in(2).rank != 1 || s.in(2).dims[0] != w.dims[0]))
    return s.fail(2, "one bias per column", "rank %d", s.in(2).rank);
  Shape shape = shape_of(x);
  shape.dims[x.rank - 1] = w.dims[0];
  PEN_TRY(s.output(0, bytes ? s.declared_dtype(0) : DType::f32, shape));
  if (!s.has(3)) return PEN_OK;
  bool same = s.in(3).rank == shape.rank;
  for (int d = 0; same && d < shape.rank; ++d) same = s.in(3).dims[d] == shape.dims[d];
  return same ? PEN_OK : s.fail(3, "a residual of the output's shape", "another shape, rank %d", s.in(3).rank);
}

PEN_BIND(linear) {
  const Tensor& w = b.in(1);
  const bool q8 = kHasBytes && b.in(0).dtype == DType::u8;
  const int64_t size = q8 ? 1 : 4;
  const char* layout = q8 ? "quads16" : "panel16";
  if (strcmp(b.in_layout(1), layout) != 0) return b.fail(1, layout, "layout %s", b.in_layout(1));
  int64_t bytes = packed_bytes(layout, w, 1);
  if (bytes < 0 || b.in_bytes(1) < bytes)
    return b.fail(1, "as many bytes as its packed layout takes", "%lld of %lld", static_cast<long long>(b.in_bytes(1)),
                  static_cast<long long>(bytes));
  const GroupsQ8 g = groups_q8(w, 1, false);
  Linear* p = q8 ? params_q8<Linear>(b, g) : b.params<Linear>();
  if (!p) return PEN_ERROR_SHAPE;
  p->n = w.dims[0];
  p->k = w.dims[1];
  if (q8) {
    PEN_TRY(bind_result_q8(b, g, reinterpret_cast<float*>(p + 1), &p->result, &p->act));
  } else {
    if (b.has(2)) PEN_TRY(b.need(2, Need::dense));
    PEN_TRY(bind_activation(b, &p->act));
  }
  PEN_TRY(b.need(0, Need::rows));
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::rows));
  if (b.has(3)) PEN_TRY(b.need(3, Need::rows));
  const Tensor &x = b.in(0), &y = b.out(0);

  p->m = 1;
  for (int d = 0; d < x.rank - 1; ++d) {
    int64_t size = x.dims[d], residual = b.has(3) ? b.in(3).strides[d] : 0;
    p->m *= size;  // fits: the output has been checked
    if (size == 1) continue;
    int last = p->lead - 1;
    bool merge =
        last >= 0 && p->x[last] == size * x.strides[d] && p->y[last] == size * y.strides[d] && p->residual[last] == size * residual;
    if (!merge) p->dims[last = p->lead++] = 1;
    p->dims[last] *= size;
    p->x[last] = x.strides[d];
    p->y[last] = y.strides[d];
    p->residual[last] = residual;
  }
  if (p->lead == 0) p->dims[p->lead++] = 1;
  if (p->m == 0 || p->n == 0) return PEN_OK;

  int64_t work, target = 256, units = (p->n + kLinearColumns - 1) / kLinearColumns;
  const int task = (p->m == 1 ? kLinearRowWork : kLinearTaskWork) + (q8 ? 2 : 0);
  if (!__builtin_mul_overflow(p->m, p->n, &work) && !__builtin_mul_overflow(work, p->k, &work) && (work >> task) + 1 < target)
    target = (work >> task) + 1;
  int64_t row_units = (p->m + kLinearUnit - 1) / kLinearUnit;
  p->row_tasks = p->m <= kLinearBlockRows ? 1 : target < (row_units + 3) / 4 ? target : (row_units + 3) / 4;
  p->column_tasks = (target + p->row_tasks - 1) / p->row_tasks;
  if (p->m == 1) units = (units + 1) / 2;  // a row alone has a tile of two
  p->column_tasks = p->column_tasks < units ? p->column_tasks : units;
  // What a task shares with the next one should be the larger of the two: it then comes from afar only once.
  p->columns_outer = p->n > p->m;
  bool cliff = p->m >= kLinearUnit && p->n >= kLinearCopyColumns && p->x[p->lead - 1] * size % kLinearCliff == 0;
  if (p->k > 0 && (cliff || (q8 && p->k % 4 != 0))) {
    p->copy_pitch = (p->k + 15) / 16 * 16 + 16;
    if (p->copy_pitch * size % kLinearCliff == 0) p->copy_pitch += 16;
    int64_t bytes;
    if (__builtin_mul_overflow(p->m, p->copy_pitch * size, &bytes)) return b.fail(0, "a size that can be copied", "more");
    p->copy_tasks = task_count(p->m, 65536 / p->k + 1);
    PEN_TRY(b.shared(bytes));
    b.tasks(p->copy_tasks, p->row_tasks * p->column_tasks);
    return PEN_OK;
  }
  b.tasks(p->row_tasks * p->column_tasks);
  return PEN_OK;
}

}  // namespace pen
