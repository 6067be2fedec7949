// Pooling of integers and doubles: one output from one window, in plain loops. Means of integers are cut towards zero, as in torch.
#include "penlight/ops/pool/window.h"

namespace pen {

// Calls tap(value, its pixel's number) for all of a window's values of channel c.
template <class T, class Tap>
static PEN_INLINE void each_tap(const PoolWindow<T>& w, int64_t c, const Tap& tap) {
  for (int64_t k = 0; k < w.depth; ++k)
    for (int64_t i = 0; i < w.height && !w.ends(); ++i)
      for (int64_t j = 0; j < w.width; ++j)
        tap(w.x[c + k * w.plane + i * w.row + j * w.column], w.first + k * w.plane_number + i * w.row_number + j * w.column_number);
}

static PEN_INLINE int64_t least(int64_t) { return INT64_MIN; }
static PEN_INLINE double least(double) { return -__builtin_inf(); }

template <class T>
static void pool_maximum(const Run& r) {
  pool_windows<T>(r, [&](const PoolWindow<T>& w, int64_t out, int64_t index) {
    for (int64_t c = 0; c < r.out[0].dims[1]; ++c) {
      T best = least(T{});
      int64_t place = w.first;
      each_tap(w, c, [&](T value, int64_t number) {
        if (!(value > best) && value == value) return;  // NaN wins, the last one the place
        best = value;
        place = number;
      });
      r.out[0].as<T>()[out + c] = best;
      if (r.as<PoolParams>().indices) r.out[1].as<int64_t>()[index + c] = place;
    }
  });
}

static PEN_INLINE double mean(double sum, int64_t divisor) { return sum / static_cast<double>(divisor); }
static PEN_INLINE uint64_t mean(uint64_t sum, int64_t divisor) {
  // INT64_MIN / -1 has no answer; a divisor of -1 is a sign.
  return divisor == -1 ? 0 - sum : static_cast<uint64_t>(static_cast<int64_t>(sum) / divisor);
}

// Integers as uint64_t: sums wrap.
template <class T>
static void pool_mean(const Run& r) {
  pool_windows<T>(r, [&](const PoolWindow<T>& w, int64_t out, int64_t) {
    for (int64_t c = 0; c < r.out[0].dims[1]; ++c) {
      T sum = 0;
      each_tap(w, c, [&](T value, int64_t) { sum += value; });
      r.out[0].as<T>()[out + c] = mean(sum, w.divisor);
    }
  });
}

PEN_KERNEL_ANY(max_pool2d, i64) { pool_maximum<int64_t>(r); }
PEN_KERNEL_ANY(max_pool3d, i64) { pool_maximum<int64_t>(r); }
PEN_KERNEL_ANY(max_pool_indices, i64) { pool_maximum<int64_t>(r); }
PEN_KERNEL_ANY(avg_pool2d, i64) { pool_mean<uint64_t>(r); }
PEN_KERNEL_ANY(avg_pool3d, i64) { pool_mean<uint64_t>(r); }
PEN_KERNEL_ANY(max_pool2d, f64) { pool_maximum<double>(r); }
PEN_KERNEL_ANY(max_pool3d, f64) { pool_maximum<double>(r); }
PEN_KERNEL_ANY(max_pool_indices, f64) { pool_maximum<double>(r); }
PEN_KERNEL_ANY(avg_pool2d, f64) { pool_mean<double>(r); }
PEN_KERNEL_ANY(avg_pool3d, f64) { pool_mean<double>(r); }
PEN_KERNEL_ANY(adaptive_max_pool2d, f64) { pool_maximum<double>(r); }
PEN_KERNEL_ANY(adaptive_max_pool3d, f64) { pool_maximum<double>(r); }
PEN_KERNEL_ANY(adaptive_max_pool_indices, f64) { pool_maximum<double>(r); }
PEN_KERNEL_ANY(adaptive_avg_pool2d, f64) { pool_mean<double>(r); }
PEN_KERNEL_ANY(adaptive_avg_pool3d, f64) { pool_mean<double>(r); }

}  // namespace pen
