// index_select: for each index, a slice of x along `dim`, whatever strides either side has. Each index is checked in
// each run. One task is a range of indices (and, where these are few, a part of each slice).
#include "penlight/ops/index/indices.h"

namespace pen {

struct IndexSelectParams {
  Runs slice;                           // one slice: all dims but `dim`
  int64_t slice_numel, parts;           // parts into which each slice is cut
  int64_t size, in_stride, out_stride;  // of `dim`
  int64_t count, tasks;
};

PEN_BIND(index_select) {
  PEN_TRY(need_unpacked(b, 0));
  PEN_TRY(indices_bind(b, 1));
  const Tensor &x = b.in(0), &index = b.in(1);
  int64_t dim = b.integer("dim");
  if (dim < 0 || dim >= x.rank) return b.fail(-1, "a dim that the tensor has", "dim %lld of rank %d", static_cast<long long>(dim), x.rank);
  if (index.rank != 1) return b.fail(1, "indices of rank 1", "rank %d", index.rank);
  Shape shape;
  shape.rank = x.rank;
  for (int i = 0; i < x.rank; ++i) shape.dims[i] = i == dim ? index.dims[0] : x.dims[i];
  PEN_TRY(b.output(0, x.dtype, shape));
  IndexSelectParams* p = b.params<IndexSelectParams>();
  if (!p) return PEN_ERROR_MEMORY;
  const Tensor& y = b.out(0);
  if (index.dims[0] == 0) return PEN_OK;
  Tensor one = x;
  one.dims[dim] = 1;
  p->slice_numel = 0;  // an empty slice: indices are still checked
  if (!is_empty(one)) {
    p->slice = make_runs(one, x, y);
    p->slice_numel = one.numel();
  }
  p->size = x.dims[dim];
  p->in_stride = x.strides[dim];
  p->out_stride = y.strides[dim];
  p->count = index.dims[0];
  p->parts = p->count < 16 ? task_count(p->slice_numel, 16384) : 1;
  p->tasks = task_count(p->count * p->parts, 16384 / (p->slice_numel / p->parts + 1) + 1);
  b.tasks(p->tasks);
  return PEN_OK;
}

static void select_slices(const Run& r) {
  const IndexSelectParams& p = r.as<IndexSelectParams>();
  int64_t size = dtype_size(r.out[0].dtype);
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.count * p.parts, p.tasks, task);
    for (int64_t i = range.begin; i < range.end; ++i) {
      int64_t at = i / p.parts, index = index_at(r.in[1], at);
      if (index < 0 || index >= p.size) {
        r.fail_index(1, index, 0, p.size);
        continue;
      }
      Range elements = part(p.slice_numel, p.parts, i % p.parts);
      copy_range(p.slice, r.out[0].data + at * p.out_stride * size, r.in[0].data + index * p.in_stride * size, size, elements.begin,
                 elements.end);
    }
  }
}

PEN_KERNEL_ANY(index_select, b8) { select_slices(r); }
PEN_KERNEL_ANY(index_select, b16) { select_slices(r); }
PEN_KERNEL_ANY(index_select, b32) { select_slices(r); }
PEN_KERNEL_ANY(index_select, b64) { select_slices(r); }

}  // namespace pen
