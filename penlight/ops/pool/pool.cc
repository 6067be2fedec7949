// Pooling of f32: one output pixel from one window, vectors over channels. The sum runs row by row through the window. NaN
// wins a maximum, as in torch, and its place is that of the last one.
#include "penlight/ops/pool/window.h"
#include "penlight/runtime/simd/simd.h"

namespace pen {
namespace PEN_ISA {

struct PoolMax {
  static PEN_INLINE V start() { return set1(-__builtin_inff()); }
  // max() gives its second argument for NaN: an accumulated NaN stays, a new one is taken by select.
  static PEN_INLINE V step(V acc, V v) { return select(isnan(v), v, max(v, acc)); }
  static PEN_INLINE V finish(V acc, V) { return acc; }
};
struct PoolMean {
  static PEN_INLINE V start() { return zero(); }
  static PEN_INLINE V step(V acc, V v) { return acc + v; }
  static PEN_INLINE V finish(V acc, V divisor) { return acc / divisor; }
};

// U vectors of channels; with `lanes` < kLanes, U is 1 and only that many channels exist.
template <class Op, int U, bool kPartial>
static PEN_INLINE void pool_channels(const PoolWindow<float>& w, int64_t c, float* y, V divisor, int64_t lanes) {
  V acc[U];
#pragma GCC unroll 4
  for (int u = 0; u < U; ++u) acc[u] = Op::start();
  for (int64_t k = 0; k < w.depth; ++k) {
    const float* row = w.x + c + k * w.plane;
    for (int64_t i = 0; i < w.height && !w.ends(); ++i, row += w.row) {
      const float* p = row;
      for (int64_t j = 0; j < w.width; ++j, p += w.column) {
#pragma GCC unroll 4
        for (int u = 0; u < U; ++u) acc[u] = Op::step(acc[u], kPartial ? load_partial(p, lanes) : load(p + u * kLanes));
      }
    }
  }
#pragma GCC unroll 4
  for (int u = 0; u < U; ++u) {
    V result = Op::finish(acc[u], divisor);
    if (kPartial) {
      store_partial(y + c, result, lanes);
    } else {
      store(y + c + u * kLanes, result);
    }
  }
}

template <class Op>
static __attribute__((noinline)) void pool(const Run& r) {
  int64_t channels = r.out[0].dims[1];
  pool_windows<float>(r, [&](const PoolWindow<float>& w, int64_t out, int64_t) {
    float* y = r.out[0].as<float>() + out;
    V d = set1(static_cast<float>(w.divisor));
    int64_t c = 0;
    for (; c + 4 * kLanes <= channels; c += 4 * kLanes) pool_channels<Op, 4, false>(w, c, y, d, 0);
    for (; c + kLanes <= channels; c += kLanes) pool_channels<Op, 1, false>(w, c, y, d, 0);
    if (c < channels) pool_channels<Op, 1, true>(w, c, y, d, channels - c);
  });
}

// The maximum and its pixel's number, which starts as the window's first: where all are -inf, that is it.
static PEN_INLINE void place_maximum(const PoolWindow<float>& w, int64_t c, int64_t lanes, float* y, int64_t* indices) {
  V best = set1(-__builtin_inff()), place = from_bits(set1i(static_cast<int32_t>(w.first)));
  for (int64_t k = 0; k < w.depth; ++k) {
    for (int64_t i = 0; i < w.height && !w.ends(); ++i) {
      const float* p = w.x + c + k * w.plane + i * w.row;
      int32_t number = static_cast<int32_t>(w.first + k * w.plane_number + i * w.row_number);
      for (int64_t j = 0; j < w.width; ++j, p += w.column, number += static_cast<int32_t>(w.column_number)) {
        V v = lanes == kLanes ? load(p) : load_partial(p, lanes);
        M better = gt(v, best) | isnan(v);
        best = select(better, v, best);
        place = select(better, from_bits(set1i(number)), place);
      }
    }
  }
  float bits[kLanes];
  store(bits, place);
  for (int64_t i = 0; i < lanes; ++i) {
    int32_t number;
    memcpy(&number, bits + i, 4);
    indices[c + i] = number;
  }
  lanes == kLanes ? store(y + c, best) : store_partial(y + c, best, lanes);
}

static void pool_places(const Run& r) {
  int64_t channels = r.out[0].dims[1];
  pool_windows<float>(r, [&](const PoolWindow<float>& w, int64_t out, int64_t index) {
    for (int64_t c = 0; c < channels; c += kLanes)
      place_maximum(w, c, channels - c < kLanes ? channels - c : kLanes, r.out[0].as<float>() + out, r.out[1].as<int64_t>() + index);
  });
}

}  // namespace PEN_ISA

PEN_KERNEL(max_pool2d, f32) { PEN_ISA::pool<PEN_ISA::PoolMax>(r); }
PEN_KERNEL(max_pool3d, f32) { PEN_ISA::pool<PEN_ISA::PoolMax>(r); }
PEN_KERNEL(adaptive_max_pool2d, f32) { PEN_ISA::pool<PEN_ISA::PoolMax>(r); }
PEN_KERNEL(adaptive_max_pool3d, f32) { PEN_ISA::pool<PEN_ISA::PoolMax>(r); }
PEN_KERNEL(avg_pool2d, f32) { PEN_ISA::pool<PEN_ISA::PoolMean>(r); }
PEN_KERNEL(avg_pool3d, f32) { PEN_ISA::pool<PEN_ISA::PoolMean>(r); }
PEN_KERNEL(adaptive_avg_pool2d, f32) { PEN_ISA::pool<PEN_ISA::PoolMean>(r); }
PEN_KERNEL(adaptive_avg_pool3d, f32) { PEN_ISA::pool<PEN_ISA::PoolMean>(r); }
PEN_KERNEL(max_pool_indices, f32) { PEN_ISA::pool_places(r); }
PEN_KERNEL(adaptive_max_pool_indices, f32) { PEN_ISA::pool_places(r); }

}  // namespace pen
