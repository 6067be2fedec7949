// repeat: the tensor several times along its dims. A row of the innermost repeated dim is fetched once; the output then
// doubles itself.
#include "penlight/ops/shape/runs.h"

namespace pen {

// Like Runs, with room for two of every dim: its repeats and itself.
struct Repeats {
  int rank;
  int64_t dims[2 * kMaxRank], in[2 * kMaxRank], out[2 * kMaxRank];
};

struct RepeatParams {
  Repeats outer;  // everything outside of the row: from x to the first of its rows
  Runs row;       // one time
  int64_t row_numel, times, units, tasks;
};

template <class R>
static void add_dim(R* r, int64_t size, int64_t in, int64_t out) {
  int64_t* const steps[2] = {r->in, r->out};
  const int64_t inner[2] = {in, out};
  if (size != 1) r->rank = add_inner_dim(r->rank, r->dims, steps, 2, size, inner);
}

// A run of one where there is no dim.
template <class R>
static void close_runs(R* r) {
  if (r->rank > 0) return;
  r->rank = 1;
  r->dims[0] = r->in[0] = r->out[0] = 1;
}

PEN_SHAPE(repeat) {
  const Tensor& x = s.in(0);
  IntList repeats = s.ints("repeats");
  if (repeats.count != x.rank) return s.fail(0, "a number of repeats for each dim", "rank %d, %d repeats", x.rank, repeats.count);
  Shape shape;
  shape.rank = x.rank;
  for (int d = 0; d < x.rank; ++d) {
    if (repeats[d] < 0 || __builtin_mul_overflow(x.dims[d], repeats[d], &shape.dims[d]))
      return s.fail(-1, "repeats of 0 or more", "%lld", static_cast<long long>(repeats[d]));
  }
  return s.output(0, x.dtype, shape);
}

PEN_BIND(repeat) {
  PEN_TRY(b.need_plain(0));
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  const Tensor &x = b.in(0), &y = b.out(0);
  IntList repeats = b.ints("repeats");
  if (is_empty(y)) return PEN_OK;
  RepeatParams* p = b.params<RepeatParams>();
  int split = 0;  // the innermost dim that is repeated: it and what is inside are the row
  for (int d = 0; d < x.rank; ++d) {
    if (repeats[d] != 1) split = d;
  }
  p->times = p->row_numel = 1;
  for (int d = 0; d < x.rank; ++d) {
    if (d < split) {
      add_dim(&p->outer, repeats[d], 0, x.dims[d] * y.strides[d]);
      add_dim(&p->outer, x.dims[d], x.strides[d], y.strides[d]);
    } else {
      if (d == split) p->times = repeats[d];
      p->row_numel *= x.dims[d];
      add_dim(&p->row, x.dims[d], x.strides[d], y.strides[d]);
    }
  }
  close_runs(&p->outer);
  close_runs(&p->row);
  p->units = 1;
  for (int d = 0; d < p->outer.rank; ++d) p->units *= p->outer.dims[d];
  p->tasks = task_count(p->units, (1 << 16) / (p->row_numel * p->times * dtype_size(x.dtype)) + 1);
  b.tasks(p->tasks);
  return PEN_OK;
}

static void repeat_rows(const Run& r) {
  const RepeatParams& p = r.as<RepeatParams>();
  int64_t size = dtype_size(r.out[0].dtype), bytes = p.row_numel * size, whole = bytes * p.times;
  for (int64_t unit = part(p.units, p.tasks, r.begin).begin, end = part(p.units, p.tasks, r.end - 1).end; unit < end; ++unit) {
    int64_t rest = unit, in = 0, out = 0;
    for (int d = p.outer.rank - 1; d >= 0; --d) {
      in += rest % p.outer.dims[d] * p.outer.in[d];
      out += rest % p.outer.dims[d] * p.outer.out[d];
      rest /= p.outer.dims[d];
    }
    char* to = r.out[0].data + out * size;
    copy_range(p.row, to, r.in[0].data + in * size, size, 0, p.row_numel);
    for (int64_t done = bytes; done < whole;) {
      int64_t n = done < whole - done ? done : whole - done;
      memcpy(to + done, to, static_cast<size_t>(n));
      done += n;
    }
  }
}

PEN_KERNEL_ANY(repeat, b8) { repeat_rows(r); }
PEN_KERNEL_ANY(repeat, b16) { repeat_rows(r); }
PEN_KERNEL_ANY(repeat, b32) { repeat_rows(r); }
PEN_KERNEL_ANY(repeat, b64) { repeat_rows(r); }

}  // namespace pen
