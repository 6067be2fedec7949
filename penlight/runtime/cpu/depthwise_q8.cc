// Blocks of channels, widest first, go along an output row. Four image rows are interleaved column by column (simd/rows4.h), and one
// instruction sums a column's taps: for kernels 3 and 5 wide, strides 1 and 2, each column is interleaved once for all outputs that it
// reaches, whose sums stay in registers; other kernels interleave a column for each. Columns on padding are the input's zero point.
// Channels that are no whole block are done by one more that overlaps its predecessor and writes the same bytes again; where there are not
// even as many as a block has, it reads over into the pixels after, and what that gives is written over by those, or left out.
#include "penlight/runtime/cpu/depthwise_q8.h"

#include "penlight/runtime/cpu/tile_q8.h"

namespace pen {
namespace PEN_ISA {

// How the sums of a block leave: as a vector of bytes; as one of which only the first `count` are wanted; with a residual, as floats, or
// beyond 32 bits.
enum class Leave { whole, few, other };

// Outputs [0, out) of a row of one block of channels, the first of which begins at column -pad of the image: a whole row, or a piece of a
// long one. Rows come in fours; those that do not exist are the pixel of padding, at a step of 0.
struct CallQ8 {
  const DepthwiseQ8* d;
  intptr_t out, pad;
  const uint8_t* const* rows;
  const intptr_t* steps;
  intptr_t quads;          // rows / 4
  const uint8_t* padding;  // a pixel
  const char* weights;
  const int32_t* numbers;     // B multipliers in the order of quarters, B starts of sums, and levels as requantize takes them
  const float *scale, *bias;  // of the block's channels; biases where results are floats
  char* y;
  const char* residual;
  int count;  // channels that exist
  Leave leave;
  int64_t whole_end;  // few: up to this output a whole vector may be stored, for outputs after it lie where it ends
};
using RunQ8 = void (*)(const CallQ8& c);

// Sums of output `o`, in the order of channels, as floats.
template <int kCount>
static PEN_INLINE void finish_real(const CallQ8& c, const I (&sums)[kCount], int64_t o) {
  const DepthwiseQ8& d = *c.d;
  float* y = reinterpret_cast<float*>(c.y) + o * d.y_pitch;
  const float* residual = c.residual ? reinterpret_cast<const float*>(c.residual) + o * d.residual_pitch : nullptr;
  PEN_UNROLL for (int i = 0; i < kCount; ++i) {
    const int at = i * kLanes, n = c.count - at;
    if (n <= 0) return;
    V f = to_float(sums[i]) * load(c.scale + at) + load(c.bias + at);
    if (residual) f = f + (n < kLanes ? load_partial(residual + at, n) : load(residual + at));
    if (d.act->clamped) f = clamp(f, set1(d.act->lo), set1(d.act->hi));
    if (n < kLanes)
      store_partial(y + at, f, n);
    else
      store(y + at, f);
  }
}

// The same as bytes, with a residual or products that may lie beyond 32 bits.
template <int kCount>
static PEN_INLINE void finish_bytes(const CallQ8& c, const I (&sums)[kCount], int64_t o) {
  const DepthwiseQ8& d = *c.d;
  const ResultQ8& q = *d.result;
  const V low = set1(static_cast<float>(q.low - q.zero)), high = set1(static_cast<float>(q.high - q.zero));
  const Limits limits = make_limits(q.zero, q.low, q.high);
  uint8_t* y = reinterpret_cast<uint8_t*>(c.y) + o * d.y_pitch;
  const uint8_t* residual = c.residual ? reinterpret_cast<const uint8_t*>(c.residual) + o * d.residual_pitch : nullptr;
  PEN_UNROLL for (int i = 0; i < kCount; i += 4) {
    I steps[4] = {set1i(0), set1i(0), set1i(0), set1i(0)};
    PEN_UNROLL for (int j = 0; j < (kCount < 4 ? kCount : 4); ++j) {
      const int at = (i + j) * kLanes, n = c.count - at;
      if (n <= 0) break;
      V f = to_float(sums[i + j]) * load(c.scale + at);
      if (residual) {
        const I more = n < kLanes ? load_bytes_i_partial(residual + at, n) : load_bytes_i(residual + at);
        f = f + to_float(more - set1i(q.residual_zero)) * set1(q.residual_scale);
      }
      steps[j] = round_to_int(min(max(f, low), high));
    }
    const Bytes bytes = pack(steps[0], steps[1], steps[2], steps[3], limits);
    const int left = c.count - i * kLanes;
    if (left >= 4 * kLanes) {
      store_all(y + i * kLanes, bytes);
      continue;
    }
    uint8_t few[4 * kLanes];
    store_all(few, bytes);
    PEN_UNROLL for (int j = 0; j < 4; ++j) {
      const int at = j * kLanes;
      if (left >= at + kLanes) store_quarter(y + i * kLanes + at, bytes, j);
      for (int k = at; left < at + kLanes && k < left; ++k) y[i * kLanes + k] = few[k];
    }
  }
}

// Sums of output `o`, as they lie, that are not just requantized.
template <int B>
static __attribute__((noinline)) void finish(const CallQ8& c, const typename Rows4<B>::S (&sum)[4], int64_t o) {
  if (c.leave == Leave::few) {
    uint8_t bytes[B], *y = reinterpret_cast<uint8_t*>(c.y) + o * c.d->y_pitch;
    const bool whole = o < c.whole_end;
    Rows4<B>::requantize(sum, reinterpret_cast<const float*>(c.numbers), reinterpret_cast<const char*>(c.numbers + 2 * B),
                         whole ? y : bytes);
    for (int i = 0; !whole && i < c.count; ++i) y[i] = bytes[i];
    return;
  }
  I sums[B / kLanes];
  Rows4<B>::order(sum, sums);
  if (c.d->result->real)
    finish_real(c, sums, o);
  else
    finish_bytes(c, sums, o);
}

// The widest kernel for whose sums a set has registers. Where they are kept in memory instead, interleaving again is as fast, and smaller.
#if defined(__AVX512VNNI__) || defined(__aarch64__)
constexpr int kRingWidth = 5;
#elif defined(__SSE2__) || defined(__ARM_NEON) || defined(__wasm_simd128__)
constexpr int kRingWidth = 3;
#else
constexpr int kRingWidth = 0;
#endif

// Columns on padding: rows turn to a pixel of padding where the image ends, which takes registers that change, or a column is filled, which
// Clang does for every column of arm64 before it looks.
#if defined(__ARM_NEON)
constexpr bool kTurns = true;
#else
constexpr bool kTurns = false;
#endif

static PEN_INLINE void hold_pointer(const uint8_t*& p) { __asm__("" : "+r"(p)); }

// A walk along the columns of a row, with the sums of the outputs that the next column reaches.
// kRows 3 or 4: the kernel's height is at most that, and its weights stay in registers. 0: any.
// kWhole: sums leave as whole vectors of bytes, which takes no more than a pointer.
template <int B, int kWidth, int kStride, int kRows, bool kWhole>
struct RingQ8 {
  using R = Rows4<B>;
  static constexpr int kReached = (kWidth + kStride - 1) / kStride, kPeriod = kReached * kStride;
  static constexpr int kTap = R::kWeightBytes * 4, kDotRows = kRows == 3 ? 3 : 4;
  const uint8_t *r0, *r1, *r2, *r3;
  intptr_t s0, s1, s2, s3;
  intptr_t x, width, first_end, last_end;  // the column, and those after which the first and the last output are ready
  intptr_t turn;                           // of kTurns: the next column at which the image begins or ends
  intptr_t y_pitch;
  uint8_t* y;
  const char* weights;
  const int32_t* numbers;
  uint8_t x_zero;
  typename R::W held[kRows ? kWidth : 1][4];
  typename R::S sum[kReached][4];

  // Tap k of a column is of the output that began k columns before: where its sums are, or -1.
  template <int kColumn>
  static constexpr int slot_of(int k) {
    constexpr int kFar = kPeriod * kWidth + kColumn;
    return (kFar - k) % kStride == 0 ? (kFar - k) % kPeriod / kStride : -1;
  }

  template <int kColumn>
  PEN_INLINE void add(const typename R::Q (&q)[4], const char* w, intptr_t w_step) {
    // The last tap first: it ends a sum, whose way through requantization is long.
    PEN_UNROLL for (int k = kWidth - 1; k >= 0; --k) {
      const int slot = slot_of<kColumn>(k);
      if (slot < 0) continue;
      typename R::W by[4];  // at once: arm64 loads two
      PEN_UNROLL for (int j = 0; j < 4; ++j) by[j] = kRows ? held[kRows ? k : 0][j] : R::weight(w + k * w_step + j * R::kWeightBytes, j);
      PEN_UNROLL for (int j = 0; j < 4; ++j) {
        sum[slot][j] = R::template dot<kDotRows>(sum[slot][j], q[j], by[j], j);
        R::hold(sum[slot][j]);
      }
    }
  }

  // The same, a row of the column after the other.
  template <int kColumn>
  PEN_INLINE void add_rows() {
    const uint8_t* rows[4] = {r0, r1, r2, r3};
    PEN_UNROLL for (int i = 0; i < kDotRows; ++i) {
      const typename R::Row pixels = R::row(rows[i]);
      PEN_UNROLL for (int k = kWidth - 1; k >= 0; --k) {
        const int slot = slot_of<kColumn>(k);
        if (slot < 0) continue;
        PEN_UNROLL for (int j = 0; j < 4; ++j) {
          sum[slot][j] = R::dot_row(sum[slot][j], pixels, held[k][j], i, j);
          if (i + 1 < kDotRows) R::hold_row(rows[i + 1], sum[slot][j]);
        }
      }
    }
  }

  PEN_INLINE void turn_rows(const CallQ8& c) {
    const bool begins = x < width;
    s0 = begins ? c.steps[0] : 0, s1 = begins ? c.steps[1] : 0, s2 = begins ? c.steps[2] : 0, s3 = begins ? c.steps[3] : 0;
    r0 = (begins ? c.rows[0] : c.padding) + x * s0, r1 = (begins ? c.rows[1] : c.padding) + x * s1;
    r2 = (begins ? c.rows[2] : c.padding) + x * s2, r3 = (begins ? c.rows[3] : c.padding) + x * s3;
    turn = width;
  }

  // Column kColumn of a period, in which every sum is begun and ended once. True when the row is done.
  template <int kColumn>
  PEN_INLINE bool column(const CallQ8& c) {
    if (kColumn % kStride == 0) {
      PEN_UNROLL for (int j = 0; j < 4; ++j) sum[kColumn / kStride][j] = R::sums(numbers + B + j * (B / 4));
    }
    [[maybe_unused]] const bool inside = static_cast<uintptr_t>(x) < static_cast<uintptr_t>(width);
    [[maybe_unused]] typename R::Q q[4];
    if constexpr (kRows > 0) {
      if (kTurns && PEN_UNLIKELY(x == turn)) turn_rows(c);
      if constexpr (R::kByRows) {
        static_assert(kTurns || !R::kByRows, "a row cannot be filled");
        add_rows<kColumn>();
      } else {
        if (kTurns || PEN_LIKELY(inside))
          R::template interleave<kDotRows>(r0, r1, r2, r3, q);
        else
          R::fill(x_zero, q);
        add<kColumn>(q, nullptr, 0);
      }
      r0 += s0, r1 += s1, r2 += s2, r3 += s3;
      hold_pointer(r0), hold_pointer(r1), hold_pointer(r2);  // one register for each: GCC would keep one for each column of a period
    } else if constexpr (R::kByRows) {
      for (intptr_t i = 0; i < static_cast<intptr_t>(c.d->kernel[0]); ++i) {
        const typename R::Row pixels = R::row(inside ? c.rows[i] + x * c.steps[i] : c.padding);
        static_assert(kTap == 4 * R::kRowBytes, "rows of a tap follow each other");
        const char* w = weights + i * R::kRowBytes;
        PEN_UNROLL for (int k = kWidth - 1; k >= 0; --k) {
          const int slot = slot_of<kColumn>(k);
          if (slot >= 0) R::dot_row(sum[slot], pixels, w + k * c.quads * kTap);
        }
      }
    } else {
      for (intptr_t quad = 0; quad < c.quads; ++quad) {
        const uint8_t* const* r = c.rows + 4 * quad;
        const intptr_t* s = c.steps + 4 * quad;
        if (PEN_LIKELY(inside))
          R::template interleave<4>(r[0] + x * s[0], r[1] + x * s[1], r[2] + x * s[2], r[3] + x * s[3], q);
        else
          R::fill(x_zero, q);
        add<kColumn>(q, weights + quad * kTap, c.quads * kTap);
      }
    }
    ++x;
    constexpr int kBegan = kPeriod * kWidth + kColumn - (kWidth - 1);  // the output that ends here
    if (kBegan % kStride != 0) return false;
    if (PEN_LIKELY(x >= first_end)) {
      if constexpr (kWhole) {
        R::requantize(sum[kBegan % kPeriod / kStride], reinterpret_cast<const float*>(numbers),
                      reinterpret_cast<const char*>(numbers + 2 * B), y);
        y += y_pitch;
      } else {
        typename R::S done[4];  // a copy: what is handed on lies in memory
        PEN_UNROLL for (int j = 0; j < 4; ++j) done[j] = sum[kBegan % kPeriod / kStride][j];
        finish<B>(c, done, (x - first_end) / kStride);
      }
    }
    return x == last_end;
  }

  template <int kColumn>
  PEN_INLINE bool columns(const CallQ8& c) {
    if constexpr (kColumn < kPeriod) {
      return column<kColumn>(c) || columns<kColumn + 1>(c);
    } else {
      return false;
    }
  }
};

template <int B, int kWidth, int kStride, int kRows, bool kWhole>
static __attribute__((noinline)) void depthwise_ring(const CallQ8& c) {
  using Ring = RingQ8<B, kWidth, kStride, kRows, kWhole>;
  using R = Rows4<B>;
  const DepthwiseQ8& d = *c.d;
  Ring r;
  r.x = -c.pad;
  r.turn = r.x > 0 ? r.x : 0;
  if (kTurns) {
    r.s0 = r.s1 = r.s2 = r.s3 = 0;
    r.r0 = r.r1 = r.r2 = r.r3 = c.padding;
  } else {
    r.s0 = c.steps[0], r.s1 = c.steps[1], r.s2 = c.steps[2], r.s3 = c.steps[3];
    r.r0 = c.rows[0] + r.x * r.s0, r.r1 = c.rows[1] + r.x * r.s1, r.r2 = c.rows[2] + r.x * r.s2, r.r3 = c.rows[3] + r.x * r.s3;
  }
  r.width = static_cast<intptr_t>(d.in[1]);
  r.first_end = r.x + kWidth;
  r.last_end = r.first_end + (c.out - 1) * kStride;
  r.y_pitch = static_cast<intptr_t>(d.y_pitch);
  r.y = reinterpret_cast<uint8_t*>(c.y);
  r.weights = c.weights;
  r.numbers = c.numbers;
  r.x_zero = d.x_zero;
  if (kRows) {
    PEN_UNROLL for (int k = 0; k < kWidth; ++k) {
      PEN_UNROLL for (int j = 0; j < 4; ++j) r.held[kRows ? k : 0][j] = R::weight(c.weights + k * Ring::kTap + j * R::kWeightBytes, j);
    }
  }
  PEN_UNROLL for (int i = 0; i < Ring::kReached; ++i) { PEN_UNROLL for (int j = 0; j < 4; ++j) r.sum[i][j] = R::sums(c.numbers); }
  while (!r.template columns<0>(c)) continue;
}

template <int B>
static PEN_INLINE void finish_any(const CallQ8& c, const typename Rows4<B>::S (&sum)[4], int64_t o) {
  if (PEN_UNLIKELY(c.leave != Leave::whole)) return finish<B>(c, sum, o);
  Rows4<B>::requantize(sum, reinterpret_cast<const float*>(c.numbers), reinterpret_cast<const char*>(c.numbers + 2 * B),
                       reinterpret_cast<uint8_t*>(c.y) + o * c.d->y_pitch);
}

template <int B>
static __attribute__((noinline)) void depthwise_any(const CallQ8& c) {
  using R = Rows4<B>;
  const DepthwiseQ8& d = *c.d;
  for (intptr_t o = 0; o < c.out; ++o) {
    typename R::S sum[4];
    PEN_UNROLL for (int j = 0; j < 4; ++j) sum[j] = R::sums(c.numbers + B + j * (B / 4));
    const char* w = c.weights;
    intptr_t x = o * static_cast<intptr_t>(d.stride[1]) - c.pad;
    if constexpr (R::kByRows) {
      const intptr_t taps = static_cast<intptr_t>(d.kernel[1]), apart = static_cast<intptr_t>(d.dilation[1]);
      const bool inside = x >= 0 && x + (taps - 1) * apart < static_cast<intptr_t>(d.in[1]);
      for (intptr_t i = 0; i < static_cast<intptr_t>(d.kernel[0]); ++i, w += R::kRowBytes) {
        const intptr_t step = apart * c.steps[i];
        const uint8_t* p = c.rows[i] + x * c.steps[i];
        const char* by = w;
        for (intptr_t k = 0; k < taps; ++k, p += step, by += c.quads * 4 * R::kRowBytes) {
          const bool there = inside || static_cast<uintptr_t>(x + k * apart) < static_cast<uintptr_t>(d.in[1]);
          R::dot_row(sum, R::row(PEN_LIKELY(there) ? p : c.padding), by);
        }
      }
      finish_any<B>(c, sum, o);
      continue;
    }
    for (intptr_t k = 0; k < d.kernel[1]; ++k, x += static_cast<intptr_t>(d.dilation[1])) {
      bool inside = x >= 0 && x < d.in[1];
      for (intptr_t quad = 0; quad < c.quads; ++quad) {
        typename R::Q q[4];
        const uint8_t* const* r = c.rows + 4 * quad;
        const intptr_t* s = c.steps + 4 * quad;
        if (inside)
          R::template interleave<4>(r[0] + x * s[0], r[1] + x * s[1], r[2] + x * s[2], r[3] + x * s[3], q);
        else
          R::fill(d.x_zero, q);
        PEN_UNROLL for (int j = 0; j < 4; ++j) {
          sum[j] = R::template dot<4>(sum[j], q[j], R::weight(w, j), j);
          w += R::kWeightBytes;
        }
      }
    }
    finish_any<B>(c, sum, o);
  }
}

template <int B, bool kWhole>
static RunQ8 choose(const DepthwiseQ8& d) {
  if (d.dilation[1] != 1 || d.stride[1] > 2) return depthwise_any<B>;
  if constexpr (kRingWidth >= 3) {
    if (d.kernel[1] == 3 && d.kernel[0] <= 3)
      return d.stride[1] == 2 ? depthwise_ring<B, 3, 2, 3, kWhole> : depthwise_ring<B, 3, 1, 3, kWhole>;
  }
  if constexpr (kRingWidth >= 5) {
    if (d.kernel[1] == 5) return d.stride[1] == 2 ? depthwise_ring<B, 5, 2, 0, kWhole> : depthwise_ring<B, 5, 1, 0, kWhole>;
  }
  return depthwise_any<B>;
}
// Phones: a ring takes a kilobyte or two.
template <int B>
static RunQ8 choose(const DepthwiseQ8& d, bool whole) {
  if (whole) return choose<B, true>(d);
  if constexpr (kSmallCode) return depthwise_any<B>;
  return choose<B, false>(d);
}

static_assert(Rows4<16>::kOffset == 0 || needs_sums_q8(Isa::PEN_ISA, true), "bind adds up weights for these");

// Weights and numbers of channels [c0, c0 + B), in the order of quarters: numbers of four channels at a time. Rows that the kernel does not
// have are zeros, and so are channels, where there is no whole block of them.
template <int B>
static void prepare_block(const DepthwiseQ8& d, int64_t c0, char* weights, int32_t* numbers) {
  using R = Rows4<B>;
  for (int j = 0; j < 4; ++j) {
    for (int p = 0; p < B / 4; p += 4) {
      int32_t* to = numbers + j * (B / 4) + p;
      int64_t c = c0 + p * 4 + j * 4;
      __builtin_memcpy(to, d.columns.scale + c, 16);
      __builtin_memcpy(to + B, d.columns.start + c, 16);
      for (int i = 0; R::kOffset && i < 4; ++i)  // wraps, like the sums
        to[B + i] = static_cast<int32_t>(static_cast<uint32_t>(to[B + i]) +
                                         static_cast<uint32_t>(R::kOffset) * static_cast<uint32_t>(d.columns.sums[c + i]));
    }
  }
  Rows4<B>::prepare_levels(d.result->zero, d.result->low, d.result->high, reinterpret_cast<char*>(numbers + 2 * B));
  char narrow[4][kWholeBlockQ8] = {};
  static constexpr char kNone[B] = {};
  for (int64_t x = 0; x < d.kernel[1]; ++x)
    for (int64_t y = 0; y < d.kernel[0]; y += 4, weights += 4 * R::kWeightBytes) {
      const char* rows[4];
      for (int i = 0; i < 4; ++i) {
        rows[i] = y + i < d.kernel[0] ? d.weights + ((y + i) * d.kernel[1] + x) * d.channels + c0 : kNone;
        if (PEN_LIKELY(d.channels >= kWholeBlockQ8) || rows[i] == kNone) continue;
        for (int64_t k = 0; k < d.channels; ++k) narrow[i][k] = rows[i][k];
        rows[i] = narrow[i];
      }
      R::prepare(rows, weights);
    }
}

// Where the rows under output row `oy` of an image lie, for channels [c0, c0 + block).
static void place_rows(const DepthwiseQ8& d, const DepthwiseSizesQ8& sizes, const uint8_t* image, int64_t oy, int64_t c0, int64_t block) {
  const uint8_t** rows = reinterpret_cast<const uint8_t**>(d.scratch + sizes.rows);
  intptr_t* steps = reinterpret_cast<intptr_t*>(d.scratch + sizes.steps);
  uint8_t* copy = reinterpret_cast<uint8_t*>(d.scratch + sizes.copy);
  for (int64_t k = 0; k < (d.kernel[0] + 3) / 4 * 4; ++k) {
    int64_t at = oy * d.stride[0] - d.pad[0] + k * d.dilation[0];
    rows[k] = reinterpret_cast<uint8_t*>(d.scratch + sizes.padding);
    steps[k] = 0;
    if (k >= d.kernel[0] || at < 0 || at >= d.in[0]) continue;
    rows[k] = image + at * d.in[1] * d.x_pitch + c0;
    steps[k] = static_cast<intptr_t>(d.x_pitch);
    // What a block reads behind the last pixel's channels must be the image's, whatever it is.
    if (PEN_LIKELY(d.channels >= block || (d.in[0] - 1 - at) * d.in[1] * d.x_pitch + d.channels >= block)) continue;
    for (int64_t x = 0; x < d.in[1]; ++x) __builtin_memcpy(copy + x * block, rows[k] + x * d.x_pitch, static_cast<size_t>(d.channels));
    rows[k] = copy;
    steps[k] = static_cast<intptr_t>(block);
    copy += d.in[1] * block;
  }
}

template <int B>
static void run_block(const DepthwiseQ8& d, Range lines, int64_t c0) {
  DepthwiseSizesQ8 sizes = depthwise_sizes_q8(d.kernel, d.in, d.channels);
  int32_t* numbers = reinterpret_cast<int32_t*>(d.scratch + sizes.numbers);
  prepare_block<B>(d, c0, d.scratch, numbers);
  const int64_t size = d.result->real ? 4 : 1;
  CallQ8 c = {};
  c.d = &d;
  c.rows = reinterpret_cast<const uint8_t**>(d.scratch + sizes.rows);
  c.steps = reinterpret_cast<intptr_t*>(d.scratch + sizes.steps);
  c.quads = static_cast<intptr_t>((d.kernel[0] + 3) / 4);
  c.padding = reinterpret_cast<const uint8_t*>(d.scratch + sizes.padding);
  c.weights = d.scratch;
  c.numbers = numbers;
  c.scale = d.columns.scale + c0;
  c.bias = d.columns.bias + c0;
  c.count = d.channels < B ? static_cast<int>(d.channels) : B;
  c.leave = d.result->wide || d.result->real || d.residual ? Leave::other : c.count < B ? Leave::few : Leave::whole;
  const int64_t whole_end = d.y_pitch == c.count ? d.out[1] - (B - 1) / c.count : 0;
  const int64_t work = d.kernel[0] * d.kernel[1] * B;  // multiply-adds of an output
  const int64_t piece = 1 + (1 << 22) / work;          // which a row of a network never reaches
  RunQ8 run = choose<B>(d, c.leave == Leave::whole);
  for (int64_t line = lines.begin; line < lines.end; ++line) {
    int64_t n = line / d.out[0], oy = line % d.out[0];
    place_rows(d, sizes, d.x + n * d.x_batch, oy, c0, B);
    for (int64_t o = 0; o < d.out[1]; o += piece) {
      c.out = static_cast<intptr_t>(piece < d.out[1] - o ? piece : d.out[1] - o);
      if (d.patience->ends(c.out * work)) return;
      c.pad = static_cast<intptr_t>(d.pad[1] - o * d.stride[1]);
      c.whole_end = whole_end - o;
      c.y = d.y + (n * d.y_batch + (oy * d.out[1] + o) * d.y_pitch + c0) * size;
      if (d.residual) c.residual = d.residual + (n * d.residual_batch + (oy * d.out[1] + o) * d.residual_pitch + c0) * size;
      run(c);
    }
  }
}

// All whole blocks of B channels from `c` on, and the rest, if a narrower block (of at least B / 2) does not take it, by one that overlaps
// the last. Returns where they end.
template <int B>
static PEN_INLINE int64_t run_blocks(const DepthwiseQ8& d, Range lines, int64_t c_begin, int64_t c, int64_t c_end) {
  for (; c + B <= c_end; c += B) run_block<B>(d, lines, c);
  if (c_end - c <= (B > 16 ? B / 2 : 0) || c_end - c_begin < B) return c;
  run_block<B>(d, lines, c_end - B);
  return c_end;
}

void run_depthwise_q8(const DepthwiseQ8& d, Range lines, Range channels) {
  memset(d.scratch + depthwise_sizes_q8(d.kernel, d.in, d.channels).padding, d.x_zero, 64);
  int64_t c = channels.begin;
  if constexpr (kBlock >= 64) c = run_blocks<64>(d, lines, channels.begin, c, channels.end);
  if constexpr (kBlock >= 32) c = run_blocks<32>(d, lines, channels.begin, c, channels.end);
  c = run_blocks<16>(d, lines, channels.begin, c, channels.end);
  if (c < channels.end) run_block<16>(d, lines, c);
  if (!d.act->row) return;
  for (int64_t line = lines.begin; line < lines.end; ++line) {
    float* y = reinterpret_cast<float*>(d.y) + line / d.out[0] * d.y_batch + line % d.out[0] * d.out[1] * d.y_pitch + channels.begin;
    for (int64_t o = 0; o < d.out[1] && !d.patience->ends(channels.end - channels.begin); ++o)
      apply_row(*d.act, y + o * d.y_pitch, channels.end - channels.begin);
  }
}

}  // namespace PEN_ISA
}  // namespace pen
