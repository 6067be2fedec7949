// Copies between two strided tensors of one shape, fast for what layouts need: rows that are contiguous on both sides
// are memcpy; where the output's innermost dim is not the input's (nchw <-> nhwc, a permuted view made dense), blocks
// of both are transposed in registers. Elements are moved, never looked at, so kernels are keyed by their size.
// Bind calls plan_copy, kernels call run_copy; compiled once per instruction set.
#pragma once
#include "penlight/runtime/base/dims.h"
#include "penlight/runtime/cpu/short_copy.h"
#include "penlight/runtime/exec/kernel.h"
#include "penlight/runtime/simd/transpose.h"

namespace pen {

// Dims in the order of the output's memory; dim 0 is its innermost.
struct CopyPlan {
  int rank;
  int across;  // 0: rows along dim 0; else the dim along which the input is contiguous, to be transposed with dim 0
  int cut;     // transposes: the one of these two dims that is cut into strips, for tasks
  int64_t strip, strips;
  int64_t dims[kMaxRank], in[kMaxRank], out[kMaxRank];
  int64_t units, tasks;  // units: rows, or strips
  int64_t rest;          // elements behind the last row, of one long row that was cut
};

void plan_copy(const Tensor& from, const Tensor& to, CopyPlan* p);

namespace PEN_ISA {

// Offsets of row `at`.
static PEN_INLINE void copy_offsets(const CopyPlan& p, int64_t at, int64_t* in, int64_t* out) {
  for (int d = 1; d < p.rank; ++d) {
    int64_t i = at % p.dims[d];
    at /= p.dims[d];
    *in += i * p.in[d];
    *out += i * p.out[d];
  }
}

// out[j][i] = in[i][j], i < n along the output's rows, j < m along the input's. For small matrices, and for the edges of large ones. Where
// n or m is no multiple of a block, the last block takes some of the one before it again.
template <class T>
static __attribute__((noinline)) void transpose_rest(const T* in, int64_t in_stride, T* out, int64_t out_stride, int64_t n, int64_t m) {
  constexpr int64_t kBlock = transpose_block_size<T>();
  if (kBlock > 1 && n >= kBlock && m >= kBlock) {
    for (int64_t i = 0; i < n; i += kBlock) {
      i = i + kBlock <= n ? i : n - kBlock;
      for (int64_t j = 0; j < m; j += kBlock) {
        j = j + kBlock <= m ? j : m - kBlock;
        transpose_block(in + i * in_stride + j, in_stride, out + j * out_stride + i, out_stride);
      }
    }
    return;
  }
  for (int64_t j = 0; j < m; ++j) PEN_ROLLED for (int64_t k = 0; k < n; ++k) out[j * out_stride + k] = in[k * in_stride + j];
}

// A square as wide as a cache line on both sides. Where rows lie a power of two apart, all lines of the square compete for the same
// place in the cache, and narrow blocks would fetch each line again for every block. So those go through buffers, line by line.
template <class T>
static PEN_INLINE void transpose_square(const T* in, int64_t in_stride, T* out, int64_t out_stride) {
  constexpr int64_t kSquare = 64 / static_cast<int64_t>(sizeof(T)), kBlock = transpose_block_size<T>();
  auto blocks = [](const T* from, int64_t from_stride, T* to, int64_t to_stride) {
    for (int64_t i = 0; i < kSquare; i += kBlock)
      for (int64_t j = 0; j < kSquare; j += kBlock)
        transpose_block(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
  };
  if constexpr (sizeof(T) == 4) {
    blocks(in, in_stride, out, out_stride);
  } else {
    alignas(64) T lines[kSquare * kSquare], turned[kSquare * kSquare];
    for (int64_t i = 0; i < kSquare; ++i) __builtin_memcpy(lines + i * kSquare, in + i * in_stride, 64);
    blocks(lines, kSquare, turned, kSquare);
    for (int64_t j = 0; j < kSquare; ++j) __builtin_memcpy(out + j * out_stride, turned + j * kSquare, 64);
  }
}

// A whole matrix, square by square. On one side every row is a stream of its own (planes of an image), and the processor can fetch
// ahead for a few streams only: so the squares of a few rows are done from end to end before those of the next rows. `along_in`: the
// streams are the input's rows.
template <class T>
static PEN_INLINE void transpose(const T* in, int64_t in_stride, T* out, int64_t out_stride, int64_t n, int64_t m, bool along_in) {
  constexpr int64_t kSquare = 64 / static_cast<int64_t>(sizeof(T));
  if (n < kSquare || m < kSquare) return transpose_rest(in, in_stride, out, out_stride, n, m);
  int64_t whole_n = n / kSquare * kSquare, whole_m = m / kSquare * kSquare;
  int64_t outer = along_in ? whole_n : whole_m, inner = along_in ? whole_m : whole_n;
  for (int64_t o = 0; o < outer; o += kSquare) {
    for (int64_t k = 0; k < inner; k += kSquare) {
      int64_t i = along_in ? o : k, j = along_in ? k : o;
      transpose_square(in + i * in_stride + j, in_stride, out + j * out_stride + i, out_stride);
    }
  }
  // The edges begin a little earlier where they would be narrower than a block.
  constexpr int64_t kBlock = transpose_block_size<T>();
  auto edge = [](int64_t whole, int64_t size) { return whole < size && size - whole < kBlock ? size - kBlock : whole; };
  const int64_t edge_m = edge(whole_m, m), edge_n = edge(whole_n, n);
  transpose_rest(in + edge_m, in_stride, out + edge_m * out_stride, out_stride, whole_n, m - edge_m);
  transpose_rest(in + edge_n * in_stride, in_stride, out + edge_n, out_stride, n - edge_n, m);
}

// Images: three planes to pixels, or back. Returns how many pixels it did; the caller does the rest.
static PEN_INLINE int64_t convert_pixels(const uint32_t* in, int64_t in_stride, uint32_t* out, int64_t out_stride, int64_t n, int64_t m) {
  int64_t done = 0;
#if PEN_FOUR_PIXELS
  if (n == 3 && out_stride == 3)
    for (; done + 4 < m; done += 4) interleave_pixels(in + done, in_stride, out + 3 * done);
  if (m == 3 && in_stride == 3)
    for (; done + 4 <= n; done += 4) deinterleave_pixels(in + 3 * done, out + done, out_stride);
#else
  (void)in, (void)in_stride, (void)out, (void)out_stride, (void)n, (void)m;
#endif
  return done;
}

// Two rows interleaved into one, or one taken apart into two: two channels, and what pixel_shuffle does. Returns how many elements
// of a row it did; the caller does the rest.
template <class T>
static PEN_INLINE int64_t convert_pairs(const T* in, int64_t in_stride, T* out, int64_t out_stride, int64_t n, int64_t m) {
  using S = Sixteen<T>;
  int64_t done = 0;
  typename S::Lanes low, high;
  if (n == 2 && out_stride == 2) {
    for (; done + S::kCount <= m; done += S::kCount) {
      S::zip(S::load(in + done), S::load(in + in_stride + done), &low, &high);
      S::store(out + 2 * done, low);
      S::store(out + 2 * done + S::kCount, high);
    }
  } else if (m == 2 && in_stride == 2) {
    for (; done + S::kCount <= n; done += S::kCount) {
      S::unzip(S::load(in + 2 * done), S::load(in + 2 * done + S::kCount), &low, &high);
      S::store(out + done, low);
      S::store(out + out_stride + done, high);
    }
  }
  return done;
}

template <class T>
static PEN_INLINE void copy_transposed(const CopyPlan& p, const T* from, T* to, int64_t begin, int64_t end) {
  const int64_t in_stride = p.in[0], out_stride = p.out[p.across];
  int64_t index[kMaxRank], in = 0, out = 0, strip = begin % p.strips, rest = begin / p.strips;
  for (int d = 1; d < p.rank; ++d) {
    if (d == p.across) continue;
    index[d] = rest % p.dims[d];
    rest /= p.dims[d];
    in += index[d] * p.in[d];
    out += index[d] * p.out[d];
  }
  for (; begin < end; ++begin) {
    int64_t at = strip * p.strip, left = p.dims[p.cut] - at, count = left < p.strip ? left : p.strip;
    int64_t n = p.cut ? p.dims[0] : count, m = p.cut ? count : p.dims[p.across];
    const T* source = from + in + at * p.in[p.cut];
    T* target = to + out + at * p.out[p.cut];
    bool pairs = n == 2 || m == 2, pixels = sizeof(T) == 4 && (n == 3 || m == 3);
    if (pairs || pixels) {
      int64_t done = pairs ? convert_pairs(source, in_stride, target, out_stride, n, m)
                           : convert_pixels(reinterpret_cast<const uint32_t*>(source), in_stride, reinterpret_cast<uint32_t*>(target),
                                            out_stride, n, m);
      bool along_in = out_stride == n && n == (pairs ? 2 : 3);
      source += along_in ? done : done * in_stride;
      target += along_in ? done * out_stride : done;
      (along_in ? m : n) -= done;
    }
    transpose(source, in_stride, target, out_stride, n, m, p.cut != 0);
    if (++strip < p.strips) continue;
    strip = 0;
    for (int d = 1; d < p.rank; ++d) {
      if (d == p.across) continue;
      in += p.in[d];
      out += p.out[d];
      if (++index[d] < p.dims[d]) break;
      in -= p.dims[d] * p.in[d];
      out -= p.dims[d] * p.out[d];
      index[d] = 0;
    }
  }
}

// One value n times: a few are written by hand, then what is there is copied behind itself, by memcpy, which has the widest stores.
template <class T>
static PEN_INLINE void fill_row(T* to, T value, int64_t n) {
  constexpr int64_t kMost = 4096 / static_cast<int64_t>(sizeof(T));
  int64_t done = n < 16 ? n : 16;
  PEN_ROLLED for (int64_t i = 0; i < done; ++i) to[i] = value;
  for (int64_t chunk = done; done < n; done += chunk) {
    if (chunk < kMost && done > chunk) chunk = done < kMost ? done : kMost;
    if (chunk > n - done) chunk = n - done;
    memcpy(to + done, to, static_cast<size_t>(chunk) * sizeof(T));
  }
}

template <class T>
static PEN_INLINE void copy_rows(const CopyPlan& p, const T* from, T* to, int64_t begin, int64_t end) {
  for (int64_t i = p.units * p.dims[0], last = i + p.rest; kAsks && end == p.units && i < last; ++i) to[i * p.out[0]] = from[i * p.in[0]];
  const int64_t n = p.dims[0], in_step = p.in[0], out_step = p.out[0], rows = p.rank > 1 ? p.dims[1] : 1;
  const int64_t bytes = n * static_cast<int64_t>(sizeof(T));
  while (begin < end) {
    int64_t in = 0, out = 0, first = begin % rows, count = rows - first < end - begin ? rows - first : end - begin;
    copy_offsets(p, begin, &in, &out);
    begin += count;
    for (; count > 0; --count, in += p.in[1], out += p.out[1]) {
      const T* source = from + in;
      T* target = to + out;
      if (in_step == 1 && out_step == 1 && bytes < kShortCopy) {
        copy_short(reinterpret_cast<char*>(target), reinterpret_cast<const char*>(source), bytes);
      } else if (in_step == 1 && out_step == 1) {
        memcpy(target, source, static_cast<size_t>(bytes));
      } else if (in_step == 0 && out_step == 1) {
        fill_row(target, *source, n);
      } else if (out_step == 1) {
        using S = Sixteen<T>;
        int64_t i = 0;
        typename S::Lanes even, odd;
        for (; in_step == 2 && i + S::kCount < n; i += S::kCount) {  // less than: there is no element after the last
          S::unzip(S::load(source + 2 * i), S::load(source + 2 * i + S::kCount), &even, &odd);
          S::store(target + i, even);
        }
        PEN_ROLLED for (; i < n; ++i) target[i] = source[i * in_step];
      } else {
        PEN_ROLLED for (int64_t i = 0; i < n; ++i) target[i * out_step] = source[i * in_step];
      }
    }
  }
}

// Tasks [r.begin, r.end) of the plan, from r.in[0] to r.out[0].
template <class T>
static PEN_INLINE void run_copy(const Run& r, const CopyPlan& p) {
  int64_t begin = part(p.units, p.tasks, r.begin).begin, end = part(p.units, p.tasks, r.end - 1).end;
  const T* from = r.in[0].as<const T>();
  T* to = r.out[0].as<T>();
  p.across ? copy_transposed(p, from, to, begin, end) : copy_rows(p, from, to, begin, end);
}

}  // namespace PEN_ISA
}  // namespace pen
