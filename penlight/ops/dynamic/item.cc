// item: a number on its own, where dims of later stages find it.
#include "penlight/runtime/exec/kernel.h"

namespace pen {

PEN_SHAPE(item) {
  if (s.in(0).rank != 0) return s.fail(0, "a tensor of rank 0", "rank %d", s.in(0).rank);
  return s.output(0, DType::i64, Shape{});
}

PEN_BIND(item) {
  PEN_TRY(b.need(0, Need::dense));
  PEN_TRY(b.output(0));
  b.tasks(1);
  return PEN_OK;
}

PEN_KERNEL_ANY(item, i64) { *r.out[0].as<int64_t>() = *r.in[0].as<int64_t>(); }

}  // namespace pen
