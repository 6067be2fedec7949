// batch_norm and instance_norm of the VM: a multiplication and an addition a channel; in training by the batch's own moments,
// with which the running ones are updated in place.
#include "penlight/ops/reduce/moments_ops.h"

#include "penlight/runtime/vm/rows.h"

namespace pen {

Status moments_of(const Call& c, const TensorObject& x, const DimSet& dims, Value* mean, Value* var) {
  if (x.dtype() == DType::f32 && x.numel() > 0) {
    int64_t list[kMaxRank];
    int n = 0;
    for (int d = 0; d < x.rank(); ++d)
      if (dims.has[d]) list[n++] = d;
    Graph g(c);
    int v = g.node("var_mean.f32", x), m = g.output();
    g.ints("dims", list, n).flag("keepdim", false).number("correction", 0);
    PEN_TRY(g.run(g.cast(v, DType::f32, DType::f64), g.cast(m, DType::f32, DType::f64)));
    *var = Value::own(g.take(0));
    *mean = Value::own(g.take(1));
    return PEN_OK;
  }
  RowArray rows;
  PEN_TRY(rows_of(c, x, dims, DType::f64, &rows));
  *mean = Value::own(tensor_create(DType::f64, 1, &rows.outer));
  *var = Value::own(tensor_create(DType::f64, 1, &rows.outer));
  if (mean->is_none() || var->is_none()) return c.out_of_memory();
  for (int64_t i = 0; i < rows.outer; ++i) {
    const double* row = rows.row<double>(i);
    double sum = 0, squares = 0;
    for (int64_t j = 0; j < rows.inner; ++j) sum += row[j];
    double m = sum / static_cast<double>(rows.inner);
    for (int64_t j = 0; j < rows.inner; ++j) squares += (row[j] - m) * (row[j] - m);
    mean->tensor()->as<double>()[i] = m;
    var->tensor()->as<double>()[i] = squares / static_cast<double>(rows.inner);
  }
  return PEN_OK;
}

Status need_channel_numbers(const Call& c, int arg, int64_t channels) {
  if (!c.given(arg) || (c.tensor(arg).rank() == 1 && c.tensor(arg).dim(0) == channels)) return PEN_OK;
  char expected[96];
  set_text(expected, sizeof expected, "%lld numbers as %s, one a channel", static_cast<long long>(channels), c.op->param(arg).name.text());
  return c.fail(expected, "rank %d, %lld elements", c.tensor(arg).rank(), static_cast<long long>(c.tensor(arg).numel()));
}

Status give_affine(Call& c, const TensorObject& x, const double* scale, const double* shift) {
  int64_t channels = x.dim(1), dims[kMaxRank];
  DType carrier = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  for (int d = 0; d < x.rank(); ++d) dims[d] = d == 1 ? channels : 1;
  Value numbers[2];
  for (int i = 0; i < 2; ++i) {
    numbers[i] = Value::own(tensor_create(carrier, x.rank(), dims));
    if (numbers[i].is_none()) return c.out_of_memory();
    const double* from = i ? shift : scale;
    for (int64_t k = 0; k < channels; ++k)
      if (carrier == DType::f64)
        numbers[i].tensor()->as<double>()[k] = from[k];
      else
        numbers[i].tensor()->as<float>()[k] = static_cast<float>(from[k]);
  }
  Rows r(c);
  int value = r.cast(r.input(x), carrier), y = r.node("mul", carrier, value, r.input(*numbers[0].tensor()));
  y = r.cast(r.node("add", carrier, y, r.input(*numbers[1].tensor())), x.dtype());
  TensorObject* made = nullptr;
  PEN_TRY(r.run(y, &made, !tensor_is_channels_last(x) && !tensor_suggests_channels_last(x)));
  return c.give(made);
}

namespace {

struct BatchNorm {
  int weight, bias, mean, var;  // arguments; -1: there is no such one
  bool training;
  double momentum, eps;
};

// running = (1 - momentum) * running + momentum * now, in place.
Status update_running(const Call& c, int arg, const double* now, int64_t channels, double momentum) {
  if (arg < 0 || !c.given(arg)) return PEN_OK;
  Value old, made = Value::own(tensor_create(DType::f64, 1, &channels));
  PEN_TRY(elements_of(c, c.tensor(arg), DType::f64, &old));
  if (made.is_none()) return c.out_of_memory();
  for (int64_t i = 0; i < channels; ++i)
    made.tensor()->as<double>()[i] = (1 - momentum) * old.tensor()->as<double>()[i] + momentum * now[i];
  return copy_into(c, &c.tensor(arg), *made.tensor());
}

Status numbers_or(const Call& c, int arg, double otherwise, int64_t count, Value* to) {
  if (arg >= 0 && c.given(arg)) return elements_of(c, c.tensor(arg), DType::f64, to);
  *to = Value::own(tensor_create(DType::f64, 1, &count));
  if (to->is_none()) return c.out_of_memory();
  for (int64_t i = 0; i < count; ++i) to->tensor()->as<double>()[i] = otherwise;
  return PEN_OK;
}

// Result 0; with `saved`, the mean and 1 / sqrt(var + eps) that it went by as results 1 and 2 (empty in eval).
Status batch_norm(Call& c, const BatchNorm& n, bool saved) {
  const TensorObject& x = c.tensor(0);
  if (x.rank() < 2) return c.fail("an input of rank 2 or more", "rank %d", x.rank());
  if (!is_floating(x.dtype())) return c.fail("floats", "%s", dtype_name(x.dtype()));
  int64_t channels = x.dim(1);
  const int numbers[] = {n.weight, n.bias, n.mean, n.var};
  for (int arg : numbers)
    if (arg >= 0) PEN_TRY(need_channel_numbers(c, arg, channels));
  bool running = n.mean >= 0 && c.given(n.mean) && c.given(n.var);
  if (!n.training && !running) return c.fail("running_mean and running_var outside of training", "none");
  Value mean, var, weight, bias;
  if (n.training) {
    DimSet dims = all_dims(x.rank());
    dims.has[1] = false;
    dims.count--;
    int64_t count = channels ? x.numel() / channels : 0;
    if (count == 0 && channels) return c.fail("values to take the mean of", "an empty batch");
    PEN_TRY(moments_of(c, x, dims, &mean, &var));
    PEN_TRY(update_running(c, n.mean, mean.tensor()->as<double>(), channels, n.momentum));
    Value unbiased = Value::own(tensor_create(DType::f64, 1, &channels));
    if (unbiased.is_none()) return c.out_of_memory();
    for (int64_t i = 0; i < channels; ++i)
      unbiased.tensor()->as<double>()[i] = var.tensor()->as<double>()[i] * static_cast<double>(count) / static_cast<double>(count - 1);
    PEN_TRY(update_running(c, n.var, unbiased.tensor()->as<double>(), channels, n.momentum));
  } else {
    PEN_TRY(elements_of(c, c.tensor(n.mean), DType::f64, &mean));
    PEN_TRY(elements_of(c, c.tensor(n.var), DType::f64, &var));
  }
  PEN_TRY(numbers_or(c, n.weight, 1, channels, &weight));
  PEN_TRY(numbers_or(c, n.bias, 0, channels, &bias));
  Value scale = Value::own(tensor_create(DType::f64, 1, &channels)), shift = Value::own(tensor_create(DType::f64, 1, &channels));
  Value factor = Value::own(tensor_create(DType::f64, 1, &channels));
  if (scale.is_none() || shift.is_none() || factor.is_none()) return c.out_of_memory();
  double *a = scale.tensor()->as<double>(), *b = shift.tensor()->as<double>(), *f = factor.tensor()->as<double>();
  for (int64_t i = 0; i < channels; ++i) {
    f[i] = 1 / __builtin_sqrt(var.tensor()->as<double>()[i] + n.eps);
    a[i] = f[i] * weight.tensor()->as<double>()[i];
    b[i] = bias.tensor()->as<double>()[i] - mean.tensor()->as<double>()[i] * a[i];
  }
  PEN_TRY(give_affine(c, x, a, b));
  if (!saved) return PEN_OK;
  DType kept = n.weight >= 0 && c.given(n.weight) ? c.tensor(n.weight).dtype() : x.dtype();
  int64_t none = 0;
  if (!n.training) {
    PEN_TRY(c.give(tensor_create(kept, 1, &none), 1));
    return c.give(tensor_create(kept, 1, &none), 2);
  }
  PEN_TRY(give_as(c, static_cast<Value&&>(mean), kept, 1));
  return give_as(c, static_cast<Value&&>(factor), kept, 2);
}

}  // namespace

PEN_OP(batch_norm,
       "aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float "
       "momentum, float eps, bool cudnn_enabled) -> Tensor") {
  return batch_norm(c, {1, 2, 3, 4, c.flag(5), c.number(6), c.number(7)}, false);
}
PEN_OP(native_batch_norm, "[out=out out save_mean save_invstd]",
       "aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, "
       "float momentum, float eps) -> (Tensor, Tensor, Tensor)",
       "[out=out out save_mean save_invstd]aten::_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) "
       "running_mean, Tensor(b!) running_var, bool "
       "training, float momentum, float eps) -> (Tensor, Tensor, Tensor)") {
  return batch_norm(c, {1, 2, 3, 4, c.flag(5), c.number(6), c.number(7)}, true);
}
PEN_OP(native_batch_norm_no_stats, "[out=no_stats_out out save_mean save_invstd]",
       "aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> "
       "(Tensor, Tensor, Tensor)") {
  return batch_norm(c, {1, 2, -1, -1, c.flag(3), c.number(4), c.number(5)}, true);
}
PEN_OP(native_batch_norm_no_training, "[out]",
       "aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, "
       "float momentum, float eps) -> (Tensor, Tensor, Tensor)") {
  return batch_norm(c, {1, 2, 3, 4, false, c.number(5), c.number(6)}, true);
}

// One channel of one image is a batch of its own; running statistics are means over the images.
PEN_OP(instance_norm,
       "aten::instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, "
       "float momentum, float eps, bool cudnn_enabled) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  if (!c.flag(5)) return batch_norm(c, {1, 2, 3, 4, false, c.number(6), c.number(7)}, false);
  if (x.rank() < 3) return c.fail("an input of rank 3 or more", "rank %d", x.rank());
  if (!is_floating(x.dtype())) return c.fail("floats", "%s", dtype_name(x.dtype()));
  int64_t images = x.dim(0), channels = x.dim(1), planes = images * channels;
  for (int arg = 1; arg < 5; ++arg) PEN_TRY(need_channel_numbers(c, arg, channels));
  DimSet dims = all_dims(x.rank());
  dims.has[0] = dims.has[1] = false;
  dims.count -= 2;
  Value mean, var, weight, bias;
  PEN_TRY(moments_of(c, x, dims, &mean, &var));
  double count = planes ? static_cast<double>(x.numel() / planes) : 0, correct = count / (count - 1);
  const double *m = mean.tensor()->as<double>(), *v = var.tensor()->as<double>();
  if (c.given(3) || c.given(4)) {
    Value now[2];
    for (Value& n : now) {
      n = Value::own(tensor_create(DType::f64, 1, &channels));
      if (n.is_none()) return c.out_of_memory();
    }
    for (int64_t k = 0; k < channels; ++k) {
      double a = 0, b = 0;
      for (int64_t i = 0; i < images; ++i) a += m[i * channels + k], b += v[i * channels + k] * correct;
      now[0].tensor()->as<double>()[k] = a / static_cast<double>(images);
      now[1].tensor()->as<double>()[k] = b / static_cast<double>(images);
    }
    PEN_TRY(update_running(c, 3, now[0].tensor()->as<double>(), channels, c.number(6)));
    PEN_TRY(update_running(c, 4, now[1].tensor()->as<double>(), channels, c.number(6)));
  }
  PEN_TRY(numbers_or(c, 1, 1, channels, &weight));
  PEN_TRY(numbers_or(c, 2, 0, channels, &bias));
  Value scale = Value::own(tensor_create(DType::f64, 1, &planes)), shift = Value::own(tensor_create(DType::f64, 1, &planes));
  if (scale.is_none() || shift.is_none()) return c.out_of_memory();
  double *a = scale.tensor()->as<double>(), *b = shift.tensor()->as<double>();
  for (int64_t i = 0; i < planes; ++i) {
    a[i] = weight.tensor()->as<double>()[i % channels] / __builtin_sqrt(v[i] + c.number(7));
    b[i] = bias.tensor()->as<double>()[i % channels] - m[i] * a[i];
  }
  // As channels of one image. Row-major first: only then are the two dims one.
  Status status;
  Value plain = Value::own(tensor_clone(c, x, &status));
  PEN_TRY(status);
  Shape flat, back = shape_of(x);
  flat.rank = x.rank();
  flat.dims[0] = 1;
  flat.dims[1] = planes;
  for (int d = 2; d < x.rank(); ++d) flat.dims[d] = x.dim(d);
  Value view = Value::own(in_shape(*plain.tensor(), flat));
  if (view.is_none()) return c.out_of_memory();
  PEN_TRY(give_affine(c, *view.tensor(), a, b));
  return c.give(in_shape(*c.results[0].tensor(), back));
}

}  // namespace pen
