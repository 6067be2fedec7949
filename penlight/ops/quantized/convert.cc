// quantize.f32, dequantize.u8, .i8, .i32: convert.h has their loops over bytes with one scale.
#include "penlight/ops/quantized/convert.h"

namespace pen {

static Status shape_convert(Shapes& s, const Quant* quant, DType result) {
  const Tensor& x = s.in(0);
  if (!quant) return s.fail(-1, "integers whose scale is known", "none");
  if (quant->axis >= x.rank || (quant->axis >= 0 && x.dims[quant->axis] != quant->count))
    return s.fail(0, "a scale for each place along a dim", "%lld along dim %d", static_cast<long long>(quant->count), quant->axis);
  return s.output(0, result, shape_of(x));
}

PEN_SHAPE(quantize) {
  DType d = s.declared_dtype(0);
  if (d != DType::u8 && d != DType::i8 && d != DType::i32)
    return s.fail(-1, "u8, i8 or i32 as result", "%s", kDTypeNames[static_cast<int>(d)]);
  int64_t low = s.integer("low"), high = s.integer("high");
  if (low > high ||
      low < (d == DType::u8   ? 0
             : d == DType::i8 ? -128
                              : INT32_MIN) ||
      high > (d == DType::u8   ? 255
              : d == DType::i8 ? 127
                               : INT32_MAX))
    return s.fail(-1, "limits that the result can hold", "%lld to %lld", static_cast<long long>(low), static_cast<long long>(high));
  return shape_convert(s, s.declared_quant(0), d);
}
PEN_BIND(quantize) {
  Convert* p = b.params<Convert>();
  PEN_TRY(bind_convert(b, b.declared_quant(0), b.out(0).dtype, p));
  p->low = static_cast<int32_t>(b.integer("low"));
  p->high = static_cast<int32_t>(b.integer("high"));
  return PEN_OK;
}
PEN_SHAPE(dequantize) { return shape_convert(s, s.in(0).quant, DType::f32); }
PEN_BIND(dequantize) { return bind_convert(b, b.in(0).quant, b.in(0).dtype, b.params<Convert>()); }

namespace PEN_ISA {

// Products and sums rounded apart, as torch does wherever its vector code does not run: i32, and channels.
static PEN_INLINE int32_t quantize_wide(float x, float inverse, int64_t zero, int32_t low, int32_t high) {
  float y = x * inverse + static_cast<float>(zero);
  if (y != y) return low;
  double rounded = nearbyint(static_cast<double>(y));
  return rounded <= low ? low : rounded >= high ? high : static_cast<int32_t>(rounded);
}
static PEN_INLINE void store_integer(void* to, int64_t at, DType dtype, int32_t value) {
  if (dtype == DType::i32)
    static_cast<int32_t*>(to)[at] = value;
  else
    static_cast<uint8_t*>(to)[at] = static_cast<uint8_t>(value);
}

static void run_quantize(const Run& r) {
  const Convert& p = r.as<Convert>();
  Range range = {part(p.units, p.tasks, r.begin).begin, part(p.units, p.tasks, r.end - 1).end};
  const float* x = r.in[0].as<float>();
  void* y = r.out[0].data;
  if (p.channels) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      int64_t place = i / p.inner % p.channels->count;
      float inverse = 1.0f / p.channels->scale_at(place);
      store_integer(y, i, p.dtype, quantize_wide(x[i], inverse, p.channels->zero_at(place), p.low, p.high));
    }
  } else if (p.dtype == DType::i32) {
    walk_rows(p, range.begin, range.end, [&](int64_t in, int64_t out, int64_t n) {
      for (int64_t i = 0; i < n; ++i)
        static_cast<int32_t*>(y)[out + i] = quantize_wide(x[in + i * p.in[0][0]], p.inverse, p.zero, p.low, p.high);
    });
  } else {
    quantize_tasks(p, x, static_cast<uint8_t*>(y), r.begin, r.end);
  }
}

template <class T>
static void run_dequantize(const Run& r) {
  const Convert& p = r.as<Convert>();
  Range range = {part(p.units, p.tasks, r.begin).begin, part(p.units, p.tasks, r.end - 1).end};
  const T* x = r.in[0].as<T>();
  float* y = r.out[0].as<float>();
  if (p.channels) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      int64_t place = i / p.inner % p.channels->count;
      y[i] = static_cast<float>(int64_t{x[i]} - p.channels->zero_at(place)) * p.channels->scale_at(place);
    }
    return;
  }
  dequantize_tasks(p, x, y, r.begin, r.end);
}

}  // namespace PEN_ISA

PEN_KERNEL(quantize, f32) { PEN_ISA::run_quantize(r); }
PEN_KERNEL(dequantize, u8) { PEN_ISA::run_dequantize<uint8_t>(r); }
PEN_KERNEL(dequantize, i8) { PEN_ISA::run_dequantize<int8_t>(r); }
PEN_KERNEL(dequantize, i32) { PEN_ISA::run_dequantize<int32_t>(r); }

}  // namespace pen
