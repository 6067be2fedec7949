// attention on a GPU: the scores, with mask, into memory of the node's own; their softmax in place; its product with the values.
#include "penlight/ops/matmul/product_gpu.h"
#include "penlight/ops/reduce/normalize_gpu.h"

namespace pen {

PEN_GPU(attention, "f32") {
  for (int i = 0; i < 4; ++i)
    if (b.has(i) && strcmp(b.in_layout(i), "plain") != 0)
      return b.fail(i, "a tensor that is not packed", "one packed as %s", b.in_layout(i));
  PEN_TRY(b.output(0));
  const Tensor &q = b.in(0), &k = b.in(1), &v = b.in(2), &y = b.out(0);
  if (y.numel() == 0) return PEN_OK;
  Shape batch = shape_of(y);
  batch.rank -= 2;
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
  if (b.has(3)) {  // its last dims may be missing, or be broadcast
    const Tensor& mask = b.in(3);
    Shape all = shape_of(scores);
    int64_t strides[kMaxRank];
    broadcast_strides(mask, all, strides);
    sides[kMask] = {b.reads(3), strides[all.rank - 2], strides[all.rank - 1], {}};
    for (int d = 0; d < batch.rank; ++d) sides[kMask].batch[d] = strides[d];
  }
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
  shader::Normalize softmax = normalize_shader(rows, Normalize::softmax_or_zero);
  PEN_TRY(b.dispatch(softmax, {in_between, b.none(), b.none(), in_between, b.none()}, rows.groups()));

  s.push.n = static_cast<uint32_t>(y.dims[y.rank - 1]), s.push.depth = static_cast<uint32_t>(keys);
  s.push.scale = 1;
  s.CAUSAL = 0;
  const GpuMatrices values[kMatrices] = {result, gpu_matrices(v, b.reads(2), batch), none, gpu_matrices(y, b.writes(0), batch)};
  return dispatch_product(b, s, batch, values);
}

}  // namespace pen
