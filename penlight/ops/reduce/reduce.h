// How a reduction walks its input. Bind looks for the dim that is contiguous in memory: either it is reduced ("rows":
// one output is the reduction of runs) or it is kept ("columns": outputs side by side, vectors add up rows of memory;
// a mean over H and W of an NHWC image). All other dims are merged where they continue each other. A reduction with
// few outputs and much input is cut into parts, whose results a second phase puts together; cut by shape only.
#pragma once
#include "penlight/ops/shape/runs.h"
#include "penlight/runtime/simd/simd.h"

namespace pen {

constexpr int64_t kReduceBlock = 4032;  // longest run that one set of vector accumulators sums; bytes count up to 255
constexpr int64_t kReduceChunk = 256;   // columns: outputs of one item
constexpr int64_t kReduceMap = 1 << 15, kReduceMapPixels = 64, kReduceMapParts = 4;

struct ReduceDims {
  int rank;
  int64_t dims[kMaxRank], in[kMaxRank], out[kMaxRank];  // outermost first; strides in elements
  int64_t numel;
};

// What becomes of a result.
enum class Finish : int32_t { as_it_is = 0, over_count, root };

struct ReduceParams {
  bool columns;
  ReduceDims kept, reduced;  // without the contiguous dim
  int64_t inner, inner_out;  // length of the contiguous dim; its stride in the output (columns)
  int64_t units;             // reduced work: rows of memory (columns), blocks of runs (rows)
  int64_t blocks;            // rows: blocks of one run
  int64_t chunks;            // columns: chunks of the contiguous dim
  int64_t items, parts;      // an item: one output (rows) or one chunk of outputs (columns); the first part of all comes first
  int64_t tasks, final_tasks;
  int64_t count;  // elements reduced into one
  Finish finish;
  double power;  // of a norm
  // a mean of quantized bytes: round((sum - center) * share) + after
  int32_t center, after;
  float share;
};

// What number `i` of a phase is: in the first one of the parts of an item, kept at `slot` until the second puts an item's together.
struct ReducePiece {
  int64_t item, part, slot;
};
static PEN_INLINE ReducePiece reduce_piece(const ReduceParams& p, int phase, int64_t i) {
  if (phase != 0) return {i, 0, i * p.parts};
  return {i % p.items, i / p.items, i % p.items * p.parts + i / p.items};
}

[[maybe_unused]] static PEN_SMALL __attribute__((noinline)) void reduce_push(ReduceDims* d, int64_t size, int64_t in, int64_t out) {
  int last = d->rank - 1;
  if (last >= 0 && d->in[last] == size * in && d->out[last] == size * out) {
    d->dims[last] *= size;
  } else {
    last = d->rank++;
    d->dims[last] = size;
  }
  d->in[last] = in;
  d->out[last] = out;
  d->numel *= size;
}

static inline __attribute__((unused, noinline)) int64_t reduce_offset(const ReduceDims& d, int64_t index, int64_t* out) {
  if (d.rank == 0) return 0;
  int64_t in = 0;
  for (int i = d.rank - 1; i > 0; --i) {  // the outermost needs no division, which takes as long as 100 floats
    int64_t at = index % d.dims[i];
    index /= d.dims[i];
    in += at * d.in[i];
    *out += at * d.out[i];
  }
  *out += index * d.out[0];
  return in + index * d.in[0];
}

// Calls body(n, offset in x, its step, offset in y, its step) for stretches of the index in [begin, end), of at most `most` each.
template <class Body>
static PEN_INLINE void for_each_stretch(const ReduceDims& d, int64_t begin, int64_t end, int64_t most, const Body& body) {
  int last = d.rank - 1;
  while (begin < end) {
    int64_t out = 0, in = reduce_offset(d, begin, &out), n = 1, step = 0, out_step = 0;
    if (last >= 0) {
      n = last == 0 ? d.dims[0] - begin : d.dims[last] - begin % d.dims[last];
      step = d.in[last];
      out_step = d.out[last];
    }
    if (n > end - begin) n = end - begin;
    if (n > most) n = most;
    body(n, in, step, out, out_step);
    begin += n;
  }
}

// Calls body(offset in x, offset in y) for the index in [begin, end), without a division each.
template <class Body>
static PEN_INLINE void for_each_kept(const ReduceDims& d, int64_t begin, int64_t end, const Body& body) {
  for_each_stretch(d, begin, end, INT64_MAX, [&](int64_t n, int64_t in, int64_t step, int64_t out, int64_t out_step) {
    for (int64_t k = 0; k < n; ++k) body(in + k * step, out + k * out_step);
  });
}

// `x` (any strides) with dims marked in `reduced` becomes `y`, whose kept dims have strides `out` (one for each dim of
// x, 0 where reduced). y is not empty; x may be. Makes x contiguous in some dim. part_bytes: what a part keeps for each of
// its outputs.
static PEN_INLINE Status reduce_plan(Bind& b, const bool* reduced, const int64_t* out, int64_t part_bytes, ReduceParams* p) {
  int inner = -1;
  bool empty = is_empty(b.in(0)), single = true;
  for (int pass = 0; pass < 2 && inner < 0 && !empty; ++pass) {
    const Tensor& x = b.in(0);
    for (int i = 0; i < x.rank; ++i) {
      single = single && x.dims[i] == 1;
      if (x.dims[i] > 1 && x.strides[i] == 1) inner = i;
    }
    if (single) break;
    if (inner < 0) PEN_TRY(b.need(0, Need::dense));
  }
  const Tensor& x = b.in(0);
  p->kept.numel = p->reduced.numel = 1;
  p->columns = inner >= 0 && !reduced[inner];
  p->inner = inner >= 0 ? x.dims[inner] : 1;
  p->inner_out = p->columns ? out[inner] : 0;
  int order[kMaxRank];
  int n = memory_order(x, order);
  bool merged[kMaxRank] = {};  // into the contiguous dim
  for (int k = n - 1; k >= 0 && inner >= 0; --k) {
    int i = order[k];
    if (i == inner || reduced[i] != reduced[inner] || x.strides[i] != p->inner || x.dims[i] == 0) continue;
    if (!reduced[i] && out[i] != p->inner * p->inner_out) continue;
    merged[i] = true;
    p->inner *= x.dims[i];
  }
  p->count = 1;
  for (int k = 0; k < n; ++k) {
    int i = order[k];
    if (reduced[i]) p->count *= x.dims[i];
    if (i == inner || merged[i]) continue;
    if (reduced[i]) {
      reduce_push(&p->reduced, x.dims[i], x.strides[i], 0);
    } else {
      reduce_push(&p->kept, x.dims[i], x.strides[i], out[i]);
    }
  }
  p->blocks = (p->inner + kReduceBlock - 1) / kReduceBlock;
  p->units = p->columns ? p->reduced.numel : p->reduced.numel * p->blocks;
  p->chunks = p->columns ? (p->inner + kReduceChunk - 1) / kReduceChunk : 1;
  p->items = p->kept.numel * p->chunks;
  int64_t total = p->kept.numel * p->reduced.numel * p->inner;
  // Maps by rows, as threads have computed them: a thread that read another's would take long to, and that one to write there again.
  const bool map = p->columns && p->kept.numel == 1 && p->units >= kReduceMapPixels && total >= kReduceMap;
  const int64_t least = map ? kReduceMapParts : 1, wanted = p->items < 32 && total >= (1 << 17) ? total / p->items >> 15 : 0;
  p->parts = wanted < least ? least : (wanted > 32 ? 32 : wanted);
  if (p->parts > p->units) p->parts = p->units > 0 ? p->units : 1;
  int64_t per_item = total / (p->items * p->parts) + 1;
  p->tasks = map ? p->parts : task_count(p->items * p->parts, 32768 / per_item + 1);
  p->final_tasks = p->parts > 1 ? task_count(p->items, 64) : 0;
  if (p->parts > 1) PEN_TRY(b.shared(p->items * p->parts * (p->columns ? kReduceChunk : 1) * part_bytes));
  b.tasks(p->tasks, p->final_tasks);
  return PEN_OK;
}

// Marks the dims that the attribute `dims` lists.
static inline __attribute__((unused)) PEN_SMALL Status mark_dims(const Given& g, bool* reduced) {
  IntList dims = g.ints("dims");
  for (int i = 0; i < dims.count; ++i) {
    if (dims[i] < 0 || dims[i] >= g.in(0).rank || reduced[dims[i]])
      return g.fail(-1, "each dim once, from 0 up", "dim %lld of rank %d", static_cast<long long>(dims[i]), g.in(0).rank);
    reduced[dims[i]] = true;
  }
  return PEN_OK;
}

// The output shape of a reduction, and for each dim of x whether it is reduced. `out`: see reduce_plan; after output().
static PEN_INLINE Shape reduce_shape(const Tensor& x, const bool* reduced, bool keepdim) {
  Shape y;
  for (int i = 0; i < x.rank; ++i) {
    if (!reduced[i]) y.dims[y.rank++] = x.dims[i];
    if (reduced[i] && keepdim) y.dims[y.rank++] = 1;
  }
  return y;
}
static PEN_INLINE void reduce_out_strides(const Tensor& x, const Tensor& y, const bool* reduced, bool keepdim, int64_t* out) {
  int at = 0;
  for (int i = 0; i < x.rank; ++i) {
    out[i] = reduced[i] ? 0 : y.strides[at];
    if (!reduced[i] || keepdim) ++at;
  }
}

namespace PEN_ISA {

// Each rule: reads elements In, vectors Vec of kWidth of them; 64 rows of columns add up in a Vec, all of them in a Total;
// Wide is what a whole part of a row adds up to; T is what parts and results are. kRepeatable: it does not matter if a
// value is seen twice. one(v), lift(v): an element on its own, as a Wide, as a Vec.
struct FloatLanes {
  using In = float;
  using T = float;
  using Vec = V;
  using Total = V;
  using Wide = double;
  static constexpr int kWidth = kLanes;
  static constexpr bool kRepeatable = false;
  static PEN_INLINE V read(const float* p) { return load(p); }
  static PEN_INLINE V read_partial(const float* p, int64_t n) { return load_partial(p, n); }
  static PEN_INLINE double one(float v) { return static_cast<double>(v); }
  static PEN_INLINE V lift(float v) { return set1(v); }
  static PEN_INLINE void write(float* p, V v) { store(p, v); }
};
// Of other numbers: as many as a vector of floats has bytes, and 16 bytes where there is none.
constexpr size_t kVectorBytes = sizeof(V) < 16 ? 16 : sizeof(V);
template <class Number>
struct NumberLanes {
  typedef Number Register __attribute__((vector_size(kVectorBytes)));
  using In = Number;
  using T = Number;
  using Vec = Register;
  using Total = Register;
  using Wide = Number;
  static constexpr int kWidth = static_cast<int>(kVectorBytes / sizeof(Number));
  static constexpr bool kRepeatable = false;
  static PEN_INLINE Vec all(Number v) { return Vec{} + v; }
  static PEN_INLINE Vec read(const Number* p) {
    Vec v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
  static PEN_INLINE Vec read_partial(const Number* p, int64_t n) {
    Vec v = {};
    for (int64_t i = 0; i < n; ++i) v[i] = p[i];
    return v;
  }
  static PEN_INLINE Number one(Number v) { return v; }
  static PEN_INLINE void write(Number* p, Vec v) { __builtin_memcpy(p, &v, sizeof v); }
};
using DoubleLanes = NumberLanes<double>;
using ByteLanes = NumberLanes<uint8_t>;
using IntLanes = NumberLanes<int64_t>;

// Integers wrap: through unsigned.
typedef uint64_t Words __attribute__((vector_size(kVectorBytes)));
static PEN_INLINE double plus(double a, double b) { return a + b; }
static PEN_INLINE double times(double a, double b) { return a * b; }
static PEN_INLINE int64_t plus(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }
static PEN_INLINE int64_t times(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }
static PEN_INLINE DoubleLanes::Vec plus(DoubleLanes::Vec a, DoubleLanes::Vec b) { return a + b; }
static PEN_INLINE DoubleLanes::Vec times(DoubleLanes::Vec a, DoubleLanes::Vec b) { return a * b; }
static PEN_INLINE IntLanes::Vec plus(IntLanes::Vec a, IntLanes::Vec b) { return (IntLanes::Vec)((Words)a + (Words)b); }
static PEN_INLINE IntLanes::Vec times(IntLanes::Vec a, IntLanes::Vec b) { return (IntLanes::Vec)((Words)a * (Words)b); }

template <class Lanes>
struct SumOf : Lanes {
  using typename Lanes::Vec;
  using typename Lanes::Wide;
  static PEN_INLINE Vec start() { return Vec{}; }
  static PEN_INLINE Vec step(Vec a, Vec b) { return plus(a, b); }
  static PEN_INLINE Wide step(Wide a, Wide b) { return plus(a, b); }
  static PEN_INLINE Wide fold(Wide w, Vec a) {
    for (int i = 0; i < Lanes::kWidth; ++i) w = plus(w, static_cast<Wide>(a[i]));
    return w;
  }
  static PEN_INLINE Wide wide() { return 0; }
};
template <>
struct SumOf<FloatLanes> : FloatLanes {
  static PEN_INLINE V start() { return zero(); }
  static PEN_INLINE V step(V a, V b) { return a + b; }
  static PEN_INLINE double step(double a, double b) { return a + b; }
  static PEN_INLINE double fold(double w, V a) { return w + static_cast<double>(reduce_add(a)); }
  static PEN_INLINE double wide() { return 0; }
};
// Bools: any byte but 0 is true, whatever a caller's memory holds, and what is made of them is 0 or 1.
struct BoolLanes : ByteLanes {
  static PEN_INLINE Vec truth(Vec v) { return (Vec)(v != Vec{}) & all(1); }
  static PEN_INLINE Vec read(const uint8_t* p) { return truth(ByteLanes::read(p)); }
  static PEN_INLINE Vec read_partial(const uint8_t* p, int64_t n) { return truth(ByteLanes::read_partial(p, n)); }
  static PEN_INLINE uint8_t one(uint8_t v) { return v != 0; }
};
// How many are true: of at most kReduceBlock values in bytes, of all of them in i64.
struct CountOf : BoolLanes {
  using T = int64_t;
  using Wide = int64_t;
  struct Total {
    int64_t lanes[kWidth];
  };
  static PEN_INLINE int64_t one(uint8_t v) { return v != 0; }
  static PEN_INLINE Vec start() { return Vec{}; }
  static PEN_INLINE Vec step(Vec a, Vec b) { return a + b; }
  static PEN_INLINE int64_t step(int64_t a, int64_t b) { return a + b; }
  static PEN_INLINE int64_t fold(int64_t w, Vec a) {
    for (int i = 0; i < kWidth; ++i) w += a[i];
    return w;
  }
  static PEN_INLINE int64_t wide() { return 0; }
  static PEN_INLINE void write(int64_t* p, const Total& total) { __builtin_memcpy(p, total.lanes, sizeof total.lanes); }
};

template <class Lanes>
struct ProdOf : Lanes {
  using typename Lanes::Vec;
  using typename Lanes::Wide;
  static PEN_INLINE Vec start() { return Lanes::all(1); }
  static PEN_INLINE Vec step(Vec a, Vec b) { return times(a, b); }
  static PEN_INLINE Wide step(Wide a, Wide b) { return times(a, b); }
  static PEN_INLINE Wide fold(Wide w, Vec a) {
    for (int i = 0; i < Lanes::kWidth; ++i) w = times(w, static_cast<Wide>(a[i]));
    return w;
  }
  static PEN_INLINE Wide wide() { return 1; }
};
template <>
struct ProdOf<FloatLanes> : FloatLanes {
  static PEN_INLINE V start() { return set1(1.0f); }
  static PEN_INLINE V step(V a, V b) { return a * b; }
  static PEN_INLINE double step(double a, double b) { return a * b; }
  static PEN_INLINE double fold(double w, V a) {
    float lanes[kLanes];
    store(lanes, a);
    for (int i = 0; i < kLanes; ++i) w *= static_cast<double>(lanes[i]);
    return w;
  }
  static PEN_INLINE double wide() { return 1; }
};

// The larger (kSign 1) or the smaller (kSign -1) of all; NaN wins.
static PEN_INLINE void least_and_most(double* least, double* most) { *most = -(*least = -__builtin_inf()); }
static PEN_INLINE void least_and_most(int64_t* least, int64_t* most) {
  *least = INT64_MIN;
  *most = INT64_MAX;
}
static PEN_INLINE void least_and_most(uint8_t* least, uint8_t* most) {
  *least = 0;
  *most = 255;
}
template <class Lanes, int kSign>
struct ExtremeOf : Lanes {
  using typename Lanes::T;
  using typename Lanes::Vec;
  static constexpr bool kRepeatable = true;
  static PEN_INLINE T wide() {
    T least, most;
    least_and_most(&least, &most);
    return kSign > 0 ? least : most;
  }
  static PEN_INLINE Vec start() { return Lanes::all(wide()); }
  static PEN_INLINE Vec step(Vec a, Vec b) { return ((kSign > 0 ? b > a : b < a) | (b != b)) ? b : a; }
  static PEN_INLINE T step(T a, T b) { return (kSign > 0 ? b > a : b < a) || b != b ? b : a; }
  static PEN_INLINE T fold(T w, Vec a) {
    for (int i = 0; i < Lanes::kWidth; ++i) w = step(w, static_cast<T>(a[i]));
    return w;
  }
};
template <int kSign>
struct ExtremeOf<FloatLanes, kSign> : FloatLanes {
  using Wide = float;
  static constexpr bool kRepeatable = true;
  static PEN_INLINE float one(float v) { return v; }
  static PEN_INLINE V start() { return set1(kSign > 0 ? -__builtin_inff() : __builtin_inff()); }
  // max() and min() give their second argument for NaN: an accumulated NaN stays, a new one is taken by select.
  static PEN_INLINE V step(V a, V b) { return select(isnan(b), b, kSign > 0 ? max(b, a) : min(b, a)); }
  static PEN_INLINE float step(float a, float b) {
    bool take = kSign > 0 ? b > a : b < a;
    return take || b != b ? b : a;
  }
  static PEN_INLINE float fold(float w, V a) {
    if (PEN_LIKELY(reduce_add(a - a) == 0.0f)) return step(w, kSign > 0 ? reduce_max(a) : reduce_min(a));
    float lanes[kLanes];  // NaN or infinity in a lane
    store(lanes, a);
    for (int i = 0; i < kLanes; ++i) w = step(w, lanes[i]);
    return w;
  }
  static PEN_INLINE float wide() { return kSign > 0 ? -__builtin_inff() : __builtin_inff(); }
};

// A rule on a function of the elements, which Map is for V.
template <class Rule, class Map>
struct MappedOf : Rule {
  static PEN_INLINE V read(const float* p) { return Map()(Rule::read(p)); }
  static PEN_INLINE V read_partial(const float* p, int64_t n) { return Map()(Rule::read_partial(p, n)); }
  static PEN_INLINE V lift(float v) { return Map()(set1(v)); }
};

template <class T>
static PEN_INLINE T finished(T v, const ReduceParams& p) {
  if constexpr (__is_same(T, float) || __is_same(T, double)) {
    if (p.finish == Finish::over_count) return v / static_cast<T>(p.count);
    if (p.finish == Finish::root) return static_cast<T>(__builtin_sqrtf(static_cast<float>(v)));
  }
  return v;
}

// n contiguous values into w: four vector accumulators, then lanes, then the tail one by one.
template <class Op>
static PEN_INLINE typename Op::Wide reduce_run(const typename Op::In* x, int64_t n, typename Op::Wide w) {
  constexpr int W = Op::kWidth;
  constexpr int64_t kPiece = 256 * W;  // 64 sums in a lane: narrow vectors are folded more often, so as not to lose digits
  if constexpr (kPiece < kReduceBlock && __is_same(typename Op::Vec, V)) {
    for (; n > kPiece; n -= kPiece, x += kPiece) {
      typename Op::Vec a = Op::read(x), b = Op::read(x + W), c = Op::read(x + 2 * W), d = Op::read(x + 3 * W);
      for (int64_t i = 4 * W; i < kPiece; i += 4 * W) {
        a = Op::step(a, Op::read(x + i));
        b = Op::step(b, Op::read(x + i + W));
        c = Op::step(c, Op::read(x + i + 2 * W));
        d = Op::step(d, Op::read(x + i + 3 * W));
      }
      w = Op::fold(w, Op::step(Op::step(a, b), Op::step(c, d)));
    }
  }
  int64_t i = 0;
  if (n >= W) {
    typename Op::Vec a = Op::read(x);
    i = W;
    if (n >= 4 * W) {
      typename Op::Vec b = Op::read(x + W), c = Op::read(x + 2 * W), d = Op::read(x + 3 * W);
      for (i = 4 * W; i + 4 * W <= n; i += 4 * W) {
        a = Op::step(a, Op::read(x + i));
        b = Op::step(b, Op::read(x + i + W));
        c = Op::step(c, Op::read(x + i + 2 * W));
        d = Op::step(d, Op::read(x + i + 3 * W));
      }
      a = Op::step(Op::step(a, b), Op::step(c, d));
    }
    for (; i + W <= n; i += W) a = Op::step(a, Op::read(x + i));
    if (Op::kRepeatable && i < n) {
      a = Op::step(a, Op::read(x + n - W));
      i = n;
    }
    w = Op::fold(w, a);
  }
  if constexpr (__is_same(typename Op::Vec, V)) {
    if (i == n) return w;
    V rest = Op::lift(x[i]);  // numbers one by one, but as vectors: NaN needs no branch, and short rows overlap
    for (++i; i < n; ++i) rest = Op::step(rest, Op::lift(x[i]));
    float lanes[kLanes];
    store(lanes, rest);
    return Op::step(w, static_cast<typename Op::Wide>(lanes[0]));
  }
  for (; i < n; ++i) w = Op::step(w, Op::one(x[i]));
  return w;
}

// `count` runs of n values, `step` apart, each on top of w: into numbers `y_step` apart. Returns the last, as it was before.
template <class Op>
static __attribute__((noinline)) typename Op::Wide reduce_runs(const typename Op::In* x, int64_t count, int64_t step, int64_t n,
                                                               typename Op::Wide w, typename Op::T* y, int64_t y_step) {
  typename Op::Wide last = w;
  for (int64_t k = 0; k < count; ++k) {
    last = reduce_run<Op>(x + k * step, n, w);
    y[k * y_step] = static_cast<typename Op::T>(last);
  }
  return last;
}

template <class Op>
static PEN_INLINE void start_total(typename Op::Total* total) {
  if constexpr (__is_same(typename Op::Total, typename Op::Vec))
    *total = Op::start();
  else
    *total = {};
}
template <class Op>
static PEN_INLINE void add_total(typename Op::Total* total, typename Op::Vec v) {
  if constexpr (__is_same(typename Op::Total, typename Op::Vec)) {
    *total = Op::step(*total, v);
  } else {
    for (int i = 0; i < Op::kWidth; ++i) total->lanes[i] += v[i];
  }
}

// U vectors of columns over reduced rows [begin, end), 64 rows to a block, blocks added up apart.
template <class Op, int U, bool kPartial>
static __attribute__((noinline)) void reduce_columns(const ReduceDims& d, const typename Op::In* x, int64_t begin, int64_t end,
                                                     int64_t lanes, typename Op::T* result) {
  typename Op::Vec acc[U];
  typename Op::Total total[U];
#pragma GCC unroll 4
  for (int u = 0; u < U; ++u) start_total<Op>(&total[u]);
  int last = d.rank - 1;
  while (begin < end) {
    int64_t unused = 0, n = 1, step = 0;
    const typename Op::In* p = x + reduce_offset(d, begin, &unused);
    if (last >= 0) {
      step = d.in[last];
      n = d.dims[last] - begin % d.dims[last];
    }
    if (n > end - begin) n = end - begin;
    if (n > 64) n = 64;
#pragma GCC unroll 4
    for (int u = 0; u < U; ++u) acc[u] = Op::start();
    for (int64_t k = 0; k < n; ++k, p += step) {
#pragma GCC unroll 4
      for (int u = 0; u < U; ++u) acc[u] = Op::step(acc[u], kPartial ? Op::read_partial(p, lanes) : Op::read(p + u * Op::kWidth));
    }
#pragma GCC unroll 4
    for (int u = 0; u < U; ++u) add_total<Op>(&total[u], acc[u]);
    begin += n;
  }
#pragma GCC unroll 4
  for (int u = 0; u < U; ++u) Op::write(result + u * Op::kWidth, total[u]);
}

// The first n columns over reduced rows [units.begin, units.end) into result, which has room for a whole vector more.
template <class Op>
static PEN_OUTER void reduce_chunk(const ReduceDims& d, const typename Op::In* x, Range units, int64_t n, typename Op::T* result) {
  constexpr int W = Op::kWidth;
  int64_t i = 0;
  if constexpr (W < 16 || __is_same(typename Op::Vec, V)) {  // bytes: a vector is a cache line's worth already
    for (; i + 4 * W <= n; i += 4 * W) reduce_columns<Op, 4, false>(d, x + i, units.begin, units.end, 0, result + i);
  }
  for (; i + 2 * W <= n; i += 2 * W) reduce_columns<Op, 2, false>(d, x + i, units.begin, units.end, 0, result + i);
  for (; i < n; i += W) reduce_columns<Op, 1, true>(d, x + i, units.begin, units.end, n - i < W ? n - i : W, result + i);
}

// Results of the parts of n outputs, `step` apart, in order, in the wide type.
template <class Op>
static PEN_OUTER void combine_parts(const typename Op::T* parts, int64_t count, int64_t step, int64_t n, typename Op::T* result) {
  using Wide = typename Op::Wide;
  Wide w[kReduceChunk];
  for (int64_t j = 0; j < n; ++j) w[j] = Op::step(Op::wide(), static_cast<Wide>(parts[j]));
  for (int64_t k = 1; k < count; ++k)
    for (int64_t j = 0; j < n; ++j) w[j] = Op::step(w[j], static_cast<Wide>(parts[k * step + j]));
  for (int64_t j = 0; j < n; ++j) result[j] = static_cast<typename Op::T>(w[j]);
}

// The loops that are a rule's own. All around them is the same for all rules on the same types, and compiled once for them.
template <class In, class T, class Wide>
struct ReduceRule {
  Wide start;
  Wide (*runs)(const In* x, int64_t count, int64_t step, int64_t n, Wide w, T* y, int64_t y_step);
  void (*chunk)(const ReduceDims& d, const In* x, Range units, int64_t n, T* result);
  void (*combine)(const T* parts, int64_t count, int64_t step, int64_t n, T* result);
};

// One part of an item into result[0] (rows) or result[0 .. chunk) (columns; room for a whole vector more).
template <class In, class T, class Wide>
static PEN_INLINE int64_t reduce_item(const ReduceParams& p, const ReduceRule<In, T, Wide>& rule, const In* x, int64_t item,
                                      int64_t part_index, T* result) {
  int64_t unused = 0;
  Range units = part(p.units, p.parts, part_index);
  x += reduce_offset(p.kept, p.columns ? item / p.chunks : item, &unused);
  if (!p.columns) {
    Wide w = rule.start;
    *result = static_cast<T>(w);
    for (int64_t u = units.begin; u < units.end; ++u) {
      int64_t run = p.blocks == 1 ? u : u / p.blocks, at = (u - run * p.blocks) * kReduceBlock;
      int64_t n = p.inner - at < kReduceBlock ? p.inner - at : kReduceBlock;
      w = rule.runs(x + reduce_offset(p.reduced, run, &unused) + at, 1, 0, n, w, result, 0);
    }
    return 1;
  }
  int64_t at = item % p.chunks * kReduceChunk;
  int64_t n = p.inner - at < kReduceChunk ? p.inner - at : kReduceChunk;
  rule.chunk(p.reduced, x + at, units, n, result);
  return n;
}

template <class In, class T, class Wide>
static PEN_OUTER void reduce_items(const Run& r, const ReduceRule<In, T, Wide>& rule) {
  const ReduceParams& p = r.as<ReduceParams>();
  const In* x = r.in[0].as<In>();
  T* shared = reinterpret_cast<T*>(r.shared);
  int64_t width = p.columns ? kReduceChunk : 1;
  T buffer[kReduceChunk + kVectorBytes];  // the last vector of a chunk is written whole
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = r.phase == 0 ? part(p.items * p.parts, p.tasks, task) : part(p.items, p.final_tasks, task);
    for (int64_t i = range.begin; i < range.end; ++i) {
      const ReducePiece piece = reduce_piece(p, r.phase, i);
      int64_t item = piece.item, n = 0;
      if (r.phase == 0) {
        n = reduce_item(p, rule, x, item, piece.part, buffer);
        if (p.parts > 1) {
          for (int64_t j = 0; j < n; ++j) shared[piece.slot * width + j] = buffer[j];
          continue;
        }
      } else {
        int64_t at = item % p.chunks * kReduceChunk;
        n = p.columns ? (p.inner - at < kReduceChunk ? p.inner - at : kReduceChunk) : 1;
        rule.combine(shared + piece.slot * width, p.parts, width, n, buffer);
      }
      int64_t out = 0;
      reduce_offset(p.kept, item / p.chunks, &out);
      out += item % p.chunks * kReduceChunk * p.inner_out;
      for (int64_t j = 0; j < n; ++j) r.out[0].as<T>()[out + j * p.inner_out] = finished(buffer[j], p);
    }
  }
}

// Where each output is one run, maybe a short one: as many as follow each other in one call.
template <class In, class T, class Wide>
static PEN_OUTER void reduce_rows(const Run& r, const ReduceRule<In, T, Wide>& rule) {
  const ReduceParams& p = r.as<ReduceParams>();
  Range range = {part(p.items, p.tasks, r.begin).begin, part(p.items, p.tasks, r.end - 1).end};
  for_each_stretch(p.kept, range.begin, range.end, kReduceChunk, [&](int64_t n, int64_t in, int64_t step, int64_t out, int64_t out_step) {
    T* y = r.out[0].as<T>() + out;
    rule.runs(r.in[0].as<In>() + in, n, step, p.inner, rule.start, y, out_step);
    if (p.finish == Finish::as_it_is) return;
    for (int64_t k = 0; k < n; ++k) y[k * out_step] = finished(y[k * out_step], p);
  });
}

template <class Op>
static PEN_INLINE void reduce(const Run& r) {
  const ReduceParams& p = r.as<ReduceParams>();
  ReduceRule<typename Op::In, typename Op::T, typename Op::Wide> rule = {Op::wide(), reduce_runs<Op>, reduce_chunk<Op>, combine_parts<Op>};
  p.columns || p.parts > 1 || p.units != 1 ? reduce_items(r, rule) : reduce_rows(r, rule);
}

}  // namespace PEN_ISA
}  // namespace pen
