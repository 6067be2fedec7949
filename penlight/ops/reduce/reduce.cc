// sum, mean, amax, amin, prod: f32 and i64, any dims, any strides. See reduce.h for how the work is cut.
#include "penlight/ops/reduce/reduce.h"

namespace pen {

// The reduction of no elements is a value for sum, mean and prod, an error for amax and amin, as in torch.
static Status reduce_bind(Bind& b, bool has_neutral) {
  PEN_TRY(need_unpacked(b, 0));
  PEN_TRY(need_countable(b, 0));
  const Tensor& x = b.in(0);
  if (x.dtype != DType::f32 && x.dtype != DType::i64) return b.fail(0, "an f32 or i64 tensor", "dtype code %d", static_cast<int>(x.dtype));
  IntList dims = b.ints("dims");
  bool reduced[kMaxRank] = {}, keepdim = b.flag("keepdim");
  for (int i = 0; i < dims.count; ++i) {
    if (dims[i] < 0 || dims[i] >= x.rank || reduced[dims[i]])
      return b.fail(-1, "each dim once, from 0 up", "dim %lld of rank %d", static_cast<long long>(dims[i]), x.rank);
    reduced[dims[i]] = true;
  }
  Shape shape = reduce_shape(x, reduced, keepdim);
  PEN_TRY(b.output(0, x.dtype, shape));
  ReduceParams* p = b.params<ReduceParams>();
  if (!p) return PEN_ERROR_MEMORY;
  if (is_empty(b.out(0))) return PEN_OK;
  if (is_empty(x) && !has_neutral) return b.fail(0, "at least one element to reduce", "none");
  int64_t out[kMaxRank];
  reduce_out_strides(x, b.out(0), reduced, keepdim, out);
  return reduce_plan(b, reduced, out, p);
}

PEN_BIND(sum) { return reduce_bind(b, true); }
PEN_BIND(mean) { return reduce_bind(b, true); }
PEN_BIND(prod) { return reduce_bind(b, true); }
PEN_BIND(amax) { return reduce_bind(b, false); }
PEN_BIND(amin) { return reduce_bind(b, false); }

PEN_KERNEL(sum, f32) { PEN_ISA::reduce<PEN_ISA::SumOf<PEN_ISA::FloatLanes>>(r); }
PEN_KERNEL(sum, i64) { PEN_ISA::reduce<PEN_ISA::SumOf<PEN_ISA::IntLanes>>(r); }
PEN_KERNEL(mean, f32) { PEN_ISA::reduce<PEN_ISA::MeanOf>(r); }
PEN_KERNEL(prod, f32) { PEN_ISA::reduce<PEN_ISA::ProdOf<PEN_ISA::FloatLanes>>(r); }
PEN_KERNEL(prod, i64) { PEN_ISA::reduce<PEN_ISA::ProdOf<PEN_ISA::IntLanes>>(r); }
PEN_KERNEL(amax, f32) { PEN_ISA::reduce<PEN_ISA::ExtremeOf<PEN_ISA::FloatLanes, 1>>(r); }
PEN_KERNEL(amax, i64) { PEN_ISA::reduce<PEN_ISA::ExtremeOf<PEN_ISA::IntLanes, 1>>(r); }
PEN_KERNEL(amin, f32) { PEN_ISA::reduce<PEN_ISA::ExtremeOf<PEN_ISA::FloatLanes, -1>>(r); }
PEN_KERNEL(amin, i64) { PEN_ISA::reduce<PEN_ISA::ExtremeOf<PEN_ISA::IntLanes, -1>>(r); }

}  // namespace pen
