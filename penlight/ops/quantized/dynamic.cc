// quantize_dynamic.f32: the range of x, a scale and zero point from it, then the integers: a phase each. dequantize_dynamic.u8: back.
// columns_dynamic.i32: what an integer product knows of its columns, when the scale is known.
// Files have weights and biases, and bind adds up the weights; VM code, whose weights are no constants, has done so itself.
#include "penlight/ops/quantized/convert.h"
#include "penlight/ops/quantized/range.h"
#include "penlight/runtime/base/packed.h"
#include "penlight/runtime/cpu/result_q8.h"

namespace pen {

enum class DynamicRule : uint8_t { torch, pt2e, fixed };

struct Dynamic : Convert {
  Loops<1> read;  // x in the order of its own memory
  DynamicRule rule;
  float eps;
};
struct DynamicRange {  // that a task found; 0 is always within
  float least, most;
};

static Status shape_step(Shapes& s, int input) {
  const Tensor& step = s.in(input);
  if (step.dtype == DType::f32 && step.rank == 1 && step.dims[0] == 2) return PEN_OK;
  return s.fail(input, "a scale and a zero point, of f32", "rank %d", step.rank);
}

PEN_SHAPE(quantize_dynamic) {
  const Quant* q = s.declared_quant(0);
  if (s.declared_dtype(0) != DType::u8 || !q || q->axis >= 0 || q->scale != 1.0)
    return s.fail(-1, "u8 in steps (a scale of 1) as result", "another type");
  int64_t high = s.integer("high");
  if (high < 1 || high > 255) return s.fail(-1, "a highest level from 1 to 255", "%lld", static_cast<long long>(high));
  const char* rule = s.text("rule");
  bool fixed = strcmp(rule, "fixed") == 0;
  if (!fixed && strcmp(rule, "torch") != 0 && strcmp(rule, "pt2e") != 0) return s.fail(-1, "torch, pt2e or fixed as rule", "%s", rule);
  if (fixed ? q->zero > high - 1 : q->zero != 0)
    return s.fail(-1, "a zero point that leaves levels above it, or 0 where it is chosen in a run", "%lld",
                  static_cast<long long>(q->zero));
  PEN_TRY(s.output(0, DType::u8, shape_of(s.in(0))));
  Shape two;
  two.rank = 1;
  two.dims[0] = 2;
  return s.output(1, DType::f32, two);
}
PEN_BIND(quantize_dynamic) {
  Dynamic* p = b.params<Dynamic>();
  PEN_TRY(bind_convert(b, b.declared_quant(0), DType::u8, p));
  PEN_TRY(b.output(1));
  const char* rule = b.text("rule");
  p->rule = rule[0] == 't' ? DynamicRule::torch : rule[0] == 'p' ? DynamicRule::pt2e : DynamicRule::fixed;
  p->high = static_cast<int32_t>(b.integer("high"));
  p->eps = static_cast<float>(b.number("eps"));
  const Tensor& x = b.in(0);
  if (p->units) p->read.make(x, 1, [&](int) -> const Tensor& { return x; });
  b.tasks(p->tasks, 1, p->tasks);  // the scale is chosen even of nothing
  return b.shared((p->tasks + 1) * static_cast<int64_t>(sizeof(DynamicRange)));
}

PEN_SHAPE(dequantize_dynamic) {
  const Quant* q = s.in(0).quant;
  if (!q || q->axis >= 0) return s.fail(0, "integers in steps", "none");
  PEN_TRY(shape_step(s, 1));
  return s.output(0, DType::f32, shape_of(s.in(0)));
}
PEN_BIND(dequantize_dynamic) {
  PEN_TRY(b.need(1, Need::dense));
  return bind_convert(b, b.in(0).quant, DType::u8, b.params<Convert>());
}

PEN_SHAPE(columns_dynamic) {
  const Tensor& c = s.in(0);
  const int64_t rows = s.has(2) ? 1 : kColumnRowsQ8;
  if (c.rank != 2 || c.dims[0] != rows)
    return s.fail(0, s.has(2) ? "a bias for every column" : "four numbers for every column", "rank %d, %lld of them", c.rank,
                  static_cast<long long>(c.rank ? c.dims[0] : 0));
  PEN_TRY(shape_step(s, 1));
  Shape shape = shape_of(c);
  shape.dims[0] = kColumnRowsQ8;
  return s.output(0, DType::i32, shape);
}

struct ColumnsDynamic {
  uint32_t zero;        // of x, known before the run
  const int32_t* sums;  // of constant weights, and their scales; null: rows of the table
  const float* scales;
};

// Sums and scales of the weights, behind params.
static PEN_SMALL Status bind_weights(Bind& b, ColumnsDynamic** to) {
  const Tensor& w = b.in(2);
  const bool depthwise = strcmp(b.in_layout(2), "taps") == 0;
  const int64_t groups = b.integer("groups"), bytes = packed_bytes(b.in_layout(2), w, groups);
  if ((!depthwise && strcmp(b.in_layout(2), "quads16") != 0) || !b.in_constant(2) || bytes < 0 || b.in_bytes(2) < bytes)
    return b.fail(2, "constant weights, packed as integers are", "layout %s, %lld of %lld bytes", b.in_layout(2),
                  static_cast<long long>(b.in_bytes(2)), static_cast<long long>(bytes));
  if (w.dtype != DType::i8 || !w.quant || w.quant->axis > 0)
    return b.fail(2, "quantized weights of i8, with one scale or one for every output", "%s", kDTypeNames[static_cast<int>(w.dtype)]);
  const GroupsQ8 g = groups_q8(w, groups, depthwise);
  const int64_t columns = column_count_q8(g);
  if (columns < 0 || columns != b.in(0).dims[1])
    return b.fail(0, "a number for every column", "%lld for %lld", static_cast<long long>(b.in(0).dims[1]),
                  static_cast<long long>(columns));
  ColumnsDynamic* p = *to = static_cast<ColumnsDynamic*>(b.params_bytes(sizeof(ColumnsDynamic) + static_cast<size_t>(columns) * 8));
  if (!p) return PEN_ERROR_MEMORY;
  int32_t* sums = reinterpret_cast<int32_t*>(p + 1);
  float* scale = reinterpret_cast<float*>(sums + columns);
  p->sums = sums;
  p->scales = scale;
  sum_weights_q8(w, b.in_constant(2), g, sums);
  for (int64_t group = 0; group < g.groups; ++group)
    for (int64_t i = 0; i < g.padded; ++i) *scale++ = i < g.outputs ? w.quant->scale_at(group * g.outputs + i) : 0.0f;
  return PEN_OK;
}
PEN_BIND(columns_dynamic) {
  PEN_TRY(b.need(0, Need::dense));
  PEN_TRY(b.need(1, Need::dense));
  ColumnsDynamic* p = nullptr;
  if (b.has(2))
    PEN_TRY(bind_weights(b, &p));
  else
    p = b.params<ColumnsDynamic>();
  const int64_t zero = b.integer("zero");
  if (zero < 0 || zero > 255) return b.fail(-1, "a zero point of u8", "%lld", static_cast<long long>(zero));
  p->zero = static_cast<uint32_t>(zero);
  PEN_TRY(b.output(0));
  PEN_TRY(b.need_out(0, Need::dense));
  b.tasks(b.in(0).dims[1] ? 1 : 0);
  return PEN_OK;
}

namespace PEN_ISA {

// The range of elements [begin, end) in the order of memory. Their distance from themselves is 0, unless one is not finite.
static DynamicRange range_of(const Run& r, const Dynamic& p, int64_t begin, int64_t end) {
  const Loops<1>& read = p.read;
  const float* x = r.in[0].as<float>();
  V least = set1(0.0f), most = least, wrong = least;
  float one_least = 0.0f, one_most = 0.0f, one_wrong = 0.0f;
  while (begin < end) {
    int64_t at = begin % read.dims[0], row = begin / read.dims[0], in = at;
    for (int d = 1; d < read.rank; ++d) {
      in += row % read.dims[d] * read.out[d];
      row /= read.dims[d];
    }
    int64_t n = read.dims[0] - at < end - begin ? read.dims[0] - at : end - begin, i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      V v = load(x + in + i);
      least = min(least, v);
      most = max(most, v);
      wrong = wrong + (v - v);
    }
    for (; i < n; ++i) {
      float v = x[in + i];
      one_least = v < one_least ? v : one_least;
      one_most = v > one_most ? v : one_most;
      one_wrong += v - v;
    }
    begin += n;
  }
  float lanes[3][kLanes];
  store(lanes[0], least);
  store(lanes[1], most);
  store(lanes[2], wrong);
  for (int j = 0; j < kLanes; ++j) {
    one_least = lanes[0][j] < one_least ? lanes[0][j] : one_least;
    one_most = lanes[1][j] > one_most ? lanes[1][j] : one_most;
    one_wrong += lanes[2][j];
  }
  if (one_wrong == 0.0f) return {one_least, one_most};
  r.fail_value(0, "finite numbers, from whose range a scale is chosen", "NaN or an infinity, in part ", r.begin);
  return {0.0f, 0.0f};
}

static Affine choose(const Dynamic& p, float least, float most) {
  Affine a = {1.0, 0};
  if (p.rule == DynamicRule::torch) {
    choose_scale(least, most, 0, p.high, &a);
    return a;
  }
  float above = most / static_cast<float>(p.high - p.zero), below = p.zero ? -least / static_cast<float>(p.zero) : 0.0f;
  float scale = p.rule == DynamicRule::pt2e ? (most - least) / static_cast<float>(p.high) : above > below ? above : below;
  scale = scale > p.eps ? scale : p.eps;
  if (!(1.0f / scale <= 3.4028235e38f)) return a;  // there is nothing to tell apart
  a.scale = static_cast<double>(scale);
  if (p.rule == DynamicRule::pt2e) {
    double zero = -nearbyint(static_cast<double>(least / scale));
    a.zero = static_cast<int64_t>(zero < p.high ? zero : p.high);
  }
  return a;
}

}  // namespace PEN_ISA

PEN_KERNEL(quantize_dynamic, f32) {
  const Dynamic& p = r.as<Dynamic>();
  DynamicRange* found = reinterpret_cast<DynamicRange*>(r.shared);
  float* step = r.out[1].as<float>();
  if (r.phase == 0) {
    for (int64_t t = r.begin; t < r.end; ++t) {
      Range range = part(p.units, p.tasks, t);
      found[t] = PEN_ISA::range_of(r, p, range.begin, range.end);
    }
  } else if (r.phase == 1) {
    DynamicRange all = {0.0f, 0.0f};
    for (int64_t t = 0; t < p.tasks; ++t) {
      all.least = found[t].least < all.least ? found[t].least : all.least;
      all.most = found[t].most > all.most ? found[t].most : all.most;
    }
    Affine a = PEN_ISA::choose(p, all.least, all.most);
    step[0] = static_cast<float>(a.scale);
    step[1] = static_cast<float>(a.zero);
  } else {
    Convert known = p;
    if (p.rule == DynamicRule::torch) known.high = 255;
    known.inverse = 1.0f / step[0];
    known.zero += static_cast<int32_t>(step[1]);
    PEN_ISA::quantize_tasks(known, r.in[0].as<float>(), r.out[0].as<uint8_t>(), r.begin, r.end);
  }
}

PEN_KERNEL(dequantize_dynamic, u8) {
  Convert known = r.as<Convert>();
  const float* step = r.in[1].as<float>();
  known.scale = step[0];
  known.zero += static_cast<int32_t>(step[1]);
  PEN_ISA::dequantize_tasks(known, r.in[0].as<uint8_t>(), r.out[0].as<float>(), r.begin, r.end);
}

// Rows of the result: start, sums, bias, scale (runtime/cpu/result_q8.h). Starts may wrap around, as the sums they begin do.
PEN_KERNEL_ANY(columns_dynamic, i32) {
  const ColumnsDynamic& p = r.as<ColumnsDynamic>();
  const int64_t n = r.in[0].dims[1];
  const int32_t *from = r.in[0].as<int32_t>(), *sums = p.sums ? p.sums : from + n, *bias = p.sums ? from : from + 2 * n;
  const float *scales = p.sums ? p.scales : reinterpret_cast<const float*>(from + 3 * n), *step = r.in[1].as<float>();
  int32_t* to = r.out[0].as<int32_t>();
  const uint32_t zero = p.zero + static_cast<uint32_t>(static_cast<int32_t>(step[1]));
  for (int64_t i = 0; i < n; ++i) {
    to[i] = static_cast<int32_t>(0u - zero * static_cast<uint32_t>(sums[i]));
    to[n + i] = sums[i];
    to[2 * n + i] = bias[i];
    reinterpret_cast<float*>(to)[3 * n + i] = scales[i] * step[0];
  }
}

}  // namespace pen
