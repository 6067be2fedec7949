// argmax, argmin: f32, f64 and i64, any strides. Along a contiguous dim: the extreme value first (vectors), then its place.
// Along any other: 64 outputs side by side, one pass over the dim.
#include "penlight/ops/reduce/reduce.h"

namespace pen {

constexpr int64_t kArgChunk = 64;

struct ArgParams {
  ReduceDims kept;
  int64_t length, step;   // of the reduced dim
  int64_t width, chunks;  // the last kept dim, and into how many chunks it is cut
  int64_t items, tasks;
};

static PEN_SMALL Status arg_shapes(Shapes& s) {
  PEN_TRY(need_countable(s, 0));
  const Tensor& x = s.in(0);
  if (x.dtype != DType::f32 && x.dtype != DType::f64 && x.dtype != DType::i64)
    return s.fail(0, "an f32, f64 or i64 tensor", "dtype code %d", static_cast<int>(x.dtype));
  int64_t dim = s.integer("dim");
  if (dim < 0 || dim >= x.rank) return s.fail(-1, "a dim that the tensor has", "dim %lld of rank %d", static_cast<long long>(dim), x.rank);
  bool reduced[kMaxRank] = {};
  reduced[dim] = true;
  Shape shape = reduce_shape(x, reduced, s.flag("keepdim"));
  if (is_empty(x) && !is_empty(shape)) return s.fail(0, "at least one element to compare", "none");
  return s.output(0, DType::i64, shape);
}
PEN_SHAPE(argmax) { return arg_shapes(s); }
PEN_SHAPE(argmin) { return arg_shapes(s); }

static PEN_SMALL Status arg_bind(Bind& b) {
  PEN_TRY(b.need_plain(0));
  const Tensor& x = b.in(0);
  int64_t dim = b.integer("dim"), out[kMaxRank];
  bool reduced[kMaxRank] = {}, keepdim = b.flag("keepdim");
  reduced[dim] = true;
  PEN_TRY(b.output(0));
  ArgParams* p = b.params<ArgParams>();
  if (!p) return PEN_ERROR_MEMORY;
  if (is_empty(b.out(0))) return PEN_OK;
  reduce_out_strides(x, b.out(0), reduced, keepdim, out);
  p->length = x.dims[dim];
  p->step = x.strides[dim];
  p->kept.numel = 1;
  int order[kMaxRank];
  int n = memory_order(x, order);
  for (int k = 0; k < n; ++k) {
    int i = order[k];
    if (i != dim) reduce_push(&p->kept, x.dims[i], x.strides[i], out[i]);
  }
  bool rows = p->step == 1 || p->length == 1 || p->kept.rank == 0;
  p->width = rows ? 1 : p->kept.dims[p->kept.rank - 1];
  p->chunks = (p->width + kArgChunk - 1) / kArgChunk;
  p->items = p->kept.numel / p->width * p->chunks;
  p->tasks = task_count(p->items, 32768 / (p->length * (p->width < kArgChunk ? p->width : kArgChunk)) + 1);
  b.tasks(p->tasks);
  return PEN_OK;
}

PEN_BIND(argmax) { return arg_bind(b); }
PEN_BIND(argmin) { return arg_bind(b); }

namespace PEN_ISA {

static PEN_INLINE bool is_nan(float v) { return v != v; }
static PEN_INLINE bool is_nan(double v) { return v != v; }
static PEN_INLINE bool is_nan(int64_t) { return false; }

template <class Op>
static PEN_INLINE int64_t arg_row(const typename Op::T* x, int64_t n, int64_t step) {
  using T = typename Op::T;
  T best = Op::wide();
  if (step == 1) {
    best = reduce_run<Op>(x, n, best);
  } else {
    for (int64_t i = 0; i < n; ++i) best = Op::step(best, Op::one(x[i * step]));
  }
  bool nan = is_nan(best);
  for (int64_t i = 0; i < n; ++i) {
    if (nan ? is_nan(x[i * step]) : x[i * step] == best) return i;
  }
  return 0;
}

template <class Op, int kSign>
static PEN_INLINE void arg(const Run& r) {
  using T = typename Op::T;
  const ArgParams& p = r.as<ArgParams>();
  int last = p.kept.rank - 1;
  if (p.width == 1) {
    Range range = {part(p.items, p.tasks, r.begin).begin, part(p.items, p.tasks, r.end - 1).end};
    const T* x = r.in[0].as<T>();
    int64_t* y = r.out[0].as<int64_t>();
    return for_each_kept(p.kept, range.begin, range.end, [&](int64_t in, int64_t out) { y[out] = arg_row<Op>(x + in, p.length, p.step); });
  }
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.items, p.tasks, task);
    for (int64_t item = range.begin; item < range.end; ++item) {
      int64_t begin = item % p.chunks * kArgChunk, out_at = 0;
      int64_t first = item / p.chunks * p.width + begin;
      const T* x = r.in[0].as<T>() + reduce_offset(p.kept, first, &out_at);
      int64_t* out = r.out[0].as<int64_t>() + out_at;
      int64_t n = p.width - begin < kArgChunk ? p.width - begin : kArgChunk, step = p.kept.in[last];
      T best[kArgChunk];
      int64_t at[kArgChunk];
      for (int64_t j = 0; j < n; ++j) {
        best[j] = x[j * step];
        at[j] = 0;
      }
      for (int64_t i = 1; i < p.length; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          T v = x[i * p.step + j * step];
          bool better = kSign > 0 ? v > best[j] : v < best[j];
          if (better || (is_nan(v) && !is_nan(best[j]))) {
            best[j] = v;
            at[j] = i;
          }
        }
      }
      for (int64_t j = 0; j < n; ++j) out[j * p.kept.out[last]] = at[j];
    }
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(argmax, f32) { PEN_ISA::arg<PEN_ISA::ExtremeOf<PEN_ISA::FloatLanes, 1>, 1>(r); }
PEN_KERNEL_ANY(argmax, f64) { PEN_ISA::arg<PEN_ISA::ExtremeOf<PEN_ISA::DoubleLanes, 1>, 1>(r); }
PEN_KERNEL(argmax, i64) { PEN_ISA::arg<PEN_ISA::ExtremeOf<PEN_ISA::IntLanes, 1>, 1>(r); }
PEN_KERNEL(argmin, f32) { PEN_ISA::arg<PEN_ISA::ExtremeOf<PEN_ISA::FloatLanes, -1>, -1>(r); }
PEN_KERNEL_ANY(argmin, f64) { PEN_ISA::arg<PEN_ISA::ExtremeOf<PEN_ISA::DoubleLanes, -1>, -1>(r); }
PEN_KERNEL(argmin, i64) { PEN_ISA::arg<PEN_ISA::ExtremeOf<PEN_ISA::IntLanes, -1>, -1>(r); }

}  // namespace pen
