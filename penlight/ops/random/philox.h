// Philox 4x32-10 (Salmon et al., 2011): four random words from a counter and a key, with no state in between. The key is the
// session's seed; the counter says which four words of which node in which run. So a word depends on its place alone, not
// on threads or tasks. Elements are drawn in chunks of 256.
#pragma once
#include "penlight/ops/shape/runs.h"

namespace pen {

constexpr int64_t kRandomChunk = 256;
constexpr uint64_t kPhiloxLeft = 0xD2511F53u, kPhiloxRight = 0xCD9E8D57u;
constexpr uint32_t kPhiloxKey0 = 0x9E3779B9u, kPhiloxKey1 = 0xBB67AE85u;

struct Words4 {
  uint32_t word[4];
};

static PEN_INLINE Words4 philox(Words4 counter, uint64_t seed) {
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t a = kPhiloxLeft * counter.word[0], b = kPhiloxRight * counter.word[2];
    counter = {{static_cast<uint32_t>(b >> 32) ^ counter.word[1] ^ key0, static_cast<uint32_t>(b),
                static_cast<uint32_t>(a >> 32) ^ counter.word[3] ^ key1, static_cast<uint32_t>(a)}};
    key0 += kPhiloxKey0;
    key1 += kPhiloxKey1;
  }
  return counter;
}

// The words of one node in one run. Of the counter, 48 bits count fours of words, 16 nodes and 64 runs.
struct RandomWords {
  uint64_t seed, run;
  uint32_t stream;

  PEN_INLINE Words4 counter(int64_t index) const {
    uint64_t at = static_cast<uint64_t>(index);
    return {{static_cast<uint32_t>(at), (static_cast<uint32_t>(at >> 32) & 0xffffu) | stream << 16, static_cast<uint32_t>(run),
             static_cast<uint32_t>(run >> 32)}};
  }
  PEN_INLINE Words4 four(int64_t index) const { return philox(counter(index), seed); }
  // Words [4 first, 4 first + count); count is a multiple of 64. Sixteen counters go side by side: loops of a fixed length
  // that compilers turn into vectors, three to four times as fast as one after the other.
  PEN_INLINE void fill(int64_t first, int64_t count, uint32_t* words) const {
    constexpr int kSide = 16;
    for (int64_t i = 0; i < count; i += 4 * kSide) {
      uint32_t a[kSide], b[kSide], c[kSide], d[kSide];
      uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
      for (int l = 0; l < kSide; ++l) {
        Words4 start = counter(first + i / 4 + l);
        a[l] = start.word[0];
        b[l] = start.word[1];
        c[l] = start.word[2];
        d[l] = start.word[3];
      }
      for (int round = 0; round < 10; ++round) {
        for (int l = 0; l < kSide; ++l) {
          uint64_t left = kPhiloxLeft * a[l], right = kPhiloxRight * c[l];
          a[l] = static_cast<uint32_t>(right >> 32) ^ b[l] ^ key0;
          b[l] = static_cast<uint32_t>(right);
          c[l] = static_cast<uint32_t>(left >> 32) ^ d[l] ^ key1;
          d[l] = static_cast<uint32_t>(left);
        }
        key0 += kPhiloxKey0;
        key1 += kPhiloxKey1;
      }
      for (int l = 0; l < kSide; ++l) {
        uint32_t* to = words + i + 4 * l;
        to[0] = a[l];
        to[1] = b[l];
        to[2] = c[l];
        to[3] = d[l];
      }
    }
  }
};

static PEN_INLINE RandomWords random_words(const Run& r, int64_t stream) {
  return {r.random->seed, r.random->run, static_cast<uint32_t>(stream)};
}

struct RandomParams {
  int64_t elements, tasks, stream;
  float from, by;  // uniform: low, high - low; normal: mean, std
  float below;     // uniform: high
  bool open;       // uniform: from (0, 1], to take logarithms of
  int64_t low;     // whole numbers
  uint64_t range;  // high - low; 0: 2**64
};

static PEN_INLINE Status random_shape(Shapes& s, DType dtype, const Shape& shape) {
  PEN_TRY(s.output(0, dtype, shape));
  int64_t stream = s.integer("stream");
  return stream >= 0 && stream <= 0xffff ? PEN_OK : s.fail(-1, "a stream from 0 to 65535", "%lld", static_cast<long long>(stream));
}

// Of the attribute `shape`.
static PEN_INLINE Status random_shape(Shapes& s, DType dtype) {
  IntList dims = s.ints("shape");
  if (dims.count > kMaxRank) return s.fail(-1, "a shape of rank 8 or less", "rank %d", dims.count);
  Shape shape;
  shape.rank = dims.count;
  for (int d = 0; d < dims.count; ++d) shape.dims[d] = dims[d];
  return random_shape(s, dtype, shape);
}

// The stream, and the work for a dense output.
static PEN_INLINE Status random_plan(Bind& b, RandomParams* p) {
  p->stream = b.integer("stream");
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  p->elements = is_empty(b.out(0)) ? 0 : b.out(0).numel();
  p->tasks = p->elements ? task_count((p->elements + kRandomChunk - 1) / kRandomChunk, 16) : 0;
  b.tasks(p->tasks);
  return PEN_OK;
}

// Calls chunk(its number, where it begins, how many elements) for every chunk of these tasks.
template <class Chunk>
static PEN_INLINE void for_each_chunk(const Run& r, const RandomParams& p, const Chunk& chunk) {
  int64_t chunks = (p.elements + kRandomChunk - 1) / kRandomChunk;
  Range range = {part(chunks, p.tasks, r.begin).begin, part(chunks, p.tasks, r.end - 1).end};
  for (int64_t i = range.begin; i < range.end; ++i) {
    int64_t begin = i * kRandomChunk;
    chunk(i, begin, p.elements - begin < kRandomChunk ? p.elements - begin : kRandomChunk);
  }
}

}  // namespace pen
