// layer_norm, rms_norm: f32 and f64, one contiguous row at a time, which stays in cache: mean (rms_norm: none), then the mean of
// squared distances from it (no cancellation), then the result. Rows may lie at any stride on both sides.
#include "penlight/ops/reduce/moments.h"
#include "penlight/ops/reduce/reduce.h"

namespace pen {

struct LayerNormParams {
  ReduceDims rows;
  int64_t length, tasks;
  double eps;
};

static PEN_SMALL Status norm_shapes(Shapes& s, int operands) {
  const Tensor& x = s.in(0);
  for (int i = 0; i < operands; ++i) {
    if (s.has(i) && (s.in(i).dtype != x.dtype || (x.dtype != DType::f32 && x.dtype != DType::f64)))
      return s.fail(i, "f32 or f64 tensors, all alike", "dtype code %d", static_cast<int>(s.in(i).dtype));
  }
  int64_t dims = s.integer("dims");
  if (dims < 1 || dims > x.rank) return s.fail(-1, "between 1 dim and all dims", "%lld of %d", static_cast<long long>(dims), x.rank);
  const int64_t* normalized = x.dims + x.rank - dims;
  for (int k = 1; k < operands; ++k) {
    if (!s.has(k)) continue;
    if (s.in(k).rank != dims) return s.fail(k, "the normalized dims", "rank %d, not %d", s.in(k).rank, static_cast<int>(dims));
    for (int i = 0; i < dims; ++i) {
      if (s.in(k).dims[i] != normalized[i])
        return s.fail(k, "the normalized dims", "%lld in dim %d, not %lld", static_cast<long long>(s.in(k).dims[i]), i,
                      static_cast<long long>(normalized[i]));
    }
  }
  return s.output(0, x.dtype, shape_of(x));
}
PEN_SHAPE(layer_norm) { return norm_shapes(s, 3); }
PEN_SHAPE(rms_norm) { return norm_shapes(s, 2); }

static PEN_SMALL Status norm_plan(Bind& b, int operands) {
  int64_t dims = b.integer("dims");
  int rank = b.in(0).rank, outer = rank - static_cast<int>(dims);
  for (int k = 1; k < operands; ++k) {
    if (b.has(k)) PEN_TRY(b.need(k, Need::dense));
  }
  PEN_TRY(b.output(0));
  LayerNormParams* p = b.params<LayerNormParams>();
  if (!p) return PEN_ERROR_MEMORY;
  if (is_empty(b.out(0))) return PEN_OK;
  PEN_TRY(b.need(0, dims == 1 ? Need::rows : Need::dense));
  PEN_TRY(b.need_out(0, dims == 1 ? Need::rows : Need::dense));
  const Tensor &x = b.in(0), &y = b.out(0);
  p->length = 1;
  for (int i = outer; i < rank; ++i) p->length *= x.dims[i];
  p->rows.numel = 1;
  for (int i = 0; i < outer; ++i) {
    if (x.dims[i] != 1) reduce_push(&p->rows, x.dims[i], x.strides[i], y.strides[i]);
  }
  p->eps = b.number("eps");
  p->tasks = task_count(p->rows.numel, 16384 / p->length + 1);
  b.tasks(p->tasks);
  return PEN_OK;
}

PEN_BIND(layer_norm) { return norm_plan(b, 3); }
PEN_BIND(rms_norm) { return norm_plan(b, 2); }

namespace PEN_ISA {

template <bool kScale, bool kBias>
static PEN_INLINE void normalize(const float* x, float* y, int64_t n, float mean, float factor, const float* w, const float* b) {
  V m = set1(mean), f = set1(factor);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    V v = (load(x + i) - m) * f;
    if (kScale && kBias) {
      v = fma(v, load(w + i), load(b + i));
    } else {
      if (kScale) v = v * load(w + i);
      if (kBias) v = v + load(b + i);
    }
    store(y + i, v);
  }
  for (; i < n; ++i) {
    float v = (x[i] - mean) * factor;
    if (kScale) v *= w[i];
    if (kBias) v += b[i];
    y[i] = v;
  }
}

template <bool kCentered>
static PEN_INLINE void norm_rows(const Run& r, const float* w, const float* b) {
  const LayerNormParams& p = r.as<LayerNormParams>();
  int64_t n = p.length;
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.rows.numel, p.tasks, task);
    for (int64_t row = range.begin; row < range.end; ++row) {
      int64_t out = 0;
      const float* x = r.in[0].as<float>() + reduce_offset(p.rows, row, &out);
      float* y = r.out[0].as<float>() + out;
      float mean = kCentered ? shifted_sum<false>(x, n, 0.0f) / static_cast<float>(n) : 0.0f;
      float variance = shifted_sum<true>(x, n, mean) / static_cast<float>(n);
      float factor = 1.0f / __builtin_sqrtf(variance + static_cast<float>(p.eps));
      if (w && b) {
        normalize<true, true>(x, y, n, mean, factor, w, b);
      } else if (w) {
        normalize<true, false>(x, y, n, mean, factor, w, b);
      } else if (b) {
        normalize<false, true>(x, y, n, mean, factor, w, b);
      } else {
        normalize<false, false>(x, y, n, mean, factor, w, b);
      }
    }
  }
}

// Doubles are rare: straight from the definition.
template <bool kCentered>
static PEN_INLINE void norm_doubles(const Run& r, const double* w, const double* b) {
  const LayerNormParams& p = r.as<LayerNormParams>();
  const double n = static_cast<double>(p.length);
  Range range = {part(p.rows.numel, p.tasks, r.begin).begin, part(p.rows.numel, p.tasks, r.end - 1).end};
  for (int64_t row = range.begin; row < range.end; ++row) {
    int64_t out = 0;
    const double* x = r.in[0].as<double>() + reduce_offset(p.rows, row, &out);
    double *y = r.out[0].as<double>() + out, mean = 0, squares = 0;
    for (int64_t i = 0; kCentered && i < p.length; ++i) mean += x[i];
    mean /= n;
    for (int64_t i = 0; i < p.length; ++i) squares += (x[i] - mean) * (x[i] - mean);
    double factor = 1 / __builtin_sqrt(squares / n + p.eps);
    for (int64_t i = 0; i < p.length; ++i) y[i] = (x[i] - mean) * factor * (w ? w[i] : 1) + (b ? b[i] : 0);
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(layer_norm, f32) { PEN_ISA::norm_rows<true>(r, r.in[1].as<float>(), r.in[2].as<float>()); }
PEN_KERNEL_ANY(layer_norm, f64) { PEN_ISA::norm_doubles<true>(r, r.in[1].as<double>(), r.in[2].as<double>()); }
PEN_KERNEL_ANY(rms_norm, f64) { PEN_ISA::norm_doubles<false>(r, r.in[1].as<double>(), nullptr); }
PEN_KERNEL(rms_norm, f32) { PEN_ISA::norm_rows<false>(r, r.in[1].as<float>(), nullptr); }

}  // namespace pen
