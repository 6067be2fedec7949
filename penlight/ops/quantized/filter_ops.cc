// The packer of integer weights, which lie behind quantizers of the VM in any order of memory, and the table of what their columns
// begin with. lower/prepack.py and lower/columns.py do the same for planned code; tests/runtime/test_packing.py holds the bytes of both to
// each other.
#include "penlight/ops/quantized/filter.h"

#include "penlight/runtime/base/packed.h"
#include "penlight/runtime/vm/packing.h"

namespace pen {

static int64_t scale_count(const Weights& w) { return w.tensor->quantizer->axis < 0 ? 1 : w.tensor->quantizer->channels; }

Status filter_of(const Call& c, int sides, int64_t groups, bool turned, Filter* f) {
  const TensorObject& w = *f->w.tensor;
  f->sides = sides;
  f->groups = groups;
  f->turned = turned;
  f->outputs = w.dim(turned ? 1 : 0) / (turned ? 1 : groups);
  f->inputs = w.dim(turned ? 0 : 1) / (turned ? groups : 1);
  for (int side = 0; side < 3; ++side) f->kernel[side] = side < 3 - sides ? 1 : w.dim(side - (3 - sides) + 2);
  f->doubled = false;
  for (int64_t i = 0; i < scale_count(f->w); ++i) f->doubled = f->doubled || f->w.zero(i) != 0;
  return f->inputs < INT64_MAX / 2 ? PEN_OK : c.out_of_memory();
}

static Tensor packed_shape(const Filter& f) {
  Tensor t;
  t.dtype = DType::i8;
  t.rank = 2 + f.sides;
  t.dims[0] = f.w.outputs;
  t.dims[1] = f.inputs * (f.doubled ? 2 : 1);
  for (int side = 0; side < f.sides; ++side) t.dims[2 + side] = f.kernel[3 - f.sides + side];
  return t;
}

// Where sums of weights lie, behind the weights.
static int32_t* sums_of(const Filter& f, const TensorObject& packed) {
  return reinterpret_cast<int32_t*>(packed.data() + round_up(packed_bytes(f.layout(), packed.shape, f.groups), 64));
}

static Status fill(const Call& c, const Filter& f, const TensorObject& packed) {
  const TensorObject& w = *f.w.tensor;
  const int64_t *steps = w.shape.strides, output_step = steps[f.turned ? 1 : 0], input_step = steps[f.turned ? 0 : 1];
  const int64_t inputs = packed.dim(1);
  const int64_t panels = (f.outputs + 15) / 16, depth = round_up(f.kernel[0] * f.kernel[1] * f.kernel[2] * inputs, 4);
  int32_t* sums = sums_of(f, packed);
  const bool depthwise = f.depthwise();
  PEN_TRY(in_parts(c, f.w.outputs, 16, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      const int64_t group = o / f.outputs, column = depthwise ? o : o % f.outputs, zero = f.w.zero(o);
      const int8_t* from = w.as<int8_t>() + (f.turned ? group * f.inputs * input_step + column * output_step : o * output_step);
      int8_t* to = packed.as<int8_t>() + (depthwise ? column : (group * panels + column / 16) * depth * 16 + column % 16 * 4);
      int64_t sum = 0;
      for (int64_t z = 0; z < f.kernel[0]; ++z)
        for (int64_t y = 0; y < f.kernel[1]; ++y)
          for (int64_t x = 0; x < f.kernel[2]; ++x)
            for (int64_t i = 0; i < inputs; ++i) {
              const int64_t tap[3] = {z, y, x};
              int64_t at = i % f.inputs * input_step;
              for (int side = 3 - f.sides; side < 3; ++side)
                at += steps[side - (3 - f.sides) + 2] * (f.turned ? f.kernel[side] - 1 - tap[side] : tap[side]);
              int64_t v = from[at] - zero, part = v < -128 ? -128 : v > 127 ? 127 : v;
              if (i >= f.inputs) part = v - part;
              sum += part;
              const int64_t k = ((z * f.kernel[1] + y) * f.kernel[2] + x) * inputs + i;
              to[depthwise ? k * f.groups : k / 4 * 64 + k % 4] = static_cast<int8_t>(part);
            }
      sums[o] = static_cast<int32_t>(sum);
    }
  }));
  return PEN_OK;
}

static Status pack(const Call& c, const Filter& f, Value* to) {
  const TensorObject& w = *f.w.tensor;
  const char* made = !f.turned ? f.layout() : f.depthwise() ? "taps, turned" : "quads16, turned";
  if (TensorObject* kept = find_packed(c, w, w.view(), made, f.groups)) {
    *to = Value::share(kept);
    return PEN_OK;
  }
  Tensor shape = packed_shape(f);
  int64_t weights = packed_bytes(f.layout(), shape, f.groups), sums;
  if (weights < 0 || weights > INT64_MAX / 2 || mul_overflows(f.w.outputs, 4, &sums)) return c.out_of_memory();
  int64_t bytes;
  if (add_overflows(round_up(weights, 64), sums, &bytes)) return c.out_of_memory();
  row_major_strides(shape.rank, shape.dims, shape.strides);
  Storage* storage = storage_create(bytes);
  *to = storage ? Value::own(tensor_on(storage, shape, 0)) : Value();
  storage_release(storage);
  if (to->is_none()) return c.out_of_memory();
  memset(to->tensor()->data(), 0, static_cast<size_t>(bytes));
  PEN_TRY(fill(c, f, *to->tensor()));
  keep_packed(c, w, w.view(), made, f.groups, to->tensor());
  return PEN_OK;
}

Status pack_filter(const Call& c, const Filter& f, DType x_dtype, Affine x, double out_scale, FilterValues* to) {
  PEN_TRY(pack(c, f, &to->weights));
  const bool real = out_scale == 0;
  const int64_t each = round_up(f.depthwise() ? f.groups : f.outputs, 16), groups = f.depthwise() ? 1 : f.groups;
  int64_t dims[2] = {4, 0};
  if (mul_overflows(each, groups, &dims[1])) return c.out_of_memory();
  to->columns = Value::own(tensor_create(DType::i32, 2, dims));
  if (to->columns.is_none()) return c.out_of_memory();
  int32_t *start = to->columns.tensor()->as<int32_t>(), *sums = start + dims[1];
  float *bias = reinterpret_cast<float*>(sums + dims[1]), *scale = bias + dims[1];
  memset(start, 0, static_cast<size_t>(dims[1]) * 16);
  const int32_t* summed = sums_of(f, *to->weights.tensor());
  const float x_scale = static_cast<float>(x.scale), out = real ? 1.0f : static_cast<float>(out_scale), inverse = 1.0f / out;
  for (int64_t o = 0; o < f.w.outputs; ++o) {
    const int64_t at = f.depthwise() ? o : o / f.outputs * each + o % f.outputs;
    const float weight = static_cast<float>(f.w.scale(o));
    // qnnpack's order for u8, xnnpack's for i8: the last bit depends on it
    scale[at] = x_dtype == DType::i8 && !real ? x_scale * weight / out : weight * x_scale * inverse;
    if (!(scale[at] > 0.0f && scale[at] <= 3.4028235e38f))
      return c.fail("scales of input, weight and output whose product f32 can hold", "%g for output %lld", static_cast<double>(scale[at]),
                    static_cast<long long>(o));
    if (f.w.bias) bias[at] = f.w.bias->as<float>()[o * f.w.bias->shape.strides[0]];
    int64_t begin = f.w.bias && !real ? Quantize(f.w.scale(o) * x.scale, 0, DType::i32).wide(bias[at]) : 0;
    sums[at] = summed[o];
    start[at] = static_cast<int32_t>(static_cast<uint32_t>(begin) - static_cast<uint32_t>(x.zero) * static_cast<uint32_t>(summed[o]));
  }
  return PEN_OK;
}

// The scales that count are those of the columns: this one only says how large they are at most.
int add_filter(Graph* g, const Filter& f, const FilterValues& values) {
  double most = 0;
  for (int64_t i = 0; i < scale_count(f.w); ++i) most = f.w.scale(i) > most ? f.w.scale(i) : most;
  int value = g->packed(values.weights.tensor(), f.layout());
  g->quantized(value, most, 0);
  return value;
}

void add_limits(Graph* g, bool relu) {
  const double limits[] = {0, __builtin_inf()};
  g->text("act", relu ? "clamp" : "").numbers("act_args", limits, relu ? 2 : 0);
}

Status doubled_rows(const Call& c, const Filter& f, const TensorObject& x, Value* to) {
  const int64_t bytes = f.inputs * dtype_size(x.dtype());
  int64_t total, rows = bytes > 0 ? x.numel() / (f.inputs * f.groups) * f.groups : 0;
  if (mul_overflows(bytes * 2, rows, &total)) return c.out_of_memory();
  *to = Value::own(tensor_create(DType::u8, 1, &total));
  if (to->is_none()) return c.out_of_memory();
  char* at = to->tensor()->data();
  for (int64_t row = 0; row < rows; ++row)
    for (int half = 0; half < 2; ++half, at += bytes) memcpy(at, x.data() + row * bytes, static_cast<size_t>(bytes));
  return PEN_OK;
}

}  // namespace pen
