// Putting a row of numbers in order. A number becomes a word: its key in the upper 32 bits, an unsigned integer that orders
// as the numbers do (NaN last), and its position below. No two words are the same, so every way to sort them keeps equal
// numbers in place, and one core serves all dtypes. i64 rows whose values span more than 32 bits are sorted twice, by the
// lower and by the upper halves, and so are rows of f64.
#pragma once
#include "penlight/ops/reduce/reduce.h"

namespace pen {

// The rows of x along `dim`, in one order for input and outputs.
struct OrderRows {
  ReduceDims kept;
  int64_t length, step;  // of the dim in x
  int64_t out_step;      // in the outputs
  int64_t tasks;
};

constexpr int64_t kMaxRow = int64_t{1} << 31;
// Two words and a place an element, for rows of length n.
static PEN_INLINE int64_t order_bytes(int64_t n) { return n * 20 + 64; }

// `out`: the stride of each dim of x in the outputs; tasks take `grain` elements or more.
static PEN_INLINE Status order_rows(Bind& b, int64_t dim, const int64_t* out, OrderRows* p) {
  const Tensor& x = b.in(0);
  p->length = x.dims[dim];
  p->step = x.strides[dim];
  p->out_step = out[dim];
  if (p->length >= kMaxRow) return b.fail(0, "rows below 2**31 elements", "%lld", static_cast<long long>(p->length));
  p->kept.numel = 1;
  int order[kMaxRank];
  int n = memory_order(x, order);
  for (int k = 0; k < n; ++k) {
    int i = order[k];
    if (i != dim) reduce_push(&p->kept, x.dims[i], x.strides[i], out[i]);
  }
  p->tasks = task_count(p->kept.numel, 4096 / (p->length + 1) + 1);
  PEN_TRY(b.scratch(order_bytes(p->length)));
  b.tasks(p->tasks);
  return PEN_OK;
}

static PEN_INLINE Status order_dim(const Given& g, int64_t* dim) {
  PEN_TRY(need_countable(g, 0));
  *dim = g.integer("dim");
  if (*dim >= 0 && *dim < g.in(0).rank) return PEN_OK;
  return g.fail(-1, "a dim that the tensor has", "dim %lld of rank %d", static_cast<long long>(*dim), g.in(0).rank);
}

// Two outputs of these dims: values, indices.
static PEN_INLINE Status order_shapes(Shapes& s, const Shape& shape) {
  PEN_TRY(s.output(0, s.in(0).dtype, shape));
  return s.output(1, DType::i64, shape);
}
// They must lie alike; strides of a single element do not matter (one output may lie in a cat).
static PEN_INLINE Status order_outputs(Bind& b) {
  PEN_TRY(b.need_plain(0));
  PEN_TRY(b.output(0));
  PEN_TRY(b.output(1));
  for (int i = 0; i < b.out(0).rank; ++i) {
    if (b.out(0).dims[i] > 1 && b.out(0).strides[i] != b.out(1).strides[i])
      return b.fail(-1, "two outputs that lie alike", "another stride in dim %d", i);
  }
  return PEN_OK;
}

namespace PEN_ISA {

struct OrderSpace {
  uint64_t *words, *others;
  uint32_t* places;
};
static PEN_INLINE OrderSpace order_space(char* scratch, int64_t n) {
  uint64_t* words = reinterpret_cast<uint64_t*>(scratch);
  return {words, words + n, reinterpret_cast<uint32_t*>(words + 2 * n)};
}

static PEN_INLINE bool not_a_number(float v) { return v != v; }
static PEN_INLINE bool not_a_number(double v) { return v != v; }
static PEN_INLINE bool not_a_number(int32_t) { return false; }
static PEN_INLINE bool not_a_number(int64_t) { return false; }

static PEN_INLINE uint32_t order_key(float v) {
  if (v != v) return 0xffffffffu;
  v += 0.0f;  // -0 becomes 0
  uint32_t bits;
  __builtin_memcpy(&bits, &v, 4);
  return bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
}
static PEN_INLINE uint32_t order_key(int32_t v) { return static_cast<uint32_t>(v) ^ 0x80000000u; }

static PEN_INLINE uint64_t order_word(uint32_t key, int64_t place) {
  return static_cast<uint64_t>(key) << 32 | static_cast<uint64_t>(place);
}
static PEN_INLINE int64_t place_of(uint64_t word) { return static_cast<int64_t>(word & 0xffffffffu); }

static inline __attribute__((unused)) void insertion_sort(uint64_t* a, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    uint64_t w = a[i];
    int64_t j = i;
    for (; j > 0 && a[j - 1] > w; --j) a[j] = a[j - 1];
    a[j] = w;
  }
}

// Runs of 16, merged. Always the smaller of two: by arithmetic, as the outcome cannot be predicted.
static inline __attribute__((unused)) void merge_sort(Patience& patience, uint64_t* a, uint64_t* other, int64_t n) {
  in_pieces(patience, n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += 16) insertion_sort(a + i, n - i < 16 ? n - i : 16);
  });
  uint64_t *from = a, *to = other;
  for (int64_t width = 16; width < n; width *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * width) {
      int64_t middle = begin + width < n ? begin + width : n, end = middle + width < n ? middle + width : n;
      int64_t i = begin, j = middle, at = begin;
      while (i < middle && j < end) {
        int64_t sure = middle - i < end - j ? middle - i : end - j;  // so many can be taken before either side is empty
        if (patience.ends(sure)) return;
        for (; sure > 0; --sure) {
          uint64_t left = from[i], right = from[j];
          bool take_left = left < right;
          to[at++] = take_left ? left : right;
          i += take_left;
          j += !take_left;
        }
      }
      while (i < middle) to[at++] = from[i++];
      while (j < end) to[at++] = from[j++];
    }
    uint64_t* done = to;
    to = from;
    from = done;
  }
  if (from != a) memcpy(a, from, static_cast<size_t>(n) * sizeof(uint64_t));
}

// By bytes of the key, the lowest first; bytes that are the same in all keys are passed over. Needs words in the order of
// their places.
static inline __attribute__((unused)) void radix_sort(Patience& patience, uint64_t* a, uint64_t* other, int64_t n) {
  uint32_t counts[4][256] = {};
  in_pieces(patience, n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      uint32_t key = static_cast<uint32_t>(a[i] >> 32);
      for (int d = 0; d < 4; ++d) ++counts[d][key >> (8 * d) & 255];
    }
  });
  if (patience.ends(0)) return;
  uint64_t *from = a, *to = other;
  for (int d = 0; d < 4; ++d) {
    int shift = 32 + 8 * d;
    uint32_t* count = counts[d];
    if (count[from[0] >> shift & 255] == static_cast<uint32_t>(n)) continue;
    uint32_t sum = 0;
    for (int i = 0; i < 256; ++i) {
      uint32_t here = count[i];
      count[i] = sum;
      sum += here;
    }
    in_pieces(patience, n, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[count[from[i] >> shift & 255]++] = from[i];
    });
    if (patience.ends(0)) return;
    uint64_t* done = to;
    to = from;
    from = done;
  }
  if (from != a) memcpy(a, from, static_cast<size_t>(n) * sizeof(uint64_t));
}

// `in_place_order`: word i has place i.
static inline __attribute__((unused)) void sort_words(Patience& patience, uint64_t* a, uint64_t* other, int64_t n, bool in_place_order) {
  if (n <= 24)
    insertion_sort(a, n);
  else if (n <= 400 || !in_place_order)
    merge_sort(patience, a, other, n);
  else
    radix_sort(patience, a, other, n);
}

// The k smallest words come first, the k-th last among them; what follows is larger. Each round writes every word to both
// ends of the other array and moves one end on: no branch to predict. The pivot is chosen at random, so no order of the
// data is a bad one.
static inline __attribute__((unused)) void select_words(Patience& patience, uint64_t* a, uint64_t* other, int64_t n, int64_t k) {
  uint64_t state = 0x9e3779b97f4a7c15u;
  int64_t begin = 0, end = n;  // the k-th is in between
  while (end - begin > 24) {
    int64_t size = end - begin;
    uint64_t three[3];
    for (uint64_t& w : three) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      w = a[begin + static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(size))];
    }
    insertion_sort(three, 3);
    uint64_t pivot = three[1];
    int64_t low = 0, high = size - 1;
    in_pieces(patience, size, [&](int64_t from, int64_t to) {
      for (int64_t i = begin + from; i < begin + to; ++i) {
        uint64_t w = a[i];
        bool smaller = w < pivot;
        other[low] = w;
        other[high] = w;
        low += smaller;
        high -= !smaller;
      }
    });
    if (patience.ends(0)) return;
    // `low` words are smaller; the pivot itself is among the others, somewhere.
    memcpy(a + begin, other, static_cast<size_t>(size) * sizeof(uint64_t));
    if (begin + low >= k) {
      end = begin + low;
    } else if (low > 0) {
      begin += low;
    } else {  // the pivot is the smallest of all: put it first
      for (int64_t i = begin; i < end; ++i) {
        if (a[i] == pivot) {
          a[i] = a[begin];
          a[begin] = pivot;
          break;
        }
      }
      if (++begin >= k) return;
    }
  }
  insertion_sort(a + begin, end - begin);
}

// The words of a row, in the order of their places: the smallest first, or the largest.
template <class T>
static PEN_INLINE void row_words(Patience& patience, const T* x, int64_t step, int64_t n, bool descending, uint64_t* words) {
  uint32_t flip = descending ? 0xffffffffu : 0;
  in_pieces(patience, n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) words[i] = order_word(order_key(x[i * step]) ^ flip, i);
  });
}

// A wide number as an integer that orders as it does.
static PEN_INLINE int64_t ordered(int64_t v) { return v; }
static PEN_INLINE int64_t ordered(double v) {
  if (v != v) return INT64_MAX;
  v += 0.0;  // -0 becomes 0
  int64_t bits;
  __builtin_memcpy(&bits, &v, 8);
  return bits < 0 ? bits ^ INT64_MAX : bits;
}

// How the keys of a row of such integers are made: distances from the smallest or the largest value.
struct WideRow {
  int64_t least, most;
  bool descending;
  PEN_INLINE uint64_t key(int64_t v) const {
    return descending ? static_cast<uint64_t>(most) - static_cast<uint64_t>(v) : static_cast<uint64_t>(v) - static_cast<uint64_t>(least);
  }
  PEN_INLINE bool fits() const { return static_cast<uint64_t>(most) - static_cast<uint64_t>(least) < 0xffffffffu; }
};
template <class T>
static PEN_INLINE WideRow wide_row(Patience& patience, const T* x, int64_t step, int64_t n, bool descending) {
  WideRow row = {INT64_MAX, INT64_MIN, descending};
  in_pieces(patience, n, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t v = ordered(x[i * step]);
      row.least = v < row.least ? v : row.least;
      row.most = v > row.most ? v : row.most;
    }
  });
  return row;
}

// The places of a row's elements in order: the lower halves of space.words[0 .. n).
template <class T>
static __attribute__((noinline)) void order_row(Patience& patience, const T* x, int64_t step, int64_t n, bool descending,
                                                const OrderSpace& space) {
  if constexpr (sizeof(T) == 4) {
    row_words(patience, x, step, n, descending, space.words);
    return sort_words(patience, space.words, space.others, n, true);
  } else {
    WideRow row = wide_row(patience, x, step, n, descending);
    auto key = [&](int64_t i) { return row.key(ordered(x[i * step])); };
    auto each = [&](auto some) {
      in_pieces(patience, n, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) some(i);
      });
    };
    each([&](int64_t i) { space.words[i] = order_word(static_cast<uint32_t>(key(i)), i); });
    sort_words(patience, space.words, space.others, n, true);
    if (row.fits() || patience.ends(0)) return;  // the words may not be there
    each([&](int64_t i) { space.places[i] = static_cast<uint32_t>(space.words[i]); });
    each([&](int64_t i) { space.words[i] = order_word(static_cast<uint32_t>(key(space.places[i]) >> 32), i); });
    sort_words(patience, space.words, space.others, n, true);
    if (patience.ends(0)) return;
    each([&](int64_t i) { space.words[i] = space.places[space.words[i] & 0xffffffffu]; });
  }
}

// The places of the first k in order, not in order among themselves but for the k-th, which is last.
template <class T>
static __attribute__((noinline)) void select_row(Patience& patience, const T* x, int64_t step, int64_t n, int64_t k, bool descending,
                                                 const OrderSpace& space) {
  if constexpr (sizeof(T) == 4) {
    row_words(patience, x, step, n, descending, space.words);
  } else {
    WideRow row = wide_row(patience, x, step, n, descending);
    if (!row.fits()) return order_row(patience, x, step, n, descending, space);
    in_pieces(patience, n, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) space.words[i] = order_word(static_cast<uint32_t>(row.key(ordered(x[i * step]))), i);
    });
  }
  select_words(patience, space.words, space.others, n, k);
}

// Calls row(x, where its outputs begin) for every row of this task range. The walk itself is there once for all kernels.
using OnRow = void (*)(const void* row, Patience& patience, int64_t in, int64_t out);
static __attribute__((noinline, unused)) void walk_rows(const Run& r, const OrderRows& p, OnRow call, const void* row) {
  Patience patience(r);
  Range range = {part(p.kept.numel, p.tasks, r.begin).begin, part(p.kept.numel, p.tasks, r.end - 1).end};
  for_each_kept(p.kept, range.begin, range.end, [&](int64_t in, int64_t out) {
    if (!patience.ends(p.length)) call(row, patience, in, out);
  });
}
template <class T, class Row>
static PEN_INLINE void for_each_row(const Run& r, const OrderRows& p, const Row& row) {
  auto at = [&](Patience& patience, int64_t in, int64_t out) { row(patience, r.in[0].as<T>() + in, out); };
  auto call = [](const void* self, Patience& patience, int64_t in, int64_t out) {
    (*static_cast<const decltype(at)*>(self))(patience, in, out);
  };
  walk_rows(r, p, call, &at);
}

}  // namespace PEN_ISA
}  // namespace pen
