// sort, topk, kth and mode along a dim: rows of any strides, f32, f64, i32 and i64. Results are read back from x by their places,
// so every bit of a NaN and the sign of a zero survive.
#include "penlight/ops/sort/order.h"

namespace pen {

struct SortParams {
  OrderRows rows;
  int64_t k;
  bool flag;     // descending, largest
  int nan_rule;  // kth: 0 last, 1 wins, 2 left out
};

PEN_SHAPE(sort) {
  int64_t dim;
  PEN_TRY(order_dim(s, &dim));
  return order_shapes(s, shape_of(s.in(0)));
}

PEN_BIND(sort) {
  PEN_TRY(order_outputs(b));
  SortParams* p = b.params<SortParams>();
  p->flag = b.flag("descending");
  return is_empty(b.out(0)) ? PEN_OK : order_rows(b, b.integer("dim"), b.out(0).strides, &p->rows);
}

PEN_SHAPE(topk) {
  int64_t dim, k = s.integer("k");
  PEN_TRY(order_dim(s, &dim));
  Shape shape = shape_of(s.in(0));
  if (k < 0 || k > shape.dims[dim])
    return s.fail(-1, "k of 0 up to the size of the dim", "%lld of %lld", static_cast<long long>(k),
                  static_cast<long long>(shape.dims[dim]));
  shape.dims[dim] = k;
  return order_shapes(s, shape);
}

PEN_BIND(topk) {
  PEN_TRY(order_outputs(b));
  SortParams* p = b.params<SortParams>();
  p->k = b.integer("k");
  p->flag = b.flag("largest");
  return is_empty(b.out(0)) ? PEN_OK : order_rows(b, b.integer("dim"), b.out(0).strides, &p->rows);
}

// Operators that leave one element of each row.
static PEN_SMALL Status one_of_row_shapes(Shapes& s, int64_t* dim) {
  PEN_TRY(order_dim(s, dim));
  const Tensor& x = s.in(0);
  bool reduced[kMaxRank] = {};
  reduced[*dim] = true;
  Shape shape = reduce_shape(x, reduced, s.flag("keepdim"));
  if (x.dims[*dim] == 0 && !is_empty(shape)) return s.fail(0, "at least one element to choose from", "none");
  return order_shapes(s, shape);
}
static PEN_SMALL Status one_of_row(Bind& b, SortParams* p) {
  int64_t dim = b.integer("dim"), out[kMaxRank];
  bool reduced[kMaxRank] = {};
  reduced[dim] = true;
  PEN_TRY(order_outputs(b));
  if (is_empty(b.out(0))) return PEN_OK;
  reduce_out_strides(b.in(0), b.out(0), reduced, b.flag("keepdim"), out);
  return order_rows(b, dim, out, &p->rows);
}

// 0 to 2; 3: there is no such rule.
static PEN_SMALL int nan_rule(const Given& g) {
  static constexpr const char* kNanRules[] = {"last", "wins", "left out"};
  int rule = 0;
  while (rule < 3 && strcmp(g.text("nan"), kNanRules[rule]) != 0) ++rule;
  return rule;
}

PEN_SHAPE(kth) {
  int64_t dim, k = s.integer("k");
  PEN_TRY(one_of_row_shapes(s, &dim));
  if (nan_rule(s) == 3) return s.fail(-1, "nan last, wins or left out", "%s", s.text("nan"));
  int64_t length = s.in(0).dims[dim];
  if (is_empty(s.in(0)) || (k >= 1 && k <= length)) return PEN_OK;
  return s.fail(-1, "k of 1 up to the size of the dim", "%lld of %lld", static_cast<long long>(k), static_cast<long long>(length));
}

PEN_BIND(kth) {
  SortParams* p = b.params<SortParams>();
  p->nan_rule = nan_rule(b);
  p->k = b.integer("k");
  return one_of_row(b, p);
}

PEN_SHAPE(mode) {
  int64_t dim;
  return one_of_row_shapes(s, &dim);
}
PEN_BIND(mode) { return one_of_row(b, b.params<SortParams>()); }

namespace PEN_ISA {

template <class T>
static __attribute__((noinline)) void write_row(Patience& patience, const Run& r, const OrderRows& p, const T* x, int64_t out,
                                                const uint64_t* words, int64_t n) {
  T* values = r.out[0].as<T>() + out;
  int64_t* indices = r.out[1].as<int64_t>() + out;
  if (patience.ends(0)) return;  // the words may not be there
  in_pieces(patience, n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t place = place_of(words[i]);
      values[i * p.out_step] = x[place * p.step];
      indices[i * p.out_step] = place;
    }
  });
}

template <class T>
static PEN_INLINE void sort(const Run& r) {
  const SortParams& p = r.as<SortParams>();
  OrderSpace space = order_space(r.scratch, p.rows.length);
  for_each_row<T>(r, p.rows, [&](Patience& patience, const T* x, int64_t out) {
    order_row(patience, x, p.rows.step, p.rows.length, p.flag, space);
    write_row(patience, r, p.rows, x, out, space.words, p.rows.length);
  });
}

// Whether one of 16 bytes' worth of values, and the three blocks after it, may come before `bound`. NaN always may.
template <class T>
static PEN_INLINE bool may_come_before(const T* x, T bound, bool largest) {
  typedef T Block __attribute__((vector_size(16)));
  constexpr int kBlock = static_cast<int>(16 / sizeof(T));
  Block v[4], limit = Block{} + bound;
  __builtin_memcpy(v, x, sizeof v);
  uint64_t any[2] = {};
  for (int i = 0; i < 4; ++i) {
    auto found = largest ? ~(v[i] <= limit) : ~(v[i] >= limit);
    uint64_t bits[2];
    static_assert(sizeof found == sizeof bits && kBlock > 0, "a mask is as wide as the block");
    __builtin_memcpy(bits, &found, sizeof bits);
    any[0] |= bits[0];
    any[1] |= bits[1];
  }
  return (any[0] | any[1]) != 0;
}

// The best k of a row with n > k, by one pass: those that may be among them are collected, and whenever the room is full
// all but the best k so far are dropped; from then on only what beats the last of these is collected. key(v): the upper
// half of its word.
template <class T, class Key>
static PEN_INLINE void collect_best(Patience& patience, const T* x, int64_t step, int64_t n, int64_t k, bool largest,
                                    const OrderSpace& space, const Key& key) {
  constexpr int64_t kBlock = 64 / static_cast<int64_t>(sizeof(T));
  uint32_t limit = 0xffffffffu;
  int64_t room = k + 256 > 2 * k ? k + 256 : 2 * k, count = 0;
  bool bounded = false;
  T bound = 0;
  in_pieces(patience, n, [&](int64_t begin, int64_t last) {
    for (int64_t i = begin; i < last;) {
      if (bounded && step == 1) {
        while (i + kBlock <= last && !may_come_before(x + i, bound, largest)) i += kBlock;
      }
      int64_t end = last - i < kBlock ? last : i + kBlock;
      for (; i < end; ++i) {
        uint32_t here = key(x[i * step]);
        if (bounded && here >= limit) continue;
        space.words[count++] = order_word(here, i);
        if (count < room) continue;
        select_words(patience, space.words, space.others, count, k);
        count = k;
        bounded = true;
        limit = static_cast<uint32_t>(space.words[k - 1] >> 32);
        bound = x[place_of(space.words[k - 1]) * step];
      }
    }
  });
  if (count > k) select_words(patience, space.words, space.others, count, k);
}

// The best k in order.
template <class T>
static PEN_INLINE void best_row(Patience& patience, const T* x, int64_t step, int64_t n, int64_t k, bool largest, const OrderSpace& space) {
  bool many = n > 4 * k + 512;
  if constexpr (sizeof(T) == 8) {
    WideRow row = wide_row(patience, x, step, n, largest);
    if (!row.fits()) return order_row(patience, x, step, n, largest, space);
    if (many)
      collect_best(patience, x, step, n, k, largest, space, [&](T v) { return static_cast<uint32_t>(row.key(ordered(v))); });
    else
      select_row(patience, x, step, n, k, largest, space);
  } else {
    uint32_t flip = largest ? 0xffffffffu : 0;
    if (many)
      collect_best(patience, x, step, n, k, largest, space, [&](T v) { return order_key(v) ^ flip; });
    else
      select_row(patience, x, step, n, k, largest, space);
  }
  sort_words(patience, space.words, space.others, k, false);
}

template <class T>
static PEN_INLINE void topk(const Run& r) {
  const SortParams& p = r.as<SortParams>();
  int64_t n = p.rows.length, k = p.k;
  OrderSpace space = order_space(r.scratch, n);
  for_each_row<T>(r, p.rows, [&](Patience& patience, const T* x, int64_t out) {
    if (n > 2 * k)
      best_row(patience, x, p.rows.step, n, k, p.flag, space);
    else
      order_row(patience, x, p.rows.step, n, p.flag, space);
    write_row(patience, r, p.rows, x, out, space.words, k);
  });
}

template <class T>
static PEN_INLINE void kth(const Run& r) {
  const SortParams& p = r.as<SortParams>();
  int64_t n = p.rows.length;
  OrderSpace space = order_space(r.scratch, n);
  for_each_row<T>(r, p.rows, [&](Patience& patience, const T* x, int64_t out) {
    int64_t k = p.k, nans = 0, first = 0;
    for (int64_t i = n - 1; p.nan_rule != 0 && i >= 0 && !patience.ends(1); --i) {
      bool nan = not_a_number(x[i * p.rows.step]);
      nans += nan;
      first = nan ? i : first;
    }
    if (p.nan_rule == 2) k = nans == n ? 0 : (n - nans - 1) / 2 + 1;
    if (p.nan_rule == 1 && nans > 0) k = 0;
    int64_t place = first;
    if (k > 0) {
      select_row(patience, x, p.rows.step, n, k, false, space);
      if (patience.ends(0)) return;  // the words may not be there
      place = place_of(space.words[k - 1]);
    }
    r.out[0].as<T>()[out] = x[place * p.rows.step];
    r.out[1].as<int64_t>()[out] = place;
  });
}

template <class T>
static PEN_INLINE void mode(const Run& r) {
  const SortParams& p = r.as<SortParams>();
  int64_t n = p.rows.length, step = p.rows.step;
  OrderSpace space = order_space(r.scratch, n);
  for_each_row<T>(r, p.rows, [&](Patience& patience, const T* x, int64_t out) {
    order_row(patience, x, step, n, false, space);
    if (patience.ends(0)) return;  // the words may not be there
    int64_t most = 0, best = 0, begin = 0;
    for (int64_t i = 0; i < n && !patience.ends(1); ++i) {
      bool last = i + 1 == n || x[place_of(space.words[i]) * step] != x[place_of(space.words[i + 1]) * step];
      if (!last) continue;
      if (i + 1 - begin > most) {
        most = i + 1 - begin;
        best = i;
      }
      begin = i + 1;
    }
    int64_t place = place_of(space.words[best]);
    r.out[0].as<T>()[out] = x[place * step];
    r.out[1].as<int64_t>()[out] = place;
  });
}

}  // namespace PEN_ISA

PEN_KERNEL_ANY(sort, f32) { PEN_ISA::sort<float>(r); }
PEN_KERNEL_ANY(sort, f64) { PEN_ISA::sort<double>(r); }
PEN_KERNEL_ANY(sort, i32) { PEN_ISA::sort<int32_t>(r); }
PEN_KERNEL_ANY(sort, i64) { PEN_ISA::sort<int64_t>(r); }
PEN_KERNEL_ANY(topk, f32) { PEN_ISA::topk<float>(r); }
PEN_KERNEL_ANY(topk, f64) { PEN_ISA::topk<double>(r); }
PEN_KERNEL_ANY(topk, i32) { PEN_ISA::topk<int32_t>(r); }
PEN_KERNEL_ANY(topk, i64) { PEN_ISA::topk<int64_t>(r); }
PEN_KERNEL_ANY(kth, f32) { PEN_ISA::kth<float>(r); }
PEN_KERNEL_ANY(kth, f64) { PEN_ISA::kth<double>(r); }
PEN_KERNEL_ANY(kth, i32) { PEN_ISA::kth<int32_t>(r); }
PEN_KERNEL_ANY(kth, i64) { PEN_ISA::kth<int64_t>(r); }
PEN_KERNEL_ANY(mode, f32) { PEN_ISA::mode<float>(r); }
PEN_KERNEL_ANY(mode, f64) { PEN_ISA::mode<double>(r); }
PEN_KERNEL_ANY(mode, i32) { PEN_ISA::mode<int32_t>(r); }
PEN_KERNEL_ANY(mode, i64) { PEN_ISA::mode<int64_t>(r); }

}  // namespace pen
