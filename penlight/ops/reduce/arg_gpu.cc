// argmax and argmin on a GPU.
#include "penlight/ops/reduce/reduce.h"
#include "penlight/runtime/gpu/rows.h"

namespace pen {

static Status arg_on_gpu(Gpu& b, bool least) {
  bool along[kMaxRank] = {};
  along[b.integer("dim")] = true;
  PEN_TRY(b.output(0));
  if (is_empty(b.out(0))) return PEN_OK;
  int64_t out[kMaxRank];
  reduce_out_strides(b.in(0), b.out(0), along, b.flag("keepdim"), out);
  GpuRows rows;
  PEN_TRY(rows_of(b, along, out, &rows));
  shader::Arg s;
  fill_rows(rows, &s.push);
  s.COLUMNS = rows.columns();
  s.LEAST = least;
  return b.dispatch(s, {b.reads(0), b.writes(0)}, rows.groups());
}
PEN_GPU(argmax, "f32") { return arg_on_gpu(b, false); }
PEN_GPU(argmin, "f32") { return arg_on_gpu(b, true); }

}  // namespace pen
