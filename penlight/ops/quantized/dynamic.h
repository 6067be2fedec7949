// Scales that are chosen from the data in every run: the range of some numbers, and the step and zero point that follow from it by one of
// three rules (dynamic.py). For quantize_dynamic, and for recurrent layers, which choose anew at every step.
#pragma once
#include "penlight/ops/quantized/range.h"
#include "penlight/runtime/exec/kernel.h"
#include "penlight/runtime/simd/simd.h"

namespace pen {

enum class DynamicRule : uint8_t { torch, pt2e, fixed };

struct DynamicLevels {
  DynamicRule rule;
  int32_t zero, high;  // zero: of the rule "fixed", which knows it before
  float eps;
  // The last level that integers take: torch rounds the zero point, which may move the largest number one above `high`.
  PEN_INLINE int32_t last() const { return rule == DynamicRule::torch ? 255 : high; }
};
struct DynamicRange {  // 0 is always within
  float least, most;
};

// The attributes `high` and `rule` of a node; `fixed`: whether that rule is one of them.
[[maybe_unused]] static PEN_SMALL Status check_dynamic_levels(const Given& g, bool fixed) {
  const int64_t high = g.integer("high");
  if (high < 1 || high > 255) return g.fail(-1, "a highest level from 1 to 255", "%lld", static_cast<long long>(high));
  const char* rule = g.text("rule");
  if (strcmp(rule, "torch") == 0 || strcmp(rule, "pt2e") == 0 || (fixed && strcmp(rule, "fixed") == 0)) return PEN_OK;
  return g.fail(-1, fixed ? "torch, pt2e or fixed as rule" : "torch or pt2e as rule", "%s", rule);
}
[[maybe_unused]] static DynamicLevels dynamic_levels(const Given& g, int32_t zero, float eps) {
  const char* rule = g.text("rule");
  return {rule[0] == 't'   ? DynamicRule::torch
          : rule[0] == 'p' ? DynamicRule::pt2e
                           : DynamicRule::fixed,
          zero, static_cast<int32_t>(g.integer("high")), eps};
}

[[maybe_unused]] static Affine choose_step(const DynamicLevels& levels, DynamicRange range) {
  Affine a = {1.0, 0};
  if (levels.rule == DynamicRule::torch) {
    choose_scale(range.least, range.most, 0, levels.high, &a);
    return a;
  }
  const bool pt2e = levels.rule == DynamicRule::pt2e;
  float above = range.most / static_cast<float>(levels.high - levels.zero);
  float below = levels.zero ? -range.least / static_cast<float>(levels.zero) : 0.0f;
  float scale = pt2e ? (range.most - range.least) / static_cast<float>(levels.high) : above > below ? above : below;
  scale = scale > levels.eps ? scale : levels.eps;
  if (!(1.0f / scale <= 3.4028235e38f)) return a;  // there is nothing to tell apart
  a.scale = static_cast<double>(scale);
  if (pt2e) {
    double zero = -nearbyint(static_cast<double>(range.least / scale));
    a.zero = static_cast<int64_t>(zero < levels.high ? zero : levels.high);
  }
  return a;
}

namespace PEN_ISA {

// The range of rows that are shown to it one after another. Distances of numbers from themselves are 0, unless one is not finite.
struct RangeFinder {
  V least = zero(), most = zero(), wrong = zero();
  float one_least = 0.0f, one_most = 0.0f, one_wrong = 0.0f;

  PEN_INLINE void see(const float* x, int64_t n) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      V v = load(x + i);
      least = min(least, v);
      most = max(most, v);
      wrong = wrong + (v - v);
    }
    for (; i < n; ++i) {
      float v = x[i];
      one_least = v < one_least ? v : one_least;
      one_most = v > one_most ? v : one_most;
      one_wrong += v - v;
    }
  }
  // False where a number was not finite: then there is no range.
  PEN_INLINE bool end(DynamicRange* to) const {
    float lanes[3][kLanes];
    store(lanes[0], least);
    store(lanes[1], most);
    store(lanes[2], wrong);
    DynamicRange found = {one_least, one_most};
    float all_wrong = one_wrong;
    for (int j = 0; j < kLanes; ++j) {
      found.least = lanes[0][j] < found.least ? lanes[0][j] : found.least;
      found.most = lanes[1][j] > found.most ? lanes[1][j] : found.most;
      all_wrong += lanes[2][j];
    }
    const bool finite = all_wrong == 0.0f;
    *to = finite ? found : DynamicRange{0.0f, 0.0f};
    return finite;
  }
};
constexpr const char* kFiniteRange = "finite numbers, from whose range a scale is chosen";

}  // namespace PEN_ISA
}  // namespace pen
