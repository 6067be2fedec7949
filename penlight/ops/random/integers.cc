// random_integers: whole numbers from low up to but not including high; random_permutation: 0 … n - 1 in some order;
// random_poisson: counts with given means.
#include "penlight/ops/random/philox.h"

namespace pen {

PEN_SHAPE(random_integers) {
  int64_t low = s.integer("low"), high = s.integer("high");
  if (!s.flag("whole") && low >= high)
    return s.fail(-1, "high above low", "%lld and %lld", static_cast<long long>(high), static_cast<long long>(low));
  return random_shape(s, DType::i64);
}

PEN_BIND(random_integers) {
  RandomParams* p = b.params<RandomParams>();
  int64_t low = b.integer("low"), high = b.integer("high");
  p->low = low;
  p->range = b.flag("whole") ? 0 : static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  return random_plan(b, p);
}

// The upper half of a product.
static PEN_INLINE uint64_t upper_product(uint64_t a, uint64_t b) {
  uint64_t al = a & 0xffffffffu, ah = a >> 32, bl = b & 0xffffffffu, bh = b >> 32;
  uint64_t middle = ah * bl + (al * bl >> 32), other = al * bh + (middle & 0xffffffffu);
  return ah * bh + (middle >> 32) + (other >> 32);
}

// A word times the range, of which the upper half is a number below it: uneven by range / 2**32 of its share at most. A
// range of over 2**24 gets words of 64 bits. 0: all of these.
constexpr int64_t kNarrowRange = 1 << 24;
static PEN_INLINE uint64_t drawn(const uint32_t* words, int64_t i, bool narrow, uint64_t range) {
  if (narrow) return words[i] * range >> 32;
  uint64_t word = static_cast<uint64_t>(words[2 * i]) << 32 | words[2 * i + 1];
  return range == 0 ? word : upper_product(word, range);
}

PEN_KERNEL_ANY(random_integers, i64) {
  const RandomParams& p = r.as<RandomParams>();
  RandomWords source = random_words(r, p.stream);
  bool narrow = p.range != 0 && p.range <= kNarrowRange;
  for_each_chunk(r, p, [&](int64_t chunk, int64_t begin, int64_t n) {
    uint32_t words[2 * kRandomChunk];
    int64_t* out = r.out[0].as<int64_t>() + begin;
    int64_t count = narrow ? kRandomChunk : 2 * kRandomChunk;
    source.fill(chunk * (count / 4), count, words);
    uint64_t low = static_cast<uint64_t>(p.low), range = p.range;
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<int64_t>(low + drawn(words, i, narrow, range));
  });
}

PEN_SHAPE(random_permutation) {
  Shape shape;
  shape.rank = 1;
  shape.dims[0] = s.integer("n");
  if (shape.dims[0] < 0 || shape.dims[0] > int64_t{1} << 31)
    return s.fail(-1, "n from 0 to 2**31", "%lld", static_cast<long long>(shape.dims[0]));
  return random_shape(s, DType::i64, shape);
}

PEN_BIND(random_permutation) {
  RandomParams* p = b.params<RandomParams>();
  PEN_TRY(random_plan(b, p));
  b.tasks(p->elements > 0);  // each exchange builds on the one before it
  return PEN_OK;
}

// Fisher and Yates; the words as for random_integers.
PEN_KERNEL_ANY(random_permutation, i64) {
  const RandomParams& p = r.as<RandomParams>();
  RandomWords source = random_words(r, p.stream);
  int64_t *out = r.out[0].as<int64_t>(), count = p.elements <= kNarrowRange ? kRandomChunk : 2 * kRandomChunk;
  uint32_t words[2 * kRandomChunk];
  Patience patience(r);
  for (int64_t begin = 0; begin < p.elements && !patience.ends(8 * kRandomChunk); begin += kRandomChunk) {
    source.fill(begin / kRandomChunk * (count / 4), count, words);
    int64_t end = p.elements - begin < kRandomChunk ? p.elements : begin + kRandomChunk;
    for (int64_t i = begin; i < end; ++i) {
      int64_t j = static_cast<int64_t>(drawn(words, i - begin, count == kRandomChunk, static_cast<uint64_t>(i) + 1));
      out[i] = out[j];  // inside out: j <= i, and what out[i] was does not matter
      out[j] = i;
    }
  }
}

PEN_SHAPE(random_poisson) {
  PEN_TRY(need_countable(s, 0));
  return random_shape(s, DType::f32, shape_of(s.in(0)));
}

PEN_BIND(random_poisson) {
  PEN_TRY(b.need(0, Need::dense));
  return random_plan(b, b.params<RandomParams>());
}

// Fractions in (0, 1) for one element, as many as it takes: fours numbered by element and by how many came before.
struct Fractions {
  RandomWords source;
  int64_t next;
  int used = 4;
  Words4 words = {};
  PEN_INLINE float draw() {
    if (used == 4) {
      words = source.four(next);
      next += int64_t{1} << 36;  // elements are counted below
      used = 0;
    }
    return static_cast<float>(words.word[used++] >> 8) * 5.96046448e-8f + 2.98023224e-8f;
  }
};

// log(k!), by Stirling's series.
static float log_factorial(float k) {
  static constexpr float kSmall[] = {0.0f,        0.0f,        0.693147181f, 1.79175947f, 3.17805383f,
                                     4.78749174f, 6.57925121f, 8.52516136f,  10.6046029f, 12.8018275f};
  if (k < 10) return kSmall[static_cast<int>(k)];
  return (k + 0.5f) * logf(k) - k + 0.918938533f + 1 / (12 * k);
}

// A count with mean `rate`. Small: how many fractions can be multiplied until e**-rate is reached. Large: transformed
// rejection (Hörmann 1993, PTRS).
static float poisson(float rate, Fractions* f) {
  if (!(rate > 0)) return rate == 0 ? 0 : __builtin_nanf("");
  if (rate < 10) {
    float limit = expf(-rate), product = 1, count = -1;
    do {
      product *= f->draw();
      ++count;
    } while (product > limit);
    return count;
  }
  float root = __builtin_sqrtf(rate), b = 0.931f + 2.53f * root, a = -0.059f + 0.02483f * b;
  float inverse = 1.1239f + 1.1328f / (b - 3.4f), steep = 0.9277f - 3.6224f / (b - 2);
  for (int tries = 0; tries < 1000; ++tries) {
    float u = f->draw() - 0.5f, v = f->draw(), distance = 0.5f - __builtin_fabsf(u);
    float k = floorf((2 * a / distance + b) * u + rate + 0.43f);
    if (distance >= 0.07f && v <= steep) return k;
    if (k < 0 || (distance < 0.013f && v > distance)) continue;
    // k log(rate) - rate - log(k!), with what cancels taken out first
    float density = k < 10 ? k * logf(rate) - rate - log_factorial(k)
                           : (k - rate) - k * log1pf((k - rate) / rate) - 0.5f * logf(k) - 0.918938533f - 1 / (12 * k);
    if (logf(v) + logf(inverse) - logf(a / (distance * distance) + b) <= density) return k;
  }
  return rate;
}

PEN_KERNEL_ANY(random_poisson, f32) {
  const RandomParams& p = r.as<RandomParams>();
  RandomWords source = random_words(r, p.stream);
  for_each_chunk(r, p, [&](int64_t, int64_t begin, int64_t n) {
    for (int64_t i = begin; i < begin + n; ++i) {
      Fractions f = {source, i};
      r.out[0].as<float>()[i] = poisson(r.in[0].as<float>()[i], &f);
    }
  });
}

}  // namespace pen
