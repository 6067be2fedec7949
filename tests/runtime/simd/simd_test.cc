// Every function of the simd layer against plain C on ordinary and special values, lane by lane. Compiled and run once
// per instruction set by test_simd.py; prints each difference and returns their number.
#include <math.h>
#include <stdio.h>
#include <string.h>

#define PEN_PLATFORM_CHECK  // keeps platform.h's declarations apart from libc's
#include "penlight/runtime/simd/simd.h"

using namespace pen::PEN_ISA;

static int failures;

static bool same(float a, float b) { return (a != a && b != b) || a == b; }
static void check(const char* what, float got, float want, float x, float y) {
  if (same(got, want)) return;
  ++failures;
  printf("%s(%g, %g): got %g, expected %g\n", what, x, y, got, want);
}

// armv7's vector unit flushes denormals to zero, so none may come up there.
#if defined(__arm__)
constexpr float kSmallest = 1e-34f;
#else
constexpr float kSmallest = 1e-40f;
#endif
static const float kValues[] = {0.0f,      -0.0f, 1.0f,       -1.0f,     0.5f,      -0.5f, 1.5f,        2.5f,
                                -2.5f,     3.7f,  -3.7f,      INFINITY,  -INFINITY, NAN,   1e30f,       -1e30f,
                                kSmallest, 7.0f,  8388607.5f, 123456.7f, -99.9f,    1e-3f, 16777216.0f, -0.49999997f};
constexpr int kCount = sizeof(kValues) / sizeof(kValues[0]);

// Lane i of a vector of test values, shifted by `start` so that each value visits each lane.
static V values(int start, float* copy) {
  for (int i = 0; i < kLanes; ++i) copy[i] = kValues[(start + i) % kCount];
  return load(copy);
}
static float lane(V v, int i) {
  float all[kLanes];
  store(all, v);
  return all[i];
}
static float lane(M m, int i) { return lane(select(m, set1(1), set1(0)), i); }

static void arithmetic() {
  float a[kLanes], b[kLanes];
  for (int s = 0; s < kCount; ++s) {
    for (int t = 0; t < kCount; ++t) {
      V x = values(s, a), y = values(t, b);
      for (int i = 0; i < kLanes; ++i) {
        float p = a[i], q = b[i];
        check("add", lane(x + y, i), p + q, p, q);
        check("sub", lane(x - y, i), p - q, p, q);
        check("mul", lane(x * y, i), p * q, p, q);
        check("div", lane(x / y, i), p / q, p, q);
        check("min", lane(min(x, y), i), p < q ? p : q, p, q);
        check("max", lane(max(x, y), i), p > q ? p : q, p, q);
        check("lt", lane(lt(x, y), i), p < q, p, q);
        check("le", lane(le(x, y), i), p <= q, p, q);
        check("gt", lane(gt(x, y), i), p > q, p, q);
        check("ge", lane(ge(x, y), i), p >= q, p, q);
        check("eq", lane(eq(x, y), i), p == q, p, q);
        check("ne", lane(ne(x, y), i), p != q, p, q);
        check("and", lane(lt(x, y) & isnan(x), i), 0, p, q);
        check("or", lane(lt(x, y) | eq(x, y), i), p <= q, p, q);
        check("not", lane(!lt(x, y), i), !(p < q), p, q);
        check("select", lane(select(gt(x, y), x, y), i), p > q ? p : q, p, q);
        float exact = fmaf(p, q, 1.0f);
        float twice = p * q + 1.0f;
        float got = lane(fma(x, y, set1(1)), i);
        if (!same(got, exact)) check("fma", got, twice, p, q);
      }
    }
    V x = values(s, a);
    for (int i = 0; i < kLanes; ++i) {
      float p = a[i];
      check("neg", lane(-x, i), -p, p, 0);
      check("abs", lane(abs(x), i), fabsf(p), p, 0);
      check("sqrt", lane(sqrt(x), i), sqrtf(p), p, 0);
      check("floor", lane(floor(x), i), floorf(p), p, 0);
      check("ceil", lane(ceil(x), i), ceilf(p), p, 0);
      check("trunc", lane(trunc(x), i), truncf(p), p, 0);
      check("round", lane(round(x), i), rintf(p), p, 0);
      check("isnan", lane(isnan(x), i), p != p, p, 0);
      check("clamp", lane(clamp(x, set1(-1), set1(6)), i), p < -1 ? -1 : p > 6 ? 6 : p, p, 0);
      check("signbit", signbit(lane(-x, i)) != 0, signbit(-p) != 0, p, 0);
    }
  }
}

static void integers() {
  float a[kLanes];
  for (int s = 0; s < kCount; ++s) {
    V x = values(s, a);
    for (int i = 0; i < kLanes; ++i) {
      float p = a[i];
      int32_t n;
      memcpy(&n, &p, 4);
      auto bits_of = [&](I v) {
        float f = lane(from_bits(v), i);
        int32_t r;
        memcpy(&r, &f, 4);
        return static_cast<float>(r);
      };
      if (p == p && fabsf(p) < 2e9f) check("to_int", lane(to_float(to_int(x)), i), truncf(p), p, 0);
      if (n != INT32_MIN) {
        check("bits", bits_of(bits(x)), static_cast<float>(n), p, 0);
        check("addi", bits_of((bits(x) & set1i(0xffff)) + set1i(5)), static_cast<float>((n & 0xffff) + 5), p, 0);
        check("subi", bits_of((bits(x) & set1i(0xffff)) - set1i(7)), static_cast<float>((n & 0xffff) - 7), p, 0);
        check("ori", bits_of(bits(x) | set1i(3)), static_cast<float>(n | 3), p, 0);
        check("xori", bits_of(bits(x) ^ set1i(-1)), static_cast<float>(n ^ -1), p, 0);
        check("shl", bits_of(bits(x) << 3), static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(n) << 3)), p, 0);
        check("shr", bits_of(bits(x) >> 23), static_cast<float>(n >> 23), p, 0);
      }
    }
  }
}

static void memory() {
  float from[kLanes], to[kLanes + 2];
  for (int i = 0; i < kLanes; ++i) from[i] = static_cast<float>(i + 1);
  for (int n = 0; n <= kLanes; ++n) {
    V v = load_partial(from, n);
    for (int i = 0; i < kLanes; ++i) check("load_partial", lane(v, i), i < n ? from[i] : 0, static_cast<float>(n), 0);
    for (float& f : to) f = -7;
    store_partial(to + 1, load(from), n);
    for (int i = 0; i < kLanes + 2; ++i)
      check("store_partial", to[i], i >= 1 && i <= n ? from[i - 1] : -7, static_cast<float>(n), static_cast<float>(i));
  }
  int32_t index[kLanes];
  for (int i = 0; i < kLanes; ++i) index[i] = i % 3 == 1 ? -1 - i * 1000 : i * 5 % kLanes;
  V gathered = gather(from, load_ints(index));
  for (int i = 0; i < kLanes; ++i) check("gather", lane(gathered, i), index[i] < 0 ? 0 : from[index[i]], static_cast<float>(i), 0);
  check("set1", lane(set1(4), kLanes - 1), 4, 0, 0);
  check("zero", lane(zero(), kLanes - 1), 0, 0, 0);
}

static void reductions() {
  for (int at = 0; at < kLanes; ++at) {
    float a[kLanes];
    float sum = 0;
    for (int i = 0; i < kLanes; ++i) sum += a[i] = static_cast<float>((i * 7 + at * 3) % 19 - 9);
    a[at] += 100, sum += 100;
    check("reduce_add", reduce_add(load(a)), sum, static_cast<float>(at), 0);
    check("reduce_max", reduce_max(load(a)), a[at], static_cast<float>(at), 0);
    a[at] -= 300;
    check("reduce_min", reduce_min(load(a)), a[at], static_cast<float>(at), 0);
  }
}

int main() {
  arithmetic();
  integers();
  memory();
  reductions();
  printf("%d lanes, %d failures\n", kLanes, failures);
  return failures > 255 ? 255 : failures;
}
