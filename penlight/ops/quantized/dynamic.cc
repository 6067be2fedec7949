// quantize_dynamic.f32: the range of x, a scale and zero point from it, then the integers: a phase each. dequantize_dynamic.u8: back.
// columns_dynamic.i32: what an integer product knows of its columns, when the scale is known.
// Files have weights and biases, and bind adds up the weights; VM code, whose weights are no constants, has done so itself.
#include "penlight/ops/quantized/convert.h"
#include "penlight/ops/quantized/dynamic.h"
#include "penlight/runtime/base/packed.h"
#include "penlight/runtime/cpu/result_q8.h"

namespace pen {

struct Dynamic : Convert {
  Loops<1> read;  // x in the order of its own memory
  DynamicLevels levels;
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
  PEN_TRY(check_dynamic_levels(s, true));
  const bool fixed = strcmp(s.text("rule"), "fixed") == 0;
  if (fixed ? q->zero > s.integer("high") - 1 : q->zero != 0)
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
  p->levels = dynamic_levels(b, p->zero, static_cast<float>(b.number("eps")));
  p->high = p->levels.last();
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

// The range of elements [begin, end) in the order of memory.
static DynamicRange range_of(const Run& r, const Dynamic& p, int64_t begin, int64_t end) {
  const Loops<1>& read = p.read;
  RangeFinder finder;
  while (begin < end) {
    int64_t at = begin % read.dims[0], row = begin / read.dims[0], in = at;
    for (int d = 1; d < read.rank; ++d) {
      in += row % read.dims[d] * read.out[d];
      row /= read.dims[d];
    }
    int64_t n = read.dims[0] - at < end - begin ? read.dims[0] - at : end - begin;
    finder.see(r.in[0].as<float>() + in, n);
    begin += n;
  }
  DynamicRange found;
  if (!finder.end(&found)) r.fail_value(0, kFiniteRange, "NaN or an infinity, in part ", r.begin);
  return found;
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
    Affine a = choose_step(p.levels, all);
    step[0] = static_cast<float>(a.scale);
    step[1] = static_cast<float>(a.zero);
  } else {
    Convert known = p;
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
