// var_mean: the variance over dims, and the mean that it is taken around; f32, cut as reduce.h cuts a sum. A block of
// values is read twice while it lies in the cache: its mean, then the squares of the distances to that; blocks are put
// together by their means and counts (Chan et al.), so a mean far from zero costs no digits.
#include "penlight/ops/reduce/reduce.h"

namespace pen {

struct VarMeanParams {
  ReduceParams reduce;
  double correction;
};

// What a part knows of one output. The mean is `base` + `mean`: a float near it, and the rest.
struct Moments {
  float base, mean, squares;
};

PEN_SHAPE(var_mean) {
  PEN_TRY(need_countable(s, 0));
  bool reduced[kMaxRank] = {};
  PEN_TRY(mark_dims(s, reduced));
  Shape shape = reduce_shape(s.in(0), reduced, s.flag("keepdim"));
  PEN_TRY(s.output(0, DType::f32, shape));
  return s.output(1, DType::f32, shape);
}

PEN_BIND(var_mean) {
  PEN_TRY(b.need_plain(0));
  const Tensor& x = b.in(0);
  bool reduced[kMaxRank] = {}, keepdim = b.flag("keepdim");
  PEN_TRY(mark_dims(b, reduced));
  PEN_TRY(b.output(0));
  PEN_TRY(b.output(1));
  VarMeanParams* p = b.params<VarMeanParams>();
  p->correction = b.number("correction");
  if (is_empty(b.out(0))) return PEN_OK;
  int64_t out[kMaxRank], other[kMaxRank];
  reduce_out_strides(x, b.out(0), reduced, keepdim, out);
  reduce_out_strides(x, b.out(1), reduced, keepdim, other);
  for (int i = 0; i < x.rank; ++i) {
    if (x.dims[i] > 1 && out[i] != other[i]) return b.fail(-1, "two outputs that lie alike", "another stride in dim %d", i);
  }
  return reduce_plan(b, reduced, out, sizeof(Moments), &p->reduce);
}

namespace PEN_ISA {

// Two sets of values as one, in f64.
struct Together {
  double count = 0, mean = 0, squares = 0;
  PEN_INLINE void add(double n, double m, double s) {
    double all = count + n, apart = m - mean;
    squares += s + apart * apart * (count * n / all);
    mean += apart * (n / all);
    count = all;
  }
};

// n <= kReduceBlock values.
static PEN_INLINE void add_run(Together* t, const float* x, int64_t n) {
  double mean = reduce_run<SumOf<FloatLanes>>(x, n, 0) / static_cast<double>(n);
  float around = static_cast<float>(mean);
  V sum = zero(), squares = zero(), sum2 = zero(), squares2 = zero(), middle = set1(around);
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    V a = load(x + i) - middle, b = load(x + i + kLanes) - middle;
    sum = sum + a;
    sum2 = sum2 + b;
    squares = fma(a, a, squares);
    squares2 = fma(b, b, squares2);
  }
  double s = static_cast<double>(reduce_add(sum + sum2)), q = static_cast<double>(reduce_add(squares + squares2));
  for (; i < n; ++i) {
    double d = static_cast<double>(x[i]) - static_cast<double>(around);
    s += d;
    q += d * d;
  }
  double count = static_cast<double>(n);
  t->add(count, static_cast<double>(around) + s / count, q - s * s / count);
}

// One vector of columns over reduced rows [begin, end), 64 rows to a block.
template <bool kPartial>
static PEN_INLINE void column_moments(const ReduceDims& d, const float* x, int64_t begin, int64_t end, int64_t lanes, Moments* result) {
  V base = zero(), mean = zero(), squares = zero();
  double count = 0;
  int last = d.rank - 1;
  while (begin < end) {
    int64_t unused = 0, n = 1, step = 0;
    const float* p = x + reduce_offset(d, begin, &unused);
    if (last >= 0) {
      step = d.in[last];
      n = d.dims[last] - begin % d.dims[last];
    }
    if (n > end - begin) n = end - begin;
    if (n > 64) n = 64;
    V sum = zero(), part = zero(), q = zero(), one_nth = set1(1.0f / static_cast<float>(n));
    for (int64_t k = 0; k < n; ++k) sum = sum + (kPartial ? load_partial(p + k * step, lanes) : load(p + k * step));
    V around = sum * one_nth;
    if (count == 0) base = around;
    sum = zero();
    for (int64_t k = 0; k < n; ++k) {
      V a = (kPartial ? load_partial(p + k * step, lanes) : load(p + k * step)) - around;
      sum = sum + a;
      q = fma(a, a, q);
    }
    part = (around - base) + sum * one_nth;
    q = q - sum * sum * one_nth;
    double nth = static_cast<double>(n), all = count + nth;
    V apart = part - mean;
    squares = squares + fma(apart * apart, set1(static_cast<float>(count * nth / all)), q);
    mean = fma(apart, set1(static_cast<float>(nth / all)), mean);
    count = all;
    begin += n;
  }
  float values[3][kLanes];
  store(values[0], base);
  store(values[1], mean);
  store(values[2], squares);
  for (int i = 0; i < (kPartial ? static_cast<int>(lanes) : kLanes); ++i) result[i] = {values[0][i], values[1][i], values[2][i]};
}

// One part of an item; how many outputs it has.
static PEN_INLINE int64_t item_moments(const ReduceParams& p, const float* x, int64_t item, int64_t part_index, Moments* result) {
  int64_t unused = 0;
  Range units = part(p.units, p.parts, part_index);
  x += reduce_offset(p.kept, item / p.chunks, &unused);
  if (!p.columns) {
    Together t;
    for (int64_t u = units.begin; u < units.end; ++u) {
      int64_t at = u % p.blocks * kReduceBlock, n = p.inner - at < kReduceBlock ? p.inner - at : kReduceBlock;
      const float* run = x + reduce_offset(p.reduced, u / p.blocks, &unused) + at;
      constexpr int64_t kPiece = 256 * kLanes;  // a lane adds up so many digits only
      for (int64_t i = 0; i < n; i += kPiece) add_run(&t, run + i, n - i < kPiece ? n - i : kPiece);
    }
    float base = static_cast<float>(t.mean);
    *result = {base, static_cast<float>(t.mean - static_cast<double>(base)), static_cast<float>(t.squares)};
    return 1;
  }
  int64_t at = item % p.chunks * kReduceChunk, i = 0;
  int64_t n = p.inner - at < kReduceChunk ? p.inner - at : kReduceChunk;
  x += at;
  for (; i + kLanes <= n; i += kLanes) column_moments<false>(p.reduced, x + i, units.begin, units.end, 0, result + i);
  if (i < n) column_moments<true>(p.reduced, x + i, units.begin, units.end, n - i, result + i);
  return n;
}

// How many of the elements reduced into one output fall into a part.
static PEN_INLINE double part_size(const ReduceParams& p, int64_t index) {
  Range units = part(p.units, p.parts, index);
  if (p.columns) return static_cast<double>(units.end - units.begin);
  int64_t n = 0;
  for (int64_t u = units.begin; u < units.end; ++u) {
    int64_t rest = p.inner - u % p.blocks * kReduceBlock;
    n += rest < kReduceBlock ? rest : kReduceBlock;
  }
  return static_cast<double>(n);
}

}  // namespace PEN_ISA

PEN_KERNEL(var_mean, f32) {
  using namespace PEN_ISA;
  const VarMeanParams& params = r.as<VarMeanParams>();
  const ReduceParams& p = params.reduce;
  const float* x = r.in[0].as<float>();
  Moments* shared = reinterpret_cast<Moments*>(r.shared);
  int64_t width = p.columns ? kReduceChunk : 1;
  Moments buffer[kReduceChunk];
  double degrees = static_cast<double>(p.count) - params.correction;
  if (degrees < 0) degrees = 0;
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = r.phase == 0 ? part(p.items * p.parts, p.tasks, task) : part(p.items, p.final_tasks, task);
    for (int64_t i = range.begin; i < range.end; ++i) {
      const ReducePiece piece = reduce_piece(p, r.phase, i);
      int64_t item = piece.item, n = 0;
      if (r.phase == 0) {
        n = item_moments(p, x, item, piece.part, buffer);
        if (p.parts > 1) {
          for (int64_t j = 0; j < n; ++j) shared[piece.slot * width + j] = buffer[j];
          continue;
        }
      } else {
        int64_t at = item % p.chunks * kReduceChunk;
        n = p.columns ? (p.inner - at < kReduceChunk ? p.inner - at : kReduceChunk) : 1;
        Together all[kReduceChunk];
        for (int64_t k = 0; k < p.parts; ++k) {
          double size = part_size(p, k);
          for (int64_t j = 0; j < n; ++j) {
            const Moments& m = shared[(piece.slot + k) * width + j];
            all[j].add(size, static_cast<double>(m.base) + static_cast<double>(m.mean), static_cast<double>(m.squares));
          }
        }
        for (int64_t j = 0; j < n; ++j) {
          float base = static_cast<float>(all[j].mean);
          buffer[j] = {base, static_cast<float>(all[j].mean - static_cast<double>(base)), static_cast<float>(all[j].squares)};
        }
      }
      int64_t out = 0;
      reduce_offset(p.kept, item / p.chunks, &out);
      out += item % p.chunks * kReduceChunk * p.inner_out;
      for (int64_t j = 0; j < n; ++j) {
        float none = p.count == 0 ? __builtin_nanf("") : 0.0f;
        r.out[0].as<float>()[out + j * p.inner_out] = static_cast<float>(static_cast<double>(buffer[j].squares) / degrees);
        r.out[1].as<float>()[out + j * p.inner_out] = buffer[j].base + buffer[j].mean + none;
      }
    }
  }
}

}  // namespace pen
