// item: a number on its own, where dims of later stages find it.
#include "penlight/runtime/exec/kernel.h"

namespace pen {

PEN_BIND(item) {
  if (b.in(0).rank != 0) return b.fail(0, "a tensor of rank 0", "rank %d", b.in(0).rank);
  PEN_TRY(b.need(0, Need::dense));
  PEN_TRY(b.output(0, DType::i64, Shape{}));
  b.tasks(1);
  return PEN_OK;
}

PEN_KERNEL_ANY(item, i64) { *r.out[0].as<int64_t>() = *r.in[0].as<int64_t>(); }

}  // namespace pen
