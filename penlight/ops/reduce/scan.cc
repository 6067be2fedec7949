// scan: sums, products and log-sum-exps of all elements so far along a dim; scan_extreme: the largest or smallest so far,
// and where it lies. Any strides. A contiguous dim goes one by one, in f64 for floats, as in torch; along any other dim,
// 64 rows of the scan go side by side.
#include "penlight/ops/reduce/reduce.h"

namespace pen {

constexpr int64_t kScanChunk = 64;

struct ScanParams {
  ReduceDims kept;        // all dims but the scanned one
  int64_t length, step;   // of the scanned dim in x
  int64_t out_step;       // in the output
  int64_t width, chunks;  // the last kept dim, and into how many chunks it is cut
  int64_t items, tasks;
  int mode;
};

// 0 to 2; 3: there is no such mode.
static PEN_SMALL int scan_mode(const Given& g) {
  static constexpr const char* kModes[] = {"sum", "prod", "logsumexp"};
  int mode = 0;
  while (mode < 3 && strcmp(g.text("mode"), kModes[mode]) != 0) ++mode;
  return mode;
}

static PEN_SMALL Status scan_shapes(Shapes& s, bool with_indices) {
  PEN_TRY(need_countable(s, 0));
  const Tensor& x = s.in(0);
  int64_t dim = s.integer("dim");
  if (dim < 0 || dim >= x.rank) return s.fail(-1, "a dim that the tensor has", "dim %lld of rank %d", static_cast<long long>(dim), x.rank);
  PEN_TRY(s.output(0, x.dtype, shape_of(x)));
  return with_indices ? s.output(1, DType::i64, shape_of(x)) : PEN_OK;
}

PEN_SHAPE(scan) {
  if (scan_mode(s) == 3) return s.fail(-1, "mode sum, prod or logsumexp", "%s", s.text("mode"));
  return scan_shapes(s, false);
}
PEN_SHAPE(scan_extreme) { return scan_shapes(s, true); }

static PEN_SMALL Status scan_bind(Bind& b, int mode, bool with_indices) {
  PEN_TRY(b.need_plain(0));
  const Tensor& x = b.in(0);
  int64_t dim = b.integer("dim");
  PEN_TRY(b.output(0));
  if (with_indices) PEN_TRY(b.output(1));
  ScanParams* p = b.params<ScanParams>();
  if (is_empty(x)) return PEN_OK;
  const Tensor& y = b.out(0);
  for (int i = 0; with_indices && i < x.rank; ++i) {
    if (x.dims[i] > 1 && y.strides[i] != b.out(1).strides[i])
      return b.fail(-1, "two outputs that lie alike", "another stride in dim %d", i);
  }
  p->mode = mode;
  p->length = x.dims[dim];
  p->step = x.strides[dim];
  p->out_step = y.strides[dim];
  p->kept.numel = 1;
  int order[kMaxRank];
  int n = memory_order(x, order);
  for (int k = 0; k < n; ++k) {
    int i = order[k];
    if (i != dim) reduce_push(&p->kept, x.dims[i], x.strides[i], y.strides[i]);
  }
  bool rows = p->step == 1 || p->length == 1 || p->kept.rank == 0;
  p->width = rows ? 1 : p->kept.dims[p->kept.rank - 1];
  p->chunks = (p->width + kScanChunk - 1) / kScanChunk;
  p->items = p->kept.numel / p->width * p->chunks;
  p->tasks = task_count(p->items, 16384 / (p->length * (p->width < kScanChunk ? p->width : kScanChunk)) + 1);
  b.tasks(p->tasks);
  return PEN_OK;
}

PEN_BIND(scan) { return scan_bind(b, scan_mode(b), false); }
PEN_BIND(scan_extreme) { return scan_bind(b, b.flag("largest"), true); }

namespace PEN_ISA {

struct RunningSum {
  template <class T>
  static PEN_INLINE double step(double a, T v) {
    return a + static_cast<double>(v);
  }
  static PEN_INLINE int64_t step(int64_t a, int64_t v) { return plus(a, v); }
};
struct RunningProduct {
  template <class T>
  static PEN_INLINE double step(double a, T v) {
    return a * static_cast<double>(v);
  }
  static PEN_INLINE int64_t step(int64_t a, int64_t v) { return times(a, v); }
};
struct RunningLogSumExp {
  template <class T>
  static PEN_INLINE double step(double a, T v) {
    double b = static_cast<double>(v);
    if (a != a || b != b) return a + b;
    double most = a > b ? a : b, least = a > b ? b : a;
    if (most == least && most - most != 0) return most;  // both inf, or both -inf
    if constexpr (sizeof(T) == 8) return most + log1p(exp(least - most));
    return most + static_cast<double>(log1pf(expf(static_cast<float>(least - most))));
  }
  static PEN_INLINE int64_t step(int64_t a, int64_t) { return a; }
};

// Calls row(x, out index) for every row of the scan, or chunk(x, out index, how many) for rows side by side.
template <class T, class Row, class Chunk>
static PEN_INLINE void for_each_row(const Run& r, const Row& row, const Chunk& chunk) {
  const ScanParams& p = r.as<ScanParams>();
  Range range = {part(p.items, p.tasks, r.begin).begin, part(p.items, p.tasks, r.end - 1).end};
  const T* x = r.in[0].as<T>();
  if (p.width == 1) return for_each_kept(p.kept, range.begin, range.end, [&](int64_t in, int64_t out) { row(x + in, out); });
  for (int64_t item = range.begin; item < range.end; ++item) {
    int64_t begin = item % p.chunks * kScanChunk, out = 0;
    int64_t in = reduce_offset(p.kept, item / p.chunks * p.width + begin, &out);
    chunk(x + in, out, p.width - begin < kScanChunk ? p.width - begin : kScanChunk);
  }
}

template <class T, class Wide, class Rule>
static PEN_INLINE void scan(const Run& r, Wide start) {
  const ScanParams& p = r.as<ScanParams>();
  int last = p.kept.rank - 1;
  T* y = r.out[0].as<T>();
  Patience patience(r);
  for_each_row<T>(
      r,
      [&](const T* x, int64_t out) {
        Wide a = start;
        int64_t n = p.length, step = p.step, out_step = p.out_step;
        T* to = y + out;
        in_pieces(patience, n, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            a = Rule::step(a, x[i * step]);
            to[i * out_step] = static_cast<T>(a);
          }
        });
      },
      [&](const T* x, int64_t out, int64_t n) {
        Wide a[kScanChunk];
        int64_t length = p.length, down = p.step, out_down = p.out_step, step = p.kept.in[last], out_step = p.kept.out[last];
        T* to = y + out;
        for (int64_t j = 0; j < n; ++j) a[j] = start;
        for (int64_t i = 0; i < length && !patience.ends(n); ++i) {
          for (int64_t j = 0; j < n; ++j) {
            a[j] = Rule::step(a[j], x[i * down + j * step]);
            to[i * out_down + j * out_step] = static_cast<T>(a[j]);
          }
        }
      });
}

// Equal ones move the index on; NaN wins, and a later NaN moves it on too: as torch has it.
template <class T, bool kLargest>
static PEN_INLINE void scan_extreme(const Run& r) {
  const ScanParams& p = r.as<ScanParams>();
  int last = p.kept.rank - 1;
  T* y = r.out[0].as<T>();
  int64_t* at = r.out[1].as<int64_t>();
  Patience patience(r);
  auto takes = [](T v, T best) { return v != v || (best == best && (kLargest ? v >= best : v <= best)); };
  for_each_row<T>(
      r,
      [&](const T* x, int64_t out) {
        T best = x[0];
        int64_t where = 0, n = p.length, step = p.step, out_step = p.out_step;
        T* to = y + out;
        int64_t* to_at = at + out;
        in_pieces(patience, n, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            T v = x[i * step];
            if (takes(v, best)) {
              best = v;
              where = i;
            }
            to[i * out_step] = best;
            to_at[i * out_step] = where;
          }
        });
      },
      [&](const T* x, int64_t out, int64_t n) {
        T best[kScanChunk];
        int64_t where[kScanChunk];
        int64_t step = p.kept.in[last], out_step = p.kept.out[last];
        for (int64_t j = 0; j < n; ++j) {
          best[j] = x[j * step];
          where[j] = 0;
        }
        for (int64_t i = 0; i < p.length && !patience.ends(n); ++i) {
          for (int64_t j = 0; j < n; ++j) {
            T v = x[i * p.step + j * step];
            bool take = takes(v, best[j]);
            best[j] = take ? v : best[j];
            where[j] = take ? i : where[j];
            y[out + i * p.out_step + j * out_step] = best[j];
            at[out + i * p.out_step + j * out_step] = where[j];
          }
        }
      });
}

template <class T>
static PEN_INLINE void scan_floats(const Run& r) {
  int mode = r.as<ScanParams>().mode;
  if (mode == 0) {
    scan<T, double, RunningSum>(r, 0);
  } else if (mode == 1) {
    scan<T, double, RunningProduct>(r, 1);
  } else {
    scan<T, double, RunningLogSumExp>(r, -__builtin_inf());
  }
}

}  // namespace PEN_ISA

PEN_KERNEL_ANY(scan, f32) { PEN_ISA::scan_floats<float>(r); }
PEN_KERNEL_ANY(scan, f64) { PEN_ISA::scan_floats<double>(r); }
PEN_KERNEL_ANY(scan, i64) {
  using namespace PEN_ISA;
  if (r.as<ScanParams>().mode == 0) {
    PEN_ISA::scan<int64_t, int64_t, RunningSum>(r, 0);
  } else {
    PEN_ISA::scan<int64_t, int64_t, RunningProduct>(r, 1);
  }
}
PEN_KERNEL_ANY(scan_extreme, f32) {
  r.as<ScanParams>().mode ? PEN_ISA::scan_extreme<float, true>(r) : PEN_ISA::scan_extreme<float, false>(r);
}
PEN_KERNEL_ANY(scan_extreme, f64) {
  r.as<ScanParams>().mode ? PEN_ISA::scan_extreme<double, true>(r) : PEN_ISA::scan_extreme<double, false>(r);
}
PEN_KERNEL_ANY(scan_extreme, i64) {
  r.as<ScanParams>().mode ? PEN_ISA::scan_extreme<int64_t, true>(r) : PEN_ISA::scan_extreme<int64_t, false>(r);
}

}  // namespace pen
