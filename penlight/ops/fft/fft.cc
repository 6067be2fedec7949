// fft, rfft, irfft: transforms of all lines along one dim, split into real and imaginary parts.
//
// A task takes up to 16 lines at once: they are turned so that the same element of each lies in one row ([n][lines]), and
// every step is plain arithmetic on rows, whatever the length is made of. With fewer lines the rows of later passes are
// long all the same. Real lines of even length are transformed as complex ones of half the length. Tails are partial vectors;
// sums of a butterfly have a fixed order.
#include "penlight/ops/fft/fft.h"

#include "penlight/ops/shape/runs.h"
#include "penlight/runtime/simd/transpose.h"

namespace pen {

enum class FftKind { complex, from_real, to_real };

struct FftParams {
  int64_t length, rows;  // of the lines transformed; rows of each buffer
  bool is_half, inverse;
  float scale;
  int64_t lines, tasks, batch;
  int64_t available;  // elements of an input line that count
  int64_t results;    // elements of an output line
  int64_t in_step, out_step;
  int others;  // dims besides the one that is transformed
  int64_t dims[kMaxRank], in_strides[kMaxRank], im_strides[kMaxRank], out_strides[kMaxRank];
  int64_t im_step;
  int64_t turns;  // is_half: length / 2 + 1 pairs e ** (-2 pi i k / length)
  FftPlan plan;
};

static const float* tables_of(const FftParams& p) { return reinterpret_cast<const float*>(&p + 1); }

// Inputs: (re, im, window), (x, window) or (re, im); -1 where there is none.
static PEN_SMALL int imaginary_at(FftKind kind) { return kind == FftKind::from_real ? -1 : 1; }
static PEN_SMALL int window_at(FftKind kind) { return kind == FftKind::complex ? 2 : kind == FftKind::from_real ? 1 : -1; }
// 0: lines are not cut into frames.
static PEN_SMALL int64_t hop_of(const Given& g, FftKind kind) {
  int64_t hop = kind == FftKind::to_real ? 0 : g.integer("hop");
  return hop > 0 ? hop : 0;
}

static PEN_SMALL Status shape_lines(Shapes& s, FftKind kind) {
  const int im_at = imaginary_at(kind), w_at = window_at(kind);
  const Tensor& x = s.in(0);
  if (x.dtype != DType::f32) return s.fail(0, "f32", "%s", kDTypeNames[static_cast<int>(x.dtype)]);
  if (x.rank < 1) return s.fail(0, "rank 1 at least", "rank 0");
  int64_t n = s.integer("n"), dim = s.integer("dim"), hop = hop_of(s, kind);
  if (dim < 0 || dim >= x.rank) return s.fail(-1, "a dim of the input", "dim %lld of rank %d", static_cast<long long>(dim), x.rank);
  if (n < 1 || n > (int64_t{1} << 30)) return s.fail(-1, "a length from 1 to 2**30", "n = %lld", static_cast<long long>(n));
  if (im_at >= 0 && s.has(im_at)) {
    const Tensor& im = s.in(im_at);
    bool same = im.rank == x.rank && im.dtype == x.dtype;
    for (int i = 0; same && i < x.rank; ++i) same = im.dims[i] == x.dims[i];
    if (!same) return s.fail(im_at, "an imaginary part like the real one", "another shape or dtype");
  }
  Shape shape = shape_of(x);
  if (hop > 0) {  // the last dim is cut into frames, which overlap: [..., frames, n]
    if (dim != x.rank - 1 || x.rank == kMaxRank) return s.fail(0, "frames of the last dim, and rank 7 at most", "rank %d", x.rank);
    int64_t size = x.dims[dim];
    if (size < n) return s.fail(0, "a last dim as long as a frame", "%lld", static_cast<long long>(size));
    shape.dims[dim++] = (size - n) / hop + 1;
    ++shape.rank;
  }
  if (w_at >= 0 && s.has(w_at)) {
    const Tensor& w = s.in(w_at);
    if (w.rank != 1 || w.dims[0] != n || w.dtype != DType::f32) return s.fail(w_at, "f32, as long as the lines", "another shape or dtype");
  }
  shape.dims[dim] = kind == FftKind::from_real ? n / 2 + 1 : n;
  for (int i = 0; i < s.output_count(); ++i) PEN_TRY(s.output(i, DType::f32, shape));
  return PEN_OK;
}

PEN_SHAPE(fft) { return shape_lines(s, FftKind::complex); }
PEN_SHAPE(rfft) { return shape_lines(s, FftKind::from_real); }
PEN_SHAPE(irfft) { return shape_lines(s, FftKind::to_real); }

static PEN_SMALL Status bind_lines(Bind& b, FftKind kind) {
  const int im_at = imaginary_at(kind), w_at = window_at(kind);
  const bool has_im = im_at >= 0 && b.has(im_at);
  PEN_TRY(b.need_plain(0));
  if (has_im) PEN_TRY(b.need_plain(im_at));
  if (w_at >= 0 && b.has(w_at)) PEN_TRY(b.need(w_at, Need::dense));
  for (int i = 0; i < b.output_count(); ++i) {
    PEN_TRY(b.output(i));
    PEN_TRY(b.need_out(i, Need::dense));
  }
  const Tensor& out = b.out(0);
  Tensor x = b.in(0), im = has_im ? b.in(im_at) : x;
  int64_t n = b.integer("n"), dim = b.integer("dim"), hop = hop_of(b, kind);
  if (hop > 0) {
    Tensor* both[] = {&x, &im};
    for (Tensor* t : both) {
      t->dims[dim] = out.dims[dim];
      t->dims[dim + 1] = n;
      t->strides[dim + 1] = t->strides[dim];
      t->strides[dim] *= hop;
      ++t->rank;
    }
    ++dim;
  }

  int64_t lines = 1;
  for (int i = 0; i < x.rank; ++i) lines *= i == dim ? 1 : x.dims[i];
  if (lines == 0) return PEN_OK;  // nothing to do, whatever n is: no tables
  FftParams layout = {};
  layout.length = n;
  layout.is_half = kind != FftKind::complex && n % 2 == 0;
  int64_t core = layout.is_half ? n / 2 : n;
  if (!fft_plan(layout.plan, core)) return b.fail(-1, "a length of fewer factors", "n = %lld", static_cast<long long>(n));
  layout.turns = layout.plan.floats;
  int64_t floats = layout.plan.floats + (layout.is_half ? 2 * (n / 2 + 1) : 0);
  FftParams* p = static_cast<FftParams*>(b.params_bytes(sizeof(FftParams) + static_cast<size_t>(floats) * sizeof(float)));
  if (!p) return PEN_ERROR_MEMORY;
  float* tables = reinterpret_cast<float*>(p + 1);
  *p = layout;
  if (!b.may_take(fft_filter_bytes(p->plan))) return PEN_ERROR_MEMORY;
  PEN_TRY(fft_tables(p->plan, tables, [&] { return b.go_on(); }));
  for (int64_t k = 0; p->is_half && k <= n / 2; ++k) {
    double re, im_part;
    if (k % kFftAsked == 0) PEN_TRY(b.go_on());
    fft_root(k, n, &re, &im_part);
    tables[p->turns + 2 * k] = static_cast<float>(re);
    tables[p->turns + 2 * k + 1] = static_cast<float>(im_part);
  }
  p->inverse = kind == FftKind::to_real || (kind == FftKind::complex && b.flag("inverse"));
  int64_t norm = b.integer("norm");
  double length = static_cast<double>(n);
  p->scale = static_cast<float>(norm == 0 ? 1.0 : (norm == 1 ? 1.0 / __builtin_sqrt(length) : 1.0 / length));
  int64_t wanted = kind == FftKind::to_real ? n / 2 + 1 : n;
  p->available = x.dims[dim] < wanted ? x.dims[dim] : wanted;
  p->results = out.dims[dim];
  p->in_step = x.strides[dim];
  p->im_step = im.strides[dim];
  p->out_step = out.strides[dim];
  p->lines = 1;
  for (int i = 0; i < x.rank; ++i) {
    if (i == dim) continue;
    p->dims[p->others] = x.dims[i];
    p->in_strides[p->others] = x.strides[i];
    p->im_strides[p->others] = im.strides[i];
    p->out_strides[p->others++] = out.strides[i];
    p->lines *= x.dims[i];
  }
  // Both buffers in 1 MB, where that leaves a line at all.
  p->rows = (p->plan.core > n / 2 + 1 ? p->plan.core : n / 2 + 1) + 1;
  p->batch = 16;
  while (p->batch > 1 && p->rows * p->batch * 16 > (1 << 20)) p->batch /= 2;
  if (p->batch > p->lines) p->batch = p->lines;
  int64_t groups = (p->lines + p->batch - 1) / p->batch;
  p->tasks = task_count(groups, 1 + 65536 / (n * p->batch + 1));
  PEN_TRY(b.scratch((4 * p->rows * p->batch + 16) * 4));
  b.tasks(p->tasks);
  return PEN_OK;
}

PEN_BIND(fft) { return bind_lines(b, FftKind::complex); }
PEN_BIND(rfft) { return bind_lines(b, FftKind::from_real); }
PEN_BIND(irfft) { return bind_lines(b, FftKind::to_real); }

namespace PEN_ISA {

struct Pair {
  V re, im;
};
static PEN_INLINE Pair operator+(Pair a, Pair b) { return {a.re + b.re, a.im + b.im}; }
static PEN_INLINE Pair operator-(Pair a, Pair b) { return {a.re - b.re, a.im - b.im}; }
static PEN_INLINE Pair scaled(Pair a, V f) { return {a.re * f, a.im * f}; }
static PEN_INLINE Pair minus_i(Pair a) { return {a.im, -a.re}; }
static PEN_INLINE Pair times(Pair a, V re, V im) { return {a.re * re - a.im * im, fma(a.re, im, a.im * re)}; }

// Rows of a buffer: the real parts, then as many imaginary parts.
struct Rows {
  float *re, *im;
};

template <bool kWhole>
static PEN_INLINE V load_some(const float* p, int n) {
  return kWhole ? load(p) : load_partial(p, n);
}
template <bool kWhole>
static PEN_INLINE void store_some(float* p, V v, int n) {
  if (kWhole) {
    store(p, v);
  } else {
    store_partial(p, v, n);
  }
}

// The transform of `radix` values, in place. Odd ones: values k and radix - k share their sums.
template <int kRadix>
static PEN_INLINE void butterfly(Pair* a, const float* roots) {
  if constexpr (kRadix == 2) {
    Pair sum = a[0] + a[1];
    a[1] = a[0] - a[1];
    a[0] = sum;
  } else if constexpr (kRadix == 4) {
    Pair t0 = a[0] + a[2], t1 = a[0] - a[2], t2 = a[1] + a[3], t3 = minus_i(a[1] - a[3]);
    a[0] = t0 + t2;
    a[1] = t1 + t3;
    a[2] = t0 - t2;
    a[3] = t1 - t3;
  } else if constexpr (kRadix == 8) {
    Pair even[4] = {a[0], a[2], a[4], a[6]}, odd[4] = {a[1], a[3], a[5], a[7]};
    butterfly<4>(even, roots);
    butterfly<4>(odd, roots);
    V half = set1(0.70710678118654752f);
    Pair o1 = scaled({odd[1].re + odd[1].im, odd[1].im - odd[1].re}, half);
    Pair o2 = minus_i(odd[2]);
    Pair o3 = scaled({odd[3].im - odd[3].re, -odd[3].re - odd[3].im}, half);
    a[0] = even[0] + odd[0];
    a[4] = even[0] - odd[0];
    a[1] = even[1] + o1;
    a[5] = even[1] - o1;
    a[2] = even[2] + o2;
    a[6] = even[2] - o2;
    a[3] = even[3] + o3;
    a[7] = even[3] - o3;
  } else {
    constexpr int kHalf = (kRadix - 1) / 2;
    Pair sums[kHalf], differences[kHalf];
    Pair first = a[0];
    PEN_UNROLL
    for (int j = 1; j <= kHalf; ++j) {
      sums[j - 1] = a[j] + a[kRadix - j];
      differences[j - 1] = a[j] - a[kRadix - j];
      a[0] = a[0] + sums[j - 1];
    }
    PEN_UNROLL
    for (int k = 1; k <= kHalf; ++k) {
      Pair c = first, s = {zero(), zero()};
      PEN_UNROLL
      for (int j = 1; j <= kHalf; ++j) {
        const float* root = roots + 2 * (j * k % kRadix);
        V cosine = set1(root[0]), sine = set1(-root[1]);
        c = {fma(sums[j - 1].re, cosine, c.re), fma(sums[j - 1].im, cosine, c.im)};
        s = {fma(differences[j - 1].re, sine, s.re), fma(differences[j - 1].im, sine, s.im)};
      }
      Pair turned = minus_i(s);
      a[k] = c + turned;
      a[kRadix - k] = c - turned;
    }
  }
}

// As above for a radix that is known only now, up to kMaxRadix.
static void butterfly_any(Pair* a, int64_t radix, const float* roots) {
  int64_t half = (radix - 1) / 2;
  Pair sums[kMaxRadix / 2 + 1], differences[kMaxRadix / 2 + 1];
  Pair first = a[0];
  for (int64_t j = 1; j <= half; ++j) {
    sums[j] = a[j] + a[radix - j];
    differences[j] = a[j] - a[radix - j];
    a[0] = a[0] + sums[j];
  }
  for (int64_t k = 1; k <= half; ++k) {
    Pair c = first, s = {zero(), zero()};
    for (int64_t j = 1; j <= half; ++j) {
      const float* root = roots + 2 * (j * k % radix);
      V cosine = set1(root[0]), sine = set1(-root[1]);
      c = {fma(sums[j].re, cosine, c.re), fma(sums[j].im, cosine, c.im)};
      s = {fma(differences[j].re, sine, s.re), fma(differences[j].im, sine, s.im)};
    }
    Pair turned = minus_i(s);
    a[k] = c + turned;
    a[radix - k] = c - turned;
  }
}

// One pass: butterflies over rows m apart, results side by side. in_row: floats between rows of the input (that of a real
// line read as complex has real and imaginary rows in turn).
template <int kRadix, bool kWhole>
static void pass(Patience& patience, const FftStage& t, const float* tables, Rows x, int64_t in_row, Rows y, int64_t inner) {
  const int64_t radix = kRadix ? kRadix : t.radix;
  const float* roots = tables + t.roots;
  for (int64_t p = 0; p < t.m && !patience.ends(radix * inner); ++p) {
    const float* twiddles = tables + t.twiddles + 2 * p * (radix - 1);
    for (int64_t q = 0; q < inner; q += kLanes) {
      const int count = static_cast<int>(inner - q < kLanes ? inner - q : kLanes);
      Pair a[kRadix ? kRadix : kMaxRadix];
      auto move = [&](int64_t j) {
        int64_t at = (p + t.m * j) * in_row + q;
        a[j] = {load_some<kWhole>(x.re + at, count), load_some<kWhole>(x.im + at, count)};
      };
      auto put = [&](int64_t k, Pair b) {
        int64_t at = (radix * p + k) * inner + q;
        store_some<kWhole>(y.re + at, b.re, count);
        store_some<kWhole>(y.im + at, b.im, count);
      };
      if constexpr (kRadix != 0) {
        PEN_UNROLL
        for (int j = 0; j < kRadix; ++j) move(j);
        butterfly<kRadix>(a, roots);
        put(0, a[0]);
        if (p == 0) {
          PEN_UNROLL
          for (int k = 1; k < kRadix; ++k) put(k, a[k]);
        } else {
          PEN_UNROLL
          for (int k = 1; k < kRadix; ++k) put(k, times(a[k], set1(twiddles[2 * k - 2]), set1(twiddles[2 * k - 1])));
        }
      } else {
        for (int64_t j = 0; j < radix; ++j) move(j);
        butterfly_any(a, radix, roots);
        put(0, a[0]);
        for (int64_t k = 1; k < radix; ++k) put(k, times(a[k], set1(twiddles[2 * k - 2]), set1(twiddles[2 * k - 1])));
      }
    }
  }
}

template <bool kWhole>
static void pass_of(Patience& patience, const FftStage& t, const float* tables, Rows x, int64_t in_row, Rows y, int64_t inner) {
  switch (t.radix) {
    case 2:
      return pass<2, kWhole>(patience, t, tables, x, in_row, y, inner);
    case 3:
      return pass<3, kWhole>(patience, t, tables, x, in_row, y, inner);
    case 4:
      return pass<4, kWhole>(patience, t, tables, x, in_row, y, inner);
    case 5:
      return pass<5, kWhole>(patience, t, tables, x, in_row, y, inner);
    case 8:
      return pass<8, kWhole>(patience, t, tables, x, in_row, y, inner);
    default:
      return pass<0, kWhole>(patience, t, tables, x, in_row, y, inner);
  }
}

// All passes over `lines` lines: from `source`, which may lie in x, with in_row floats between its rows. The result is in x.
static void stages(Patience& patience, const FftPlan& plan, const float* tables, Rows source, int64_t in_row, Rows& x, Rows& y,
                   int64_t lines) {
  for (int64_t i = 0; i < plan.count; ++i) {
    const FftStage& t = plan.stage[i];
    int64_t inner = t.s * lines, row = i == 0 ? in_row : inner;
    if (inner % kLanes == 0) {
      pass_of<true>(patience, t, tables, source, row, y, inner);
    } else {
      pass_of<false>(patience, t, tables, source, row, y, inner);
    }
    Rows other = x;
    source = x = y;
    y = other;
  }
}

// y[k] = x[k] * w[k] for n rows, w a table of pairs.
static void multiply(Rows x, int64_t in_row, const float* w, Rows y, int64_t n, int64_t lines) {
  for (int64_t k = 0; k < n; ++k) {
    V re = set1(w[2 * k]), im = set1(w[2 * k + 1]);
    for (int64_t q = 0; q < lines; q += kLanes) {
      int count = static_cast<int>(lines - q < kLanes ? lines - q : kLanes);
      Pair a = {load_partial(x.re + k * in_row + q, count), load_partial(x.im + k * in_row + q, count)};
      Pair b = times(a, re, im);
      store_partial(y.re + k * lines + q, b.re, count);
      store_partial(y.im + k * lines + q, b.im, count);
    }
  }
}

static void transform(Patience& patience, const FftPlan& plan, const float* tables, Rows source, int64_t in_row, Rows& x, Rows& y,
                      int64_t lines) {
  if (plan.chirp < 0) {
    if (plan.count == 0 && in_row != lines) {  // one element, and no pass to bring its rows into their place
      for (int64_t q = 0; q < lines; ++q) y.re[q] = source.re[q], y.im[q] = source.im[q];
      Rows other = x;
      x = y;
      y = other;
    }
    return stages(patience, plan, tables, source, in_row, x, y, lines);
  }
  multiply(source, in_row, tables + plan.chirp, y, plan.n, lines);
  size_t rest = static_cast<size_t>((plan.core - plan.n) * lines) * sizeof(float);
  memset(y.re + plan.n * lines, 0, rest);
  memset(y.im + plan.n * lines, 0, rest);
  stages(patience, plan, tables, y, lines, y, x, lines);
  multiply(y, lines, tables + plan.filter, y, plan.core, lines);
  Rows turned = {y.im, y.re}, other = {x.im, x.re};  // with the parts exchanged it is the inverse
  stages(patience, plan, tables, turned, lines, turned, other, lines);
  x = {turned.im, turned.re};
  y = {other.im, other.re};
  multiply(x, lines, tables + plan.chirp, x, plan.n, lines);
}

struct Group {
  int64_t count;
  int64_t offsets[16];
  bool is_even;  // lines lie at equal distances
  int64_t distance;
};

static Group group_of(const FftParams& p, int64_t first, const int64_t* strides) {
  Group g = {p.lines - first < p.batch ? p.lines - first : p.batch, {}, true, 0};
  for (int64_t i = 0; i < g.count; ++i) {
    int64_t rest = first + i, at = 0;
    for (int d = p.others - 1; d >= 0; --d) {
      at += rest % p.dims[d] * strides[d];
      rest /= p.dims[d];
    }
    g.offsets[i] = at;
  }
  g.distance = g.count > 1 ? g.offsets[1] - g.offsets[0] : 1;
  for (int64_t i = 1; i < g.count; ++i) g.is_even = g.is_even && g.offsets[i] == g.offsets[0] + i * g.distance;
  return g;
}

constexpr int64_t kPiece = 16;  // elements of a line that are moved at once: a cache line. Lines may be a power of two apart.

// rows[k * row + i] = element k of line i
static void load_rows(const float* x, const Group& g, int64_t step, int64_t n, float* rows, int64_t row) {
  if (g.is_even && g.distance == 1) {
    for (int64_t k = 0; k < n; ++k) memcpy(rows + k * row, x + g.offsets[0] + k * step, static_cast<size_t>(g.count) * sizeof(float));
    return;
  }
  bool blocks = g.is_even && step == 1;
  float pieces[kPiece * kPiece];
  for (int64_t k = 0; k < n; k += kPiece) {
    int64_t end = k + kPiece < n ? k + kPiece : n, i = 0;
    for (; end - k == kPiece && i + kTransposeBlock <= g.count; i += kTransposeBlock) {
      const float* from = x + g.offsets[i] + k;
      int64_t distance = g.distance;
      if (!blocks) {  // first a dense piece of each line; every other element is what complex numbers in pairs have
        for (int64_t l = 0; l < kTransposeBlock; ++l) {
          const float* line = x + g.offsets[i + l] + k * step;
          for (int64_t j = 0; j < kPiece; ++j) pieces[l * kPiece + j] = step == 2 ? line[2 * j] : line[j * step];
        }
        from = pieces;
        distance = kPiece;
      }
      for (int64_t j = 0; j < kPiece; j += kTransposeBlock) {
        transpose_block(reinterpret_cast<const uint32_t*>(from + j), distance, reinterpret_cast<uint32_t*>(rows + (k + j) * row + i), row);
      }
    }
    for (; i < g.count; ++i) {
      for (int64_t j = k; j < end; ++j) rows[j * row + i] = x[g.offsets[i] + j * step];
    }
  }
}

static void store_rows(float* y, const Group& g, int64_t step, int64_t n, const float* rows, int64_t row) {
  if (g.is_even && g.distance == 1) {
    for (int64_t k = 0; k < n; ++k) memcpy(y + g.offsets[0] + k * step, rows + k * row, static_cast<size_t>(g.count) * sizeof(float));
    return;
  }
  bool blocks = g.is_even && step == 1;
  for (int64_t k = 0; k < n; k += kPiece) {
    int64_t end = k + kPiece < n ? k + kPiece : n, i = 0;
    for (; blocks && end - k == kPiece && i + kTransposeBlock <= g.count; i += kTransposeBlock) {
      for (int64_t j = k; j < end; j += kTransposeBlock) {
        transpose_block(reinterpret_cast<const uint32_t*>(rows + j * row + i), row, reinterpret_cast<uint32_t*>(y + g.offsets[i] + j),
                        g.distance);
      }
    }
    for (; i < g.count; ++i) {
      for (int64_t j = k; j < end; ++j) y[g.offsets[i] + j * step] = rows[j * row + i];
    }
  }
}

static void clear_rows(float* rows, int64_t row, int64_t from, int64_t to, int64_t lines) {
  for (int64_t k = from; k < to; ++k) memset(rows + k * row, 0, static_cast<size_t>(lines) * sizeof(float));
}

// Each row times its window and the scale.
static void weigh_rows(float* rows, int64_t row, int64_t n, const float* window, float scale, int64_t lines) {
  if (!window && scale == 1.0f) return;
  for (int64_t k = 0; k < n; ++k) {
    V w = set1(window ? window[k] * scale : scale);
    float* at = rows + k * row;
    for (int64_t q = 0; q < lines; q += kLanes) {
      int count = static_cast<int>(lines - q < kLanes ? lines - q : kLanes);
      store_partial(at + q, load_partial(at + q, count) * w, count);
    }
  }
}

struct Buffers {
  Rows x, y;
};
static Buffers buffers_of(const FftParams& p, char* scratch) {
  float* from = reinterpret_cast<float*>(scratch);
  int64_t size = p.rows * p.batch;
  return {{from, from + size}, {from + 2 * size, from + 3 * size}};
}

static PEN_INLINE Pair load_pair(Rows x, int64_t at, int count) { return {load_partial(x.re + at, count), load_partial(x.im + at, count)}; }

// A real line of even length from the transform z of its pairs (element 2 k, element 2 k + 1): the even elements'
// transform is the half of z[k] + conj z[h - k], the odd ones' that of -i (z[k] - conj z[h - k]).
static void untangle(Rows z, Rows y, int64_t h, const float* turns, int64_t lines) {
  V half = set1(0.5f);
  for (int64_t k = 0; k <= h; ++k) {
    int64_t mirrored = k == 0 ? 0 : h - k, own = k == h ? 0 : k;
    V re = set1(turns[2 * k]), im = set1(turns[2 * k + 1]);
    for (int64_t q = 0; q < lines; q += kLanes) {
      int count = static_cast<int>(lines - q < kLanes ? lines - q : kLanes);
      Pair a = load_pair(z, own * lines + q, count), b = load_pair(z, mirrored * lines + q, count);
      b.im = -b.im;
      Pair even = scaled(a + b, half), odd = scaled(minus_i(a - b), half);
      Pair sum = even + times(odd, re, im);
      store_partial(y.re + k * lines + q, sum.re, count);
      store_partial(y.im + k * lines + q, sum.im, count);
    }
  }
}

// The way back, without the half: z[k] = x[k] + conj x[h - k] + i (x[k] - conj x[h - k]) conj(turn).
static void tangle(Rows x, Rows z, int64_t h, const float* turns, int64_t lines) {
  for (int64_t k = 0; k < h; ++k) {
    V re = set1(turns[2 * k]), im = set1(-turns[2 * k + 1]);
    for (int64_t q = 0; q < lines; q += kLanes) {
      int count = static_cast<int>(lines - q < kLanes ? lines - q : kLanes);
      Pair a = load_pair(x, k * lines + q, count), b = load_pair(x, (h - k) * lines + q, count);
      b.im = -b.im;
      Pair odd = times(a - b, re, im), sum = a + b;
      store_partial(z.re + k * lines + q, sum.re - odd.im, count);
      store_partial(z.im + k * lines + q, sum.im + odd.re, count);
    }
  }
}

template <class Work>
static PEN_INLINE void for_groups(const FftParams& p, const Run& r, const Work& work) {
  int64_t groups = (p.lines + p.batch - 1) / p.batch;
  Patience patience(r);
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(groups, p.tasks, task);
    for (int64_t i = range.begin; i < range.end && !patience.ends(p.rows); ++i) work(patience, i * p.batch);
  }
}

static void run_fft(const Run& r) {
  const FftParams& p = r.as<FftParams>();
  const float* tables = tables_of(p);
  const float* window = r.in[2].as<float>();
  for_groups(p, r, [&](Patience& patience, int64_t first) {
    Group from = group_of(p, first, p.in_strides), to = group_of(p, first, p.out_strides);
    int64_t lines = from.count;
    Buffers buffers = buffers_of(p, r.scratch);
    Rows x = buffers.x, y = buffers.y;
    load_rows(r.in[0].as<float>(), from, p.in_step, p.available, x.re, lines);
    clear_rows(x.re, lines, p.available, p.length, lines);
    weigh_rows(x.re, lines, p.available, window, p.scale, lines);
    if (r.in[1].data) {
      load_rows(r.in[1].as<float>(), group_of(p, first, p.im_strides), p.im_step, p.available, x.im, lines);
      clear_rows(x.im, lines, p.available, p.length, lines);
      weigh_rows(x.im, lines, p.available, window, p.scale, lines);
    } else {
      clear_rows(x.im, lines, 0, p.length, lines);
    }
    if (p.inverse) x = {x.im, x.re}, y = {y.im, y.re};
    transform(patience, p.plan, tables, x, lines, x, y, lines);
    if (p.inverse) x = {x.im, x.re};
    store_rows(r.out[0].as<float>(), to, p.out_step, p.results, x.re, lines);
    store_rows(r.out[1].as<float>(), to, p.out_step, p.results, x.im, lines);
  });
}

static void run_rfft(const Run& r) {
  const FftParams& p = r.as<FftParams>();
  const float* tables = tables_of(p);
  for_groups(p, r, [&](Patience& patience, int64_t first) {
    Group from = group_of(p, first, p.in_strides), to = group_of(p, first, p.out_strides);
    int64_t lines = from.count;
    Buffers buffers = buffers_of(p, r.scratch);
    Rows x = buffers.x, y = buffers.y;
    // As they come: of a line of even length every other row is then an imaginary one.
    load_rows(r.in[0].as<float>(), from, p.in_step, p.available, x.re, lines);
    clear_rows(x.re, lines, p.available, p.length, lines);
    weigh_rows(x.re, lines, p.available, r.in[1].as<float>(), p.scale, lines);
    if (p.is_half) {
      transform(patience, p.plan, tables, {x.re, x.re + lines}, 2 * lines, x, y, lines);
      untangle(x, y, p.length / 2, tables + p.turns, lines);
      x = y;
    } else {
      clear_rows(x.im, lines, 0, p.length, lines);
      transform(patience, p.plan, tables, x, lines, x, y, lines);
    }
    store_rows(r.out[0].as<float>(), to, p.out_step, p.results, x.re, lines);
    store_rows(r.out[1].as<float>(), to, p.out_step, p.results, x.im, lines);
  });
}

static void run_irfft(const Run& r) {
  const FftParams& p = r.as<FftParams>();
  const float* tables = tables_of(p);
  int64_t h = p.length / 2;
  for_groups(p, r, [&](Patience& patience, int64_t first) {
    Group from = group_of(p, first, p.in_strides), to = group_of(p, first, p.out_strides);
    int64_t lines = from.count;
    Buffers buffers = buffers_of(p, r.scratch);
    Rows x = buffers.x, y = buffers.y;
    load_rows(r.in[0].as<float>(), from, p.in_step, p.available, x.re, lines);
    clear_rows(x.re, lines, p.available, h + 1, lines);
    weigh_rows(x.re, lines, p.available, nullptr, p.scale, lines);
    if (r.in[1].data) {
      load_rows(r.in[1].as<float>(), group_of(p, first, p.im_strides), p.im_step, p.available, x.im, lines);
      clear_rows(x.im, lines, p.available, h + 1, lines);
      weigh_rows(x.im, lines, p.available, nullptr, p.scale, lines);
    } else {
      clear_rows(x.im, lines, 0, h + 1, lines);
    }
    clear_rows(x.im, lines, 0, 1, lines);  // that of the mean counts as zero, and that of the last one of an even line
    if (p.is_half) {
      clear_rows(x.im, lines, h, h + 1, lines);
      tangle(x, y, h, tables + p.turns, lines);
      x = {y.im, y.re};
      y = {buffers.x.im, buffers.x.re};
      transform(patience, p.plan, tables, x, lines, x, y, lines);
      float* woven = x.im == buffers.x.re ? buffers.y.re : buffers.x.re;
      for (int64_t k = 0; k < h; ++k) {
        memcpy(woven + 2 * k * lines, x.im + k * lines, static_cast<size_t>(lines) * sizeof(float));
        memcpy(woven + (2 * k + 1) * lines, x.re + k * lines, static_cast<size_t>(lines) * sizeof(float));
      }
      store_rows(r.out[0].as<float>(), to, p.out_step, p.results, woven, lines);
      return;
    }
    for (int64_t k = h + 1; k < p.length; ++k) {  // the other half: conjugates
      for (int64_t q = 0; q < lines; ++q) {
        x.re[k * lines + q] = x.re[(p.length - k) * lines + q];
        x.im[k * lines + q] = -x.im[(p.length - k) * lines + q];
      }
    }
    x = {x.im, x.re}, y = {y.im, y.re};
    transform(patience, p.plan, tables, x, lines, x, y, lines);
    store_rows(r.out[0].as<float>(), to, p.out_step, p.results, x.im, lines);
  });
}

}  // namespace PEN_ISA

PEN_KERNEL(fft, f32) { PEN_ISA::run_fft(r); }
PEN_KERNEL(rfft, f32) { PEN_ISA::run_rfft(r); }
PEN_KERNEL(irfft, f32) { PEN_ISA::run_irfft(r); }

}  // namespace pen
