// Winograd convolution, F(m x m, 3 x 3): what bind decides and conv2d_winograd.cc follows. A tile of m x m outputs reads
// (m + 2) x (m + 2) pixels. Each is transformed, each position of the transformed tile is multiplied with its own matrix
// of weights, and the products are transformed back: (m + 2)^2 products in place of 9 m^2, per channel in and out.
// A dilation d takes every d-th pixel each way: d * d interleaved images, each convolved without dilation.
#pragma once
#include "penlight/ops/conv/conv2d.h"

namespace pen {

// Index 0 is H, 1 is W. "_floats": from one to the next; "_at": bytes from the start of scratch.
struct Winograd : Conv2d {
  int64_t outputs, positions;                          // m and (m + 2)^2
  int64_t images[2], tiles[2];                         // interleaved images, and tiles of each
  int64_t all_tiles, block_tiles;                      // in all, numbered in the order n, image, y, x; and in a block
  int64_t tile_tasks;                                  // of the phase that transforms pixels; 0: each block does its own
  int64_t chunk;                                       // output channels whose products are kept at a time
  int64_t tile_floats, position_floats, block_floats;  // transformed pixels: [block][position][tile][ci]
  int64_t row_floats, product_floats;                  // products: [position][tile][chunk]
  int64_t rows_at, tiles_at, input_at, products_at;    // pointers to rows, tiles of them, and these two; zeros come first
};

// Floats from a row to the next, or from a position to the next: an odd number of cache lines, so that neither the rows
// of a register tile nor the positions of a tile fall into the same few sets of the cache.
static PEN_INLINE int64_t apart(int64_t floats) { return ((floats + 15) / 16 | 1) * 16; }

// Blocks of tiles are the unit of work. The weights are read once per block, so it must not be too small; what is computed
// of a block should stay in the second cache level, so it must not be too large. With 24 tiles both hold; speed varies little
// from 16 to 48. Small maps with many channels are another case: their weights are all that counts, and few blocks are left
// to share among threads. There, larger blocks are cut by output channels too, and a phase of its own transforms the pixels,
// once for all channels.
constexpr int64_t kBlockTiles = 24, kSharedBlockTiles = 64;
constexpr int64_t kWinogradTasks = 8;                  // that a layer should have at least
constexpr int64_t kProductBytes = int64_t{256} << 10;  // of the products that are kept at a time

static PEN_INLINE int64_t round_up_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static PEN_INLINE void cut_blocks(Winograd* p) {
  int64_t units = round_up_div(p->co_g, kColumnUnit), blocks = round_up_div(p->all_tiles, kBlockTiles);
  p->column_tasks = 1;
  if (blocks < kWinogradTasks && units > 1) {
    blocks = round_up_div(p->all_tiles, kSharedBlockTiles);
    while (blocks * units < kWinogradTasks && p->all_tiles > 16 * blocks) blocks *= 2;
    int64_t wanted = round_up_div(2 * kWinogradTasks, blocks);
    p->column_tasks = wanted < units ? wanted : units;
    p->tile_tasks = p->all_tiles < 2 * kWinogradTasks ? p->all_tiles : 2 * kWinogradTasks;
  } else if (blocks < kWinogradTasks) {
    blocks = round_up_div(p->all_tiles, 8) < kWinogradTasks ? round_up_div(p->all_tiles, 8) : kWinogradTasks;
  } else {
    blocks = blocks / 4 * 4;  // 9 would leave one of two threads idle for a ninth of the time
  }
  p->block_tiles = round_up_div(p->all_tiles, blocks);
  p->pixel_units = round_up_div(p->all_tiles, p->block_tiles);
  p->pixel_tasks = p->pixel_units < 256 ? p->pixel_units : 256;
  int64_t columns = round_up_div(units, p->column_tasks) * kColumnUnit;
  int64_t fit = kProductBytes / (p->positions * p->block_tiles * 4) / kColumnUnit * kColumnUnit;
  p->chunk = fit < kColumnUnit ? kColumnUnit : fit < columns ? fit : columns;
}

static PEN_INLINE Status cut_winograd(Bind& b, Winograd* p, int64_t outputs, int64_t oh, int64_t ow) {
  int64_t size[2] = {oh, ow};
  p->outputs = outputs;
  p->positions = (outputs + 2) * (outputs + 2);
  p->all_tiles = b.in(0).dims[0];
  for (int i = 0; i < 2; ++i) {
    p->images[i] = p->dilation[i] < size[i] ? p->dilation[i] : size[i];
    p->tiles[i] = round_up_div(round_up_div(size[i], p->dilation[i]), outputs);
    p->all_tiles *= p->images[i] * p->tiles[i];
  }
  cut_blocks(p);
  p->tile_floats = apart(p->ci_g);
  p->position_floats = apart(p->block_tiles * p->tile_floats);
  p->block_floats = p->positions * p->position_floats;
  p->row_floats = apart(p->chunk);
  p->product_floats = apart(p->block_tiles * p->row_floats);

  p->rows_at = p->tile_floats * 4;  // after as many zeros as a pixel has channels
  p->tiles_at = p->rows_at + round_up_div(p->block_tiles * 8, 64) * 64;
  p->input_at = p->tiles_at + p->block_tiles * kTileBytes;
  p->products_at = p->input_at + (p->tile_tasks ? 0 : p->block_floats * 4);
  PEN_TRY(b.scratch(p->products_at + p->positions * p->product_floats * 4));
  if (p->tile_tasks == 0) {
    b.tasks(p->pixel_tasks);
    return PEN_OK;
  }
  b.tasks(p->tile_tasks, p->pixel_tasks * p->column_tasks);
  return b.shared(p->pixel_units * p->block_floats * 4);
}

}  // namespace pen
