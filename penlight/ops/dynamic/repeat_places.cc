// repeat_places: 0 as often as repeats[0] says, then 1 as often as repeats[1] says, and so on.
#include "penlight/runtime/exec/kernel.h"

namespace pen {

PEN_SHAPE(repeat_places) {
  if (s.in(0).rank != 1) return s.fail(0, "a number for each place", "rank %d", s.in(0).rank);
  Shape shape;
  shape.rank = 1;
  shape.dims[0] = s.integer("size");
  return s.output(0, DType::i64, shape);
}

PEN_BIND(repeat_places) {
  PEN_TRY(b.need(0, Need::dense));
  PEN_TRY(b.output(0));
  b.tasks(1);  // also for a size of 0: the numbers are checked
  return PEN_OK;
}

PEN_KERNEL_ANY(repeat_places, i64) {
  const int64_t* repeats = r.in[0].as<int64_t>();
  int64_t *to = r.out[0].as<int64_t>(), *end = to + r.out[0].dims[0];
  for (int64_t i = 0; i < r.in[0].dims[0]; ++i) {
    const int64_t times = repeats[i];
    if (times < 0 || times > end - to) return r.fail_index(0, times, 0, end - to + 1);
    for (int64_t n = times; n > 0; --n) *to++ = i;
  }
  while (to < end) *to++ = r.in[0].dims[0] - 1;  // a size that is larger than their sum
}

}  // namespace pen
