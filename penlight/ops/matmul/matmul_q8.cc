// matmul.q8: a product of two tensors of quantized bytes, u8 with one scale each, to u8 or f32. As of floats (matmul.cc), phase 0 packs b,
// here as bytes of i8 (quads.h), and phase 1 multiplies. With a's zero point za and b' = b - 128, whose zero point is zb',
//
//   sum (a - za)(b' - zb')  =  sum a b'  +  (K za zb' - za sum b')  -  zb' sum a
//                                            a start for each column    a start for each row, where zb' is not 0
//
// 32 bits hold the left side (bind has checked K) and all else wraps, so that it is exact, and rounded once.
#include "penlight/ops/matmul/matmul.h"
#include "penlight/ops/matmul/quads.h"

namespace pen {
namespace PEN_ISA {

static PEN_INLINE int32_t* columns_of(const MatmulQ8& p, char* matrix) {
  return reinterpret_cast<int32_t*>(matrix + p.panels * kPanel * p.padded_k);
}

static PEN_INLINE void matmul_pack_q8(const Run& r, const MatmulQ8& p) {
  const uint32_t start = static_cast<uint32_t>(p.k) * p.a_zero * p.b_zero;
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.packed.source.count * p.panels, p.pack_tasks, task);
    for (int64_t i = range.begin; i < range.end; ++i) {
      int64_t at, panel = i % p.panels;
      batch_offsets(p.packed.source, i / p.panels, &at, 1);
      char* matrix = r.shared + i / p.panels * p.matrix_bytes;
      int8_t* to = reinterpret_cast<int8_t*>(matrix) + panel * kPanel * p.padded_k;
      pack_quads(r.in[1].as<uint8_t>() + at + panel * kPanel * p.b_column, p.k, p.n - panel * kPanel, p.b_row, p.b_column, to);
      int32_t *starts = columns_of(p, matrix) + panel * kPanel, *sums = starts + p.panels * kPanel;
      sum_quads(to, p.padded_k, sums);
      for (int j = 0; j < kPanel; ++j) starts[j] = static_cast<int32_t>(start - p.a_zero * static_cast<uint32_t>(sums[j]));
    }
  }
}

// Pointers to `count` rows of a, or to copies of them that have whole quads, and what the sums of each start with.
static PEN_INLINE void matmul_rows_q8(const MatmulQ8& p, const uint8_t* a, int64_t count, uint8_t* copies, const uint8_t** rows,
                                      int32_t* starts) {
  for (int64_t i = 0; i < count; ++i, a += p.a_pitch, copies += p.copy_pitch) {
    rows[i] = a;
    if (p.b_zero != 0) starts[i] = static_cast<int32_t>(0 - p.b_zero * static_cast<uint32_t>(sum_bytes(a, p.k)));
    if (p.copy_pitch == 0) continue;
    memcpy(copies, a, static_cast<size_t>(p.k));
    rows[i] = copies;
  }
}

}  // namespace PEN_ISA

PEN_KERNEL(matmul, q8) {
  using namespace PEN_ISA;
  const MatmulQ8& p = r.as<MatmulQ8>();
  if (r.phase == 0) return matmul_pack_q8(r, p);
  static const uint8_t live[1] = {1};
  static const Activation none = {};
  const int64_t size = dtype_size(r.out[0].dtype);
  const uint8_t* rows[kMatmulRowsQ8];
  int32_t row_starts[kMatmulRowsQ8];
  RowTileQ8 tiles[kMatmulRowsQ8];
  BlockQ8 block = {};
  block.tiles = tiles;
  block.taps = 1;
  block.tap_k = p.padded_k;
  block.c_pitch = p.out_pitch;
  block.row_starts = p.b_zero != 0 ? row_starts : nullptr;
  block.result = &p.result;
  block.act = &none;
  for (int64_t task = r.begin; task < r.end; ++task) {
    int64_t begin = task % p.column_blocks * p.columns, rest = task / p.column_blocks;
    Range range = part(p.m, p.row_blocks, rest % p.row_blocks);
    int64_t at[3], count = range.end - range.begin;
    batch_offsets(p.batch, rest / p.row_blocks, at, 3);
    matmul_rows_q8(p, r.in[0].as<uint8_t>() + at[0] + range.begin * p.a_pitch, count, reinterpret_cast<uint8_t*>(r.scratch), rows,
                   row_starts);
    char* c = r.out[0].data + (at[2] + range.begin * p.out_pitch + begin) * size;
    block.tile_count = cut_row_tiles(rows, count, live, c, p.out_pitch * size, nullptr, 0, tiles);
    char* matrix = r.shared + at[1] * p.matrix_bytes;
    const int32_t* starts = columns_of(p, matrix) + begin;
    block.b = reinterpret_cast<const int8_t*>(matrix) + begin * p.padded_k;
    block.columns = {p.scale, starts, starts + p.panels * kPanel, p.bias};
    block.n = block.n_end = p.n - begin < p.columns ? p.n - begin : p.columns;
    run_block(block);
  }
}

}  // namespace pen
