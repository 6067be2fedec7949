// triangle: each row of the last two dims keeps what is on one side of a diagonal; the rest is zero.
#include "penlight/ops/shape/runs.h"

namespace pen {

struct TriangleParams {
  int64_t batches[kMaxRank], steps[kMaxRank];  // of the dims outside of the matrices
  int outer;
  int64_t rows, columns, row_step, column_step, diagonal, units, tasks;
  bool upper;
};

PEN_SHAPE(triangle) {
  const Tensor& x = s.in(0);
  if (x.rank < 2) return s.fail(0, "rank 2 or more", "rank %d", x.rank);
  return s.output(0, x.dtype, shape_of(x));
}

PEN_BIND(triangle) {
  PEN_TRY(b.need_plain(0));
  const Tensor& x = b.in(0);
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  if (is_empty(x)) return PEN_OK;
  TriangleParams* p = b.params<TriangleParams>();
  p->outer = x.rank - 2;
  for (int d = 0; d < p->outer; ++d) {
    p->batches[d] = x.dims[d];
    p->steps[d] = x.strides[d];
  }
  p->rows = x.dims[x.rank - 2];
  p->columns = x.dims[x.rank - 1];
  p->row_step = x.strides[x.rank - 2];
  p->column_step = x.strides[x.rank - 1];
  p->upper = b.flag("upper");
  int64_t diagonal = b.integer("diagonal");
  p->diagonal = diagonal < -p->rows ? -p->rows : diagonal > p->columns ? p->columns : diagonal;
  p->units = x.numel() / p->columns;
  p->tasks = task_count(p->units, (1 << 16) / (p->columns * dtype_size(x.dtype)) + 1);
  b.tasks(p->tasks);
  return PEN_OK;
}

static void keep_side(const Run& r) {
  const TriangleParams& p = r.as<TriangleParams>();
  int64_t size = dtype_size(r.out[0].dtype);
  for (int64_t at = part(p.units, p.tasks, r.begin).begin, end = part(p.units, p.tasks, r.end - 1).end; at < end; ++at) {
    int64_t row = at % p.rows, rest = at / p.rows, in = row * p.row_step;
    for (int d = p.outer - 1; d >= 0; --d) {
      in += rest % p.batches[d] * p.steps[d];
      rest /= p.batches[d];
    }
    int64_t border = row + p.diagonal + (p.upper ? 0 : 1);  // columns before it are the lower side
    border = border < 0 ? 0 : border > p.columns ? p.columns : border;
    int64_t first = p.upper ? border : 0, last = p.upper ? p.columns : border;
    char* to = r.out[0].data + at * p.columns * size;
    memset(to, 0, static_cast<size_t>(first * size));
    copy_run(to + first * size, r.in[0].data + (in + first * p.column_step) * size, last - first, 1, p.column_step, size);
    memset(to + last * size, 0, static_cast<size_t>((p.columns - last) * size));
  }
}

PEN_KERNEL_ANY(triangle, b8) { keep_side(r); }
PEN_KERNEL_ANY(triangle, b16) { keep_side(r); }
PEN_KERNEL_ANY(triangle, b32) { keep_side(r); }
PEN_KERNEL_ANY(triangle, b64) { keep_side(r); }

}  // namespace pen
