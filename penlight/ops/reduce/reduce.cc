// sum, mean, prod, amax, amin, nansum, norm over any dims, any strides. See reduce.h for how the work is cut.
#include "penlight/ops/reduce/reduce.h"
#include "penlight/runtime/exec/q8.h"

namespace pen {

// The reduction of no elements is a value for sums and products, an error for the extremes, as in torch. `out` as the key
// says: the dtype of x, but the sum of bools is an i64.
static PEN_SMALL Status reduced_shapes(Shapes& s, bool has_neutral, bool counts) {
  PEN_TRY(need_countable(s, 0));
  const Tensor& x = s.in(0);
  bool reduced[kMaxRank] = {};
  PEN_TRY(mark_dims(s, reduced));
  Shape shape = reduce_shape(x, reduced, s.flag("keepdim"));
  if (is_empty(x) && !is_empty(shape) && !has_neutral) return s.fail(0, "at least one element to reduce", "none");
  return s.output(0, counts && x.dtype == DType::boolean ? DType::i64 : x.dtype, shape);
}

PEN_SHAPE(sum) { return reduced_shapes(s, true, true); }
PEN_SHAPE(mean) {
  if (kHasBytes && s.in(0).dtype == DType::u8) PEN_TRY(need_q8_output(s));
  return reduced_shapes(s, !kHasBytes || s.in(0).dtype != DType::u8, false);
}
PEN_SHAPE(prod) { return reduced_shapes(s, true, false); }
PEN_SHAPE(nansum) { return reduced_shapes(s, true, false); }
PEN_SHAPE(amax) { return reduced_shapes(s, false, false); }
PEN_SHAPE(amin) { return reduced_shapes(s, false, false); }
PEN_SHAPE(norm) {
  double p = s.number("p");
  bool finite = p - p == 0;
  if (p != p || (finite && p != 0 && p != 1 && p != 2)) return s.fail(-1, "p of 0, 1, 2, inf or -inf", "%g", p);
  return reduced_shapes(s, finite, false);
}

static PEN_SMALL Status reduce_bind(Bind& b, Finish finish = Finish::as_it_is, double power = 0, ReduceParams** params = nullptr) {
  PEN_TRY(b.need_plain(0));
  const Tensor& x = b.in(0);
  bool reduced[kMaxRank] = {}, keepdim = b.flag("keepdim");
  PEN_TRY(mark_dims(b, reduced));
  PEN_TRY(b.output(0));
  ReduceParams* p = b.params<ReduceParams>();
  if (params) *params = p;
  p->power = power;
  p->finish = finish;
  if (is_empty(b.out(0))) return PEN_OK;
  int64_t out[kMaxRank];
  reduce_out_strides(x, b.out(0), reduced, keepdim, out);
  // Of bytes there are means only, whose sums are of 32 bits.
  return reduce_plan(b, reduced, out, dtype_size(kHasBytes && b.out(0).dtype == DType::u8 ? DType::i32 : b.out(0).dtype), p);
}

PEN_BIND(sum) { return reduce_bind(b); }
PEN_BIND(mean) {
  if (!kHasBytes) return reduce_bind(b, Finish::over_count);
  const Quant* y = b.declared_quant(0);
  ReduceParams* p = nullptr;
  PEN_TRY(reduce_bind(b, Finish::over_count, 0, &p));
  if (b.in(0).dtype != DType::u8 || is_empty(b.out(0))) return PEN_OK;
  const Quant& x = *b.in(0).quant;
  if (p->count > INT32_MAX / 256) return b.fail(0, "at most 8388607 numbers of u8 for a mean", "%lld", static_cast<long long>(p->count));
  p->center = static_cast<int32_t>(p->count * x.zero);
  p->after = static_cast<int32_t>(y->zero);
  p->share = static_cast<float>(x.scale) / (static_cast<float>(y->scale) * static_cast<float>(p->count));
  return PEN_OK;
}
PEN_BIND(prod) { return reduce_bind(b); }
PEN_BIND(nansum) { return reduce_bind(b); }
PEN_BIND(amax) { return reduce_bind(b); }
PEN_BIND(amin) { return reduce_bind(b); }
PEN_BIND(norm) {
  double p = b.number("p");
  return reduce_bind(b, p == 2 ? Finish::root : Finish::as_it_is, p);
}

namespace PEN_ISA {

struct NanAsZero {
  PEN_INLINE V operator()(V v) const { return select(isnan(v), zero(), v); }
};
struct Magnitude {
  PEN_INLINE V operator()(V v) const { return abs(v); }
};
struct Square {
  PEN_INLINE V operator()(V v) const { return v * v; }
};
struct NotZero {
  PEN_INLINE V operator()(V v) const { return select(ne(v, zero()), set1(1.0f), zero()); }
};
using SumOfFloats = SumOf<FloatLanes>;

}  // namespace PEN_ISA

PEN_KERNEL(sum, f32) { PEN_ISA::reduce<PEN_ISA::SumOfFloats>(r); }
PEN_KERNEL(sum, i64) { PEN_ISA::reduce<PEN_ISA::SumOf<PEN_ISA::IntLanes>>(r); }
PEN_KERNEL(mean, f32) { PEN_ISA::sum_f32(r); }  // bind asked for the division
PEN_KERNEL(prod, f32) { PEN_ISA::reduce<PEN_ISA::ProdOf<PEN_ISA::FloatLanes>>(r); }
PEN_KERNEL(nansum, f32) { PEN_ISA::reduce<PEN_ISA::MappedOf<PEN_ISA::SumOfFloats, PEN_ISA::NanAsZero>>(r); }
PEN_KERNEL(amax, f32) { PEN_ISA::reduce<PEN_ISA::ExtremeOf<PEN_ISA::FloatLanes, 1>>(r); }
PEN_KERNEL_ANY(amax, f64) { PEN_ISA::reduce<PEN_ISA::ExtremeOf<PEN_ISA::DoubleLanes, 1>>(r); }
PEN_KERNEL(amax, i64) { PEN_ISA::reduce<PEN_ISA::ExtremeOf<PEN_ISA::IntLanes, 1>>(r); }
PEN_KERNEL(amin, f32) { PEN_ISA::reduce<PEN_ISA::ExtremeOf<PEN_ISA::FloatLanes, -1>>(r); }
PEN_KERNEL_ANY(amin, f64) { PEN_ISA::reduce<PEN_ISA::ExtremeOf<PEN_ISA::DoubleLanes, -1>>(r); }
PEN_KERNEL(amin, i64) { PEN_ISA::reduce<PEN_ISA::ExtremeOf<PEN_ISA::IntLanes, -1>>(r); }

#if defined(PEN_ISA_BASE)  // compiled once
PEN_KERNEL_ANY(sum, f64) { PEN_ISA::reduce<PEN_ISA::SumOf<PEN_ISA::DoubleLanes>>(r); }
PEN_KERNEL_ANY(sum, bool) { PEN_ISA::reduce<PEN_ISA::CountOf>(r); }
PEN_KERNEL_ANY(mean, f64) { PEN_ISA::sum_f64(r); }
PEN_KERNEL_ANY(prod, i64) { PEN_ISA::reduce<PEN_ISA::ProdOf<PEN_ISA::IntLanes>>(r); }
PEN_KERNEL_ANY(amax, bool) { PEN_ISA::reduce<PEN_ISA::ExtremeOf<PEN_ISA::BoolLanes, 1>>(r); }
PEN_KERNEL_ANY(amin, bool) { PEN_ISA::reduce<PEN_ISA::ExtremeOf<PEN_ISA::BoolLanes, -1>>(r); }
#endif

// The p-th root of the sum of |x|**p: its own limit at ±inf, the number of elements that are not 0 at 0. For any other p
// the powers take all the time: those are sums of a pow.
PEN_KERNEL(norm, f32) {
  using namespace PEN_ISA;
  double p = r.as<ReduceParams>().power;
  if (p == 2) {
    PEN_ISA::reduce<MappedOf<SumOfFloats, Square>>(r);
  } else if (p == 1) {
    PEN_ISA::reduce<MappedOf<SumOfFloats, Magnitude>>(r);
  } else if (p == 0) {
    PEN_ISA::reduce<MappedOf<SumOfFloats, NotZero>>(r);
  } else if (p > 0) {
    PEN_ISA::reduce<MappedOf<ExtremeOf<FloatLanes, 1>, Magnitude>>(r);
  } else {
    PEN_ISA::reduce<MappedOf<ExtremeOf<FloatLanes, -1>, Magnitude>>(r);
  }
}

}  // namespace pen
