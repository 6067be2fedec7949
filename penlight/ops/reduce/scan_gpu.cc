// scan and scan_extreme on a GPU.
#include "penlight/ops/reduce/reduce.h"
#include "penlight/runtime/gpu/rows.h"

namespace pen {

static Status scan_on_gpu(Gpu& b, uint32_t kind, bool with_places) {
  PEN_TRY(b.output(0));
  if (with_places) PEN_TRY(b.output(1));
  const Tensor& y = b.out(0);
  if (is_empty(y)) return PEN_OK;
  for (int d = 0; with_places && d < y.rank; ++d)
    if (y.dims[d] > 1 && y.strides[d] != b.out(1).strides[d])
      return b.fail(-1, "two outputs that lie alike", "another stride in dim %d", d);
  int64_t dim = b.integer("dim");
  bool along[kMaxRank] = {};
  along[dim] = true;
  GpuRows rows;
  PEN_TRY(rows_of(b, along, y.strides, &rows));
  if (y.dtype == DType::i64) {
    shader::ScanWhole s;
    fill_rows(rows, &s.push);
    s.push.y_step = static_cast<uint32_t>(y.strides[dim]);
    s.COLUMNS = rows.columns();
    s.PRODUCT = kind != 0;
    return b.dispatch(s, {b.reads(0), b.writes(0)}, rows.groups());
  }
  shader::Scan s;
  fill_rows(rows, &s.push);
  s.push.y_step = static_cast<uint32_t>(y.strides[dim]);
  s.COLUMNS = rows.columns();
  s.KIND = kind;
  return b.dispatch(s, {b.reads(0), b.writes(0), with_places ? b.writes(1) : b.none()}, rows.groups());
}
PEN_GPU(scan, "f32 i64") {
  const char* mode = b.text("mode");
  return scan_on_gpu(b, strcmp(mode, "sum") == 0 ? 0 : strcmp(mode, "prod") == 0 ? 1 : 2, false);
}
PEN_GPU(scan_extreme, "f32") { return scan_on_gpu(b, b.flag("largest") ? 3 : 4, true); }

}  // namespace pen
