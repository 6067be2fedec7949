// Matrix product of gathered rows and packed panels, the core of convolution and linear:
//
//   C[m][n] = act(bias[n] + residual[m][n] + sum over taps t and k of  A_t[m][k] * B[t * tap_k + k][n])
//
// A is given as pointers: row m of tap t starts at rows[t * rows_step + m] and has tap_k floats. A plain matrix is one
// tap; a convolution has one tap per kernel position, whose rows are pixels of the image or zeros (padding). B lies in
// panels of 16 columns, [ceil(N / 16)][K][16], tail columns zero. C is row-major with any pitch; columns beyond N are
// never written, for C may be part of a wider tensor.
//
// A tile of C (kTileRows x kTileVectors vectors) stays in registers while K runs. Every element is one chain of
// multiply-adds in the order of K, whatever the tiling, so results depend neither on blocking nor on threads.
#pragma once
#include "penlight/runtime/cpu/epilogue.h"
#include "penlight/runtime/cpu/tile.h"

namespace pen {
namespace PEN_ISA {

constexpr int kTileColumns = kTileVectors * kLanes;
static_assert(kTileVectors % 2 == 0, "the tail tile has half the vectors");

// Consecutive rows of C with one pitch, at most kTileRows of them.
struct RowTile {
  const float* const* rows;
  const uint8_t* live;
  float* c;               // column 0
  const float* residual;  // column 0
  int count;
};

// A block of C: some rows (as tiles) and a range of columns. What one task computes.
struct Block {
  const RowTile* tiles;
  int tile_count;
  int64_t rows_step, taps, tap_k;
  const int32_t* offsets = nullptr;  // null: A's values follow each other; else value k of a row lies offsets[k] after its start
  const float* b;                    // all panels
  int64_t b_taps = 0;                // taps in B, where there are more than `taps`
  const int32_t* places = nullptr;   // null: taps are B's in order; else tap t is B's tap places[t]
  int64_t n_begin, n_end, n;         // columns to do (n_begin on a tile's edge), and all that there are
  int64_t c_pitch, residual_pitch;
  int64_t a_offset, c_offset;  // floats to skip in every row of A, and of C and residual: a group's channels
  const float* bias;
  const Activation* act;
  const float* next_b = nullptr;  // the first column of what will be computed after this: fetched meanwhile
};

void run_block(const Block& g);
static PEN_INLINE void set_next(Block& g, const float* b) { g.next_b = b; }

// Tiles of rows that lie one pitch apart: in bytes, and the same of floats, in elements.
int cut_row_tiles(const float* const* rows, int64_t count, const uint8_t* live, char* c, int64_t c_pitch, const char* residual,
                  int64_t residual_pitch, RowTile* tiles);
static PEN_INLINE int cut_row_tiles(const float* const* rows, int64_t count, const uint8_t* live, float* c, int64_t c_pitch,
                                    const float* residual, int64_t residual_pitch, RowTile* tiles) {
  return cut_row_tiles(rows, count, live, reinterpret_cast<char*>(c), c_pitch * 4, reinterpret_cast<const char*>(residual),
                       residual_pitch * 4, tiles);
}

}  // namespace PEN_ISA
}  // namespace pen
