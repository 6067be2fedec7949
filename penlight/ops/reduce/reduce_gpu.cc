// Reductions on a GPU.
#include "penlight/ops/reduce/reduce.h"
#include "penlight/runtime/gpu/rows.h"

namespace pen {

enum : uint32_t { kSum, kProduct, kMaximum, kMinimum };
enum : uint32_t { kAsItIs, kNanIsZero, kMagnitude, kSquare, kNotZero };

static Status reduce_on_gpu(Gpu& b, uint32_t kind, uint32_t map, uint32_t finish) {
  bool reduced[kMaxRank] = {};
  PEN_TRY(mark_dims(b, reduced));
  PEN_TRY(b.output(0));
  if (b.out(0).numel() == 0) return PEN_OK;
  int64_t out[kMaxRank];
  reduce_out_strides(b.in(0), b.out(0), reduced, b.flag("keepdim"), out);
  GpuRows rows;
  PEN_TRY(rows_of(b, reduced, out, &rows));
  shader::Reduce s;
  fill_rows(rows, &s.push);
  s.KIND = kind, s.MAP = map, s.FINISH = finish, s.COLUMNS = rows.columns();
  return b.dispatch(s, {b.reads(0), b.writes(0)}, rows.groups());
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
