// How a linear layer is walked, for every element type: every row of x becomes a pointer, work is cut over rows and columns. Kind says what
// is multiplied:
//   Element, Tile, Block   x's elements, a tile of rows, a block (runtime/cpu/gemm.h, gemm_q8.h)
//   kRows                  rows of the tallest tile
//   size_of(t)             bytes of an element of the result or the residual
//   begin(r, p, &block)    fills what is the same for all blocks
#pragma once
#include "penlight/runtime/cpu/result_q8.h"
#include "penlight/runtime/cpu/tile.h"

namespace pen {

constexpr int kLinearMaxLead = kMaxRank - 1;

struct Linear {
  int64_t m, k, n;
  // Leading dims, outermost first, merged where that is possible for x, residual and y alike.
  int lead;
  int64_t dims[kLinearMaxLead], x[kLinearMaxLead], residual[kLinearMaxLead], y[kLinearMaxLead];
  int64_t row_tasks, column_tasks;
  bool columns_outer;              // neighbouring tasks share columns (weights), not rows
  int64_t copy_pitch, copy_tasks;  // 0: x is read in place
  Activation act;
  ResultQ8 result;
};

constexpr int64_t kLinearUnit = 14;                    // rows are cut at multiples of the tallest tile
constexpr int64_t kLinearBlockRows = 4 * kLinearUnit;  // rows whose pointers are held at a time
constexpr int64_t kLinearColumns = 32;                 // columns are cut at multiples of the widest tile
constexpr int kLinearTaskWork = 19;                    // multiply-adds, as a power of two
constexpr int kLinearRowWork = 15;                     // of a row alone, which takes as long as its weights take to come

// Rows that are a multiple of this many bytes apart fall into the same few sets of the first cache level, and a tile of
// them throws itself out (a quarter slower). Where there is work enough, phase 0 copies them a cache line further apart.
constexpr int64_t kLinearCliff = 2048;
constexpr int64_t kLinearCopyColumns = 256;  // columns from which on the copy pays

// Where row `row` lies in x, residual and y, in elements, and how many rows of the same line (one pitch) follow it, itself
// included.
struct LinearRow {
  int64_t x, residual, y, left;
};
static PEN_INLINE LinearRow linear_row(const Linear& p, int64_t row) {
  int inner = p.lead - 1;
  int64_t at = row % p.dims[inner], outer = row / p.dims[inner];
  LinearRow r = {at * p.x[inner], at * p.residual[inner], at * p.y[inner], p.dims[inner] - at};
  for (int d = inner - 1; d >= 0; --d) {
    int64_t i = outer % p.dims[d];
    outer /= p.dims[d];
    r.x += i * p.x[d];
    r.residual += i * p.residual[d];
    r.y += i * p.y[d];
  }
  return r;
}

namespace PEN_ISA {

template <class T>
static PEN_OUTER void copy_linear_rows(const Run& r, const Linear& p) {
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.m, p.copy_tasks, task);
    for (int64_t row = range.begin; row < range.end; ++row)
      memcpy(reinterpret_cast<T*>(r.shared) + row * p.copy_pitch, r.in[0].as<T>() + linear_row(p, row).x,
             static_cast<size_t>(p.k) * sizeof(T));
  }
}

template <class Kind>
static PEN_OUTER void run_linear(const Run& r) {
  using T = typename Kind::Element;
  const Linear& p = r.as<Linear>();
  if (p.copy_pitch > 0 && r.phase == 0) return copy_linear_rows<T>(r, p);
  static_assert(Kind::kRows <= kLinearUnit, "the block's arrays hold all its tiles");
  constexpr int64_t kBlockRows = kLinearBlockRows / Kind::kRows * Kind::kRows;  // whole tiles
  const uint8_t live[1] = {1};
  const T* rows[kLinearBlockRows];
  typename Kind::Tile tiles[kLinearBlockRows];
  const int64_t y_size = Kind::size_of(r.out[0]);
  int inner = p.lead - 1;  // rows of one line have one pitch, and a tile keeps to a line
  typename Kind::Block block = {};
  block.tiles = tiles;
  block.taps = 1;
  block.n = p.n;
  Kind::begin(r, p, &block);
  block.c_pitch = p.y[inner];
  block.residual_pitch = p.residual[inner];
  block.act = &p.act;
  int64_t row_units = (p.m + kLinearUnit - 1) / kLinearUnit, units = (p.n + kLinearColumns - 1) / kLinearColumns;
  for (int64_t task = r.begin; task < r.end; ++task) {
    int64_t row_task = p.columns_outer ? task % p.row_tasks : task / p.column_tasks;
    int64_t column_task = p.columns_outer ? task / p.row_tasks : task % p.column_tasks;
    Range columns = part(units, p.column_tasks, column_task), range = part(row_units, p.row_tasks, row_task);
    bool more = columns.end < units && (!p.columns_outer || row_task == p.row_tasks - 1);  // the next task's columns are others
    set_next(block, more ? block.b + columns.end * kLinearColumns * block.tap_k : nullptr);
    block.n_begin = columns.begin * kLinearColumns;
    block.n_end = columns.end * kLinearColumns < p.n ? columns.end * kLinearColumns : p.n;
    int64_t last = range.end * kLinearUnit < p.m ? range.end * kLinearUnit : p.m;
    for (int64_t begin = range.begin * kLinearUnit; begin < last;) {
      int64_t end = last - begin <= kLinearBlockRows ? last : begin + kBlockRows;
      block.tile_count = 0;
      for (int64_t from = begin; from < end;) {
        // One line, or the part of it that lies in this block.
        LinearRow line = linear_row(p, from);
        int64_t count = line.left < end - from ? line.left : end - from;
        const T* x = p.copy_pitch > 0 ? reinterpret_cast<T*>(r.shared) + from * p.copy_pitch : r.in[0].as<T>() + line.x;
        int64_t pitch = p.copy_pitch > 0 ? p.copy_pitch : p.x[inner];
        for (int64_t i = 0; i < count; ++i) rows[from - begin + i] = x + i * pitch;
        const char* residual = r.in[3].data ? r.in[3].data + line.residual * y_size : nullptr;
        block.tile_count += cut_row_tiles(rows + (from - begin), count, live, r.out[0].data + line.y * y_size, p.y[inner] * y_size,
                                          residual, p.residual[inner] * y_size, tiles + block.tile_count);
        from += count;
      }
      run_block(block);
      begin = end;
    }
  }
}

}  // namespace PEN_ISA

}  // namespace pen
