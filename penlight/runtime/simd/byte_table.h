// Bytes through a table of 256: what every function of one quantized number becomes. Included by files that are compiled once per
// instruction set. A table is put into registers' order once, then
//
//   ByteTable t(table)      t.look_up(from, to, n)     to[i] = table[from[i]]; to and from may be the same memory
#pragma once
#include "penlight/runtime/simd/bytes.h"

namespace pen {
namespace PEN_ISA {

#if defined(__AVX512F__)
// Four registers of 128 words, each of two entries; bit 0 of a byte tells which of the two. (VBMI looks up bytes, but comes later than
// what this set asks for.)
struct ByteTable {
  __m512i words[4];
  PEN_INLINE explicit ByteTable(const uint8_t* table) {
    for (int i = 0; i < 4; ++i) words[i] = _mm512_loadu_si512(table + 64 * i);
  }
  // Words of one byte each, as words of one entry each.
  PEN_INLINE __m512i entries(__m512i bytes) const {
    const __m512i one = _mm512_set1_epi16(1);
    __m512i place = _mm512_srli_epi16(bytes, 1);
    __mmask32 upper = _mm512_test_epi16_mask(bytes, _mm512_set1_epi16(128)), odd = _mm512_test_epi16_mask(bytes, one);
    __m512i low = _mm512_permutex2var_epi16(words[0], place, words[1]), high = _mm512_permutex2var_epi16(words[2], place, words[3]);
    __m512i pair = _mm512_mask_blend_epi16(upper, low, high);
    return _mm512_mask_srli_epi16(pair, odd, pair, 8);
  }
  PEN_INLINE __m512i at(__m512i bytes) const {
    const __m512i low_bytes = _mm512_set1_epi16(255);
    __m512i even = entries(_mm512_and_si512(bytes, low_bytes)), odd = entries(_mm512_srli_epi16(bytes, 8));
    return _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaaull, even, _mm512_slli_epi16(odd, 8));
  }
  PEN_INLINE void look_up(const uint8_t* from, uint8_t* to, int64_t n) const {
    for (; n >= 64; n -= 64, from += 64, to += 64) _mm512_storeu_si512(to, at(_mm512_loadu_si512(from)));
    if (n <= 0) return;
    const __mmask64 some = ~0ull >> (64 - n);
    _mm512_mask_storeu_epi8(to, some, at(_mm512_maskz_loadu_epi8(some, from)));
  }
};
#elif defined(__AVX2__) || defined(__SSE4_1__)
#if defined(__AVX2__)
typedef __m256i TableBytes;
static PEN_INLINE TableBytes table_row(const uint8_t* p) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
static PEN_INLINE TableBytes table_load(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
static PEN_INLINE void table_store(uint8_t* p, TableBytes v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
static PEN_INLINE TableBytes shuffled(TableBytes row, TableBytes at) { return _mm256_shuffle_epi8(row, at); }
static PEN_INLINE TableBytes differing(TableBytes a, TableBytes b) { return _mm256_xor_si256(a, b); }
static PEN_INLINE TableBytes less16(TableBytes a) { return _mm256_sub_epi8(a, _mm256_set1_epi8(16)); }
static PEN_INLINE TableBytes less16_saturated(TableBytes a) { return _mm256_subs_epi8(a, _mm256_set1_epi8(16)); }
#else
typedef __m128i TableBytes;
static PEN_INLINE TableBytes table_row(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
static PEN_INLINE TableBytes table_load(const uint8_t* p) { return table_row(p); }
static PEN_INLINE void table_store(uint8_t* p, TableBytes v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v); }
static PEN_INLINE TableBytes shuffled(TableBytes row, TableBytes at) { return _mm_shuffle_epi8(row, at); }
static PEN_INLINE TableBytes differing(TableBytes a, TableBytes b) { return _mm_xor_si128(a, b); }
static PEN_INLINE TableBytes less16(TableBytes a) { return _mm_sub_epi8(a, _mm_set1_epi8(16)); }
static PEN_INLINE TableBytes less16_saturated(TableBytes a) { return _mm_subs_epi8(a, _mm_set1_epi8(16)); }
#endif
// A shuffle looks up 16 entries, and gives 0 where the top bit of the place is set. Places go down by 16 from row to row of the table,
// so that byte x is seen by rows 0 to x / 16, or by the last eight of these where x >= 128: rows hold what they differ by from the
// rows seen before them, and what all of these give together is the entry.
struct ByteTable {
  const uint8_t* table;
  TableBytes rows[16];
  PEN_INLINE explicit ByteTable(const uint8_t* table_) : table(table_) {
    for (int i = 0; i < 16; ++i) {
      rows[i] = table_row(table + 16 * i);
      for (int k = i < 7 ? 0 : i - 7; k < i; ++k) rows[i] = differing(rows[i], rows[k]);
    }
  }
  PEN_INLINE TableBytes at(TableBytes place) const {
    TableBytes sum = shuffled(rows[0], place);
    PEN_UNROLL
    for (int i = 1; i < 16; ++i) {
      place = i <= 8 ? less16(place) : less16_saturated(place);
      sum = differing(sum, shuffled(rows[i], place));
    }
    return sum;
  }
  PEN_INLINE void look_up(const uint8_t* from, uint8_t* to, int64_t n) const {
    constexpr int kWide = sizeof(TableBytes);
    for (; n >= kWide; n -= kWide, from += kWide, to += kWide) table_store(to, at(table_load(from)));
    for (int64_t i = 0; i < n; ++i) to[i] = table[from[i]];
  }
};
#elif defined(__aarch64__)
struct ByteTable {
  const uint8_t* table;
  uint8x16x4_t rows[4];
  PEN_INLINE explicit ByteTable(const uint8_t* table_) : table(table_) {
    for (int i = 0; i < 4; ++i)
      for (int k = 0; k < 4; ++k) rows[i].val[k] = vld1q_u8(table + 64 * i + 16 * k);
  }
  PEN_INLINE void look_up(const uint8_t* from, uint8_t* to, int64_t n) const {
    for (; n >= 16; n -= 16, from += 16, to += 16) {
      uint8x16_t place = vld1q_u8(from), found = vqtbl4q_u8(rows[0], place);
      for (int i = 1; i < 4; ++i) {
        place = vsubq_u8(place, vdupq_n_u8(64));
        found = vqtbx4q_u8(found, rows[i], place);  // what lies outside of these 64 stays
      }
      vst1q_u8(to, found);
    }
    for (int64_t i = 0; i < n; ++i) to[i] = table[from[i]];
  }
};
#elif defined(__wasm_simd128__)
struct ByteTable {
  const uint8_t* table;
  v128_t rows[16];
  PEN_INLINE explicit ByteTable(const uint8_t* table_) : table(table_) {
    for (int i = 0; i < 16; ++i) rows[i] = wasm_v128_load(table + 16 * i);
  }
  PEN_INLINE void look_up(const uint8_t* from, uint8_t* to, int64_t n) const {
    for (; n >= 16; n -= 16, from += 16, to += 16) {
      v128_t place = wasm_v128_load(from), found = wasm_i8x16_swizzle(rows[0], place);
      for (int i = 1; i < 16; ++i) {
        place = wasm_i8x16_sub(place, wasm_i8x16_const_splat(16));
        found = wasm_v128_or(found, wasm_i8x16_swizzle(rows[i], place));  // 0 for places from 16 on
      }
      wasm_v128_store(to, found);
    }
    for (int64_t i = 0; i < n; ++i) to[i] = table[from[i]];
  }
};
#else
struct ByteTable {
  const uint8_t* table;
  PEN_INLINE explicit ByteTable(const uint8_t* table_) : table(table_) {}
  PEN_INLINE void look_up(const uint8_t* from, uint8_t* to, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) to[i] = table[from[i]];
  }
};
#endif

}  // namespace PEN_ISA
}  // namespace pen
