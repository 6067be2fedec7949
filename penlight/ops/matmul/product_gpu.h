// Batches of matrix products on a GPU, for matmul and attention. Both mention the shader, so that libraries with either have it.
#pragma once
#include "penlight/runtime/base/dims.h"
#include "penlight/runtime/gpu/walk.h"

namespace pen {

// One side: its matrices, in elements; in the order of the shader's buffers.
struct GpuMatrices {
  Operand at;
  int64_t row, column;
  int64_t batch[kMaxRank];  // strides of batch dims
};
enum { kLeft, kRight, kMask, kResult, kMatrices };
static_assert(kMatrices <= GpuWalk::kMost, "");

// The last two dims of t are a matrix; the others are seen as `batch`.
static inline GpuMatrices gpu_matrices(const Tensor& t, const Operand& at, const Shape& batch) {
  GpuMatrices m = {at, t.strides[t.rank - 2], t.strides[t.rank - 1], {}};
  for (int d = 0; d < batch.rank; ++d) m.batch[d] = broadcast_stride(batch, d, t, t.rank - 2);
  return m;
}

// s.push has m, n, depth, scale; `sides` without a mask has Gpu::none() there.
static inline __attribute__((unused)) Status dispatch_product(Gpu& b, shader::Product s, const Shape& batch, const GpuMatrices* sides) {
  constexpr int kDims = 3;  // batch dims that the shader counts; others are dispatched one by one
  auto u = [](int64_t n) { return static_cast<uint32_t>(n); };
  int64_t strides[kMatrices][kMaxRank];
  for (int o = 0; o < kMatrices; ++o)
    for (int d = 0; d < batch.rank; ++d) strides[o][d] = sides[o].batch[d];
  GpuWalk w = walk_together(batch, strides, kMatrices);
  auto& p = s.push;
  if (w.n == 0 || p.m == 0 || p.n == 0) return PEN_OK;
  int64_t inside = 1;
  for (int d = 0; d < kDims; ++d) {
    bool there = d < w.rank;
    inside *= there ? w.dims[d] : 1;
    if (d < kDims - 1) p.dims[d] = u(there ? w.dims[d] : 1);
    uint32_t* const all[] = {p.a_batch, p.b_batch, p.mask_batch, p.y_batch};
    for (int o = 0; o < kMatrices; ++o) all[o][d] = u(there ? w.strides[o][d] : 0);
  }
  p.batches = u(inside);
  p.a_row = u(sides[kLeft].row), p.a_column = u(sides[kLeft].column), p.b_row = u(sides[kRight].row), p.b_column = u(sides[kRight].column);
  p.mask_row = u(sides[kMask].row), p.mask_column = u(sides[kMask].column);
  p.y_row = u(sides[kResult].row), p.y_column = u(sides[kResult].column);
  s.A_DOWN = sides[kLeft].row == 1 && sides[kLeft].column != 1;
  s.B_DOWN = sides[kRight].row == 1 && sides[kRight].column != 1;
  s.MASKED = sides[kMask].at.buffer >= 0;
  // Small products: small tiles, so that there are enough of them for the whole device, and little of a tile lies outside.
  struct Tile {
    uint32_t tx, ty, tm, tn;
    int64_t rows() const { return ty * tm; }
    int64_t columns() const { return tx * tn; }
  };
  static constexpr Tile kTiles[] = {{16, 16, 4, 4}, {16, 16, 2, 2}}, kSmall = {8, 8, 2, 2}, kRow = {64, 1, 1, 1}, kColumn = {1, 64, 1, 1};
  constexpr int64_t kEnough = 256;
  Tile tile = p.m <= 2 ? kRow : p.n <= 2 ? kColumn : kSmall;
  for (const Tile& t : kTiles) {
    bool fits = t.rows() < 2 * int64_t{p.m} && t.columns() < 2 * int64_t{p.n} && t.tx * t.ty <= b.limits().group_threads;
    if (fits && ceil_div(p.m, t.rows()) * ceil_div(p.n, t.columns()) * inside >= kEnough) {
      tile = t;
      break;
    }
  }
  s.TX = tile.tx, s.TY = tile.ty, s.TM = tile.tm, s.TN = tile.tn;
  int64_t jobs = ceil_div(p.m, tile.rows()) * inside;
  Groups groups = {ceil_div(p.n, tile.columns()), jobs < kMostGroups ? jobs : kMostGroups};
  for (int64_t i = 0; i < w.n / inside; ++i) {
    Operand at[kMatrices];
    for (int o = 0; o < kMatrices; ++o) {
      int64_t rest = i, further = 0;
      for (int d = kDims; d < w.rank; ++d) {
        further += rest % w.dims[d] * w.strides[o][d];
        rest /= w.dims[d];
      }
      at[o] = sides[o].at;
      at[o].offset += further * dtype_size(at[o].dtype);
      at[o].bytes -= further * dtype_size(at[o].dtype);
    }
    PEN_TRY(b.dispatch(s, at, groups));
  }
  return PEN_OK;
}

}  // namespace pen
