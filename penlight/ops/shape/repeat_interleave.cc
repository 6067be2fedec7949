// repeat_interleave: i as often as repeats[i] says; what an index_select then takes. Its sum must be the output's size.
#include "penlight/ops/index/indices.h"

namespace pen {

PEN_BIND(repeat_interleave) {
  PEN_TRY(indices_bind(b, 0));
  if (b.in(0).rank != 1) return b.fail(0, "rank 1", "rank %d", b.in(0).rank);
  Shape shape;
  shape.rank = 1;
  shape.dims[0] = b.integer("size");
  PEN_TRY(b.output(0, DType::i64, shape));
  b.tasks(1);
  return PEN_OK;
}

PEN_KERNEL_ANY(repeat_interleave, i64) {
  int64_t* y = r.out[0].as<int64_t>();
  int64_t size = r.out[0].dims[0], at = 0;
  for (int64_t i = 0; i < r.in[0].dims[0]; ++i) {
    int64_t times = index_at(r.in[0], i), left = size - at;
    if (times < 0 || times > left) return r.fail_index(0, times, 0, left + 1);
    for (int64_t k = 0; k < times; ++k) y[at++] = i;
  }
  if (at != size) r.fail_index(0, at, size, size + 1);
}

}  // namespace pen
