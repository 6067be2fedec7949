// random_uniform and random_normal: f32 numbers, 256 at a time: words of Philox, then vectors.
#include "penlight/ops/random/philox.h"
#include "penlight/runtime/simd/math.h"

namespace pen {

PEN_SHAPE(random_uniform) { return random_shape(s, DType::f32); }
PEN_SHAPE(random_normal) { return random_shape(s, DType::f32); }

PEN_BIND(random_uniform) {
  RandomParams* p = b.params<RandomParams>();
  p->from = static_cast<float>(b.number("low"));
  p->below = static_cast<float>(b.number("high"));
  p->by = p->below - p->from;
  p->open = b.flag("open");
  return random_plan(b, p);
}

PEN_BIND(random_normal) {
  RandomParams* p = b.params<RandomParams>();
  p->from = static_cast<float>(b.number("mean"));
  p->by = static_cast<float>(b.number("std"));
  return random_plan(b, p);
}

namespace PEN_ISA {

static PEN_INLINE V load_words(const uint32_t* words) {
  V v;
  __builtin_memcpy(&v, words, sizeof v);
  return v;
}

// A number in (0, 1], from 2**-32 up, to take the logarithm of.
static PEN_INLINE V fraction(I word) {
  return fma(to_float((word >> 1) & set1i(0x7fffffff)), set1(4.65661287e-10f), set1(2.32830644e-10f));
}

// sin and cos of 2 pi t for t in [-1/2, 1/2], to 1e-6: quarters of a turn, and a polynomial within one.
static PEN_INLINE void sin_cos_of_turn(V t, V* sine, V* cosine) {
  V quarter = round(t * set1(4.0f));
  V y = fma(quarter, set1(-0.25f), t) * set1(6.28318531f), s = y * y;
  V a = fma(fma(fma(set1(-1.95152959e-4f), s, set1(8.33216087e-3f)), s, set1(-0.166666546f)), s * y, y);
  V b = fma(fma(fma(set1(2.44331571e-5f), s, set1(-1.38873162e-3f)), s, set1(4.16666456e-2f)), s * s, fma(set1(-0.5f), s, set1(1.0f)));
  V odd = abs(quarter);
  M swap = eq(odd, set1(1.0f));  // a quarter to either side
  V si = select(swap, b, a), co = select(swap, a, b);
  // turns: 0: (a, b); 1: (b, -a); -1: (-b, a); ±2: (-a, -b)
  M half = eq(odd, set1(2.0f));
  *sine = select(half | eq(quarter, set1(-1.0f)), -si, si);
  *cosine = select(half | eq(quarter, set1(1.0f)), -co, co);
}

}  // namespace PEN_ISA

PEN_KERNEL(random_uniform, f32) {
  using namespace PEN_ISA;
  const RandomParams& p = r.as<RandomParams>();
  RandomWords source = random_words(r, p.stream);
  V from = set1(p.from), by = set1(p.by), below = set1(p.below);
  for_each_chunk(r, p, [&](int64_t chunk, int64_t begin, int64_t n) {
    uint32_t words[kRandomChunk];
    float numbers[kRandomChunk], *out = r.out[0].as<float>() + begin;
    source.fill(chunk * (kRandomChunk / 4), kRandomChunk, words);
    for (int64_t i = 0; i < kRandomChunk; i += kLanes) {
      I word = bits(load_words(words + i));
      if (p.open) {
        store(numbers + i, fraction(word));
        continue;
      }
      V u = to_float((word >> 8) & set1i(0x00ffffff)) * set1(5.96046448e-8f);
      V y = fma(u, by, from);
      store(numbers + i, select(lt(y, below), y, from));  // rounding may reach high
    }
    memcpy(out, numbers, static_cast<size_t>(n) * sizeof(float));
  });
}

// Box and Muller: of two words, one is the radius and one the angle of two numbers.
PEN_KERNEL(random_normal, f32) {
  using namespace PEN_ISA;
  constexpr int64_t kHalf = kRandomChunk / 2;
  const RandomParams& p = r.as<RandomParams>();
  RandomWords source = random_words(r, p.stream);
  V mean = set1(p.from), deviation = set1(p.by);
  for_each_chunk(r, p, [&](int64_t chunk, int64_t begin, int64_t n) {
    uint32_t words[kRandomChunk];
    float numbers[kRandomChunk], *out = r.out[0].as<float>() + begin;
    source.fill(chunk * (kRandomChunk / 4), kRandomChunk, words);
    for (int64_t i = 0; i < kHalf; i += kLanes) {
      I radius = bits(load_words(words + i)), angle = bits(load_words(words + kHalf + i));
      V length = sqrt(set1(-2.0f) * log(fraction(radius))) * deviation, sine, cosine;
      sin_cos_of_turn(to_float(angle) * set1(2.32830644e-10f), &sine, &cosine);
      store(numbers + i, fma(length, cosine, mean));
      store(numbers + kHalf + i, fma(length, sine, mean));
    }
    memcpy(out, numbers, static_cast<size_t>(n) * sizeof(float));
  });
}

}  // namespace pen
