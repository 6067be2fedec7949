// embedding: rows of a table, in the order of the indices. Each index is checked in each run.
#include "penlight/ops/index/indices.h"

namespace pen {

struct EmbeddingParams {
  int64_t rows, width, count, tasks;
  int64_t row_stride, column_stride;  // in elements
};

PEN_SHAPE(embedding) {
  const Tensor &w = s.in(0), &indices = s.in(1);
  if (w.rank != 2) return s.fail(0, "a table of rank 2", "rank %d", w.rank);
  PEN_TRY(check_indices(s, 1));
  if (indices.rank == kMaxRank) return s.fail(1, "indices of rank 7 at most", "rank %d", indices.rank);
  Shape shape = shape_of(indices);
  shape.dims[shape.rank++] = w.dims[1];
  return s.output(0, w.dtype, shape);
}

PEN_BIND(embedding) {
  PEN_TRY(b.need_plain(0));
  PEN_TRY(b.need(1, Need::dense));
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  const Tensor &w = b.in(0), &indices = b.in(1);
  EmbeddingParams* p = b.params<EmbeddingParams>();
  if (!p) return PEN_ERROR_MEMORY;
  if (is_empty(indices)) return PEN_OK;
  p->rows = w.dims[0];
  p->width = w.dims[1];
  p->row_stride = w.strides[0];
  p->column_stride = w.strides[1];
  p->count = indices.numel();
  p->tasks = task_count(p->count, 16384 / (p->width + 1) + 1);
  b.tasks(p->tasks);  // also with rows of no width: indices are checked
  return PEN_OK;
}

static void embed(const Run& r) {
  const EmbeddingParams& p = r.as<EmbeddingParams>();
  int64_t size = dtype_size(r.out[0].dtype);
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.count, p.tasks, task);
    for (int64_t i = range.begin; i < range.end; ++i) {
      int64_t row = index_at(r.in[1], i);
      if (row < 0 || row >= p.rows) {
        r.fail_index(1, row, 0, p.rows);
        continue;
      }
      copy_run(r.out[0].data + i * p.width * size, r.in[0].data + row * p.row_stride * size, p.width, 1, p.column_stride, size);
    }
  }
}

PEN_KERNEL_ANY(embedding, b8) { embed(r); }
PEN_KERNEL_ANY(embedding, b16) { embed(r); }
PEN_KERNEL_ANY(embedding, b32) { embed(r); }
PEN_KERNEL_ANY(embedding, b64) { embed(r); }

}  // namespace pen
