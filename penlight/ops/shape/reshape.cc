// The same elements in another shape: a view where the input's strides allow it, otherwise its elements in logical
// order in fresh memory, plain or, where dims are only merged and the file says so, channels-last.
#include "penlight/ops/shape/reshape.h"

#include "penlight/runtime/cpu/copy.h"

namespace pen {

PEN_SHAPE(reshape) {
  const Tensor& x = s.in(0);
  IntList dims = s.ints("shape");
  if (dims.count > kMaxRank) return s.fail(0, "a shape of rank 8 or less", "rank %d", dims.count);
  Shape shape;
  shape.rank = dims.count;
  for (int d = 0; d < dims.count; ++d) shape.dims[d] = dims[d];
  int64_t elements = element_count(x.dims, x.rank), wanted = element_count(shape.dims, shape.rank);
  if (elements < 0 || elements != wanted) {
    return s.fail(0, "as many elements as the new shape has", "%lld elements for a shape of %lld", static_cast<long long>(elements),
                  static_cast<long long>(wanted));
  }
  return s.output(0, x.dtype, shape);
}

PEN_BIND(reshape) {
  Tensor seen;
  bool copies;
  PEN_TRY(lay_reshaped(b, &seen, &copies));
  if (!copies) return PEN_OK;
  CopyPlan* p = b.params<CopyPlan>();
  plan_copy(b.in(0), seen, p);
  b.tasks(p->tasks);
  return PEN_OK;
}

PEN_KERNEL(reshape, b8) { PEN_ISA::run_copy<uint8_t>(r, r.as<CopyPlan>()); }
PEN_KERNEL(reshape, b16) { PEN_ISA::run_copy<uint16_t>(r, r.as<CopyPlan>()); }
PEN_KERNEL(reshape, b32) { PEN_ISA::run_copy<uint32_t>(r, r.as<CopyPlan>()); }
PEN_KERNEL(reshape, b64) { PEN_ISA::run_copy<uint64_t>(r, r.as<CopyPlan>()); }

}  // namespace pen
