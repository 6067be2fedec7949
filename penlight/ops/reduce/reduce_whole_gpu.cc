// Reductions of f32, i64 and bool on a GPU. shader::Reduce: see reduce_gpu.h.
#include "penlight/ops/reduce/reduce_gpu.h"

namespace pen {

static Status reduce_any(Gpu& b, uint32_t kind) {
  if (b.in(0).dtype == DType::f32) return reduce_on_gpu(b, kind, kAsItIs, 0);
  GpuRows rows;
  PEN_TRY(reduced_rows(b, &rows));
  shader::ReduceWhole s;
  fill_rows(rows, &s.push);
  s.KIND = kind, s.COLUMNS = rows.columns();
  s.BYTES_IN = b.in(0).dtype == DType::boolean, s.BYTES_OUT = b.out(0).dtype == DType::boolean;
  return b.dispatch(s, {b.reads(0), b.writes(0)}, rows.groups());
}

PEN_GPU(sum, "f32 i64 bool") { return reduce_any(b, kSum); }
PEN_GPU(prod, "f32 i64") { return reduce_any(b, kProduct); }
PEN_GPU(amax, "f32 i64 bool") { return reduce_any(b, kMaximum); }
PEN_GPU(amin, "f32 i64 bool") { return reduce_any(b, kMinimum); }

}  // namespace pen
