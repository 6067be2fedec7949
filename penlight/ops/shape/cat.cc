// cat: every input is copied into its slice of the output, whatever strides either has. An input that the planner has
// placed there already (its producer wrote into the slice) is recognised by its address, and costs nothing.
#include "penlight/ops/shape/runs.h"

namespace pen {

struct CatInput {
  Runs runs;
  int64_t offset;  // of its slice in the output, in elements
  int64_t numel, first_task, tasks;
};

PEN_SHAPE(cat) {
  int count = s.input_count();
  if (count < 1) return s.fail(-1, "one tensor or more", "none");
  Shape shape = shape_of(s.in(0));
  int64_t dim = from_end(s.integer("dim"), shape.rank);
  if (dim < 0 || dim >= shape.rank)
    return s.fail(-1, "a dim that the tensors have", "dim %lld of rank %d", static_cast<long long>(s.integer("dim")), shape.rank);
  for (int k = 1; k < count; ++k) {
    const Tensor& x = s.in(k);
    if (x.rank != shape.rank) return s.fail(k, "the rank of the first tensor", "rank %d, not %d", x.rank, shape.rank);
    if (x.dtype != s.in(0).dtype)
      return s.fail(k, "the dtype of the first tensor", "dtype code %d, not %d", static_cast<int>(x.dtype),
                    static_cast<int>(s.in(0).dtype));
    for (int i = 0; i < shape.rank; ++i) {
      if (i == dim) {
        if (__builtin_add_overflow(shape.dims[i], x.dims[i], &shape.dims[i])) return s.fail(k, "a size that fits", "overflow");
      } else if (x.dims[i] != shape.dims[i]) {
        return s.fail(k, "the sizes of the first tensor in all dims but one", "%lld in dim %d, not %lld", static_cast<long long>(x.dims[i]),
                      i, static_cast<long long>(shape.dims[i]));
      }
    }
  }
  return s.output(0, s.in(0).dtype, shape);
}

PEN_BIND(cat) {
  int count = b.input_count();
  for (int k = 0; k < count; ++k) PEN_TRY(b.need_plain(k));
  PEN_TRY(b.output(0));
  auto* inputs = static_cast<CatInput*>(b.params_bytes(sizeof(CatInput) * static_cast<size_t>(count)));
  if (!inputs) return PEN_ERROR_MEMORY;
  const Tensor& y = b.out(0);
  int64_t tasks = 0, at = 0, dim = from_end(b.integer("dim"), y.rank);
  for (int k = 0; k < count; ++k) {
    const Tensor& x = b.in(k);
    CatInput& c = inputs[k];
    c.first_task = tasks;
    if (is_empty(x)) continue;
    c.runs = make_runs(x, x, y);
    c.offset = at * y.strides[dim];
    c.numel = x.numel();
    b.may_place(k, 0, c.offset);
    c.tasks = task_count(c.numel * dtype_size(x.dtype), 1 << 16);
    tasks += c.tasks;
    at += x.dims[dim];
  }
  b.tasks(tasks);
  return PEN_OK;
}

static void cat_inputs(const Run& r) {
  const CatInput* inputs = static_cast<const CatInput*>(r.params);
  int64_t size = dtype_size(r.out[0].dtype);
  int k = 0;
  for (int64_t task = r.begin; task < r.end; ++task) {
    while (task >= inputs[k].first_task + inputs[k].tasks) ++k;
    const CatInput& c = inputs[k];
    char* to = r.out[0].data + c.offset * size;
    if (to == r.in[k].data) continue;
    Range range = part(c.numel, c.tasks, task - c.first_task);
    copy_range(c.runs, to, r.in[k].data, size, range.begin, range.end);
  }
}

PEN_KERNEL_ANY(cat, b8) { cat_inputs(r); }
PEN_KERNEL_ANY(cat, b16) { cat_inputs(r); }
PEN_KERNEL_ANY(cat, b32) { cat_inputs(r); }
PEN_KERNEL_ANY(cat, b64) { cat_inputs(r); }

}  // namespace pen
