// The mean of quantized bytes over any dims: exact sums of 32 bits, then qnnpack's rounding. reduce.h says how the work is cut.
#include "penlight/ops/reduce/reduce.h"
#include "penlight/runtime/simd/bytes.h"

namespace pen {
namespace PEN_ISA {

// sums[i] += x[i + k * step] for k < rows, i < n; `sums` has room for whole vectors.
static PEN_INLINE void add_rows(const uint8_t* x, int64_t rows, int64_t step, int64_t n, int32_t* sums) {
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    I sum[4];
    PEN_UNROLL
    for (int u = 0; u < 4; ++u) sum[u] = load_ints(sums + i + u * kLanes);
    for (int64_t k = 0; k < rows; ++k) {
      PEN_UNROLL
      for (int u = 0; u < 4; ++u) sum[u] = sum[u] + load_bytes_i(x + k * step + i + u * kLanes);
    }
    PEN_UNROLL
    for (int u = 0; u < 4; ++u) store_ints(sums + i + u * kLanes, sum[u]);
  }
  for (; i < n; i += kLanes) {
    I sum = load_ints(sums + i);
    const bool whole = n - i >= kLanes;
    for (int64_t k = 0; k < rows; ++k) sum = sum + (whole ? load_bytes_i(x + k * step + i) : load_bytes_i_partial(x + k * step + i, n - i));
    store_ints(sums + i, sum);
  }
}

// Part `index` of an item's sums: one (rows) or a chunk of them (columns). How many.
static PEN_INLINE int64_t sum_item(const ReduceParams& p, const uint8_t* x, int64_t item, int64_t index, int32_t* sums) {
  int64_t unused = 0;
  const Range units = part(p.units, p.parts, index);
  x += reduce_offset(p.kept, p.columns ? item / p.chunks : item, &unused);
  if (!p.columns) {
    sums[0] = 0;
    for (int64_t u = units.begin; u < units.end; ++u) {
      int64_t run = u / p.blocks, at = (u - run * p.blocks) * kReduceBlock;
      sums[0] += sum_bytes(x + reduce_offset(p.reduced, run, &unused) + at, p.inner - at < kReduceBlock ? p.inner - at : kReduceBlock);
    }
    return 1;
  }
  const int64_t at = item % p.chunks * kReduceChunk, n = p.inner - at < kReduceChunk ? p.inner - at : kReduceChunk;
  memset(sums, 0, static_cast<size_t>(n + kLanes) * sizeof(int32_t));
  for_each_stretch(p.reduced, units.begin, units.end, INT64_MAX,
                   [&](int64_t rows, int64_t in, int64_t step, int64_t, int64_t) { add_rows(x + in + at, rows, step, n, sums); });
  return n;
}

static PEN_INLINE void finish_means(const ReduceParams& p, const int32_t* sums, int64_t n, uint8_t* y, int64_t step) {
  const V most = set1(65536.0f);
  for (int64_t i = 0; i < n; i += kLanes) {
    V mean = to_float(load_ints(sums + i) - set1i(p.center)) * set1(p.share);
    I v = round_to_int(max(min(mean, most), -most)) + set1i(p.after);
    if (step == 1 && n - i >= kLanes) {
      store_bytes(y + i, v);
      continue;
    }
    uint8_t bytes[kLanes];
    store_bytes(bytes, v);
    for (int64_t k = 0; k < kLanes && i + k < n; ++k) y[(i + k) * step] = bytes[k];
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(mean, q8) {
  using namespace PEN_ISA;
  const ReduceParams& p = r.as<ReduceParams>();
  int32_t* shared = reinterpret_cast<int32_t*>(r.shared);
  const int64_t width = p.columns ? kReduceChunk : 1;
  int32_t sums[kReduceChunk + kLanes] = {};  // the last vector of a chunk is written whole
  for (int64_t task = r.begin; task < r.end; ++task) {
    const Range range = r.phase == 0 ? part(p.items * p.parts, p.tasks, task) : part(p.items, p.final_tasks, task);
    for (int64_t i = range.begin; i < range.end; ++i) {
      const ReducePiece piece = reduce_piece(p, r.phase, i);
      const int64_t item = piece.item, at = item % p.chunks * kReduceChunk;
      int64_t n = !p.columns ? 1 : p.inner - at < kReduceChunk ? p.inner - at : kReduceChunk, out = 0;
      if (r.phase == 0) {
        sum_item(p, r.in[0].as<uint8_t>(), item, piece.part, sums);
        if (p.parts > 1) {
          memcpy(shared + piece.slot * width, sums, static_cast<size_t>(n) * sizeof(int32_t));
          continue;
        }
      } else {
        const int32_t* parts = shared + piece.slot * width;
        memcpy(sums, parts, static_cast<size_t>(n) * sizeof(int32_t));
        for (int64_t k = 1; k < p.parts; ++k)
          for (int64_t j = 0; j < n; ++j) sums[j] += parts[k * width + j];
      }
      reduce_offset(p.kept, item / p.chunks, &out);
      finish_means(p, sums, n, r.out[0].as<uint8_t>() + out + at * p.inner_out, p.columns ? p.inner_out : 1);
    }
  }
}

}  // namespace pen
