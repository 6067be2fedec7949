// Normalization and softmax of quantized tensors: statistics from the integers, exactly, then f32 and requantized once.
#include "penlight/ops/quantized/packed.h"

namespace pen {

// An optional f32 tensor of `count` numbers, as a row.
static Status row_of(const Call& c, int i, int64_t count, Value* keep, const float** to) {
  *to = nullptr;
  if (!c.given(i)) return PEN_OK;
  const TensorObject& t = c.tensor(i);
  if (t.quantizer || t.dtype() != DType::f32 || t.numel() != count)
    return c.fail("f32, a number for each channel", "%lld of %s for %lld", static_cast<long long>(t.numel()), dtype_name(t.dtype()),
                  static_cast<long long>(count));
  Status status;
  *keep = Value::own(ordered(c, t, Order::rows, &status));
  PEN_TRY(status);
  *to = keep->tensor()->as<float>();
  return PEN_OK;
}

// ---- batch norm: a line for each channel ----
static Status batch_norm(Call& c, bool relu, int rank_low, int rank_high) {
  const TensorObject& x = c.tensor(0);
  Affine a;
  PEN_TRY(affine_of(c, x, &a));
  double scale = c.number(6);
  int64_t zero = c.integer(7);
  PEN_TRY(check_scale(c, scale));
  PEN_TRY(check_zero_point(c, zero, x.dtype()));
  if (x.rank() < rank_low || x.rank() > rank_high) return c.fail("an input of batch, channels and sides", "rank %d", x.rank());
  int64_t channels = x.dim(1);
  Value kept[4], lines;
  const float *weight, *bias, *mean, *var;
  PEN_TRY(row_of(c, 1, channels, &kept[0], &weight));
  PEN_TRY(row_of(c, 2, channels, &kept[1], &bias));
  PEN_TRY(row_of(c, 3, channels, &kept[2], &mean));
  PEN_TRY(row_of(c, 4, channels, &kept[3], &var));
  int64_t twice = channels * 2;
  lines = Value::own(tensor_create(DType::f32, 1, &twice));
  Order order = x.rank() > 3 ? Order::channels : Order::rows;  // torch's result is channels-last, whatever the input
  Status status;
  Value dense = Value::own(ordered(c, x, order, &status));
  PEN_TRY(status);
  Value made = Value::own(quantized_create(x.dtype(), x.rank(), x.shape.dims, order, scale, zero));
  if (lines.is_none() || made.is_none()) return c.out_of_memory();
  float *alpha = lines.tensor()->as<float>(), *beta = alpha + channels;
  float in = static_cast<float>(a.scale), out = static_cast<float>(scale), eps = static_cast<float>(c.number(5));
  for (int64_t k = 0; k < channels; ++k) {
    float inverse = 1.0f / __builtin_sqrtf(var[k] + eps), w = weight ? weight[k] : 1.0f, b = bias ? bias[k] : 0.0f;
    alpha[k] = inverse * w * (in / out);
    beta[k] = (b - mean[k] * inverse * w) / out;
  }
  int64_t inner = 1;
  for (int d = 2; d < x.rank(); ++d) inner *= x.dim(d);
  Levels l = levels_of(x.dtype());
  const TensorObject &from = *dense.tensor(), &to = *made.tensor();
  in_parts(c, x.numel(), 1 << 13, [&](int64_t begin, int64_t end) {
    int64_t k = order == Order::channels ? begin % channels : begin / inner % channels, left = inner - begin % inner;
    for (int64_t i = begin; i < end; ++i) {
      int64_t v = zero + nearest(alpha[k] * static_cast<float>(stored(from, i) - a.zero) + beta[k]);
      store(to, i, limit(relu && v < zero ? zero : v, l));
      if (order == Order::channels) {
        k = k + 1 == channels ? 0 : k + 1;
      } else if (--left == 0) {
        left = inner;
        k = k + 1 == channels ? 0 : k + 1;
      }
    }
  });
  return c.give(static_cast<Value&&>(made));
}
PEN_OP(quantized_batch_norm, "[quantized]",
       "quantized::{batch_norm,batch_norm1d,batch_norm2d,batch_norm3d}(Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, "
       "float eps, float output_scale, int output_zero_point) -> Tensor",
       "[out]aten::quantized_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, float "
       "output_scale, int output_zero_point) -> Tensor") {
  return batch_norm(c, false, 2, 5);
}
PEN_OP(quantized_batch_norm_relu, "[quantized]",
       "quantized::{batch_norm_relu,batch_norm1d_relu,batch_norm2d_relu,batch_norm3d_relu}(Tensor qx, Tensor? weight, Tensor? bias, Tensor "
       "mean, Tensor var, float eps, float output_scale, int output_zero_point) -> Tensor") {
  return batch_norm(c, true, 2, 5);
}

// ---- layer, group and instance norm ----
namespace {
// `groups` runs of `size` elements each; weight and bias by element of a run (by_element), or by channel: `inner` elements of each.
struct Runs {
  int64_t groups, size, channels, inner;
  bool by_element;
};
}  // namespace
static Status normalize(Call& c, const TensorObject& x, Order order, Runs r, int weight_at, double eps, double scale, int64_t zero) {
  Affine a;
  PEN_TRY(affine_of(c, x, &a));
  PEN_TRY(check_scale(c, scale));
  PEN_TRY(check_zero_point(c, zero, x.dtype()));
  Value kept[2];
  const float *weight, *bias;
  int64_t numbers = r.by_element ? r.size : r.channels;
  PEN_TRY(row_of(c, weight_at, numbers, &kept[0], &weight));
  PEN_TRY(row_of(c, weight_at + 1, numbers, &kept[1], &bias));
  Status status;
  Value dense = Value::own(ordered(c, x, Order::rows, &status));
  PEN_TRY(status);
  Value made = Value::own(quantized_create(x.dtype(), x.rank(), x.shape.dims, Order::rows, scale, zero));
  if (made.is_none()) return c.out_of_memory();
  const TensorObject &from = *dense.tensor(), &to = *made.tensor();
  Requantize q(1.0f / static_cast<float>(scale), zero, x.dtype());
  in_parts(c, r.groups, 1 + 4096 / (r.size + 1), [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      double sum = 0, squares = 0, n = static_cast<double>(r.size);
      for (int64_t i = 0; i < r.size; ++i) {
        double v = static_cast<double>(stored(from, g * r.size + i) - a.zero);
        sum += v, squares += v * v;
      }
      double mean = sum / n, var = squares / n - mean * mean;
      double inverse = 1.0 / __builtin_sqrt((var > 0 ? var : 0) + eps / (a.scale * a.scale));
      for (int64_t i = 0; i < r.size; ++i) {
        int64_t at = g * r.size + i, k = r.by_element ? i : at / r.inner % r.channels;
        float v = static_cast<float>((static_cast<double>(stored(from, at) - a.zero) - mean) * inverse);
        v = v * (weight ? weight[k] : 1.0f) + (bias ? bias[k] : 0.0f);
        store(to, at, q(v));
      }
    }
  });
  if (order == Order::rows) return c.give(static_cast<Value&&>(made));
  Value turned = Value::own(ordered(c, to, order, &status));
  PEN_TRY(status);
  return c.give(static_cast<Value&&>(turned));
}
PEN_OP(quantized_layer_norm, "[quantized]",
       "quantized::layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps, float output_scale, int "
       "output_zero_point) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  int64_t shape[kMaxRank];
  int count = c.ints(1, shape, kMaxRank);
  if (count < 1 || count > x.rank()) return c.fail("the sizes of the last dims", "%d of them", count);
  Runs r = {1, 1, 1, 1, true};
  for (int d = 0; d < x.rank(); ++d) {
    int i = d - (x.rank() - count);
    if (i >= 0 && shape[i] != x.dim(d)) return c.fail("the sizes of the last dims", "%lld", static_cast<long long>(shape[i]));
    (i < 0 ? r.groups : r.size) *= x.dim(d);
  }
  return normalize(c, x, Order::rows, r, 2, c.number(4), c.number(5), c.integer(6));
}
static Status group_norm(Call& c, int64_t groups, int weight_at) {
  const TensorObject& x = c.tensor(0);
  if (x.rank() < 2) return c.fail("an input of batch and channels", "rank %d", x.rank());
  if (groups < 1 || x.dim(1) % groups != 0) return c.fail("groups of equal size", "%lld", static_cast<long long>(groups));
  Runs r = {x.dim(0) * groups, x.dim(1) / groups, x.dim(1), 1, false};
  for (int d = 2; d < x.rank(); ++d) r.inner *= x.dim(d);
  r.size *= r.inner;
  return normalize(c, x, order_of(x), r, weight_at, c.number(weight_at + 2), c.number(weight_at + 3), c.integer(weight_at + 4));
}
PEN_OP(quantized_group_norm, "[quantized]",
       "quantized::group_norm(Tensor input, int num_groups, Tensor? weight, Tensor? bias, float eps, float output_scale, int "
       "output_zero_point) -> Tensor") {
  return group_norm(c, c.integer(1), 2);
}
PEN_OP(quantized_instance_norm, "[quantized]",
       "quantized::instance_norm(Tensor input, Tensor? weight, Tensor? bias, float eps, float output_scale, int output_zero_point) -> "
       "Tensor") {
  return group_norm(c, c.tensor(0).rank() > 1 ? c.tensor(0).dim(1) : 1, 1);
}

PEN_OP(quantized_softmax, "[quantized]", "quantized::softmax(Tensor qx, int dim, float output_scale, int output_zero_point) -> Tensor") {
  const TensorObject& x = c.tensor(0);
  Affine a;
  PEN_TRY(affine_of(c, x, &a));
  PEN_TRY(check_scale(c, c.number(2)));
  PEN_TRY(check_zero_point(c, c.integer(3), x.dtype()));
  int dim;
  PEN_TRY(c.dim(1, x.rank(), &dim));
  Status status;
  Value dense = Value::own(ordered(c, x, Order::rows, &status));
  PEN_TRY(status);
  Value made = Value::own(quantized_create(x.dtype(), x.rank(), x.shape.dims, Order::rows, c.number(2), c.integer(3)));
  if (made.is_none()) return c.out_of_memory();
  int64_t size = x.rank() ? x.dim(dim) : 1, inner = 1, n = x.numel();
  for (int d = dim + 1; d < x.rank(); ++d) inner *= x.dim(d);
  if (n == 0) return c.give(static_cast<Value&&>(made));
  const TensorObject &from = *dense.tensor(), &to = *made.tensor();
  Requantize q(1.0f / static_cast<float>(c.number(2)), c.integer(3), x.dtype());
  for (int64_t line = 0; line < n / size; ++line) {
    int64_t base = line / inner * size * inner + line % inner, most = stored(from, base);
    for (int64_t i = 1; i < size; ++i) most = stored(from, base + i * inner) > most ? stored(from, base + i * inner) : most;
    float scale = static_cast<float>(a.scale), sum = 0.0f;
    for (int64_t i = 0; i < size; ++i) sum += expf(static_cast<float>(stored(from, base + i * inner) - most) * scale);
    for (int64_t i = 0; i < size; ++i)
      store(to, base + i * inner, q(expf(static_cast<float>(stored(from, base + i * inner) - most) * scale) / sum));
  }
  return c.give(static_cast<Value&&>(made));
}

// ---- products of two quantized tensors ----
PEN_OP(quantized_matmul, "[quantized]", "quantized::matmul(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc") {
  const TensorObject &a = c.tensor(0), &b = c.tensor(1);
  Affine x, y;
  PEN_TRY(affine_of(c, a, &x));
  PEN_TRY(affine_of(c, b, &y));
  PEN_TRY(check_scale(c, c.number(2)));
  if (a.dtype() != b.dtype() || a.dtype() == DType::i32)
    return c.fail("operands of quint8 or of qint8", "%s and %s", dtype_name(a.dtype()), dtype_name(b.dtype()));
  PEN_TRY(check_zero_point(c, c.integer(3), a.dtype()));
  int rank = a.rank();
  if (rank < 2 || b.rank() != rank) return c.fail("two tensors of one rank, 2 at least", "ranks %d and %d", a.rank(), b.rank());
  int64_t dims[kMaxRank], batch = 1, m = a.dim(rank - 2), k = a.dim(rank - 1), n = b.dim(rank - 1);
  for (int d = 0; d < rank - 2; ++d) {
    if (a.dim(d) != b.dim(d))
      return c.fail("the same sizes before the last two", "%lld and %lld", static_cast<long long>(a.dim(d)),
                    static_cast<long long>(b.dim(d)));
    dims[d] = a.dim(d), batch *= a.dim(d);
  }
  if (b.dim(rank - 2) != k)
    return c.fail("matching inner sizes", "%lld and %lld", static_cast<long long>(k), static_cast<long long>(b.dim(rank - 2)));
  dims[rank - 2] = m, dims[rank - 1] = n;
  Status status;
  Value left = Value::own(ordered(c, a, Order::rows, &status));
  PEN_TRY(status);
  Value right = Value::own(ordered(c, b, Order::rows, &status));
  PEN_TRY(status);
  Value made = Value::own(quantized_create(a.dtype(), rank, dims, Order::rows, c.number(2), c.integer(3)));
  if (made.is_none()) return c.out_of_memory();
  float multiplier = static_cast<float>(x.scale) * static_cast<float>(y.scale) * (1.0f / static_cast<float>(c.number(2)));
  Requantize q(multiplier, c.integer(3), a.dtype());
  in_parts(c, batch * m, 1 + 4096 / (k * n + 1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t at = row / m * k * n;
      for (int64_t j = 0; j < n; ++j) {
        int64_t sum = 0;
        for (int64_t i = 0; i < k; ++i)
          sum += (stored(*left.tensor(), row * k + i) - x.zero) * (stored(*right.tensor(), at + i * n + j) - y.zero);
        store(*made.tensor(), row * n + j, q(static_cast<float>(sum)));
      }
    }
  });
  return c.give(static_cast<Value&&>(made));
}

}  // namespace pen
