// A walk over the elements of a box, row by row, in step with three tensors: what the kernels that read or write where
// indices say have in common. Dims that continue each other in all three are merged; a dim that moves a tensor by
// nothing has stride 0 there. Offsets are kept from row to row, so short rows cost no division.
#pragma once
#include "penlight/ops/index/indices.h"
#include "penlight/runtime/base/dims.h"

namespace pen {

struct Walk {
  int rank;  // at least 1
  int64_t dims[kMaxRank], steps[3][kMaxRank];

  // Puts a dim inside of those that are there.
  PEN_INLINE void add(int64_t size, int64_t a, int64_t b, int64_t c) {
    if (size == 1) return;
    const int64_t inner[3] = {a, b, c};
    int64_t* const all[3] = {steps[0], steps[1], steps[2]};
    rank = add_inner_dim(rank, dims, all, 3, size, inner);
  }
  // After the last add: a box of one element has a row of one.
  PEN_INLINE void close() {
    if (rank == 0) dims[rank++] = 1;
  }
  PEN_INLINE int64_t numel() const {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= dims[d];
    return n;
  }
  // row(n, offsets) for the elements [begin, end): `offsets` of the first of n elements along the innermost dim.
  template <class Row>
  PEN_INLINE void rows(int64_t begin, int64_t end, Row row) const {
    if (begin >= end) return;
    const int inner = rank - 1;
    int64_t at[kMaxRank] = {}, offsets[3] = {}, rest = begin;
    for (int d = inner; d >= 0; --d) {
      at[d] = rest % dims[d];
      rest /= dims[d];
      for (int t = 0; t < 3; ++t) offsets[t] += at[d] * steps[t][d];
    }
    while (true) {
      int64_t n = dims[inner] - at[inner];
      if (n > end - begin) n = end - begin;
      row(n, offsets);
      begin += n;
      if (begin >= end) return;
      if (at[inner] != 0) {  // only the first row: all others save the round trip through memory
        for (int t = 0; t < 3; ++t) offsets[t] -= at[inner] * steps[t][inner];
        at[inner] = 0;
      }
      for (int d = inner - 1; d >= 0; --d) {
        for (int t = 0; t < 3; ++t) offsets[t] += steps[t][d];
        if (++at[d] < dims[d]) break;
        for (int t = 0; t < 3; ++t) offsets[t] -= dims[d] * steps[t][d];
        at[d] = 0;
      }
    }
  }
};

// For walks that write: the dims that move tensor `t` lead to different elements of it, so the largest of them can be
// cut into tasks. -1: none does.
static PEN_INLINE int cut_dim(const Walk& w, int t) {
  int best = -1;
  for (int d = 0; d < w.rank; ++d) {
    if (w.steps[t][d] != 0 && (best < 0 || w.dims[d] > w.dims[best])) best = d;
  }
  return best;
}

// How an element that is there and one that comes become one.
enum class Combine : int32_t { set, add, mul, max, min };
static PEN_INLINE bool parse_combine(const char* name, Combine* how) {
  static constexpr const char* kNames[] = {"", "add", "mul", "max", "min"};
  for (int i = 0; i < 5; ++i) {
    if (strcmp(name, kNames[i]) != 0) continue;
    *how = static_cast<Combine>(i);
    return true;
  }
  return false;
}

template <class T>
struct Unsigned {  // integers wrap around
  using Type = T;
};
template <>
struct Unsigned<int64_t> {
  using Type = uint64_t;
};
template <>
struct Unsigned<int32_t> {
  using Type = uint32_t;
};

// out[place(i) + i * out_step] = that, combined with from[i * step]; in this order. A place below 0 ends it. kWhole: all
// have the first one's place.
template <bool kWhole, class T, class P, class F>
static PEN_INLINE void combine_row(T* __restrict out, int64_t out_step, P place, const T* __restrict from, int64_t step, int64_t n, F f) {
  if constexpr (kWhole) {
    int64_t at = place(0), i = 0;
    if (at < 0) return;
    out += at;
    for (; i + 16 <= n && out_step == 1 && step == 1; i += 16) {  // a known size: vectors
      for (int k = 0; k < 16; ++k) out[i + k] = f(out[i + k], from[i + k]);
    }
    for (; i < n; ++i) out[i * out_step] = f(out[i * out_step], from[i * step]);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = place(i);
      if (PEN_UNLIKELY(at < 0)) return;
      T* to = out + at + i * out_step;
      *to = f(*to, from[i * step]);
    }
  }
}

// kNumbers: T is a number, else just bits, which can only be set.
template <bool kWhole, bool kNumbers, class T, class P>
static PEN_INLINE void put_row(Combine how, T* out, int64_t out_step, P place, const T* from, int64_t step, int64_t n) {
  using U = typename Unsigned<T>::Type;
  if constexpr (kNumbers) {
    switch (how) {
      case Combine::add:
        return combine_row<kWhole>(out, out_step, place, from, step, n,
                                   [](T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); });
      case Combine::mul:
        return combine_row<kWhole>(out, out_step, place, from, step, n,
                                   [](T a, T b) { return static_cast<T>(static_cast<U>(a) * static_cast<U>(b)); });
      case Combine::max:  // NaN wins
        return combine_row<kWhole>(out, out_step, place, from, step, n, [](T a, T b) { return (a > b) | (a != a) ? a : b; });
      case Combine::min:
        return combine_row<kWhole>(out, out_step, place, from, step, n, [](T a, T b) { return (a < b) | (a != a) ? a : b; });
      default:
        break;
    }
  }
  if (kWhole && out_step == 1 && step == 1) {
    int64_t at = place(0);
    if (at >= 0) memcpy(out + at, from, static_cast<size_t>(n) * sizeof(T));
    return;
  }
  combine_row<kWhole>(out, out_step, place, from, step, n, [](T, T b) { return b; });
}

// The first step of operators that give back x with some elements changed: x is copied, unless it lies there already.
struct CopyFirst {
  Runs runs;
  int64_t numel, tasks;
};
static PEN_INLINE Status bind_copy_first(Bind& b, CopyFirst* c) {
  const Tensor& x = b.in(0);
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  if (is_empty(x)) return PEN_OK;
  b.may_reuse(0, 0, true);
  c->runs = make_runs(x, x, b.out(0));
  c->numel = x.numel();
  c->tasks = task_count(c->numel * dtype_size(x.dtype), 1 << 16);
  return PEN_OK;
}
static PEN_INLINE void copy_first(const Run& r, const CopyFirst& c) {
  if (r.in[0].data == r.out[0].data) return;
  Range range = {part(c.numel, c.tasks, r.begin).begin, part(c.numel, c.tasks, r.end - 1).end};
  copy_range(c.runs, r.out[0].data, r.in[0].data, dtype_size(r.out[0].dtype), range.begin, range.end);
}

}  // namespace pen
