// softmax, layer_norm, group_norm and rms_norm of the VM.
#include "penlight/ops/reduce/moments_ops.h"
#include "penlight/ops/reduce/reduction.h"
#include "penlight/runtime/vm/planes.h"

namespace pen {

// ---- softmax ----
static Status softmax(Call& c, const TensorObject& x, int64_t along, DType to, bool logarithm) {
  int dim;
  PEN_TRY(c.dim(along, x.rank(), &dim));
  if (!is_floating(to)) return c.fail("floats, or a dtype of floats for the result", "%s", dtype_name(to));
  if (x.numel() == 0) return c.give(tensor_create(to, shape_of(x)));
  Tensor t = x.view();
  if (t.rank == 0) t.rank = 1, t.dims[0] = t.strides[0] = 1;
  Graph g(c);
  DType carrier = to == DType::f64 ? to : DType::f32;
  int value = g.cast(g.input(t, to), to, carrier), y;
  if (carrier == DType::f32) {
    y = g.node(logarithm ? "log_softmax.f32" : "softmax.f32", value);
    g.integer("dim", dim);
  } else {  // too rare for a kernel: by the definition
    int64_t only = dim;
    auto reduce = [&](const char* key, int of) {
      int made = g.node(key, of);
      g.ints("dims", &only, 1).flag("keepdim", true);
      return made;
    };
    int apart = g.node("sub.f64", value, reduce("amax.f64", value)), powers = g.node("exp.f64", apart), total = reduce("sum.f64", powers);
    y = logarithm ? g.node("sub.f64", apart, g.node("log.f64", total)) : g.node("div.f64", powers, total);
  }
  PEN_TRY(g.run(g.cast(y, carrier, to)));
  if (x.rank()) return c.give(g.take(0));
  Value made = Value::own(g.take(0));
  return c.give(in_shape(*made.tensor(), shape_of(x)));
}

PEN_OP(softmax, "[out]", "aten::{softmax,log_softmax}.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor") {
  DType to;
  PEN_TRY(c.dtype(2, c.tensor(0).dtype(), &to));
  return softmax(c, c.tensor(0), c.integer(1), to, c.word() == 1);
}
PEN_OP(special_softmax, "aten::{special_softmax,special_log_softmax}(Tensor self, int dim, ScalarType? dtype=None) -> Tensor") {
  DType to;
  PEN_TRY(c.dtype(2, c.tensor(0).dtype(), &to));
  return softmax(c, c.tensor(0), c.integer(1), to, c.word() == 1);
}
PEN_OP(softmax_plain, "[out]", "aten::{_softmax,_log_softmax}(Tensor self, int dim, bool half_to_float) -> Tensor") {
  return softmax(c, c.tensor(0), c.integer(1), c.tensor(0).dtype(), c.word() == 1);
}

// ---- over the last dims ----
// How many dims normalized_shape names; they must be x's last.
static Status last_dims(const Call& c, int arg, const TensorObject& x, int* count) {
  int64_t shape[kMaxRank];
  int n = c.ints(arg, shape, kMaxRank);
  bool fits = n >= 1 && n <= x.rank();
  for (int i = 0; fits && i < n; ++i) fits = shape[i] == x.dim(x.rank() - n + i);
  *count = n;
  return fits ? PEN_OK : c.fail("a normalized_shape that is the input's last dims", "%d of rank %d, other sizes", n, x.rank());
}
static Status need_shape_of_last(const Call& c, int arg, const TensorObject& x, int count) {
  if (!c.given(arg)) return PEN_OK;
  const TensorObject& w = c.tensor(arg);
  bool fits = w.rank() == count;
  for (int i = 0; fits && i < count; ++i) fits = w.dim(i) == x.dim(x.rank() - count + i);
  return fits ? PEN_OK : c.fail("a weight and a bias of the normalized shape", "rank %d, or other sizes", w.rank());
}
static int add_optional(const Call& c, Graph* g, int arg, DType carrier) { return c.given(arg) ? g->input(c.tensor(arg), carrier) : -1; }
static DType carrier_of_norm(const TensorObject& x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }

// Mean and 1 / sqrt(var + eps) as results 1 and 2, of this shape.
static Status give_moments(Call& c, const TensorObject& x, const DimSet& dims, const Shape& shape, double eps) {
  Value mean, var;
  PEN_TRY(moments_of(c, x, dims, &mean, &var));
  double* v = var.tensor()->as<double>();
  for (int64_t i = 0; i < var.tensor()->numel(); ++i) v[i] = 1 / __builtin_sqrt(v[i] + eps);
  PEN_TRY(give_as(c, Value::own(in_shape(*mean.tensor(), shape)), x.dtype(), 1));
  return give_as(c, Value::own(in_shape(*var.tensor(), shape)), x.dtype(), 2);
}

static Status layer_norm(Call& c, double eps) {
  const TensorObject& x = c.tensor(0);
  int count;
  PEN_TRY(need_floats(c, x));
  PEN_TRY(last_dims(c, 1, x, &count));
  PEN_TRY(need_shape_of_last(c, 2, x, count));
  PEN_TRY(need_shape_of_last(c, 3, x, count));
  if (c.op->result_count == 3) {
    DimSet dims;
    for (int d = x.rank() - count; d < x.rank(); ++d) dims.add(d);
    PEN_TRY(give_moments(c, x, dims, reduced_shape(x, dims, true), eps));
  }
  Graph g(c);
  DType carrier = carrier_of_norm(x);
  int y = g.node(Key("layer_norm", carrier), g.input(x, carrier), add_optional(c, &g, 2, carrier), add_optional(c, &g, 3, carrier));
  g.integer("dims", count).number("eps", eps);
  PEN_TRY(g.run(g.cast(y, carrier, x.dtype())));
  return c.give(g.take(0));
}
PEN_OP(layer_norm,
       "aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool "
       "cudnn_enable=True) -> Tensor",
       "[out]aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, "
       "Tensor)") {
  return layer_norm(c, c.number(4));
}

PEN_OP(rms_norm, "aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  int count;
  PEN_TRY(need_floats(c, x));
  PEN_TRY(last_dims(c, 1, x, &count));
  PEN_TRY(need_shape_of_last(c, 2, x, count));
  double eps = c.given(3) ? c.number(3) : x.dtype() == DType::f64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
  Graph g(c);
  DType carrier = carrier_of_norm(x);
  int y = g.node(Key("rms_norm", carrier), g.input(x, carrier), add_optional(c, &g, 2, carrier));
  g.integer("dims", count).number("eps", eps);
  PEN_TRY(g.run(g.cast(y, carrier, x.dtype())));
  return c.give(g.take(0));
}

// ---- over groups of channels ----
static Status group_norm(Call& c, int64_t groups, int weight, double eps) {
  const TensorObject& x = c.tensor(0);
  PEN_TRY(need_floats(c, x));
  if (x.rank() < 2) return c.fail("an input of rank 2 or more", "rank %d", x.rank());
  int64_t channels = x.dim(1);
  if (groups < 1 || channels % groups != 0)
    return c.fail("channels that can be divided into the groups", "%lld into %lld", static_cast<long long>(channels),
                  static_cast<long long>(groups));
  PEN_TRY(need_channel_numbers(c, weight, channels));
  PEN_TRY(need_channel_numbers(c, weight + 1, channels));
  if (c.op->result_count == 3) {
    Value plain;
    PEN_TRY(elements_of(c, x, x.dtype(), &plain));
    Shape split, shape;
    split.rank = 3;
    shape.rank = 2;
    split.dims[0] = shape.dims[0] = x.dim(0);
    split.dims[1] = shape.dims[1] = groups;
    split.dims[2] = x.dim(0) ? x.numel() / x.dim(0) / groups : 0;
    Value view = Value::own(in_shape(*plain.tensor(), split));
    if (view.is_none()) return c.out_of_memory();
    DimSet dims;
    dims.add(2);
    PEN_TRY(give_moments(c, *view.tensor(), dims, shape, eps));
  }
  if (x.dtype() == DType::f64) {  // rare: rows, then channels
    Graph g(c);
    int64_t rows[] = {x.dim(0) * groups, x.numel() ? x.numel() / x.dim(0) / groups : 1}, column[kMaxRank] = {channels};
    for (int d = 1; d < x.rank() - 1; ++d) column[d] = 1;
    if (x.numel() == 0) return c.give(tensor_create(DType::f64, shape_of(x)));
    auto reshape = [&](int value, const int64_t* dims, int rank) {
      int made = g.node("reshape.b64", value);
      g.ints("shape", dims, rank);
      return made;
    };
    int y = g.node("layer_norm.f64", reshape(g.input(x), rows, 2), -1, -1);
    g.integer("dims", 1).number("eps", eps);
    y = reshape(y, x.shape.dims, x.rank());
    for (int i = 0; i < 2; ++i) {
      int w = add_optional(c, &g, weight + i, DType::f64);
      if (w >= 0) y = g.node(i == 0 ? "mul.f64" : "add.f64", y, reshape(w, column, x.rank() - 1));
    }
    PEN_TRY(g.run(g.copy(y, DType::f64)));
    return c.give(g.take(0));
  }
  Graph g(c);
  int y = g.node("group_norm.f32", g.input(x, DType::f32), add_optional(c, &g, weight, DType::f32),
                 add_optional(c, &g, weight + 1, DType::f32));
  g.integer("groups", groups).number("eps", eps);
  if (tensor_suggests_channels_last(x)) {
    Planes p;
    PEN_TRY(planes_of(c, x, 2, &p));
    DType from = DType::f32, to = x.dtype();
    return give_planes(c, &g, p, &y, 1, &from, &to);
  }
  PEN_TRY(g.run(g.cast(y, DType::f32, x.dtype())));
  return c.give(g.take(0));
}
PEN_OP(group_norm,
       "aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True) "
       "-> Tensor") {
  return group_norm(c, c.integer(1), 2, c.number(4));
}
PEN_OP(native_group_norm, "[out]",
       "aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> "
       "(Tensor, Tensor, Tensor)") {
  return group_norm(c, c.integer(6), 1, c.number(7));
}

}  // namespace pen
