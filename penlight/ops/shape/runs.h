// Copies between two strided tensors of one shape, run by run: dims are put into the output's memory order, outermost
// first, those that continue each other on both sides are merged, and what is left innermost is one run, a memcpy
// where it is contiguous. Used by operators that move data and do not look at it; elements are `size` bytes.
#pragma once
#include "penlight/runtime/base/dims.h"
#include "penlight/runtime/cpu/short_copy.h"
#include "penlight/runtime/exec/kernel.h"

namespace pen {

struct Runs {
  int rank;                                             // at least 1
  int64_t dims[kMaxRank], in[kMaxRank], out[kMaxRank];  // strides in elements

  PEN_INLINE int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[i];
    return n;
  }
};

// A view may repeat elements (stride 0), so it may have more of them than memory has bytes: for operators whose output
// does not bound their input.
static PEN_INLINE Status need_countable(const Given& g, int input) {
  int64_t n = 1;
  const Tensor& t = g.in(input);
  for (int i = 0; i < t.rank; ++i) {
    if (__builtin_mul_overflow(n, t.dims[i] > 1 ? t.dims[i] : 1, &n) || n > int64_t{1} << 44)
      return g.fail(input, "at most 2**44 elements", "more");
  }
  return PEN_OK;
}

// Of a tensor or a shape. Asked first: the product of the other dims of an empty tensor may overflow.
template <class Dims>
static PEN_INLINE bool is_empty(const Dims& t) {
  for (int i = 0; i < t.rank; ++i) {
    if (t.dims[i] == 0) return true;
  }
  return false;
}

// `shape`: the dims to copy, in the order of `in` and `out` (those of a part of `out`, for cat).
static PEN_INLINE Runs make_runs(const Tensor& shape, const Tensor& in, const Tensor& out) {
  int order[kMaxRank], n = memory_order(out.rank, shape.dims, out.strides, order);
  Runs r = {};
  int64_t* const steps[2] = {r.in, r.out};
  for (int k = 0; k < n; ++k) {
    const int64_t inner[2] = {in.strides[order[k]], out.strides[order[k]]};
    r.rank = add_inner_dim(r.rank, r.dims, steps, 2, shape.dims[order[k]], inner);
  }
  if (r.rank == 0) r.rank = 1, r.dims[0] = r.in[0] = r.out[0] = 1;
  return r;
}

// Blocks of a known size: compilers make vectors of those even where they are careful with code size.
template <class T>
static inline void fill_row(T* out, T value, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int k = 0; k < 16; ++k) out[i + k] = value;
  }
  for (; i < n; ++i) out[i] = value;
}

// Eight pairs of bytes in three steps that SSE2 has; as one, GCC takes them apart.
typedef uint16_t Pairs __attribute__((vector_size(16)));
static PEN_INLINE Pairs reverse_pairs(Pairs v) {
  typedef uint64_t Halves __attribute__((vector_size(16)));
  v = __builtin_shufflevector(v, v, 3, 2, 1, 0, 4, 5, 6, 7);
  v = __builtin_shufflevector(v, v, 0, 1, 2, 3, 7, 6, 5, 4);
  Halves h = (Halves)v;
  return (Pairs)__builtin_shufflevector(h, h, 1, 0);
}

// out[i] = in[-i]; registers are turned round whole.
template <class T>
static __attribute__((noinline, unused)) void reverse_row(T* out, const T* in, int64_t n) {
  int64_t i = 0;
  if constexpr (sizeof(T) == 1) {  // in pairs, and then the pairs: SSE2 has no instruction for bytes
    using V = Pairs;
#pragma GCC unroll 4
    for (; i + 16 <= n; i += 16) {
      V v;
      memcpy(&v, in - i - 15, 16);
      v = reverse_pairs(v << 8 | v >> 8);
      memcpy(out + i, &v, 16);
    }
  } else {
    typedef T V __attribute__((vector_size(16)));
    constexpr int kCount = 16 / sizeof(T);
#pragma GCC unroll 4
    for (; i + kCount <= n; i += kCount) {
      V v;
      memcpy(&v, in - i - (kCount - 1), 16);
      if constexpr (kCount == 8) {
        v = reverse_pairs(v);
      } else if constexpr (kCount == 4) {
        v = __builtin_shufflevector(v, v, 3, 2, 1, 0);
      } else {
        v = __builtin_shufflevector(v, v, 1, 0);
      }
      memcpy(out + i, &v, 16);
    }
  }
  for (; i < n; ++i) out[i] = in[-i];
}

template <class T>
static PEN_INLINE void copy_elements(char* to, const char* from, int64_t n, int64_t to_step, int64_t from_step) {
  T* __restrict out = reinterpret_cast<T*>(to);
  const T* __restrict in = reinterpret_cast<const T*>(from);
  if (to_step == 1 && from_step == 0) return fill_row(out, in[0], n);
  if (to_step == 1 && from_step == -1) return reverse_row(out, in, n);
  for (int64_t i = 0; i < n; ++i) out[i * to_step] = in[i * from_step];
}

// n elements; steps in elements.
static PEN_INLINE void copy_run(char* to, const char* from, int64_t n, int64_t to_step, int64_t from_step, int64_t size) {
  if (n <= 0) return;
  if ((to_step == 1 && from_step == 1) || n == 1) {
    if (n * size < kShortCopy) return copy_short(to, from, n * size);
    memcpy(to, from, static_cast<size_t>(n * size));
  } else if (size == 4) {
    copy_elements<uint32_t>(to, from, n, to_step, from_step);
  } else if (size == 8) {
    copy_elements<uint64_t>(to, from, n, to_step, from_step);
  } else if (size == 2) {
    copy_elements<uint16_t>(to, from, n, to_step, from_step);
  } else {
    copy_elements<uint8_t>(to, from, n, to_step, from_step);
  }
}

// Elements [begin, end) in the order of `r`. Steps of the input may be negative.
static inline __attribute__((unused)) void copy_range(const Runs& r, char* to, const char* from, int64_t size, int64_t begin, int64_t end) {
  const int inner = r.rank - 1;
  int64_t at[kMaxRank] = {}, in = 0, out = 0, rest = begin;
  for (int d = inner; d >= 0; --d) {
    at[d] = rest % r.dims[d];
    rest /= r.dims[d];
    in += at[d] * r.in[d];
    out += at[d] * r.out[d];
  }
  while (begin < end) {
    int64_t n = r.dims[inner] - at[inner] < end - begin ? r.dims[inner] - at[inner] : end - begin;
    copy_run(to + out * size, from + in * size, n, r.out[inner], r.in[inner], size);
    begin += n;
    in -= at[inner] * r.in[inner];
    out -= at[inner] * r.out[inner];
    at[inner] = 0;
    for (int d = inner - 1; d >= 0; --d) {
      in += r.in[d];
      out += r.out[d];
      if (++at[d] < r.dims[d]) break;
      in -= r.dims[d] * r.in[d];
      out -= r.dims[d] * r.out[d];
      at[d] = 0;
    }
  }
}

}  // namespace pen
