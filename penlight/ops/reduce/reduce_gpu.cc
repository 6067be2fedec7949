// Reductions on a GPU.
#include "penlight/ops/reduce/reduce.h"
#include "penlight/runtime/gpu/walk.h"

namespace pen {

enum : uint32_t { kSum, kProduct, kMaximum, kMinimum };
enum : uint32_t { kAsItIs, kNanIsZero, kMagnitude, kSquare, kNotZero };

static Status reduce_on_gpu(Gpu& b, uint32_t kind, uint32_t map, uint32_t finish) {
  constexpr int kDims = 4;
  if (strcmp(b.in_layout(0), "plain") != 0) return b.fail(0, "a tensor that is not packed", "one packed as %s", b.in_layout(0));
  bool reduced[kMaxRank] = {};
  PEN_TRY(mark_dims(b, reduced));
  PEN_TRY(b.output(0));
  if (b.out(0).numel() == 0) return PEN_OK;
  GpuWalk kept, rest;
  for (int pass = 0; pass < 2; ++pass) {  // a tensor of more dims than the shader counts is laid densely first
    const Tensor& x = b.in(0);
    int64_t out[kMaxRank];
    reduce_out_strides(x, b.out(0), reduced, b.flag("keepdim"), out);
    Shape a, c;
    int64_t as[2][kMaxRank] = {}, cs[1][kMaxRank] = {};
    for (int d = 0; d < x.rank; ++d) {
      if (reduced[d]) {
        cs[0][c.rank] = x.strides[d];
        c.dims[c.rank++] = x.dims[d];
      } else {
        as[0][a.rank] = out[d];
        as[1][a.rank] = x.strides[d];
        a.dims[a.rank++] = x.dims[d];
      }
    }
    kept = walk_together(a, as, 2);
    rest = walk_together(c, cs, 1);
    if ((kept.rank <= kDims && rest.rank <= kDims) || pass) break;
    PEN_TRY(b.need(0, Need::dense));
  }
  if (kept.rank > kDims || rest.rank > kDims) return b.fail(0, "at most 4 runs of dims that are reduced, and of dims that are kept", "more");
  shader::Reduce s;
  auto u = [](int64_t n) { return static_cast<uint32_t>(n); };
  s.KIND = kind, s.MAP = map, s.FINISH = finish;
  s.push.outputs = u(kept.n), s.push.count = u(rest.n);
  for (int d = 0; d < kDims; ++d) {
    s.push.kept[d] = u(d < kept.rank ? kept.dims[d] : 1), s.push.reduced[d] = u(d < rest.rank ? rest.dims[d] : 1);
    s.push.kept_out[d] = u(d < kept.rank ? kept.strides[0][d] : 0), s.push.kept_in[d] = u(d < kept.rank ? kept.strides[1][d] : 0);
    s.push.reduced_in[d] = u(d < rest.rank ? rest.strides[0][d] : 0);
  }
  // Outputs side by side read memory side by side; so do the elements of one output, where they lie so.
  bool columns = kept.n > 1 && kept.strides[1][0] == 1;
  s.COLUMNS = columns ? (rest.n >= 64 ? 16 : rest.n >= 8 ? 32 : 128) : rest.n >= 64 ? 1 : rest.n >= 8 ? 16 : 128;
  int64_t groups = ceil_div(kept.n, s.COLUMNS);
  return b.dispatch(s, {b.reads(0), b.writes(0)}, {groups < 32768 ? groups : 32768});
}

PEN_GPU(sum, "f32") { return reduce_on_gpu(b, kSum, kAsItIs, 0); }
PEN_GPU(mean, "f32") { return reduce_on_gpu(b, kSum, kAsItIs, 1); }
PEN_GPU(prod, "f32") { return reduce_on_gpu(b, kProduct, kAsItIs, 0); }
PEN_GPU(nansum, "f32") { return reduce_on_gpu(b, kSum, kNanIsZero, 0); }
PEN_GPU(amax, "f32") { return reduce_on_gpu(b, kMaximum, kAsItIs, 0); }
PEN_GPU(amin, "f32") { return reduce_on_gpu(b, kMinimum, kAsItIs, 0); }
PEN_GPU(norm, "f32") {
  double p = b.number("p");
  if (p == 2) return reduce_on_gpu(b, kSum, kSquare, 2);
  if (p == 1) return reduce_on_gpu(b, kSum, kMagnitude, 0);
  if (p == 0) return reduce_on_gpu(b, kSum, kNotZero, 0);
  return reduce_on_gpu(b, p > 0 ? kMaximum : kMinimum, kMagnitude, 0);
}

}  // namespace pen
