// attention on a GPU: the scores, with mask, into memory of the node's own; their softmax in place; its product with the values.
#include "penlight/ops/matmul/product_gpu.h"
#include "penlight/ops/reduce/normalize_gpu.h"

namespace pen {

// All of it in one shader, where rows are short and lie in one piece: for few keys, as those of windows, and for so many that their scores
// would not fit anywhere. In between, three dispatches with larger tiles are faster.
static bool fits_one(const Gpu& b, const GpuMatrices* sides, int64_t depth, int64_t width, const GpuWalk& batch) {
  constexpr int64_t kMost = 128, kBatches = 65535, kShared = 28 << 10;  // what it takes of shared memory, at most
  constexpr int64_t kFew = 64, kTooMany = int64_t{1} << 26;
  int64_t queries = b.in(0).dims[b.in(0).rank - 2], keys = b.in(1).dims[b.in(1).rank - 2];
  if (keys > kFew && queries * keys * batch.n < kTooMany) return false;
  bool dense = b.out(0).strides[b.out(0).rank - 1] == 1 || width == 1;
  for (int i = 0; i < 3; ++i) dense &= sides[i].column == 1 || (i < 2 ? depth : width) == 1;
  return dense && depth <= kMost && width <= kMost && batch.rank <= 3 && batch.n <= kBatches && b.limits().shared_bytes >= kShared;
}

// The same with products of 16 x 16, whose operands lie in eights.
static bool fits_matrix(const Gpu& b, const GpuMatrices* sides, int64_t depth, int64_t width, const GpuWalk& batch) {
  constexpr int64_t kMost = 128, kMostKeys = 384, kBatches = 65535;
  constexpr uint32_t kShared = 48 << 10;  // what it takes at most
  int64_t keys = b.in(1).dims[b.in(1).rank - 2];
  bool fits = b.limits().matrix && b.limits().shared_bytes >= kShared && keys <= kMostKeys && depth % 16 == 0 && width % 16 == 0 &&
              depth > 0 && depth <= kMost && width <= kMost && batch.rank <= 3 && batch.n <= kBatches &&
              b.out(0).strides[b.out(0).rank - 1] == 1;
  for (int i = 0; i < 3 && fits; ++i) {
    fits = sides[i].column == 1 && sides[i].row % 8 == 0 && sides[i].at.offset % 32 == 0;
    for (int d = 0; d < batch.rank; ++d) fits &= batch.strides[i][d] % 8 == 0;
  }
  return fits;
}

template <class S>
static Status dispatch_attention(Gpu& b, S s, const GpuMatrices* sides, int64_t depth, int64_t width, const GpuWalk& batch) {
  auto u = [](int64_t n) { return static_cast<uint32_t>(n); };
  auto& p = s.push;
  s.DEPTH = u(depth), s.WIDTH = u(width);
  s.MASKED = b.has(3), s.CAUSAL = b.flag("causal");
  p.queries = u(b.in(0).dims[b.in(0).rank - 2]), p.keys = u(b.in(1).dims[b.in(1).rank - 2]);
  p.scale = static_cast<float>(b.number("scale"));
  uint32_t* const all[] = {p.q_batch, p.k_batch, p.v_batch, p.mask_batch, p.y_batch};
  for (int d = 0; d < 3; ++d) {
    bool there = d < batch.rank;
    if (d < 2) p.dims[d] = u(there ? batch.dims[d] : 1);
    for (int o = 0; o < 5; ++o) all[o][d] = u(there ? batch.strides[o][d] : 0);
  }
  p.q_row = u(sides[0].row), p.k_row = u(sides[1].row), p.v_row = u(sides[2].row), p.y_row = u(sides[4].row);
  p.mask_row = u(sides[3].row), p.mask_column = u(sides[3].column);
  return b.dispatch(s, {sides[0].at, sides[1].at, sides[2].at, sides[3].at, sides[4].at}, {ceil_div(p.queries, 16), batch.n});
}

PEN_GPU(attention, "f32") {
  PEN_TRY(b.output_turned(0));
  const Tensor &q = b.in(0), &k = b.in(1), &v = b.in(2), &y = b.out(0);
  if (y.numel() == 0) return PEN_OK;
  Shape batch = shape_of(y);
  batch.rank -= 2;
  GpuMatrices mask = {b.none(), 0, 0, {}};
  if (b.has(3)) {  // its last dims may be missing, or be broadcast
    Shape all = shape_of(y);
    all.dims[all.rank - 1] = k.dims[k.rank - 2];
    int64_t strides[kMaxRank];
    broadcast_strides(b.in(3), all, strides);
    mask = {b.reads(3), strides[all.rank - 2], strides[all.rank - 1], {}};
    for (int d = 0; d < batch.rank; ++d) mask.batch[d] = strides[d];
  }
  const GpuMatrices whole[] = {gpu_matrices(q, b.reads(0), batch), gpu_matrices(k, b.reads(1), batch), gpu_matrices(v, b.reads(2), batch),
                               mask, gpu_matrices(y, b.writes(0), batch)};
  int64_t strides[GpuWalk::kMost][kMaxRank];
  for (int o = 0; o < 5; ++o)
    for (int d = 0; d < batch.rank; ++d) strides[o][d] = whole[o].batch[d];
  GpuWalk batches = walk_together(batch, strides, 5);
  int64_t depth = q.dims[q.rank - 1], width = v.dims[v.rank - 1];
  if (fits_matrix(b, whole, depth, width, batches)) {
    shader::AttentionMatrix s;
    s.TILES = static_cast<uint32_t>(ceil_div(k.dims[k.rank - 2], 16));
    return dispatch_attention(b, s, whole, depth, width, batches);
  }
  if (fits_one(b, whole, depth, width, batches)) return dispatch_attention(b, shader::Attention(), whole, depth, width, batches);
  // The scores as a tensor, dense: [..., queries, keys].
  Tensor scores;
  Operand in_between;
  int64_t bytes, keys = k.dims[k.rank - 2], queries = q.dims[q.rank - 2];
  scores.dtype = DType::f32;
  scores.rank = y.rank;
  for (int d = 0; d < y.rank - 1; ++d) scores.dims[d] = y.dims[d];
  scores.dims[y.rank - 1] = keys;
  lay_plain(&scores, &bytes);
  PEN_TRY(b.scratch(DType::f32, scores.numel(), &in_between));

  GpuMatrices result = gpu_matrices(scores, in_between, batch), right = gpu_matrices(k, b.reads(1), batch), none = {};
  int64_t row = right.row;
  right.row = right.column, right.column = row;  // transposed
  none.at = b.none();
  GpuMatrices sides[kMatrices] = {gpu_matrices(q, b.reads(0), batch), right, none, result};
  if (b.has(3)) sides[kMask] = mask;
  shader::Product s;
  s.push.m = static_cast<uint32_t>(queries), s.push.n = static_cast<uint32_t>(keys);
  s.push.depth = static_cast<uint32_t>(q.dims[q.rank - 1]);
  s.push.scale = static_cast<float>(b.number("scale"));
  s.CAUSAL = b.flag("causal");
  PEN_TRY(dispatch_product(b, s, batch, sides));

  GpuRows rows;
  rows.across.rank = rows.along.rank = 1;
  rows.across.n = rows.across.dims[0] = keys == 0 ? 0 : scores.numel() / keys;
  rows.along.n = rows.along.dims[0] = keys;
  for (int side = 0; side < 2; ++side) rows.across.strides[side][0] = keys, rows.along.strides[side][0] = 1;
  shader::Normalize softmax = normalize_shader(rows, Normalize::softmax_or_zero, in_between, in_between);
  PEN_TRY(b.dispatch(softmax, {in_between, b.none(), b.none(), in_between, b.none()}, rows.groups()));

  s.push.n = static_cast<uint32_t>(y.dims[y.rank - 1]), s.push.depth = static_cast<uint32_t>(keys);
  s.push.scale = 1;
  s.CAUSAL = 0;
  const GpuMatrices values[kMatrices] = {result, gpu_matrices(v, b.reads(2), batch), none, gpu_matrices(y, b.writes(0), batch)};
  return dispatch_product(b, s, batch, values);
}

}  // namespace pen
