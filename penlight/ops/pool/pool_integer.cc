// Pooling of integers: one output from one window, in plain loops. Means are cut towards zero, as in torch.
#include "penlight/ops/pool/window.h"

namespace pen {

// Calls tap(value, its pixel's number) for all of a window's values of channel c.
template <class Tap>
static PEN_INLINE void each_tap(const PoolWindow<int64_t>& w, int64_t c, const Tap& tap) {
  for (int64_t k = 0; k < w.depth; ++k)
    for (int64_t i = 0; i < w.height; ++i)
      for (int64_t j = 0; j < w.width; ++j)
        tap(w.x[c + k * w.plane + i * w.row + j * w.column], w.first + k * w.plane_number + i * w.row_number + j * w.column_number);
}

static void pool_maximum(const Run& r) {
  pool_windows<int64_t>(r, [&](const PoolWindow<int64_t>& w, int64_t out, int64_t index) {
    for (int64_t c = 0; c < r.out[0].dims[1]; ++c) {
      int64_t best = INT64_MIN, place = w.first;
      each_tap(w, c, [&](int64_t value, int64_t number) {
        if (value <= best) return;
        best = value;
        place = number;
      });
      r.out[0].as<int64_t>()[out + c] = best;
      if (r.as<PoolParams>().indices) r.out[1].as<int64_t>()[index + c] = place;
    }
  });
}

static void pool_mean(const Run& r) {
  pool_windows<int64_t>(r, [&](const PoolWindow<int64_t>& w, int64_t out, int64_t) {
    for (int64_t c = 0; c < r.out[0].dims[1]; ++c) {
      uint64_t sum = 0;
      each_tap(w, c, [&](int64_t value, int64_t) { sum += static_cast<uint64_t>(value); });
      // INT64_MIN / -1 has no answer; a divisor of -1 is a sign.
      r.out[0].as<int64_t>()[out + c] = w.divisor == -1 ? static_cast<int64_t>(0 - sum) : static_cast<int64_t>(sum) / w.divisor;
    }
  });
}

PEN_KERNEL_ANY(max_pool2d, i64) { pool_maximum(r); }
PEN_KERNEL_ANY(max_pool3d, i64) { pool_maximum(r); }
PEN_KERNEL_ANY(max_pool_indices, i64) { pool_maximum(r); }
PEN_KERNEL_ANY(avg_pool2d, i64) { pool_mean(r); }
PEN_KERNEL_ANY(avg_pool3d, i64) { pool_mean(r); }

}  // namespace pen
