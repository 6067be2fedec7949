// A fresh tensor with the input's elements, in the layout that the file gives the output; or a view of the input, where
// it lies so already.
#include "penlight/runtime/cpu/copy.h"

#include "penlight/ops/shape/lies_so.h"

namespace pen {

PEN_SHAPE(copy) { return s.output(0, s.in(0).dtype, shape_of(s.in(0))); }

PEN_BIND(copy) {
  const Tensor& x = b.in(0);
  PEN_TRY(b.need_plain(0));
  if (!b.flag("force") && lies_so(x, b.out_is_nhwc(0))) return b.view(0, 0, x.strides, 0);
  PEN_TRY(b.output(0));
  CopyPlan* p = b.params<CopyPlan>();
  plan_copy(x, b.out(0), p);
  b.tasks(p->tasks);
  return PEN_OK;
}

PEN_KERNEL(copy, b8) { PEN_ISA::run_copy<uint8_t>(r, r.as<CopyPlan>()); }
PEN_KERNEL(copy, b16) { PEN_ISA::run_copy<uint16_t>(r, r.as<CopyPlan>()); }
PEN_KERNEL(copy, b32) { PEN_ISA::run_copy<uint32_t>(r, r.as<CopyPlan>()); }
PEN_KERNEL(copy, b64) { PEN_ISA::run_copy<uint64_t>(r, r.as<CopyPlan>()); }

}  // namespace pen
