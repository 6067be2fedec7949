// Matrix product of gathered rows of bytes and packed panels of weights, as gemm.h has it of floats:
//
//   sum[m][n] = start[n] + row_start[m] + sum over taps t and k of  A_t[m][k] * B[t * tap_k + k][n]        exact, in 32 bits
//   C[m][n]   = limit(round(sum * scale[n] + residual) + zero)                              u8 results
//             = clamp(sum * scale[n] + bias[n] + residual)                                  f32 results
//
// A is u8 and given as pointers, tap_k a multiple of 4. B lies in panels of 16 columns, [ceil(N / 16)][K / 4][16][4] i8, zeros where N or
// K ends within. What the zero point of A adds to a sum is in `start`, so padding is rows of that zero point; what that of B adds, which
// weights do not have, in `row_start`. Products of an element are summed exactly, and rounded once: neither tiling, threads nor instruction
// set changes a bit.
#pragma once
#include "penlight/runtime/cpu/result_q8.h"
#include "penlight/runtime/cpu/tile_q8.h"

namespace pen {

namespace PEN_ISA {

// Consecutive rows of C with one pitch, at most kQ8Rows of them.
struct RowTileQ8 {
  const uint8_t* const* rows;
  const uint8_t* live;
  char* c;               // column 0
  const char* residual;  // column 0
  int count;
};

struct BlockQ8 {
  const RowTileQ8* tiles;
  int tile_count;
  int64_t rows_step, taps, tap_k;   // at least one tap
  const int8_t* b;                  // all panels
  int64_t b_taps = 0;               // taps in B, where there are more than `taps`
  const int32_t* places = nullptr;  // null: taps are B's in order; else tap t is B's tap places[t]
  int64_t n_begin, n_end, n;        // columns to do (n_begin on a tile's edge), and all that there are
  int64_t c_pitch, residual_pitch;  // in elements
  int64_t a_offset, c_offset;       // elements to skip in every row of A, and of C and residual: a group's channels
  ColumnsQ8 columns;
  const int32_t* row_starts = nullptr;  // null: all 0; else one for every row, in the order of the tiles' pointers
  const ResultQ8* result;
  const Activation* act;  // of f32 results
};

void run_block_q8(const BlockQ8& g);

static PEN_INLINE void run_block(const BlockQ8& g) { run_block_q8(g); }
static PEN_INLINE void set_next(BlockQ8&, const int8_t*) {}  // a quarter of the bytes of floats: nothing is gained by fetching them ahead

// Tiles of consecutive rows, for a block; pitches in bytes.
static PEN_INLINE int cut_row_tiles(const uint8_t* const* rows, int64_t count, const uint8_t* live, char* c, int64_t c_pitch,
                                    const char* residual, int64_t residual_pitch, RowTileQ8* tiles) {
  return cut_row_tiles<kQ8Rows, kExactHeights>(rows, count, live, c, c_pitch, residual, residual_pitch, tiles);
}

}  // namespace PEN_ISA
}  // namespace pen
