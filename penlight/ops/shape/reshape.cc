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
  const Tensor& x = b.in(0);
  if (strcmp(b.in_layout(0), "plain") != 0) return b.fail(0, "a tensor that is not packed", "one packed as %s", b.in_layout(0));
  bool empty = element_count(x.dims, x.rank) == 0;
  int64_t strides[kMaxRank] = {};
  if (b.out_may_view(0) && (empty || view_strides(x, shape_of(b.out(0)), strides))) return b.view(0, 0, strides, 0);
  PEN_TRY(b.output(0));
  if (empty) return PEN_OK;
  if (!b.out_is_nhwc(0)) PEN_TRY(b.need_out(0, Need::dense));
  Tensor seen = x;  // the output, seen with the input's dims
  if (!view_strides(b.out(0), shape_of(x), seen.strides))
    return b.fail(-1, "dims that are merged only, for a result in layout nhwc", "others");
  CopyPlan* p = b.params<CopyPlan>();
  plan_copy(x, seen, p);
  b.tasks(p->tasks);
  return PEN_OK;
}

PEN_KERNEL(reshape, b8) { PEN_ISA::run_copy<uint8_t>(r, r.as<CopyPlan>()); }
PEN_KERNEL(reshape, b16) { PEN_ISA::run_copy<uint16_t>(r, r.as<CopyPlan>()); }
PEN_KERNEL(reshape, b32) { PEN_ISA::run_copy<uint32_t>(r, r.as<CopyPlan>()); }
PEN_KERNEL(reshape, b64) { PEN_ISA::run_copy<uint64_t>(r, r.as<CopyPlan>()); }

}  // namespace pen
