// Rules of integer products compile for size; sums of weights are added up by eights all the same, of megabytes when a plan is made.
#include "penlight/runtime/cpu/result_q8.h"

namespace pen {

// The nearest integer to `real` in steps of the result, ties to even; infinities and what lies beyond stay beyond.
static double steps_of(double real, const Quant& q) {
  double steps = static_cast<double>(static_cast<float>(real) / static_cast<float>(q.scale));
  return steps > 1e6 ? 1e6 : steps < -1e6 ? -1e6 : nearbyint(steps);
}

int64_t column_count_q8(GroupsQ8 g) {
  constexpr int64_t kMost = int64_t{1} << 27;  // what is kept of each fits 32-bit machines
  int64_t columns;
  return __builtin_mul_overflow(g.groups, g.padded, &columns) || columns > kMost ? -1 : columns;
}

// A panel of "quads16". Two columns at a time: of bytes as unsigned numbers, the even and the odd ones are lanes of 16 bits, which hold 128
// quads.
static void sum_panel(const char* w, int64_t quads, int32_t* to) {
  constexpr uint64_t kSigns = 0x8080808080808080u, kLow = 0x00ff00ff00ff00ffu;
  uint32_t sums[16] = {};
  for (int64_t begin = 0; begin < quads; begin += 128) {
    uint64_t lanes[8] = {};
    for (int64_t quad = begin; quad < quads && quad < begin + 128; ++quad, w += 64)
      for (int i = 0; i < 8; ++i) {
        uint64_t bytes;
        __builtin_memcpy(&bytes, w + 8 * i, 8);
        bytes ^= kSigns;
        lanes[i] += (bytes & kLow) + (bytes >> 8 & kLow);
      }
    for (int i = 0; i < 16; ++i) {
      const uint32_t both = static_cast<uint32_t>(lanes[i / 2] >> i % 2 * 32);
      sums[i] += (both & 0xffff) + (both >> 16);
    }
  }
  for (int i = 0; i < 16; ++i) to[i] = static_cast<int32_t>(sums[i] - static_cast<uint32_t>(quads) * 4 * 128);
}

void sum_weights_q8(const Tensor& w, const char* data, GroupsQ8 g, int32_t* to) {
  int64_t depth = 1;
  for (int d = 1; d < w.rank; ++d) depth *= w.dims[d];
  if (!g.depthwise) {
    const int64_t quads = (depth + 3) / 4, panels = g.groups * g.padded / 16;
    for (int64_t panel = 0; panel < panels; ++panel) sum_panel(data + panel * quads * 64, quads, to + panel * 16);
    return;
  }
  memset(to, 0, static_cast<size_t>(g.padded) * sizeof *to);
  for (int64_t tap = 0; tap < depth; ++tap, data += g.outputs)
    for (int64_t i = 0; i < g.outputs; ++i)
      to[i] = static_cast<int32_t>(static_cast<uint32_t>(to[i]) + static_cast<uint32_t>(static_cast<int8_t>(data[i])));
}

PEN_SMALL int64_t bind_columns_q8(Bind& b, GroupsQ8 g) {
  const bool real = b.declared_dtype(0) == DType::f32;
  if (!b.has(2)) return b.fail(-1, "starts of its columns", "none"), -1;
  if (b.need(2, Need::dense) != PEN_OK) return -1;
  const Tensor& c = b.in(2);
  const int64_t columns = column_count_q8(g), rows = c.rank == 2 ? c.dims[0] : 0, least = real ? 2 : 1;
  if (c.dtype != DType::i32 || c.rank != 2 || columns < 0 || c.dims[1] < columns || (rows != least && rows != kColumnRowsQ8))
    return b.fail(2, real ? "two numbers of i32 for every column, or four" : "one number of i32 for every column, or four",
                  "rank %d, %lld of %lld columns", c.rank, static_cast<long long>(rows), static_cast<long long>(rows ? c.dims[1] : 0)),
           -1;
  if (rows != kColumnRowsQ8 && !b.in_constant(1)) return b.fail(1, "constant weights, or all that is known of columns", "neither"), -1;
  return columns;
}

PEN_SMALL Status bind_type_q8(Bind& b, ResultQ8* result, float* inverse) {
  const Tensor& y = b.out(0);
  const Quant* q = b.declared_quant(0);
  result->real = y.dtype == DType::f32;
  if (!result->real && (y.dtype != DType::u8 || !q || q->axis >= 0)) return b.fail(-1, "results of f32, or of u8 with one scale", "others");
  *inverse = result->real ? 1.0f : 1.0f / static_cast<float>(q->scale);
  return PEN_OK;
}
// Whether sums, which are below 2^31, may leave 32 bits by this scale: half of that, and a residual, can be rounded as they are.
static bool is_wide(float scale) { return !(scale >= 0 && scale <= 0.5f); }

// How far from its zero point a byte may lie.
static int64_t reach_of(const Quant& q) { return q.zero > 127 ? q.zero : 255 - q.zero; }

PEN_SMALL Status need_depth_q8(const Given& g, int64_t k) {
  const Quant &a = *g.in(0).quant, &b = *g.in(1).quant;
  const int64_t most = INT32_MAX / (reach_of(a) * reach_of(b));
  if (k <= most) return PEN_OK;
  return g.fail(0, "a product whose sums 32 bits hold", "%lld columns, %lld at most with zero points %lld and %lld",
                static_cast<long long>(k), static_cast<long long>(most), static_cast<long long>(a.zero), static_cast<long long>(b.zero));
}

PEN_SMALL Status bind_product_q8(Bind& b, int64_t columns, float* scale, ResultQ8* result) {
  float inverse;
  PEN_TRY(bind_type_q8(b, result, &inverse));
  const float one = static_cast<float>(b.in(1).quant->scale) * static_cast<float>(b.in(0).quant->scale) * inverse;
  result->scale = scale;
  result->wide = is_wide(one);
  for (int64_t i = 0; i < columns; ++i) scale[i] = one;
  result->high = 255;
  if (!result->real) result->zero = static_cast<int32_t>(b.declared_quant(0)->zero);
  return PEN_OK;
}

PEN_SMALL Status bind_result_q8(Bind& b, GroupsQ8 g, float* scale, ResultQ8* result, Activation* act) {
  const Tensor &w = b.in(1), &y = b.out(0);
  if (w.dtype != DType::i8 || !w.quant || w.quant->axis > 0)
    return b.fail(1, "quantized weights of i8, with one scale or one for every output", "%s", kDTypeNames[static_cast<int>(w.dtype)]);
  PEN_TRY(bind_activation(b, act));
  float inverse;
  PEN_TRY(bind_type_q8(b, result, &inverse));
  if (b.has(3)) {
    const Tensor& r = b.in(3);
    if (r.dtype != y.dtype || (!result->real && (!r.quant || r.quant->axis >= 0)))
      return b.fail(3, "a residual of the result's dtype, with one scale", "%s", kDTypeNames[static_cast<int>(r.dtype)]);
  }
  const Quant* q = b.declared_quant(0);
  // In QNNPACK's order of operations: the last bit depends on it.
  const float x_scale = static_cast<float>(b.in(0).quant->scale);
  result->scale = scale;
  if (needs_sums_q8(b.isa(), g.depthwise) && b.in(2).dims[0] != kColumnRowsQ8) {
    int32_t* sums = reinterpret_cast<int32_t*>(scale + g.groups * g.padded);
    sum_weights_q8(w, b.in_constant(1), g, sums);
    result->sums = sums;
  }
  for (int64_t group = 0; group < g.groups; ++group)
    for (int64_t i = 0; i < g.padded; ++i, ++scale) {
      *scale = i < g.outputs ? w.quant->scale_at(group * g.outputs + i) * x_scale * inverse : 0.0f;
      result->wide = result->wide || is_wide(*scale);
    }
  if (result->real) return PEN_OK;
  if (act->row) return b.fail(-1, "clamp as the activation of integers", "%s", b.text("act"));
  double zero = static_cast<double>(q->zero), low = 0, high = 255;
  if (act->clamped) {
    double lo = steps_of(static_cast<double>(act->lo), *q) + zero, hi = steps_of(static_cast<double>(act->hi), *q) + zero;
    low = lo > low ? (lo < 255 ? lo : 255) : low;
    high = hi < high ? (hi > 0 ? hi : 0) : high;
  }
  result->low = static_cast<int32_t>(low);
  result->high = static_cast<int32_t>(high);
  result->zero = static_cast<int32_t>(q->zero);
  if (b.has(3)) {
    result->residual_scale = static_cast<float>(b.in(3).quant->scale) / static_cast<float>(q->scale);
    result->residual_zero = static_cast<int32_t>(b.in(3).quant->zero);
    result->wide = result->wide || !(result->residual_scale < 1e5f);
  }
  return PEN_OK;
}

}  // namespace pen
