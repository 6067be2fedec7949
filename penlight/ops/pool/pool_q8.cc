// Pooling of quantized bytes: vectors over channels, sums exact in 32 bits. The largest byte stands for the largest number. Tails: a last
// vector that reaches back over channels that were computed before; where there are fewer than one, a partial one.
#include "penlight/ops/pool/window.h"
#include "penlight/runtime/simd/bytes.h"

namespace pen {
namespace PEN_ISA {

// Calls pixel(its bytes) for every pixel of the window.
template <class Pixel>
static PEN_INLINE void each_pixel(const PoolWindow<uint8_t>& w, const Pixel& pixel) {
  for (int64_t k = 0; k < w.depth; ++k) {
    const uint8_t* row = w.x + k * w.plane;
    for (int64_t i = 0; i < w.height && !w.ends(); ++i, row += w.row) {
      const uint8_t* p = row;
      for (int64_t j = 0; j < w.width; ++j, p += w.column) pixel(p);
    }
  }
}

// Where a vector of so many channels begins, the last of which may stand before.
static PEN_INLINE int64_t reach_back(int64_t c, int64_t lanes, int64_t channels) { return c + lanes <= channels ? c : channels - lanes; }

template <int U>
static PEN_INLINE void max_whole(const PoolWindow<uint8_t>& w, int64_t c, uint8_t* y) {
  B most[U] = {};  // what a window without pixels gives
  each_pixel(w, [&](const uint8_t* p) {
    PEN_UNROLL
    for (int u = 0; u < U; ++u) most[u] = max(most[u], load_whole(p + c + u * kBytes));
  });
  PEN_UNROLL
  for (int u = 0; u < U; ++u) store_whole(y + c + u * kBytes, most[u]);
}
static PEN_INLINE void max_lanes(const PoolWindow<uint8_t>& w, int64_t c, int64_t n, uint8_t* y) {
  I most = set1i(0);
  each_pixel(w, [&](const uint8_t* p) { most = max(most, n < kLanes ? load_bytes_i_partial(p + c, n) : load_bytes_i(p + c)); });
  n < kLanes ? store_bytes_partial(y + c, most, n) : store_bytes(y + c, most);
}

static void max_pool_bytes(const Run& r) {
  const int64_t channels = r.out[0].dims[1];
  pool_windows<uint8_t>(r, [&](const PoolWindow<uint8_t>& w, int64_t out, int64_t) {
    uint8_t* y = r.out[0].as<uint8_t>() + out;
    int64_t c = 0;
    for (; c + 4 * kBytes <= channels; c += 4 * kBytes) max_whole<4>(w, c, y);
    for (; c < channels && channels >= kBytes; c += kBytes) max_whole<1>(w, reach_back(c, kBytes, channels), y);
    for (; c < channels && channels >= kLanes; c += kLanes) max_lanes(w, reach_back(c, kLanes, channels), kLanes, y);
    if (c < channels) max_lanes(w, c, channels - c, y);
  });
}

struct AverageRule {
  I center, after;  // center: of all pixels together
  V multiplier, before;
  PEN_INLINE I operator()(I sum) const {
    const V most = set1(65536.0f);
    V v = to_float(sum - center) * multiplier + before;
    return round_to_int(max(min(v, most), -most)) + after;
  }
};
template <int U>
static PEN_INLINE void average_lanes(const PoolWindow<uint8_t>& w, int64_t c, int64_t n, uint8_t* y, const AverageRule& rule) {
  I sum[U];
  PEN_UNROLL
  for (int u = 0; u < U; ++u) sum[u] = set1i(0);
  each_pixel(w, [&](const uint8_t* p) {
    PEN_UNROLL
    for (int u = 0; u < U; ++u)
      sum[u] = sum[u] + (U == 1 && n < kLanes ? load_bytes_i_partial(p + c, n) : load_bytes_i(p + c + u * kLanes));
  });
  if constexpr (U == 4)
    store_bytes4(y + c, rule(sum[0]), rule(sum[1]), rule(sum[2]), rule(sum[3]));
  else
    n < kLanes ? store_bytes_partial(y + c, rule(sum[0]), n) : store_bytes(y + c, rule(sum[0]));
}

static void average_pool_bytes(const Run& r) {
  const ByteAverage& a = r.as<PoolParams>().bytes;
  const int64_t channels = r.out[0].dims[1];
  pool_windows<uint8_t>(r, [&](const PoolWindow<uint8_t>& w, int64_t out, int64_t) {
    uint8_t* y = r.out[0].as<uint8_t>() + out;
    int64_t pixels = w.depth * w.height * w.width;
    float multiplier = a.multiplier != 0 ? a.multiplier : 1.0f / static_cast<float>(w.divisor) * a.ratio;
    const AverageRule rule = {set1i(static_cast<int32_t>(pixels * a.center)), set1i(a.after), set1(multiplier), set1(a.before)};
    int64_t c = 0;
    for (; c + 4 * kLanes <= channels; c += 4 * kLanes) average_lanes<4>(w, c, kLanes, y, rule);
    for (; c < channels && channels >= kLanes; c += kLanes) average_lanes<1>(w, reach_back(c, kLanes, channels), kLanes, y, rule);
    if (c < channels) average_lanes<1>(w, c, channels - c, y, rule);
  });
}

}  // namespace PEN_ISA

PEN_KERNEL(max_pool2d, q8) { PEN_ISA::max_pool_bytes(r); }
PEN_KERNEL(max_pool3d, q8) { PEN_ISA::max_pool_bytes(r); }
PEN_KERNEL(adaptive_max_pool2d, q8) { PEN_ISA::max_pool_bytes(r); }
PEN_KERNEL(adaptive_max_pool3d, q8) { PEN_ISA::max_pool_bytes(r); }
PEN_KERNEL(avg_pool2d, q8) { PEN_ISA::average_pool_bytes(r); }
PEN_KERNEL(avg_pool3d, q8) { PEN_ISA::average_pool_bytes(r); }
PEN_KERNEL(adaptive_avg_pool2d, q8) { PEN_ISA::average_pool_bytes(r); }
PEN_KERNEL(adaptive_avg_pool3d, q8) { PEN_ISA::average_pool_bytes(r); }

}  // namespace pen
