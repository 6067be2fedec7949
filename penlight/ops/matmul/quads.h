// Packs a matrix of bytes that is known only in a run into the panels that integer products read (runtime/cpu/gemm_q8.h):
// [ceil(N / 16)][ceil(K / 4)][16][4] i8, 128 less than the bytes, zeros where N or K ends within. Included by files that are compiled once
// per instruction set.
#pragma once
#include "penlight/runtime/cpu/gemm_q8.h"
#include "penlight/runtime/simd/transpose.h"

namespace pen {
namespace PEN_ISA {

using Sixteen8 = Sixteen<uint8_t>;
using Sixteen16 = Sixteen<uint16_t>;
using Sixteen32 = Sixteen<uint32_t>;

// 16 bytes, less 128.
static PEN_INLINE Sixteen8::Lanes load_flipped(const uint8_t* p) {
  return Sixteen8::load(p) ^ uint8_t { 0x80 };
}

// Four rows of 16 bytes side by side: [16][4].
static PEN_INLINE void pack_rows(const uint8_t* from, int64_t row, uint8_t* to) {
  const Sixteen8::Lanes a = load_flipped(from), b = load_flipped(from + row), c = load_flipped(from + 2 * row),
                        d = load_flipped(from + 3 * row);
  Sixteen8::Lanes ab[2], cd[2];
  Sixteen8::zip(a, b, &ab[0], &ab[1]);
  Sixteen8::zip(c, d, &cd[0], &cd[1]);
  PEN_UNROLL for (int i = 0; i < 2; ++i) {
    Sixteen16::Lanes low, high;
    Sixteen16::zip(reinterpret_cast<Sixteen16::Lanes>(ab[i]), reinterpret_cast<Sixteen16::Lanes>(cd[i]), &low, &high);
    Sixteen8::store(to + 32 * i, reinterpret_cast<Sixteen8::Lanes>(low));
    Sixteen8::store(to + 32 * i + 16, reinterpret_cast<Sixteen8::Lanes>(high));
  }
}

// 16 steps of K, which lie side by side, of four columns: four times [4][4], each 64 bytes behind the one before it.
static PEN_INLINE void pack_columns(const uint8_t* from, int64_t column, uint8_t* to) {
  Sixteen32::Lanes x[4], y[4];
  PEN_UNROLL for (int i = 0; i < 4; ++i) x[i] = reinterpret_cast<Sixteen32::Lanes>(load_flipped(from + i * column));
  Sixteen32::zip(x[0], x[2], &y[0], &y[1]);
  Sixteen32::zip(x[1], x[3], &y[2], &y[3]);
  Sixteen32::zip(y[0], y[2], &x[0], &x[1]);
  Sixteen32::zip(y[1], y[3], &x[2], &x[3]);
  PEN_UNROLL for (int i = 0; i < 4; ++i) Sixteen8::store(to + 64 * i, reinterpret_cast<Sixteen8::Lanes>(x[i]));
}

// A panel of rows [0, k): 16 columns of a matrix with strides (row, column), of which `columns` exist.
static PEN_OUTER void pack_quads(const uint8_t* from, int64_t k, int64_t columns, int64_t row, int64_t column, int8_t* panel) {
  uint8_t* to = reinterpret_cast<uint8_t*>(panel);
  int64_t n = columns < 16 ? columns : 16, done = 0;  // steps of K that are done
  if (n < 16) memset(to, 0, static_cast<size_t>((k + 3) / 4) * 64);
  if (column == 1 && n == 16) {
    for (; done + 4 <= k; done += 4) pack_rows(from + done * row, row, to + done * 16);
  } else if (row == 1 && n == 16) {
    for (; done + 16 <= k; done += 16) {
      PEN_UNROLL for (int j = 0; j < 16; j += 4) pack_columns(from + done + j * column, column, to + done * 16 + 4 * j);
    }
  }
  if (k % 4 != 0) memset(to + k / 4 * 64, 0, 64);
  for (int64_t j = 0; j < n; ++j) {
    const uint8_t* p = from + j * column;
    int64_t i = done;
    for (; row == 1 && i + 4 <= k; i += 4) {
      uint32_t four;
      __builtin_memcpy(&four, p + i, 4);
      four ^= 0x80808080u;
      __builtin_memcpy(to + i * 16 + 4 * j, &four, 4);
    }
    for (; i < k; ++i) to[i / 4 * 64 + 4 * j + i % 4] = static_cast<uint8_t>(p[i * row] ^ 0x80);
  }
}

// The sums of a packed panel's columns, by the tile's own products: with a row of ones.
static PEN_OUTER void sum_quads(const int8_t* panel, int64_t padded_k, int32_t* sums) {
  constexpr int kVectors = kPanel / kLanes, kOnes = 64;
  uint8_t ones[kOnes];
  memset(ones, kFlipped ? 129 : 1, kOnes);
  const uint8_t* const a[1] = {ones};
  I acc[1][kVectors];
  PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[0][j] = set1i(0);
  SumsQ8<1, kVectors> product;
  product.begin(acc[0]);
  for (int64_t k = 0; k < padded_k; k += kOnes) product.add(a, panel + k * kPanel, 0, padded_k - k < kOnes ? padded_k - k : kOnes);
  product.end(acc);
  __builtin_memcpy(sums, acc, kPanel * sizeof(int32_t));
}

}  // namespace PEN_ISA
}  // namespace pen
