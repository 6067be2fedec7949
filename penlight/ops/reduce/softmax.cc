// softmax, log_softmax: f32. Three passes over what one output depends on, which stays in cache: the maximum, the sum
// of exponentials, the result. Along the contiguous dim by rows; along any other, vectors of neighbouring columns.
// No special case for NaN and infinities: -inf - -inf, inf - inf and NaN all become NaN, and the sum spreads it.
#include "penlight/ops/reduce/reduce.h"
#include "penlight/runtime/simd/math.h"

namespace pen {

struct SoftmaxParams {
  ReduceDims kept;          // outermost first; without the contiguous dim if that is kept
  int64_t length, in, out;  // the dim, its strides
  bool columns;
  int64_t width, chunks;  // columns: the contiguous dim and the chunks it is cut into
  int64_t items, tasks;
};
constexpr int64_t kSoftmaxChunk = 64;

static PEN_SMALL Status softmax_shapes(Shapes& s) {
  const Tensor& x = s.in(0);
  if (x.dtype != DType::f32) return s.fail(0, "an f32 tensor", "dtype code %d", static_cast<int>(x.dtype));
  int64_t dim = s.integer("dim");
  if (dim < 0 || dim >= x.rank) return s.fail(-1, "a dim that the tensor has", "dim %lld of rank %d", static_cast<long long>(dim), x.rank);
  return s.output(0, DType::f32, shape_of(x));
}
PEN_SHAPE(softmax) { return softmax_shapes(s); }
PEN_SHAPE(log_softmax) { return softmax_shapes(s); }

static PEN_SMALL Status softmax_plan(Bind& b) {
  PEN_TRY(b.output(0));
  int rank = b.in(0).rank;
  int64_t dim = b.integer("dim");
  const Tensor& y = b.out(0);
  SoftmaxParams* p = b.params<SoftmaxParams>();
  if (!p) return PEN_ERROR_MEMORY;
  if (is_empty(y)) return PEN_OK;

  // The input must be contiguous in the same dim as the output.
  int inner = b.out_is_nhwc(0) ? 1 : rank - 1;
  PEN_TRY(b.need(0, b.out_is_nhwc(0) ? Need::channels : Need::rows));
  const Tensor& x = b.in(0);
  bool same = true;
  for (int i = 0; i < rank; ++i) same = same && (x.dims[i] == 1 || x.strides[i] == y.strides[i]);
  if (same) b.may_reuse(0, 0);

  p->length = x.dims[dim];
  p->in = x.strides[dim];
  p->out = y.strides[dim];
  p->columns = inner != dim && x.dims[dim] > 1;
  p->width = p->columns ? x.dims[inner] : 1;
  p->kept.numel = 1;
  int order[kMaxRank];
  int n = memory_order(y, order);
  for (int k = 0; k < n; ++k) {
    int i = order[k];
    if (i == dim || (p->columns && i == inner)) continue;
    reduce_push(&p->kept, x.dims[i], x.strides[i], y.strides[i]);
  }
  p->chunks = (p->width + kSoftmaxChunk - 1) / kSoftmaxChunk;
  p->items = p->kept.numel * p->chunks;
  p->tasks = task_count(p->items, 8192 / (p->length * (p->columns ? kSoftmaxChunk : 1)) + 1);
  b.tasks(p->tasks);
  return PEN_OK;
}

PEN_BIND(softmax) { return softmax_plan(b); }
PEN_BIND(log_softmax) { return softmax_plan(b); }

namespace PEN_ISA {

static PEN_INLINE float row_max(const float* x, int64_t n) {
  if (n < kLanes) {
    float m = x[0];
    for (int64_t i = 1; i < n; ++i) m = x[i] > m ? x[i] : m;
    return m;
  }
  V a = load(x + n - kLanes), c = a;  // the last vector overlaps: a maximum may see a value twice
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {  // as fast as memory: a gigabyte takes a tenth of a second, and nobody is asked
    a = max(load(x + i), a);
    c = max(load(x + i + kLanes), c);
  }
  for (; i + kLanes <= n; i += kLanes) a = max(load(x + i), a);
  return reduce_max(max(a, c));
}

template <bool kLog>
static PEN_INLINE void softmax_row(Patience& patience, const float* x, float* y, int64_t n) {
  V m = set1(row_max(x, n)), sum0 = zero(), sum1 = zero();
  int64_t i = n / (2 * kLanes) * (2 * kLanes);
  in_pieces(patience, i, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; k += 2 * kLanes) {
      V a = exp(load(x + k) - m), c = exp(load(x + k + kLanes) - m);
      sum0 = sum0 + a;
      sum1 = sum1 + c;
      if (!kLog) {
        store(y + k, a);
        store(y + k + kLanes, c);
      }
    }
  });
  float sum = 0;
  for (; i < n; i += kLanes) {
    int64_t lanes = n - i < kLanes ? n - i : kLanes;
    V a = exp(load_partial(x + i, lanes) - m);
    float part[kLanes];
    store(part, a);
    for (int64_t k = 0; k < lanes; ++k) sum += part[k];
    if (!kLog) store_partial(y + i, a, lanes);
  }
  sum += reduce_add(sum0 + sum1);
  V last = kLog ? log(set1(sum)) : set1(1.0f / sum);
  i = n / kLanes * kLanes;
  in_pieces(patience, i, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; k += kLanes) store(y + k, kLog ? load(x + k) - m - last : load(y + k) * last);
  });
  if (i < n) {
    V a = kLog ? load_partial(x + i, n - i) - m - last : load_partial(y + i, n - i) * last;
    store_partial(y + i, a, n - i);
  }
}

// One vector of columns (the first `lanes` of it), down the dim. A few columns may be a billion long: asked while there is
// arithmetic, as the rest is as fast as memory.
template <bool kLog, bool kPartial>
static PEN_INLINE void softmax_columns(Patience& patience, const float* x, float* y, const SoftmaxParams& p, int64_t lanes) {
  V m = kPartial ? load_partial(x, lanes) : load(x), sum = zero();
  for (int64_t i = 1; i < p.length; ++i) m = max(kPartial ? load_partial(x + i * p.in, lanes) : load(x + i * p.in), m);
  for (int64_t i = 0; i < p.length && !(kPartial && patience.ends(1)); ++i) {
    V a = exp((kPartial ? load_partial(x + i * p.in, lanes) : load(x + i * p.in)) - m);
    sum = sum + a;
    if (kLog) continue;
    if (kPartial) {
      store_partial(y + i * p.out, a, lanes);
    } else {
      store(y + i * p.out, a);
    }
  }
  V last = kLog ? log(sum) : set1(1.0f) / sum;
  for (int64_t i = 0; i < p.length; ++i) {
    const float* from = kLog ? x + i * p.in : y + i * p.out;
    V a = kPartial ? load_partial(from, lanes) : load(from);
    a = kLog ? a - m - last : a * last;
    if (kPartial) {
      store_partial(y + i * p.out, a, lanes);
    } else {
      store(y + i * p.out, a);
    }
  }
}

template <bool kLog>
static PEN_INLINE void softmax_items(const Run& r) {
  const SoftmaxParams& p = r.as<SoftmaxParams>();
  Patience patience(r);
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.items, p.tasks, task);
    for (int64_t item = range.begin; item < range.end; ++item) {
      int64_t out = 0;
      const float* x = r.in[0].as<float>() + reduce_offset(p.kept, item / p.chunks, &out);
      float* y = r.out[0].as<float>() + out;
      if (!p.columns) {
        softmax_row<kLog>(patience, x, y, p.length);
        continue;
      }
      int64_t at = item % p.chunks * kSoftmaxChunk;
      int64_t end = p.width - at < kSoftmaxChunk ? p.width : at + kSoftmaxChunk;
      for (; at + kLanes <= end; at += kLanes) softmax_columns<kLog, false>(patience, x + at, y + at, p, kLanes);
      if (at < end) softmax_columns<kLog, true>(patience, x + at, y + at, p, end - at);
    }
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(softmax, f32) { PEN_ISA::softmax_items<false>(r); }
PEN_KERNEL(log_softmax, f32) { PEN_ISA::softmax_items<true>(r); }

}  // namespace pen
