// From the range of some numbers to the scale and zero point that stand for them: torch's rule, for planned code and the VM alike.
#pragma once
#include "penlight/runtime/base/platform.h"

namespace pen {

// Scale and zero point of a tensor that has one of each.
struct Affine {
  double scale;
  int64_t zero;
  PEN_INLINE float real(int64_t v) const { return static_cast<float>(v - zero) * static_cast<float>(scale); }
};

// The scale and zero point for reals from `low` to `high`, as torch chooses them; false where they are not numbers.
[[maybe_unused]] static bool choose_scale(float low, float high, int64_t lowest, int64_t highest, Affine* to) {
  constexpr float kSmallest = 6.1e-5f;  // f16's, below which it has few bits left
  if (!(low <= high)) return false;
  low = low < 0.0f ? low : 0.0f;
  high = high > 0.0f ? high : 0.0f;
  double span = static_cast<double>(highest - lowest), scale = (static_cast<double>(high) - low) / span;
  if (static_cast<float>(scale) == 0.0f || 1.0f / static_cast<float>(scale) > 3.4028235e38f) scale = 0.1;
  if (scale < kSmallest) {
    float grown = kSmallest / static_cast<float>(scale), most = kSmallest * static_cast<float>(span);
    scale = kSmallest;
    if (low == 0.0f) {
      high = most;
    } else if (high == 0.0f) {
      low = -most;
    } else {
      low *= grown;
      high *= grown;
    }
  }
  auto magnitude = [](double x) { return x < 0 ? -x : x; };
  double from_low = static_cast<double>(lowest) - low / scale, from_high = static_cast<double>(highest) - high / scale;
  double low_error = magnitude(static_cast<double>(lowest)) - magnitude(low / scale);
  double high_error = magnitude(static_cast<double>(highest)) - magnitude(high / scale);
  double zero = low_error < high_error ? from_low : from_high;
  to->scale = scale;
  to->zero = !(zero >= static_cast<double>(lowest)) ? lowest
             : zero > static_cast<double>(highest)  ? highest
                                                    : static_cast<int64_t>(nearbyint(zero));
  return true;
}

}  // namespace pen
